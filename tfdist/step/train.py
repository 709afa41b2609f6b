"""One optimizer update on one replica.

    each micro-batch:  forward -> loss x share -> backward -> add to the gradients       (no communication)
    then, once:        sum gradients over replicas -> optimizer (unscale, clip, decay, update)
                       average moving statistics over replicas -> assign

`share` is the micro-batch's part of the global batch's rows, so the sum over micro-batches and replicas is
the gradient of the global batch's loss, whatever the sizes of the parts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.batch import Part, take_part
from tfdist.step import keras_private
from tfdist.step.custom import run_custom_step
from tfdist.step.forward import State, forward_pass
from tfdist.step.state import add_everywhere, assign_everywhere, fold_stream, is_averaged, unfold_stream

SumOverReplicas = Callable[[Any], Any]


def train_step(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    *,
    seeds: Sequence[keras.Variable],
    stream: Any,
    accumulate_steps: int,
    sum_over_replicas: SumOverReplicas,
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Runs one update. Called in the context of one replica.

    Args:
        model: The model, built and compiled, with its losses wrapped as `GlobalLoss`.
        part: This replica's part of the global batch.
        metric_variables: The variables of the model's metrics.
        metric_states: Their values on this replica.
        seeds: State of each random generator that layers draw from.
        stream: Number of this replica's stream of random numbers.
        accumulate_steps: Micro-batches the part is cut into.
        sum_over_replicas: Sums a list of tensors over all replicas.

    Returns:
        The new metric states, and what a `train_step` of the model's own returned.
    """
    logs: dict[str, Any] = {}
    gradients: Sequence[Any] = []
    states = [(seed, fold_stream(seed.value, stream)) for seed in seeds]
    if keras_private.overrides(model, "train_step"):
        metric_states, changes, logs = run_custom_step(
            model,
            model.train_step,
            part,
            metric_variables,
            metric_states,
            states=states,
            sum_over_replicas=sum_over_replicas,
        )
    elif accumulate_steps == 1:
        forward = forward_pass(
            model,
            part,
            metric_variables,
            metric_states,
            training=True,
            states=states,
            size_of_whole=lambda size: sum_over_replicas([size])[0],
        )
        gradients, changes, metric_states = forward.gradients, forward.changes, forward.metric_states
    else:
        gradients, changes, metric_states = _accumulate(
            model, part, metric_variables, metric_states, states, accumulate_steps, sum_over_replicas
        )
    _update(model, gradients, changes, part.share, {id(seed) for seed in seeds}, stream, sum_over_replicas)
    return metric_states, logs


def _update(
    model: keras.Model,
    gradients: Sequence[Any],
    changes: dict[int, State],
    share: Any,
    seed_ids: set[int],
    stream: Any,
    sum_over_replicas: SumOverReplicas,
) -> None:
    """Puts the replicas' gradients and state changes together and applies them."""
    averaged = [variable for variable, _ in changes.values() if is_averaged(variable)]
    moves = [
        tf.cast(share, variable.dtype) * (changes[id(variable)][1] - variable.value) for variable in averaged
    ]
    given = [gradient for gradient in gradients if gradient is not None]
    summed = sum_over_replicas([*given, *moves])
    moves = summed[len(given) :]
    if gradients:
        remaining = iter(summed)
        merged = [None if gradient is None else next(remaining) for gradient in gradients]
        model.optimizer.apply(merged, model.trainable_variables)
    add_everywhere(list(zip(averaged, moves, strict=True)))
    assign_everywhere(
        [
            (variable, unfold_stream(value, stream) if key in seed_ids else value)
            for key, (variable, value) in changes.items()
            if not is_averaged(variable)
        ]
    )


def _accumulate(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    states: Sequence[State],
    accumulate_steps: int,
    sum_over_replicas: SumOverReplicas,
) -> tuple[list[Any], dict[int, State], Sequence[Any]]:
    """Adds up the gradients of the part's micro-batches, one after the other, in local tensors."""
    weights = model.trainable_variables
    folded = {id(variable): value for variable, value in states}
    carried = [*model.non_trainable_variables, *(variable for variable, _ in states)]
    carried = list({id(variable): variable for variable in carried}.values())
    start = [folded.get(id(variable), variable.value) for variable in carried]
    whole_sizes = _sizes_of_whole(
        model, part, metric_variables, metric_states, states, accumulate_steps, sum_over_replicas
    )
    has_gradient: list[bool] = []
    changed: set[int] = set()

    def micro_step(index: Any, totals: Any, metric_states: Any, values: Any) -> Any:
        sizes = iter(whole_sizes)
        micro = _micro_batch(part, accumulate_steps, index)
        forward = forward_pass(
            model,
            micro,
            metric_variables,
            metric_states,
            training=True,
            states=list(zip(carried, values, strict=True)),
            size_of_whole=lambda size: next(sizes),
        )
        has_gradient[:] = [gradient is not None for gradient in forward.gradients]
        changed.update(forward.changes)
        totals = [_add(total, new) for total, new in zip(totals, forward.gradients, strict=True)]
        values = [
            (
                tf.where(micro.rows > 0, forward.changes[id(variable)][1], value)
                if id(variable) in forward.changes
                else value
            )
            for variable, value in zip(carried, values, strict=True)
        ]
        return index + 1, totals, list(forward.metric_states), values

    zeros = [tf.zeros(weight.shape, weight.dtype) for weight in weights]
    start = [tf.convert_to_tensor(value) for value in start]
    _, totals, metric_states, values = tf.while_loop(
        lambda index, *_: index < accumulate_steps,
        micro_step,
        (tf.constant(0, tf.int64), zeros, list(metric_states), start),
        maximum_iterations=accumulate_steps,
        parallel_iterations=1,  # one micro-batch in memory at a time
    )
    gradients = [total if given else None for total, given in zip(totals, has_gradient, strict=True)]
    changes = {
        id(variable): (variable, value)
        for variable, value in zip(carried, values, strict=True)
        if id(variable) in changed
    }
    return gradients, changes, metric_states


def _sizes_of_whole(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    states: Sequence[State],
    accumulate_steps: int,
    sum_over_replicas: SumOverReplicas,
) -> list[Any]:
    """Gives what masked or weight-averaged losses divide by: their sizes summed over all micro-batches and
    replicas.

    TensorFlow removes whatever the sizes do not need from this pass, which for a mask is everything after its
    layer.
    """
    micro_sizes: list[list[Any]] = []
    for index in range(accumulate_steps):
        sizes: list[Any] = []

        def note(size: Any, sizes: list[Any] = sizes) -> Any:
            sizes.append(size)
            return size

        forward_pass(
            model,
            _micro_batch(part, accumulate_steps, index),
            metric_variables,
            metric_states,
            training=False,
            states=states,
            size_of_whole=note,
        )
        if not sizes:
            return []
        micro_sizes.append(sizes)
    return sum_over_replicas([tf.add_n(sizes) for sizes in zip(*micro_sizes, strict=True)])


def _micro_batch(part: Part, accumulate_steps: int, index: Any) -> Part:
    micro = take_part(part.data, accumulate_steps, index, total=tf.constant(1.0))
    # A part without rows of its own holds a borrowed one, which must not count as a row of a micro-batch
    # either.
    rows = tf.where(part.rows > 0, micro.rows, 0.0)
    return Part(micro.data, rows, tf.math.divide_no_nan(rows, part.rows) * part.share)


def _add(total: Any, gradient: Any) -> Any:
    if gradient is None:
        return total
    if isinstance(gradient, tf.IndexedSlices):
        return tf.tensor_scatter_nd_add(
            total, gradient.indices[:, None], tf.cast(gradient.values, total.dtype)
        )
    return total + gradient

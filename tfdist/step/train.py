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

from tfdist.data.batch import Part
from tfdist.step import keras_private
from tfdist.step.accumulation import accumulate
from tfdist.step.custom import run_custom_step
from tfdist.step.forward import State, forward_pass
from tfdist.step.optimizer import apply_gradients
from tfdist.step.part import weigh
from tfdist.step.state import fold_stream, moves_of, write_changes

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
    may_stand_in: bool = False,
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
        may_stand_in: Whether the part may be a row of zeros that stands in for none, whose gradient may be
            NaN.

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
        gradients, changes, metric_states = accumulate(
            model, part, metric_variables, metric_states, states, accumulate_steps, sum_over_replicas
        )
    if may_stand_in:
        counts = tf.cast(part.rows > 0, tf.float32)
        gradients = [None if gradient is None else weigh(gradient, counts) for gradient in gradients]
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
    averaged, moves = moves_of(changes, share)
    given = [gradient for gradient in gradients if gradient is not None]
    summed = sum_over_replicas([*given, *moves])
    moves = summed[len(given) :]
    if gradients:
        remaining = iter(summed)
        merged = [None if gradient is None else next(remaining) for gradient in gradients]
        apply_gradients(model.optimizer, merged, model.trainable_variables)
    write_changes(changes, averaged, moves, seed_ids, stream)

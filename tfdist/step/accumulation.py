"""Gradient accumulation: the gradients of a part's micro-batches, one after the other, added up in local
tensors.

    micro-batch 0            outside the loop: it shows which gradients there are, and which are sparse
    micro-batch 1 … k-1      in a loop, one at a time in memory

Nothing is exchanged meanwhile but the sizes that masked or weight-averaged losses divide by, once and
beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.batch import Part, take_part
from tfdist.step.forward import Forward, State, forward_pass

SumOverReplicas = Callable[[Any], Any]


def accumulate(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    states: Sequence[State],
    accumulate_steps: int,
    sum_over_replicas: SumOverReplicas,
) -> tuple[list[Any], dict[int, State], Sequence[Any]]:
    """Computes the gradients of a part in micro-batches.

    Args:
        model: The model, its losses wrapped as `GlobalLoss`.
        part: This replica's part of the global batch.
        metric_variables: The variables of the model's metrics.
        metric_states: Their values on this replica.
        states: Other variables that layers shall see with another value than they have.
        accumulate_steps: How many micro-batches; at least 2.
        sum_over_replicas: Sums a list of tensors over all replicas.

    Returns:
        The gradients, the variables that layers assigned with their last values, and the new metric states.
    """
    folded = {id(variable): value for variable, value in states}
    seen = [*model.non_trainable_variables, *(variable for variable, _ in states)]
    carried = list({id(variable): variable for variable in seen}.values())
    sizes = _sizes_of_whole(
        model, part, metric_variables, metric_states, states, accumulate_steps, sum_over_replicas
    )

    def pass_of(index: Any, metric_states: Any, values: Any) -> tuple[Part, Forward]:
        own_sizes = iter(sizes)
        micro = _micro_batch(part, accumulate_steps, index)
        forward = forward_pass(
            model,
            micro,
            metric_variables,
            metric_states,
            training=True,
            states=list(zip(carried, values, strict=True)),
            size_of_whole=lambda size: next(own_sizes),
        )
        return micro, forward

    def values_after(micro: Part, forward: Forward, values: Sequence[Any]) -> list[Any]:
        return [
            (
                tf.where(micro.rows > 0, forward.changes[id(variable)][1], value)
                if id(variable) in forward.changes
                else value
            )
            for variable, value in zip(carried, values, strict=True)
        ]

    start = [tf.convert_to_tensor(folded.get(id(variable), variable.value)) for variable in carried]
    micro, first = pass_of(tf.constant(0, tf.int64), metric_states, start)
    totals = [_Total(gradient, accumulate_steps) for gradient in first.gradients]

    def step(index: Any, sums: Any, metric_states: Any, values: Any) -> Any:
        micro, forward = pass_of(index, metric_states, values)
        sums = [
            total.plus(so_far, gradient, index)
            for total, so_far, gradient in zip(totals, sums, forward.gradients, strict=True)
        ]
        return index + 1, sums, list(forward.metric_states), values_after(micro, forward, values)

    _, sums, metric_states, values = tf.while_loop(
        lambda index, *_: index < accumulate_steps,
        step,
        (
            tf.constant(1, tf.int64),
            [total.first for total in totals],
            list(first.metric_states),
            values_after(micro, first, start),
        ),
        maximum_iterations=accumulate_steps - 1,
        parallel_iterations=1,  # one micro-batch in memory at a time
    )
    gradients = [total.gradient(so_far) for total, so_far in zip(totals, sums, strict=True)]
    changes = {
        id(variable): (variable, value)
        for variable, value in zip(carried, values, strict=True)
        if id(variable) in first.changes
    }
    return gradients, changes, metric_states


class _Total:
    """The sum of one weight's gradients over micro-batches, in the form that the first of them has.

    A sparse gradient, of an embedding, stays sparse: optimizers treat the rows that it names differently.
    """

    def __init__(self, gradient: Any, micro_batches: int) -> None:
        self._sparse = isinstance(gradient, tf.IndexedSlices)
        self._missing = gradient is None
        if self._sparse:
            self._dense_shape = gradient.dense_shape
            arrays = [
                tf.TensorArray(
                    piece.dtype, size=micro_batches, infer_shape=False, element_shape=[None, *piece.shape[1:]]
                )
                for piece in (gradient.values, gradient.indices)
            ]
            self.first: Any = self.plus(arrays, gradient, tf.constant(0, tf.int64))
        else:
            self.first = [] if self._missing else gradient

    def plus(self, so_far: Any, gradient: Any, index: Any) -> Any:
        """Gives the sum with one more gradient."""
        if self._missing:
            return so_far
        if self._sparse:
            index = tf.cast(index, tf.int32)
            values, indices = so_far
            return [values.write(index, gradient.values), indices.write(index, gradient.indices)]
        return so_far + gradient

    def gradient(self, so_far: Any) -> Any:
        """Gives the sum as a gradient."""
        if self._missing:
            return None
        if self._sparse:
            values, indices = so_far
            return tf.IndexedSlices(values.concat(), indices.concat(), self._dense_shape)
        return so_far


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

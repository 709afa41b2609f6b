"""State that a forward pass changes besides the weights: moving statistics and random seeds.

Inside a step nothing is assigned. What layers assign is captured (see `keras_private.CapturingScope`), put
together from all replicas, and written once, so that every copy of a variable stays the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import Any

import keras
import tensorflow as tf

from tfdist.step.part import weigh

# An odd number with well-mixed bits (2**32 / golden ratio), so that neighbouring streams share no pattern.
STREAM_STRIDE = 0x9E3779B9


def fold_stream(seed_state: tf.Tensor, stream: Any) -> tf.Tensor:
    """Gives the seed state of one stream, so that replicas draw different numbers.

    Args:
        seed_state: `[seed, counter]`, the state of a `keras.random.SeedGenerator`.
        stream: Number of the stream, an int or an integer scalar; stream 0 is the unchanged state.

    Returns:
        A tensor like `seed_state`.
    """
    return seed_state + _stream_offset(seed_state, stream)


def unfold_stream(seed_state: tf.Tensor, stream: Any) -> tf.Tensor:
    """Undoes `fold_stream`, keeping how far the counter moved."""
    return seed_state - _stream_offset(seed_state, stream)


def _stream_offset(seed_state: tf.Tensor, stream: Any) -> tf.Tensor:
    if isinstance(stream, int) and stream == 0:
        return tf.zeros_like(seed_state)
    offset = tf.cast(stream, tf.int64) * tf.constant(STREAM_STRIDE, tf.int64)
    wrapped = tf.bitwise.bitwise_and(offset, tf.constant(2**31 - 1, tf.int64))
    return tf.stack([tf.cast(wrapped, seed_state.dtype), tf.zeros([], seed_state.dtype)])


def is_averaged(variable: keras.Variable) -> bool:
    """Tells whether replicas' values are averaged: statistics are, counters and seeds advance alike
    everywhere.
    """
    return tf.as_dtype(variable.dtype).is_floating


def moves_of(
    changes: Mapping[int, tuple[keras.Variable, Any]], share: Any
) -> tuple[list[keras.Variable], list[Any]]:
    """Gives the variables whose changes are averaged over replicas, and how far this replica moves each.

    Args:
        changes: What layers assigned: each variable with its last value, by its id.
        share: This replica's share of the batch.
    """
    averaged = [variable for variable, _ in changes.values() if is_averaged(variable)]
    moves = [weigh(changes[id(variable)][1] - variable.value, share) for variable in averaged]
    return averaged, moves


def write_changes(
    changes: Mapping[int, tuple[keras.Variable, Any]],
    averaged: Sequence[keras.Variable],
    moves: Sequence[Any],
    seed_ids: Set[int],
    stream: Any,
) -> None:
    """Writes what layers assigned to every copy of their variables.

    Args:
        changes: What layers assigned on this replica.
        averaged: The variables that `moves_of` gave.
        moves: What it gave for each, summed over replicas.
        seed_ids: Which of the variables are states of random generators.
        stream: The stream of random numbers that this replica drew from.
    """
    add_everywhere(list(zip(averaged, moves, strict=True)))
    assign_everywhere(
        [
            (variable, unfold_stream(value, stream) if key in seed_ids else value)
            for key, (variable, value) in changes.items()
            if not is_averaged(variable)
        ]
    )


def assign_everywhere(
    states: Sequence[tuple[keras.Variable, Any]], when: Callable[[], Any] | None = None
) -> None:
    """Assigns to every copy of each variable. Called by each replica, with the same values.

    Args:
        states: Variables and their new values.
        when: Gives a boolean scalar that says whether to assign; None for always.
    """
    _update_everywhere(states, lambda copy, value: copy.assign(value), when)


def add_everywhere(states: Sequence[tuple[keras.Variable, Any]]) -> None:
    """Adds to every copy of each variable, in one operation each, so that none is lost between workers.

    Args:
        states: Variables and what to add.
    """
    _update_everywhere(states, lambda copy, value: copy.assign_add(value), None)


def _update_everywhere(
    states: Sequence[tuple[keras.Variable, Any]],
    update: Callable[[Any, Any], Any],
    when: Callable[[], Any] | None,
) -> None:
    if not states:
        return
    native = [variable.value for variable, _ in states]

    def update_all(strategy: tf.distribute.Strategy, *values: Any) -> None:
        def update_each() -> None:
            for variable, value in zip(native, values, strict=True):
                if isinstance(variable, tf.distribute.DistributedValues):
                    strategy.extended.update(variable, update, args=(value,), group=False)
                else:  # one copy only: made outside the strategy's scope, or held by a ps
                    update(variable, strategy.experimental_local_results(value)[0])

        if when is None:
            update_each()
        else:
            tf.cond(when(), update_each, lambda: None)

    values = tuple(tf.cast(value, variable.dtype) for variable, value in states)
    tf.distribute.get_replica_context().merge_call(update_all, args=values)

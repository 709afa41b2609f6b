"""Does something with each row of a batch by itself, on several processors."""

from __future__ import annotations

import os
from collections.abc import Callable

import tensorflow as tf


def processors() -> int:
    """Gives how many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def each_row(function: Callable[[tf.Tensor], tf.Tensor], rows: tf.Tensor, parallel_calls: int) -> tf.Tensor:
    """Applies a function to each row and stacks what it gives. Inside a graph, for at least one row.

    A dataset of the rows, since `tf.map_fn` works on one processor only, also where several batches are read
    side by side.

    Args:
        function: From a row to a tensor of a fixed shape.
        rows: Shape `(rows, ...)`.
        parallel_calls: Rows to work on side by side.
    """
    mapped = tf.data.Dataset.from_tensor_slices(rows).map(
        function, num_parallel_calls=parallel_calls, deterministic=True
    )
    return mapped.batch(tf.shape(rows, tf.int64)[0]).get_single_element()

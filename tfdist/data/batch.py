"""One replica's part of one global batch, as it travels from the input pipeline into the step."""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from tfdist.data.split import part_bounds


class Part(NamedTuple):
    """One replica's part of one global batch.

    Attributes:
        data: `(x,)`, `(x, y)` or `(x, y, sample_weight)`, each a structure of tensors with at least one row.
            A replica for which the batch has no row left borrows the batch's first row, with `rows` 0.
        rows: Rows of this part that count, float32 scalar.
        share: `rows` over the rows of the global batch, float32 scalar. The shares of all replicas sum to 1.
    """

    data: tuple[Any, ...]
    rows: tf.Tensor
    share: tf.Tensor


def row_count(data: Any) -> tf.Tensor:
    """Gives the number of rows of a batch, int64: the first dimension of its first tensor."""
    return tf.shape(keras.tree.flatten(data)[0], out_type=tf.int64)[0]


def take_part(data: Any, parts: int, index: int | tf.Tensor, total: tf.Tensor | None = None) -> Part:
    """Cuts part `index` of `parts` out of a batch.

    Args:
        data: The batch: a structure of tensors that share their first dimension.
        parts: How many parts the batch is cut into.
        index: Which part.
        total: What the share is taken of, float32; the rows of `data` when left out.

    Returns:
        The part. Where it has no row of its own it holds the first row of `data`, with `rows` and `share` 0.
    """
    rows = row_count(data)
    begin, end, own = held_rows(rows, parts, index)
    part = keras.tree.map_structure(lambda tensor: tensor[begin:end], data)
    own_rows = tf.cast(own, tf.float32)
    whole = tf.cast(rows, tf.float32) if total is None else total
    return Part(part, own_rows, tf.math.divide_no_nan(own_rows, whole))


def held_rows(rows: tf.Tensor, parts: int, index: int | tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Gives the rows that part `index` of a batch holds: its own, or one that it borrows where it has none.

    Layers, losses and metrics then do not have to cope with batches of no rows; a share of 0 undoes the row.

    Args:
        rows: Rows of the batch, int64.
        parts: How many parts it is cut into.
        index: Which part.

    Returns:
        The first row held, the row after the last one, and how many of them are the part's own.
    """
    begin, end = part_bounds(rows, parts, index)
    first = tf.minimum(begin, tf.maximum(rows - 1, 0))
    return first, tf.maximum(end, first + 1), end - begin

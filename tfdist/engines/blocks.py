"""Several global batches as one block, to be sent to a worker at once."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from tfdist.data.batch import Part, row_count


def make_block_reader(element_spec: Any) -> Any:
    """Makes the function that reads several batches into one block.

    Args:
        element_spec: The types of a batch, as its dataset gives them.

    Returns:
        A function `(iterator, count) -> (rows, sizes)`: the rows of up to `count` batches, joined, in the
        structure of a batch; and the rows of each batch, int64, shape `(batches read,)`.
    """
    specs = keras.tree.flatten(element_spec)

    @tf.function(autograph=False)
    def read_one(iterator: Any, count: tf.Tensor) -> tuple[Any, tf.Tensor]:
        batch = iterator.get_next()
        return batch, row_count(batch)[None]

    @tf.function(autograph=False)
    def read(iterator: Any, count: tf.Tensor) -> tuple[Any, tf.Tensor]:
        def array(dtype: Any, shape: Any) -> tf.TensorArray:
            return tf.TensorArray(dtype, size=0, dynamic_size=True, infer_shape=False, element_shape=shape)

        def one(index: Any, going: Any, rows: Any, sizes: Any) -> Any:
            optional = iterator.get_next_as_optional()

            def add() -> Any:
                batch = optional.get_value()
                leaves = keras.tree.flatten(batch)
                written = [column.write(index, leaf) for column, leaf in zip(rows, leaves, strict=True)]
                return index + 1, True, written, sizes.write(index, row_count(batch))

            return tf.cond(optional.has_value(), add, lambda: (index, False, rows, sizes))

        columns = [array(spec.dtype, tf.TensorShape([None, *spec.shape[1:]])) for spec in specs]
        _, _, columns, sizes = tf.while_loop(
            lambda index, going, *_: tf.logical_and(index < count, going),
            one,
            (tf.constant(0), tf.constant(True), columns, array(tf.int64, tf.TensorShape([]))),
        )
        rows = keras.tree.pack_sequence_as(element_spec, [column.concat() for column in columns])
        return rows, sizes.stack()

    if any(None in spec.shape[1:] for spec in specs):  # such batches cannot be joined

        def read_if_any(iterator: Any, count: tf.Tensor) -> tuple[Any, tf.Tensor]:
            try:
                return read_one(iterator, count)
            except tf.errors.OutOfRangeError:
                return (), tf.zeros([0], tf.int64)

        return read_if_any
    return read


def batch_of_block(rows: Any, sizes: tf.Tensor, index: tf.Tensor, begin: tf.Tensor) -> Part:
    """Cuts one batch out of a block, as the part of a single replica.

    Args:
        rows: The block's rows.
        sizes: The rows of each of its batches.
        index: Which batch.
        begin: Its first row.
    """
    size = sizes[index]
    data = keras.tree.map_structure(lambda tensor: tensor[begin : begin + size], rows)
    return Part(data, tf.cast(size, tf.float32), tf.constant(1.0))


def open_rows_signature(element_spec: Any) -> Any:
    """Gives the types of a block's rows: those of a batch, with any number of rows."""
    return keras.tree.map_structure(
        lambda spec: tf.TensorSpec([None, *spec.shape[1:]], spec.dtype), element_spec
    )

"""Rows that can be read by their numbers: arrays in memory, and files with an index."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.source import batch_fingerprint
from tfdist.errors import ConfigError, TfdistError

HASHED_BYTES = 1 << 26  # of an array: a tenth of a second


class Table(ABC):
    """Rows that can be read by their numbers, in any order.

    Attributes:
        rows: How many rows there are.
        parallel_reads: Batches to read side by side.
        has_labels: Whether a row has more than inputs; None where only reading tells.
    """

    rows: int
    parallel_reads: int = 1
    has_labels: bool | None = None

    @abstractmethod
    def take(self, numbers: tf.Tensor) -> tuple[Any, ...]:
        """Gives rows `(x[, y[, sample_weight]])`, each a structure of tensors. Called inside a `tf.data` map.

        Args:
            numbers: Which rows, int64 of shape `(n,)`.
        """

    def take_range(self, begin: tf.Tensor, end: tf.Tensor) -> tuple[Any, ...]:
        """Gives the rows from `begin` up to `end`, int64 scalars."""
        return self.take(tf.range(begin, end))

    def fingerprint(self, numbers: tf.Tensor) -> tf.Tensor:
        """Gives a number below 2**31, float64, from what a batch holds: equal in tasks that read the same
        rows.
        """
        text = tf.strings.join([tf.constant(self.identity()), tf.io.serialize_tensor(numbers)])
        return tf.cast(tf.strings.to_hash_bucket_fast(text, 2**31 - 1), tf.float64)

    @abstractmethod
    def identity(self) -> str:
        """Gives a text that differs where the rows differ, such as names and sizes of files."""

    def origin(self, number: int) -> str:
        """Tells where a row comes from: a file and the row's number in it, as in `train-0.csv:17`."""
        return f"row {number}"

    def find_fault(self, error: tf.errors.OpError) -> TfdistError | None:
        """Looks for the row that may have made reading fail, after it has; None where all seem right."""
        del error
        return None


class ArrayTable(Table):
    """Arrays in memory: NumPy, pandas, TensorFlow tensors or anything `numpy.asarray` takes, in any
    structure.

    Args:
        data: `(x,)`, `(x, y)` or `(x, y, sample_weight)`; every array has one entry per row in its first
            dimension.
    """

    def __init__(self, data: tuple[Any, ...]) -> None:
        # As tuples, since tf.data would stack the tensors of a list into one.
        self._arrays = keras.tree.map_structure(_as_tensor, keras.tree.lists_to_tuples(data))
        lengths = {int(array.shape[0]) for array in keras.tree.flatten(self._arrays)}
        if len(lengths) != 1:
            shapes = keras.tree.map_structure(lambda array: tuple(array.shape), self._arrays)
            raise ConfigError(
                f"x, y and sample_weight must have the same number of rows; received shapes {shapes}.",
                "give every array one entry per row in its first dimension",
            )
        self.rows = lengths.pop()
        self.has_labels = len(self._arrays) > 1

    def take(self, numbers: tf.Tensor) -> tuple[Any, ...]:
        """Gathers rows."""
        return keras.tree.map_structure(lambda array: tf.gather(array, numbers), self._arrays)

    def take_range(self, begin: tf.Tensor, end: tf.Tensor) -> tuple[Any, ...]:
        """Cuts rows out."""
        return keras.tree.map_structure(lambda array: array[begin:end], self._arrays)

    def fingerprint(self, numbers: tf.Tensor) -> tf.Tensor:
        """Hashes the labels, or the inputs where there are none; the arrays as a whole are compared once."""
        labels = self._arrays[1 if len(self._arrays) > 1 else 0]
        return batch_fingerprint((keras.tree.map_structure(lambda array: tf.gather(array, numbers), labels),))

    def identity(self) -> str:
        """Hashes the arrays; of large ones, rows spread over them."""
        digest = hashlib.sha256()
        for array in keras.tree.flatten(self._arrays):
            digest.update(f"{array.shape}{array.dtype}".encode())
            step = max(1, array.shape.num_elements() * array.dtype.size // HASHED_BYTES)
            values = array[::step].numpy()
            digest.update(repr(values.tolist()).encode() if values.dtype == object else values.tobytes())
        return digest.hexdigest()


class Subset(Table):
    """Some rows of a table.

    Args:
        table: The table.
        numbers: Which rows, int64 of shape `(rows,)`.
    """

    def __init__(self, table: Table, numbers: np.ndarray) -> None:
        self._table, self._numbers = table, numbers
        with tf.device("CPU:0"):
            self._tensor = tf.constant(numbers, tf.int64)
        self.rows = len(numbers)
        self.parallel_reads = table.parallel_reads

    def take(self, numbers: tf.Tensor) -> tuple[Any, ...]:
        """Reads rows of the table."""
        return self._table.take(tf.gather(self._tensor, numbers))

    def fingerprint(self, numbers: tf.Tensor) -> tf.Tensor:
        """Gives what the table gives for those rows."""
        return self._table.fingerprint(tf.gather(self._tensor, numbers))

    def identity(self) -> str:
        """Names the table and which rows of it."""
        return f"{self._table.identity()} {hashlib.sha256(self._numbers.tobytes()).hexdigest()}"

    def origin(self, number: int) -> str:
        """Tells where the table has the row from."""
        return self._table.origin(int(self._numbers[number]))

    def find_fault(self, error: tf.errors.OpError) -> TfdistError | None:
        """Lets the table look."""
        return self._table.find_fault(error)


def split(table: Table, fraction: float) -> tuple[Table, Table]:
    """Divides a table in two, such that the rows of the second are spread evenly over the table.

    Args:
        table: The table.
        fraction: Part of the rows that the second one gets, between 0 and 1.

    Returns:
        The rest, and every `1 / fraction`-th row. No row is in both.

    Example:
        >>> rest, tenth = split(ArrayTable((np.arange(30),)), 0.1)
        >>> tenth.take(tf.constant([0, 1, 2]))[0].numpy().tolist()
        [9, 19, 29]
    """
    numbers = np.arange(table.rows, dtype=np.int64)
    # Rounded before they are cut, so that 0.1 x 10 is one whole.
    steps = np.floor(np.round(np.arange(table.rows + 1) * fraction, 9))
    chosen = np.diff(steps) > 0
    return Subset(table, numbers[~chosen]), Subset(table, numbers[chosen])


def _as_tensor(array: Any) -> tf.Tensor:
    """Turns one array into a tensor on the CPU; floats get Keras's float type, as in Keras's own `fit`."""
    if not isinstance(array, tf.Tensor | tf.SparseTensor | tf.RaggedTensor):
        array = np.asarray(array)
        if array.dtype == object:
            raise ConfigError(
                f"An input array holds Python objects (dtype object, shape {array.shape}), not numbers or"
                " strings.",
                "convert it first, for example with .astype('float32') or .astype(str); fill in what is"
                " missing before, with .fillna(0)",
            )
        if array.dtype.kind == "f" and array.dtype.name != keras.config.floatx():
            array = array.astype(keras.config.floatx())
    with tf.device("CPU:0"):
        array = tf.convert_to_tensor(array)
    if array.shape.rank == 0:
        raise ConfigError(
            f"An input is a single value ({array.numpy()!r}), not an array of rows.",
            "give every input one entry per row in its first dimension",
        )
    return array

"""Rows that are read into memory once."""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.readers.files import identity_of
from tfdist.data.table import ArrayTable, Table

_CHUNK = 1024


class RowsInMemory(ArrayTable):
    """Rows of files, held in memory.

    Args:
        data: `(x[, y[, sample_weight]])`, with the rows of the files one after the other.
        files: The files.
        rows: How many rows each of them has.
    """

    def __init__(self, data: tuple[Any, ...], files: Sequence[str], rows: Sequence[int]) -> None:
        super().__init__(data)
        self._files = list(files)
        self._ends = list(itertools.accumulate(rows))

    @classmethod
    def of_files(cls, parts: Sequence[tuple[Any, ...]], files: Sequence[str]) -> RowsInMemory:
        """Puts the rows of files one after the other.

        Args:
            parts: `(x[, y[, sample_weight]])` of each file, as arrays.
            files: The files.
        """
        data = tuple(keras.tree.map_structure(lambda *arrays: np.concatenate(arrays), *parts))
        return cls(data, files, [len(keras.tree.flatten(part)[0]) for part in parts])

    def identity(self) -> str:
        """Names the files and their sizes."""
        return identity_of(self._files)

    def origin(self, number: int) -> str:
        """Names the file and the row there, counted from 0."""
        file = bisect.bisect_right(self._ends, number)
        return f"{self._files[file]}:{number - (self._ends[file - 1] if file else 0)}"


class CachedTable(ArrayTable):
    """All rows of a table, read and decoded once and then held in memory.

    Args:
        table: The table.
    """

    def __init__(self, table: Table) -> None:
        self._table = table

        def read(begin: tf.Tensor) -> tuple[Any, ...]:
            return table.take_range(begin, tf.minimum(begin + _CHUNK, table.rows))

        with tf.device("CPU:0"):
            begins = tf.data.Dataset.range(0, table.rows, _CHUNK)
            try:
                chunks = list(begins.map(read, num_parallel_calls=table.parallel_reads, deterministic=True))
            except tf.errors.OpError as error:
                raise table.find_fault(error) or error from error
            super().__init__(keras.tree.map_structure(lambda *parts: tf.concat(parts, 0), *chunks))

    def identity(self) -> str:
        """Gives what the table says of itself."""
        return self._table.identity()

    def origin(self, number: int) -> str:
        """Tells where the table has the row from."""
        return self._table.origin(number)

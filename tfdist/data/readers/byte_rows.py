"""Rows that are stretches of bytes in files, fetched by number and decoded a batch at a time."""

from __future__ import annotations

import collections
from abc import abstractmethod
from typing import Any

import numpy as np
import tensorflow as tf

from tfdist.data.table import Table
from tfdist.errors import TfdistError, TrainingError

_RECENT = 256  # batches; more than are ever read ahead


class ByteRows(Table):
    """Rows that are stretches of bytes in files."""

    def __init__(self) -> None:
        self._recent: collections.deque[np.ndarray] = collections.deque(maxlen=_RECENT)
        self._failure: TfdistError | None = None

    @abstractmethod
    def fetch(self, numbers: np.ndarray) -> list[bytes]:
        """Reads the bytes of rows; raises a `TfdistError` where they are damaged."""

    @abstractmethod
    def decode(self, rows: tf.Tensor, numbers: tf.Tensor) -> tuple[Any, ...]:
        """Makes `(x[, y[, sample_weight]])` of the bytes of rows, inside a graph."""

    @abstractmethod
    def fault_in(self, row: bytes, number: int) -> str:
        """Says what is wrong with a row that cannot be decoded; empty where nothing is."""

    def take(self, numbers: tf.Tensor) -> tuple[Any, ...]:
        """Fetches and decodes rows."""
        rows = tf.numpy_function(self._fetch, [numbers], tf.string, stateful=False)
        rows.set_shape([None])
        return self.decode(rows, numbers)

    def find_fault(self, error: tf.errors.OpError) -> TfdistError | None:
        """Looks for what made reading fail, among the rows that were read last."""
        del error
        if self._failure is not None:
            return self._failure
        for numbers in reversed(self._recent):
            try:
                rows = self.fetch(numbers)
            except (TfdistError, OSError):
                continue  # told when it is the cause
            for number, row in zip(numbers.tolist(), rows, strict=True):
                what = self.fault_in(row, number)
                if what:
                    return TrainingError(
                        f"{self.origin(number)}: {what}", "correct or remove that row, then train again"
                    )
        return None

    def _fetch(self, numbers: np.ndarray) -> np.ndarray:
        self._recent.append(numbers)
        try:
            rows = self.fetch(numbers)
        except TfdistError as error:
            self._failure = error
            raise
        except OSError as error:
            self._failure = TrainingError(
                f"A row cannot be read: {error}.", "see that the files stay where they are while training"
            )
            raise
        array = np.empty(len(rows), dtype=object)
        array[:] = rows
        return array

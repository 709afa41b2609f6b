"""Data that is read one batch after the other: `tf.data`, `PyDataset`, generators and other iterables."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.order import epoch_order
from tfdist.data.source import Source, as_batch, signature_of
from tfdist.errors import ConfigError


class DatasetSource(Source):
    """A `tf.data.Dataset` that yields global batches."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        super().__init__()
        self._dataset = dataset
        cardinality = int(dataset.cardinality())
        self.batches = cardinality if cardinality >= 0 else None
        self.endless = cardinality == tf.data.INFINITE_CARDINALITY
        # A dataset that shuffles draws a new order for every iterator that is made of it.
        self._readings = 0

    def begin_epoch(self, epoch: int, skip: int = 0) -> None:
        """Counts the readings; the dataset's own shuffles decide how they differ."""
        super().begin_epoch(epoch, skip)
        self._readings += 1

    def state(self) -> int:
        """Gives which reading the current one is."""
        return self._readings

    def restore(self, state: int, begun: bool) -> None:
        """Goes through the orders of the readings before the next."""
        before = state - 1 if begun else state
        for _ in range(self._readings, before):
            iter(self._dataset)
        self._readings = before

    def global_batches(self, skip: int) -> tf.data.Dataset:
        """Gives the dataset, whose shuffles draw again for every iterator."""
        return self._dataset.skip(skip) if skip else self._dataset


class SequenceSource(Source):
    """A `keras.utils.PyDataset`: batches by index, with an order per epoch that all tasks agree on."""

    def __init__(self, sequence: Any, count: float | None, shuffle: bool, seed: int) -> None:
        super().__init__()
        if count is None or math.isinf(count):
            raise ConfigError(
                f"{type(sequence).__name__} has no length, so its batches cannot be divided into epochs.",
                "define __len__ so that it returns the number of batches",
            )
        self._sequence = sequence
        self.batches = int(count)
        self._shuffle = shuffle
        self._seed = seed
        self._epochs_begun = 0
        self._order = np.arange(self.batches)

    def begin_epoch(self, epoch: int, skip: int = 0) -> None:
        """Shuffles the batches by `(seed, epoch)`, if they are to be shuffled, and tells the sequence of
        ended epochs.
        """
        super().begin_epoch(epoch, skip)
        for _ in range(self._epochs_begun, epoch):
            if isinstance(self._sequence, keras.utils.PyDataset):
                self._sequence.on_epoch_end()
        self._epochs_begun = max(self._epochs_begun, epoch)
        if self._shuffle:
            self._order = epoch_order(len(self._order), self._seed, epoch)

    def describe(self) -> dict[str, Any]:
        """Tells what settles the order of the batches."""
        return {"batches": self.batches, "seed": self._seed if self._shuffle else None}

    def global_batches(self, skip: int) -> tf.data.Dataset:
        """Makes the dataset that asks the sequence for its batches, one after the other."""
        if not self.batches:
            return tf.data.Dataset.range(0)

        def read() -> Iterable[Any]:
            for index in self._order[skip:]:
                yield as_batch(self._sequence[int(index)])

        signature = signature_of(as_batch(self._sequence[0]))
        return tf.data.Dataset.from_generator(read, output_signature=signature)


class IterableSource(Source):
    """A Python iterable of batches, such as a generator or a `grain` loader, read in its own order.

    A generator is read once. Any other iterable is read anew in each epoch.
    """

    def __init__(self, iterable: Iterable[Any]) -> None:
        super().__init__()
        self._iterable = iterable
        self.replayable = not isinstance(iterable, Iterator)
        if not self.replayable:
            self.position_unknown = (
                f"a {type(iterable).__name__} is read once, so what came before cannot be passed over"
            )
        iterator = iter(iterable)
        try:
            self._first = as_batch(next(iterator))
        except StopIteration:
            raise ConfigError(
                f"The {type(iterable).__name__} passed as x ended before its first batch.",
                "pass a generator that yields (x, y) batches; one that was read to its end cannot be read"
                " again",
            ) from None
        self._begun: Iterator[Any] | None = itertools.chain([self._first], iterator)

    def first_batch(self) -> tuple[Any, ...]:
        """Gives the batch that was read first."""
        batch = keras.tree.map_structure(tf.convert_to_tensor, self._first)
        return batch if self.transform is None else self.transform(batch)

    def global_batches(self, skip: int) -> tf.data.Dataset:
        """Makes the dataset of what a generator has left, or of all that another iterable gives."""

        def read() -> Iterable[Any]:
            batches = self._begun or iter(self._iterable)
            self._begun = None
            for data in itertools.islice(batches, skip, None):
                yield as_batch(data)

        return tf.data.Dataset.from_generator(read, output_signature=signature_of(self._first))

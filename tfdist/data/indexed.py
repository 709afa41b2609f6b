"""Batches of a table's rows: which rows, in which order, is settled by the seed and the epoch alone."""

from __future__ import annotations

import functools
import hashlib
import operator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.batch import Part, held_rows
from tfdist.data.order import epoch_order
from tfdist.data.source import READ_AHEAD, Source, as_it_is, no_fingerprint, require_plain_tensors
from tfdist.data.split import batch_count, part_bounds
from tfdist.data.table import Table


class IndexedSource(Source):
    """Global batches of a table's rows. Each task reads the rows of its own replicas and no others.

    Args:
        table: The rows.
        batch_size: Rows in a global batch.
        shuffle: Whether each epoch has an order of its own.
        seed: Seed of the orders.
        drop_remainder: Whether to leave out the last batch of an epoch where it is smaller.
        prefetch: Batches to read ahead.
    """

    order_is_known = True

    def __init__(
        self,
        table: Table,
        batch_size: int,
        *,
        shuffle: bool,
        seed: int,
        drop_remainder: bool = False,
        prefetch: int = READ_AHEAD,
    ) -> None:
        super().__init__()
        self.table = table
        self.rows_per_batch = self._batch_size = batch_size
        self.batches = table.rows // batch_size if drop_remainder else batch_count(table.rows, batch_size)
        self.rows = min(table.rows, self.batches * batch_size)
        self._shuffle = shuffle and table.rows > 0
        self._seed = seed
        self._prefetch = prefetch
        self._order: tf.Variable | None = None
        self._epoch_order: np.ndarray | None = None
        if self._shuffle:
            self._epoch_order = epoch_order(table.rows, seed, 0)
            with tf.device("CPU:0"):
                self._order = tf.Variable(self._epoch_order, trainable=False)

    @property
    def has_labels(self) -> bool:
        """Whether the table has; arrays tell it without a pipeline."""
        return super().has_labels if self.table.has_labels is None else self.table.has_labels

    def begin_epoch(self, epoch: int, skip: int = 0) -> None:
        """Shuffles the rows by `(seed, epoch)`, if they are to be shuffled."""
        super().begin_epoch(epoch, skip)
        if self._order is not None:
            self._epoch_order = epoch_order(self.table.rows, self._seed, epoch)
            self._order.assign(self._epoch_order)

    @functools.cached_property
    def _contents(self) -> str:
        return hashlib.sha256(self.table.identity().encode()).hexdigest()[:16]

    def describe(self) -> dict[str, Any]:
        """Tells what settles the rows of each batch."""
        return {
            "rows": self.rows,
            "global_batch_size": self.rows_per_batch,
            "seed": self._seed if self._shuffle else None,
            "contents": self._contents,
        }

    def global_batches(self, skip: int) -> tf.data.Dataset:
        """Makes the dataset of whole batches."""

        def read(index: tf.Tensor) -> tuple[Any, ...]:
            return self._read(*self._bounds(index))

        return self._numbers(skip).map(
            as_it_is(read), num_parallel_calls=self.table.parallel_reads, deterministic=True
        )

    def parts(self, replicas: Sequence[int], total_replicas: int, fingerprint: bool) -> tf.data.Dataset:
        """Gives the current epoch as the parts of this task's replicas; see `Source.parts`."""

        def read(index: tf.Tensor) -> tuple[tuple[Part, ...], tf.Tensor]:
            begin, end = self._bounds(index)
            rows = end - begin
            held = [held_rows(rows, total_replicas, replica) for replica in replicas]
            # One reading for all replicas of this task.
            base = tf.reduce_min([first for first, _, _ in held])
            data = self._read(begin + base, begin + tf.reduce_max([after for _, after, _ in held]))
            if self.transform is not None:
                data = self.transform(data)
            parts = []
            for first, after, own in held:
                rows_held = slice(first - base, after - base)
                taken = keras.tree.map_structure(operator.itemgetter(rows_held), data)
                counted = tf.cast(own, tf.float32)
                parts.append(Part(taken, counted, counted / tf.cast(rows, tf.float32)))
            return tuple(parts), self._fingerprint(begin, end) if fingerprint else no_fingerprint()

        def make() -> tf.data.Dataset:
            reads = self.table.parallel_reads
            dataset = self._numbers(self._skip).map(
                as_it_is(read), num_parallel_calls=reads, deterministic=True
            )
            require_plain_tensors(dataset.element_spec)
            return dataset.prefetch(self._prefetch).with_options(_untuned())

        return self._made_once(("parts", *replicas, total_replicas, fingerprint), make)

    def rows_of(self, batch: int, replica: int, total_replicas: int) -> list[int]:
        """Gives the numbers of the rows that a replica works on.

        Args:
            batch: Number of the batch in the current epoch.
            replica: Number of the replica.
            total_replicas: Replicas in the whole job.
        """
        begin = batch * self._batch_size
        end = min(begin + self._batch_size, self.table.rows)
        first, last = part_bounds(end - begin, total_replicas, replica)
        if self._epoch_order is None:
            return list(range(begin + first, begin + last))
        return self._epoch_order[begin + first : begin + last].tolist()

    def _numbers(self, skip: int) -> tf.data.Dataset:
        return tf.data.Dataset.range(min(skip, self.batches or 0), self.batches)

    def _bounds(self, index: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        begin = index * self._batch_size
        return begin, tf.minimum(begin + self._batch_size, self.table.rows)

    def _read(self, begin: tf.Tensor, end: tf.Tensor) -> tuple[Any, ...]:
        if self._order is None:
            return self.table.take_range(begin, end)
        return self.table.take(self._order[begin:end])

    def _fingerprint(self, begin: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
        numbers = tf.range(begin, end) if self._order is None else self._order[begin:end]
        return self.table.fingerprint(numbers)


def _untuned() -> tf.data.Options:
    """Switches the tuning of pipelines off: every number in them is fixed.

    With it, letting an iterator go can take as long as the iterator has lived: TensorFlow waits for a thread
    that sleeps until it is time to tune again.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return options

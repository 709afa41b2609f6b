"""Records that can only be read one after the other: compressed files, and files elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.dataset_fn import DataContext, DatasetFnSource
from tfdist.data.order import epoch_order
from tfdist.data.readers.errors import ReaderError
from tfdist.data.readers.memory import RowsInMemory
from tfdist.data.source import Source
from tfdist.errors import TfdistError, TrainingError

DEFAULT_SHUFFLE_BUFFER = 10_000


@dataclass(frozen=True)
class Stream:
    """TFRecord files that are read from their beginning to their end.

    Attributes:
        files: The files.
        compression: As in `tf.data.TFRecordDataset`.
        decode: Makes `(x[, y[, sample_weight]])` of a batch of records.
        fault_in: Says what is wrong with a record that cannot be decoded; empty where nothing is.
        shard: `files`: each task reads files of its own. `rows`: each task reads all files, and works on its
            part of each global batch. `auto`: by files where there are as many as tasks.
        shuffle_buffer: Records among which the next one is drawn at random.
        parallel_reads: Files to read, and batches to decode, side by side.
        prefetch: Batches to read ahead.
        drop_remainder: Whether to leave out the last batch of an epoch where it is smaller.
    """

    files: Sequence[str]
    compression: str
    decode: Callable[[tf.Tensor], tuple[Any, ...]]
    fault_in: Callable[[bytes], str]
    shard: str = "auto"
    shuffle_buffer: int = DEFAULT_SHUFFLE_BUFFER
    parallel_reads: int = 4
    prefetch: int = 4
    drop_remainder: bool = False

    def source(self, context: DataContext, replicas: Sequence[int], shuffle: bool) -> Source:
        """Gives the source for one task.

        Args:
            context: Which task it is, and the seed and size of batches.
            replicas: Global numbers of its replicas.
            shuffle: Whether each epoch has an order of its own.

        Raises:
            ConfigError: There are too few files to give each task some.
        """
        tasks = context.world_size
        by_files = self.shard == "files" or (self.shard == "auto" and len(self.files) >= tasks > 1)
        if by_files and len(self.files) < tasks:
            raise ReaderError(
                "shard",
                f"there are {len(self.files)} files for {tasks} tasks, so some would have none.",
                "write shard: rows",
            )
        if not by_files:  # every task makes the same batches, as if it were the only one
            context = DataContext(global_batch_size=context.global_batch_size, seed=context.seed)
        return DatasetFnSource(lambda told: self.batches(told, shuffle), context, replicas)

    def batches(self, context: DataContext, shuffle: bool) -> tf.data.Dataset:
        """Makes the pipeline of one task for one epoch."""
        files = list(self.files)
        if shuffle:
            files = [files[number] for number in epoch_order(len(files), context.seed, context.epoch)]
        files = files[context.rank :: context.world_size]
        reads = self.parallel_reads
        dataset = tf.data.Dataset.from_tensor_slices(files).interleave(
            lambda file: tf.data.TFRecordDataset(file, self.compression),
            # In order, one file comes after the other.
            cycle_length=min(reads, len(files)) if shuffle else 1,
            num_parallel_calls=min(reads, len(files)) if shuffle else 1,
            deterministic=True,
        )
        if shuffle:
            draw = np.random.Generator(np.random.Philox(key=[context.seed, context.epoch]))
            dataset = dataset.shuffle(
                self.shuffle_buffer, seed=int(draw.integers(1, 2**31)), reshuffle_each_iteration=False
            )
        batches = dataset.batch(context.batch_size, drop_remainder=self.drop_remainder)
        return batches.map(self.decode, num_parallel_calls=reads, deterministic=True).prefetch(self.prefetch)

    def in_memory(self) -> RowsInMemory:
        """Reads and decodes all records, in order."""
        told = DataContext(batch_size=1024)
        chunks: list[Any] = []
        counts = []
        try:
            for file in self.files:
                part = list(replace(self, files=[file], drop_remainder=False).batches(told, shuffle=False))
                counts.append(sum(int(keras.tree.flatten(chunk)[0].shape[0]) for chunk in part))
                chunks += part
        except tf.errors.OpError as error:
            raise self._look_through() or error from error
        data = keras.tree.map_structure(lambda *parts: tf.concat(parts, 0), *chunks)
        return RowsInMemory(data, self.files, counts)

    def find_fault(self, error: tf.errors.OpError) -> TfdistError | None:
        """Looks through the files for what made reading fail, if it was reading that failed."""
        reading = isinstance(error, tf.errors.DataLossError) or "IteratorGetNext" in str(error)
        return self._look_through() if reading else None

    def _look_through(self) -> TfdistError | None:
        for file in self.files:
            number = 0
            try:
                for record in tf.data.TFRecordDataset(file, self.compression).as_numpy_iterator():
                    what = self.fault_in(record)
                    if what:
                        return TrainingError(
                            f"{file}:{number}: {what}", "correct or remove that record, then train again"
                        )
                    number += 1
            except tf.errors.OpError as error:
                return TrainingError(
                    f"{file} cannot be read beyond record {number}: {str(error).splitlines()[0]}",
                    "write or copy the file again; `gzip -t FILE` checks one that is compressed",
                )
        return None

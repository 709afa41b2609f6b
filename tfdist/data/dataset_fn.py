"""Data that each task reads by itself: the user's `dataset_fn(context)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.batch import Part, row_count, take_part
from tfdist.data.source import READ_AHEAD, Source, as_it_is, batch_fingerprint
from tfdist.data.split import part_bounds
from tfdist.errors import ConfigError


@dataclass(frozen=True)
class DataContext:
    """What a `dataset_fn` is told, to make the pipeline of one task.

    Attributes:
        rank: Number of this task among those that read data, from 0.
        world_size: How many tasks read data.
        num_replicas: Replicas in this task.
        total_replicas: Replicas in the whole job.
        global_batch_size: Rows in one update over all replicas and micro-batches.
        batch_size: Rows of it that this task reads: the size of the batches to make.
        epoch: Number of this pass through the data, from 0.
        seed: Seed of the run, the same in every task.

    Example:
        >>> def dataset_fn(context):
        ...     rows = tf.data.Dataset.range(100).shuffle(100, seed=context.seed + context.epoch)
        ...     return context.shard(rows).batch(context.batch_size)
    """

    rank: int = 0
    world_size: int = 1
    num_replicas: int = 1
    total_replicas: int = 1
    global_batch_size: int = 32
    batch_size: int = 32
    epoch: int = 0
    seed: int = 0

    def shard(self, dataset: tf.data.Dataset) -> tf.data.Dataset:
        """Gives every `world_size`-th element, beginning with number `rank`: this task's rows, or its
        files.
        """
        return dataset.shard(self.world_size, self.rank)


DatasetFn = Callable[[DataContext], tf.data.Dataset]


class DatasetFnSource(Source):
    """What a `dataset_fn` gives: in each task batches of its own, of any number of rows.

    The batches that the tasks read for the same step make up the global batch. A task that has none left
    joins with no rows until all have ended.

    Args:
        dataset_fn: Called for each pass through the data.
        context: What it is told, but for the epoch.
        replicas: Global numbers of this task's replicas.
    """

    def __init__(self, dataset_fn: DatasetFn, context: DataContext, replicas: Sequence[int] = (0,)) -> None:
        super().__init__()
        batch = context.global_batch_size
        bounds = [part_bounds(batch, context.total_replicas, replica) for replica in replicas]
        own = sum(end - begin for begin, end in bounds) if context.world_size > 1 else batch
        if own == 0:
            raise ConfigError(
                f"global_batch_size={batch} leaves no row for task {context.rank} of {context.world_size}.",
                f"pass global_batch_size={context.total_replicas} or more",
            )
        self._dataset_fn = dataset_fn
        self._context = replace(context, num_replicas=len(replicas), batch_size=own)
        self.per_task = context.world_size > 1
        self.rows_per_batch = batch
        self._dataset: Any = None
        self._read_spec: Any = None
        self.begin_epoch(0)

    def begin_epoch(self, epoch: int, skip: int = 0) -> None:
        """Asks for the pipeline of the epoch."""
        super().begin_epoch(epoch, skip)
        if self._dataset is not None and epoch == self._context.epoch:
            return
        self._context = replace(self._context, epoch=epoch)
        dataset = self._dataset_fn(self._context)
        if not isinstance(dataset, tf.data.Dataset):
            raise ConfigError(
                f"dataset_fn must return a tf.data.Dataset of batches; it returned {type(dataset).__name__}.",
                "return dataset.batch(context.batch_size)",
            )
        self._pipelines.clear()
        cardinality = int(dataset.cardinality())
        self.endless = cardinality == tf.data.INFINITE_CARDINALITY
        if self.per_task:  # batches without rows would be no part
            dataset = dataset.filter(as_it_is(lambda *data: row_count(data) > 0))
        self._dataset = dataset
        spec = self._dataset.element_spec
        if self._read_spec is not None and not _same_types(spec, self._read_spec):
            raise ConfigError(
                f"dataset_fn returned batches of {spec} for epoch {epoch}, and of {self._read_spec} before.",
                "return batches of the same structure and types for every epoch and task",
            )
        self._read_spec = spec
        if not self.per_task:
            self.batches = cardinality if cardinality >= 0 else None

    def describe(self) -> dict[str, Any]:
        """Tells what a task's rows depend on."""
        return {
            "tasks": self._context.world_size,
            "global_batch_size": self.rows_per_batch,
            "seed": self._context.seed,
        }

    def global_batches(self, skip: int) -> tf.data.Dataset:
        """Gives this task's batches: of the whole job, where it is the only task that reads."""
        return self._dataset.skip(skip) if skip else self._dataset

    def first_batch(self) -> tuple[Any, ...]:
        """Gives one of this task's batches; where it has none, rows of zeros, whose types are right."""
        try:
            return super().first_batch()
        except ConfigError:
            if not self.per_task:
                raise
            return self.stand_in()

    def parts(self, replicas: Sequence[int], total_replicas: int, fingerprint: bool) -> tf.data.Dataset:
        """Gives the parts of this task's replicas; where tasks read rows of their own, with a `share` of 0,
        since no task knows the others' rows.
        """
        if not self.per_task:
            return super().parts(replicas, total_replicas, fingerprint)

        def split(data: tuple[Any, ...]) -> tuple[tuple[Part, ...], tf.Tensor]:
            count = len(replicas)
            taken = (take_part(data, count, index, total=tf.constant(1.0)) for index in range(count))
            parts = tuple(Part(part.data, part.rows, tf.constant(0.0)) for part in taken)
            return parts, batch_fingerprint(data)

        return self.pipeline(("parts", *replicas), split, READ_AHEAD)

    def stand_in(self) -> tuple[Any, ...]:
        """Gives a batch of one row of zeros, for a task that has no rows (left)."""
        return keras.tree.map_structure(zero_row, self.pipeline().element_spec)


def zero_row(spec: tf.TensorSpec) -> tf.Tensor:
    """Gives one row of zeros, or of empty texts; dimensions that are open have the size 1."""
    if spec.shape.rank is None:
        raise ConfigError(
            f"A tensor of the data has an unknown number of dimensions: {spec}.",
            "give it a shape in the pipeline, for example with tensor.set_shape([None, 28, 28])",
        )
    shape = [1, *(1 if size is None else size for size in spec.shape[1:])]
    return tf.fill(shape, tf.constant("" if spec.dtype == tf.string else 0, spec.dtype))


def _same_types(left: Any, right: Any) -> bool:
    try:
        keras.tree.assert_same_structure(left, right)
    except (ValueError, TypeError):
        return False
    pairs = zip(keras.tree.flatten(left), keras.tree.flatten(right), strict=True)
    return all(one.dtype == two.dtype and one.shape.rank == two.shape.rank for one, two in pairs)

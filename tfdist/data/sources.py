"""What users pass as `x`, `y` and `sample_weight`, read as one global batch after the other.

A source gives each epoch as a `tf.data.Dataset` of global batches `(x[, y[, sample_weight]])`. Every task
builds the same one; `parts_of_replicas` then keeps what this task's replicas need.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.batch import Part, take_part
from tfdist.data.order import epoch_order
from tfdist.data.split import batch_count
from tfdist.errors import ConfigError

Transform = Callable[[tuple[Any, ...]], tuple[Any, ...]]


class Source(ABC):
    """Data as global batches, the same in every task.

    Attributes:
        batches: Global batches in an epoch; `None` where only reading to the end tells.
        rows: Rows in an epoch; `None` where only reading to the end tells.
        transform: Applied to each global batch inside the pipeline (class weights).
        replayable: Whether an epoch can be read from its beginning more than once.
    """

    batches: int | None = None
    rows: int | None = None
    transform: Transform | None = None
    replayable: bool = True

    def __init__(self) -> None:
        self._pipelines: dict[Any, tf.data.Dataset] = {}

    @abstractmethod
    def global_batches(self) -> tf.data.Dataset:
        """Makes the dataset of global batches, before `transform`; each iterator of it reads the current
        epoch.
        """

    def begin_epoch(self, epoch: int) -> None:
        """Makes the iterators that are created from now on read epoch `epoch`."""
        del epoch  # for sources whose own order decides

    def pipeline(
        self, key: Any = None, finish: Callable[[tf.data.Dataset], tf.data.Dataset] = lambda dataset: dataset
    ) -> tf.data.Dataset:
        """Gives the dataset of global batches, finished in some way; made once, since making it takes longer
        than small epochs.

        Args:
            key: Names the way.
            finish: Turns the dataset of batches `(x[, y[, sample_weight]])` into the one wanted.
        """
        if key not in self._pipelines:
            with tf.device("CPU:0"):
                dataset = self.global_batches()
                _require_plain_tensors(dataset.element_spec)
                if self.transform is not None:
                    transform = self.transform
                    dataset = dataset.map(lambda *data: transform(data), num_parallel_calls=1)
                self._pipelines[key] = finish(dataset)
        return self._pipelines[key]

    def batch_spec(self) -> tuple[Any, ...]:
        """Gives shapes and dtypes of a batch, to build the model with: a structure of things that have both.

        They come from the pipeline's types where those say enough, since reading a batch can mean filling a
        shuffle buffer; else from a first batch.
        """
        spec = self.pipeline().element_spec
        leaves = keras.tree.flatten(spec)
        if all(leaf.shape.rank is not None and None not in leaf.shape[1:] for leaf in leaves):
            return spec
        return self.first_batch()

    def first_batch(self) -> tuple[Any, ...]:
        """Gives one global batch, which training still sees."""
        self.begin_epoch(0)
        for data in self.pipeline().take(1):
            return data
        raise empty_data("data")


class ArraySource(Source):
    """Arrays in memory: NumPy, pandas, TensorFlow tensors or anything `numpy.asarray` takes, in any
    structure.
    """

    def __init__(self, data: tuple[Any, ...], batch_size: int, shuffle: bool, seed: int) -> None:
        super().__init__()
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
        self.batches = batch_count(self.rows, batch_size)
        self._batch_size = batch_size
        self._seed = seed
        self._order: tf.Variable | None = None
        if shuffle and self.rows:
            with tf.device("CPU:0"):
                self._order = tf.Variable(epoch_order(self.rows, seed, 0), trainable=False)

    def begin_epoch(self, epoch: int) -> None:
        """Shuffles the rows by `(seed, epoch)`, if they are to be shuffled."""
        if self._order is not None:
            self._order.assign(epoch_order(int(self._order.shape[0]), self._seed, epoch))

    def global_batches(self) -> tf.data.Dataset:
        """Makes the dataset that cuts batches out of the arrays."""
        arrays, order, size, rows = self._arrays, self._order, self._batch_size, self.rows

        def read(index: tf.Tensor) -> tuple[Any, ...]:
            begin = index * size
            end = tf.minimum(begin + size, rows)
            if order is None:
                return keras.tree.map_structure(lambda array: array[begin:end], arrays)
            return keras.tree.map_structure(lambda array: tf.gather(array, order[begin:end]), arrays)

        return tf.data.Dataset.range(self.batches).map(read, num_parallel_calls=1)


class DatasetSource(Source):
    """A `tf.data.Dataset` that yields global batches."""

    def __init__(self, dataset: tf.data.Dataset) -> None:
        super().__init__()
        self._dataset = dataset.map(lambda *data: _as_tuple(data))
        cardinality = int(dataset.cardinality())
        self.batches = cardinality if cardinality >= 0 else None
        self.endless = cardinality == tf.data.INFINITE_CARDINALITY

    def global_batches(self) -> tf.data.Dataset:
        """Gives the dataset; its own shuffles decide how epochs differ."""
        return self._dataset


class SequenceSource(Source):
    """A `keras.utils.PyDataset`: batches by index, with an order per epoch that all tasks agree on."""

    def __init__(self, sequence: keras.utils.PyDataset, shuffle: bool, seed: int) -> None:
        super().__init__()
        count = sequence.num_batches
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

    def begin_epoch(self, epoch: int) -> None:
        """Shuffles the batches by `(seed, epoch)`, if they are to be shuffled, and tells the sequence of
        ended epochs.
        """
        for _ in range(self._epochs_begun, epoch):
            self._sequence.on_epoch_end()
        self._epochs_begun = max(self._epochs_begun, epoch)
        if self._shuffle:
            self._order = epoch_order(len(self._order), self._seed, epoch)

    def global_batches(self) -> tf.data.Dataset:
        """Makes the dataset that asks the sequence for its batches, one after the other."""
        if not self.batches:
            return tf.data.Dataset.range(0)

        def read() -> Iterable[Any]:
            for index in self._order:
                yield _as_tuple(self._sequence[int(index)])

        signature = _signature(_as_tuple(self._sequence[0]))
        return tf.data.Dataset.from_generator(read, output_signature=signature)


class GeneratorSource(Source):
    """A Python generator or iterator of batches: read once, in its own order."""

    replayable = False

    def __init__(self, generator: Iterable[Any]) -> None:
        super().__init__()
        self._iterator = iter(generator)
        try:
            self._first: tuple[Any, ...] | None = _as_tuple(next(self._iterator))
        except StopIteration:
            raise ConfigError(
                "The generator passed as x ended before its first batch.",
                "pass a generator that yields (x, y) batches; one that was read to its end cannot be read"
                " again",
            ) from None
        self._signature = _signature(self._first)

    def first_batch(self) -> tuple[Any, ...]:
        """Gives the batch that was read first."""
        batch = keras.tree.map_structure(tf.convert_to_tensor, self._first)
        return batch if self.transform is None else self.transform(batch)

    def global_batches(self) -> tf.data.Dataset:
        """Makes the dataset of what the generator has left."""

        def read() -> Iterable[Any]:
            if self._first is not None:
                first, self._first = self._first, None
                yield first
            for data in self._iterator:
                yield _as_tuple(data)

        return tf.data.Dataset.from_generator(read, output_signature=self._signature)


def ranks_of(spec: Any) -> tuple[int | None, ...]:
    """Gives the number of dimensions of each tensor, which a traced function cannot leave open."""
    return tuple(leaf.shape.rank for leaf in keras.tree.flatten(spec))


def empty_data(what: str) -> ConfigError:
    """Gives the error for data without a row.

    Args:
        what: Which data.
    """
    return ConfigError(
        f"The {what} is empty: not one batch could be read from it.",
        "pass data with at least one row; if it comes from files, check that their pattern matches any",
    )


def parts_of_replicas(
    source: Source, replicas: Sequence[int], total_replicas: int, fingerprint: bool
) -> tf.data.Dataset:
    """Gives the current epoch as the parts that the replicas of this task work on.

    Args:
        source: The data.
        replicas: Global numbers of this task's replicas.
        total_replicas: Replicas in the whole job.
        fingerprint: Whether to compute a number from each global batch's labels (or inputs, where there are
            none), so that tasks can notice that they read different rows.

    Returns:
        A dataset of `(parts, fingerprint)`: a tuple with one `Part` for each of `replicas`, and a float64
        scalar.
    """

    def split(*data: Any) -> tuple[tuple[Part, ...], tf.Tensor]:
        parts = tuple(take_part(data, total_replicas, replica) for replica in replicas)
        return parts, _fingerprint(data) if fingerprint else tf.constant(0.0, tf.float64)

    def finish(dataset: tf.data.Dataset) -> tf.data.Dataset:
        return dataset.map(split, num_parallel_calls=1).prefetch(4)

    return source.pipeline(("parts", *replicas, total_replicas, fingerprint), finish)


def _fingerprint(data: tuple[Any, ...]) -> tf.Tensor:
    """Hashes the labels of a batch to a number below 2**31, so that sums over many steps stay exact."""
    leaves = keras.tree.flatten(data[1] if len(data) > 1 else data[0])
    text = tf.strings.join([tf.io.serialize_tensor(leaf) for leaf in leaves if isinstance(leaf, tf.Tensor)])
    return tf.cast(tf.strings.to_hash_bucket_fast(text, 2**31 - 1), tf.float64)


def _as_tuple(data: Any) -> tuple[Any, ...]:
    """Reads `x`, `(x,)`, `(x, y)` or `(x, y, sample_weight)` as a tuple without the parts that are None.

    Lists become tuples, since tf.data would stack their tensors into one.
    """
    data = keras.tree.lists_to_tuples(data)
    while isinstance(data, tuple) and len(data) == 1:
        data = data[0]
    if not isinstance(data, tuple):
        return (data,)
    if len(data) > 3:
        raise ConfigError(
            f"A batch must be x, (x, y) or (x, y, sample_weight); received a tuple of {len(data)} parts.",
            "wrap several inputs or outputs in a dict or a nested tuple",
        )
    given = keras.tree.lists_to_tuples(tuple(part for part in data if part is not None))
    if any(part is None for part in data[: len(given)]):
        raise ConfigError("A batch has a sample_weight but no y.", "yield (x, y, sample_weight)")
    return given


def _as_tensor(array: Any) -> tf.Tensor:
    """Turns one array into a tensor on the CPU; floats get Keras's float type, as in Keras's own `fit`."""
    if not isinstance(array, tf.Tensor | tf.SparseTensor | tf.RaggedTensor):
        array = np.asarray(array)
        if array.dtype == object:
            raise ConfigError(
                f"An input array holds Python objects (dtype object, shape {array.shape}), not numbers or"
                " strings.",
                "convert it first, for example with .astype('float32') or .astype(str)",
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


def _require_plain_tensors(spec: Any) -> None:
    for leaf in keras.tree.flatten(spec):
        if not isinstance(leaf, tf.TensorSpec):
            raise ConfigError(
                f"The data holds {type(leaf).__name__.removesuffix('Spec')}s, which cannot be divided over "
                f"replicas: {leaf}.",
                "convert them, for example with dataset.map(lambda x, y: (x.to_tensor(), y))",
            )


def _signature(data: tuple[Any, ...]) -> Any:
    """Gives the types of a batch with the number of rows left open."""

    def spec(leaf: Any) -> tf.TensorSpec:
        tensor = tf.convert_to_tensor(leaf)
        return tf.TensorSpec((None, *tensor.shape[1:]), tensor.dtype)

    return keras.tree.map_structure(spec, data)

"""Picks the source for whatever the user passed to `fit`, `evaluate` or `predict`."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tfdist.data.dataset_fn import DataContext, DatasetFnSource
from tfdist.data.indexed import IndexedSource
from tfdist.data.readers.stream import Stream
from tfdist.data.source import Source
from tfdist.data.streams import DatasetSource, IterableSource, SequenceSource
from tfdist.data.table import ArrayTable, Table
from tfdist.errors import ConfigError
from tfdist.problems import is_whole

DEFAULT_BATCH_SIZE = 32


def make_source(
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    *,
    batch_size: int | None = None,
    shuffle: bool = False,
    seed: int = 0,
    class_weight: Mapping[int, float] | None = None,
    context: DataContext | None = None,
    replicas: Sequence[int] = (0,),
) -> Source:
    """Reads data as Keras `fit` would.

    Args:
        x: Arrays (one, or a list or dict of them), a `tf.data.Dataset` or `keras.utils.PyDataset` that yields
            global batches, a generator or another iterable of global batches, such as a `grain` loader, a
            `dataset_fn` that makes the pipeline of one task, or what a reader of files gives.
        y: Labels, for arrays only.
        sample_weight: One weight per row, for arrays only.
        batch_size: Rows in a global batch, for arrays and for a `dataset_fn`; 32 when left out.
        shuffle: Whether to shuffle arrays and the batches of a `PyDataset`.
        seed: Seed of that shuffle.
        class_weight: Weight of each class, by its index; for a single output.
        context: Which of the tasks that read data this is, for a `dataset_fn`; left out: the only one.
        replicas: Global numbers of this task's replicas, for a `dataset_fn`.

    Returns:
        The source.

    Raises:
        ConfigError: Where the arguments do not go together.
    """
    if x is None:
        raise ConfigError(
            "No data was given: x is None.", "pass arrays, a tf.data.Dataset or a PyDataset as x"
        )
    source: Source
    if isinstance(x, Source):
        _refuse_with_rows(x, y=y, sample_weight=sample_weight)
        if batch_size not in (None, x.rows_per_batch):
            raise ConfigError(
                f"global_batch_size={batch_size} was given, but this data has batches of {x.rows_per_batch}.",
                "leave global_batch_size out",
            )
        source = x
    elif isinstance(x, Table):
        _refuse_with_rows(x, y=y, sample_weight=sample_weight)
        source = IndexedSource(x, _checked_batch_size(batch_size), shuffle=shuffle, seed=seed)
    elif isinstance(x, Stream):
        _refuse_with_rows(x, y=y, sample_weight=sample_weight)
        told = replace(context or DataContext(), global_batch_size=_checked_batch_size(batch_size), seed=seed)
        source = x.source(told, replicas, shuffle)
    elif is_dataset_fn(x):
        _refuse_with_batched_input(x, y=y, sample_weight=sample_weight)
        told = replace(context or DataContext(), global_batch_size=_checked_batch_size(batch_size), seed=seed)
        source = DatasetFnSource(x, told, replicas)
    elif is_batched(x):
        _refuse_with_batched_input(x, y=y, sample_weight=sample_weight, batch_size=batch_size)
        if isinstance(x, tf.data.Dataset):
            source = DatasetSource(x)
        elif isinstance(x, keras.utils.PyDataset):
            source = SequenceSource(x, x.num_batches, shuffle, seed)
        elif hasattr(x, "__getitem__") and hasattr(x, "__len__"):
            source = SequenceSource(x, len(x), shuffle, seed)
        else:
            source = IterableSource(x)
    else:
        data = keras.tree.lists_to_tuples(tuple(part for part in (x, y, sample_weight) if part is not None))
        if y is None and sample_weight is not None:
            raise ConfigError("sample_weight was given without y.", "pass y as well")
        if sample_weight is not None:
            _require_numbers(sample_weight)
        source = IndexedSource(ArrayTable(data), _checked_batch_size(batch_size), shuffle=shuffle, seed=seed)
    if class_weight is not None:
        source.transform = _class_weight_transform(class_weight)
    return source


def _require_numbers(sample_weight: Any) -> None:
    for weights in keras.tree.flatten(sample_weight):
        dtype = tf.as_dtype(weights.dtype) if isinstance(weights, tf.Tensor) else None
        if dtype == tf.string or (dtype is None and np.asarray(weights).dtype.kind not in "fiub"):
            raise ConfigError(
                f"sample_weight must hold numbers; received {weights!r:.200}.", "give each row a float"
            )


def unpack_data(data: Any) -> tuple[Any, Any, Any]:
    """Reads data given as one thing: a tuple `(x, y[, sample_weight])`, or anything `x` may be.

    A list is several inputs, never inputs with labels.
    """
    if isinstance(data, tuple) and 1 <= len(data) <= 3:
        x, y, sample_weight = (*data, None, None)[:3]
        return x, y, sample_weight
    return data, None, None


def is_dataset_fn(x: Any) -> bool:
    """Tells whether data is a function that makes the pipeline of one task."""
    return callable(x) and not hasattr(x, "__array__") and not isinstance(x, type) and not _is_iterable(x)


def size_for(x: Any, batch_size: int | None) -> int | None:
    """Gives the size of batches to data that has no batches of its own, and None to other data."""
    return None if is_batched(x) else batch_size


def is_batched(x: Any) -> bool:
    """Tells whether data comes in batches of its own: a dataset, a `PyDataset`, a generator or another
    iterable.
    """
    if isinstance(x, tf.data.Dataset | keras.utils.PyDataset | Iterator):
        return True
    # What Keras takes for arrays is iterable as well.
    return _is_iterable(x) and not isinstance(x, tuple | list | Mapping | str) and not hasattr(x, "__array__")


def _is_iterable(x: Any) -> bool:
    return isinstance(x, Iterable) or (hasattr(x, "__getitem__") and hasattr(x, "__len__"))


def _refuse_with_batched_input(x: Any, **given: Any) -> None:
    kind = "tf.data.Dataset" if isinstance(x, tf.data.Dataset) else type(x).__name__
    for name, value in given.items():
        if value is not None:
            shown = name if name != "batch_size" else "global_batch_size"
            raise ConfigError(
                f"{shown} was given together with a {kind}, which yields whole batches by itself.",
                f"leave {shown} out and let the {kind} yield (x, y[, sample_weight]) global batches",
            )


def _refuse_with_rows(x: Any, **given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise ConfigError(
                f"{name} was given together with rows of files ({type(x).__name__}), which have labels and"
                " weights of their own.",
                f"leave {name} out, and name the labels and weights to the reader",
            )


def _checked_batch_size(batch_size: int | None) -> int:
    if batch_size is None:
        return DEFAULT_BATCH_SIZE
    if not is_whole(batch_size, 1):
        raise ConfigError(
            f"global_batch_size must be a positive whole number; received {batch_size!r}.",
            "for example global_batch_size=64",
        )
    return int(batch_size)


def _class_weight_transform(class_weight: Mapping[int, float]) -> Any:
    """Gives a transform that turns class weights into sample weights."""
    classes = sorted(class_weight)
    if not classes or any(not is_whole(index, 0) for index in classes):
        raise ConfigError(
            f"class_weight must map class indices (0, 1, …) to weights; received {dict(class_weight)!r}.",
            "for example class_weight={0: 1.0, 1: 5.0}",
        )
    for index, weight in class_weight.items():
        if isinstance(weight, bool) or not isinstance(weight, numbers.Real) or not math.isfinite(weight):
            raise ConfigError(
                f"class_weight[{index}] must be a finite number; received {weight!r}.",
                "for example class_weight={0: 1.0, 1: 5.0}",
            )
    table = [float(class_weight.get(index, 1.0)) for index in range(classes[-1] + 1)]

    def add_weights(data: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(data) != 2 or not isinstance(data[1], tf.Tensor):
            raise ConfigError(
                "class_weight needs data with a single y and no sample_weight.",
                "use sample_weight alone for several outputs or per-row weights",
            )
        labels = data[1]
        if labels.shape.rank is not None and labels.shape.rank > 1 and labels.shape[-1] != 1:
            labels = tf.argmax(labels, axis=-1)
        elif labels.shape.rank is not None and labels.shape.rank > 1:
            labels = tf.squeeze(labels, axis=-1)
        labels = tf.cast(labels, tf.int64)
        weights = tf.constant(table, dtype=keras.config.floatx())
        inside = tf.clip_by_value(labels, 0, len(table) - 1)
        return (*data, tf.where(labels == inside, tf.gather(weights, inside), 1.0))

    return add_weights

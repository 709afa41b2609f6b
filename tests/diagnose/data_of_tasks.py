"""Data for the report to look at, as a user's module has it: right, and with mistakes that are often made."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

import tfdist

ROWS = 41


def arrays() -> tuple[np.ndarray, np.ndarray]:
    """Gives rows, each with its number as the label. The last two are equal."""
    labels = np.minimum(np.arange(ROWS), ROWS - 2)
    return np.repeat(labels[:, None].astype("float32"), 64, axis=1), labels


def rows() -> tf.data.Dataset:
    """Gives the same, one after the other."""
    return tf.data.Dataset.from_tensor_slices(arrays())


def in_memory() -> dict[str, Any]:
    return {"train": arrays(), "validation": tuple(array[:5] for array in arrays())}


def sharded() -> dict[str, Any]:
    def dataset_fn(context: tfdist.DataContext) -> tf.data.Dataset:
        return context.shard(rows()).batch(context.batch_size)

    return {"train": dataset_fn}


def forgets_to_shard() -> dict[str, Any]:
    return {"train": lambda context: rows().batch(context.batch_size)}


def drops_rows() -> dict[str, Any]:
    def dataset_fn(context: tfdist.DataContext) -> tf.data.Dataset:
        each = ROWS // context.world_size
        return rows().skip(context.rank * each).take(each).batch(context.batch_size)

    return {"train": dataset_fn}


def changes_rows() -> dict[str, Any]:
    def dataset_fn(context: tfdist.DataContext) -> tf.data.Dataset:
        changed = context.shard(rows()).map(lambda x, y: (x + tf.random.normal((64,)), y))
        return changed.batch(context.batch_size)

    return {"train": dataset_fn}


def shuffled() -> dict[str, Any]:
    return {"train": rows().shuffle(ROWS, seed=1).batch(12)}


def endless() -> dict[str, Any]:
    return {"train": rows().repeat().batch(12)}


def once() -> dict[str, Any]:
    return {"train": iter([arrays()])}

"""What data comes as."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import pandas
import tensorflow as tf

from tests.parity import data, models
from tests.parity.problem import RESULT, Problem, compiled
from tests.parity.problems.losses import two

BATCH = 16


def dataset(rows: int = 57) -> tf.data.Dataset:
    """Gives global batches."""
    return tf.data.Dataset.from_tensor_slices(data.regression(rows)).batch(BATCH)


def unknown_cardinality() -> tf.data.Dataset:
    """Gives as many rows as a filter leaves, which nobody knows beforehand."""
    return dataset(80).unbatch().filter(lambda x, y: x[0] > -0.5).batch(BATCH)


def weighted_dataset() -> tf.data.Dataset:
    """Gives batches with weights."""
    return tf.data.Dataset.from_tensor_slices(data.weighted(49)).batch(BATCH)


def shuffled_dataset() -> tf.data.Dataset:
    """Gives other batches in each epoch, the same in every task."""
    return dataset().unbatch().shuffle(20, seed=5).batch(BATCH)


class Batches(keras.utils.PyDataset):
    """Batches by index."""

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = data.regression(57)
        return x[index * BATCH :][:BATCH], y[index * BATCH :][:BATCH]


def generator() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields twelve batches, three of them ragged."""
    for _ in range(3):
        yield from (Batches()[index] for index in range(4))


def frame() -> dict[str, Any]:
    """Gives a pandas DataFrame and a Series."""
    x, y = data.regression(57)
    return {"x": pandas.DataFrame(x, columns=list("abcd")), "y": pandas.Series(y[:, 0])}


def named_columns() -> Any:
    """A model with two inputs by name and one output."""
    given = {name: keras.Input((4,), name=name) for name in ("left", "right")}
    return keras.Model(given, keras.layers.Dense(1)(keras.layers.Concatenate()(list(given.values()))))


def named_inputs(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Gives a dict of inputs and one output."""
    x, y = two(rows, seed)
    return x, y["number"]


def pixels(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Gives whole numbers from 0 to 255."""
    x, y = data.regression(rows, seed)
    return np.clip(x * 60 + 128, 0, 255).astype("uint8"), y


def pixel_model() -> Any:
    """A network that scales its inputs itself."""
    given = keras.Input((4,), dtype="uint8")
    return keras.Model(given, models.dense()(keras.layers.Rescaling(1 / 255)(given)))


def source(name: str, x: Callable[[], Any], **arguments: Any) -> Problem:
    """A problem that differs from others in what `x` is."""
    return Problem(name, lambda: compiled(models.dense(), metrics=["mae"]), lambda: {"x": x()}, **arguments)


# Keras reads a batch to build the model with, which a generator or a shuffle does not give again; it also
# shuffles by other numbers than we do. So it is no reference for those of an empty `keras_agrees_in`.
PROBLEMS = [
    source(
        "dataset",
        dataset,
        feature="a `tf.data.Dataset`",
    ),
    # Keras counts a step at the end of such data.
    source(
        "dataset_of_unknown_length",
        unknown_cardinality,
        keras_agrees_in=RESULT[1:],
        feature="a dataset of unknown length",
    ),
    source(
        "dataset_with_weights",
        weighted_dataset,
        narrow=True,
        feature="a dataset with sample weights",
    ),
    source(
        "dataset_that_shuffles",
        shuffled_dataset,
        keras_agrees_in=(),
        feature="a dataset that shuffles by a seed",
    ),
    source(
        "sequence",
        Batches,
        narrow=True,
        feature="a `PyDataset`",
    ),
    source(
        "sequence_in_another_order",
        Batches,
        fit={"shuffle": True},
        keras_agrees_in=(),
        narrow=True,
        feature="a `PyDataset`, shuffled",
    ),
    source(
        "generator",
        generator,
        fit={"steps_per_epoch": 5},
        keras_agrees_in=(),
        feature="a Python generator",
    ),
    Problem(
        "frame",
        lambda: compiled(models.dense()),
        frame,
        narrow=True,
        feature="a pandas DataFrame",
    ),
    Problem(
        "dict_of_inputs",
        lambda: compiled(named_columns()),
        lambda: dict(zip(("x", "y"), named_inputs(57), strict=True)),
        lambda: named_inputs(21, seed=1),
        narrow=True,
        feature="arrays in a dict",
    ),
    Problem(
        "tensors",
        lambda: compiled(models.dense()),
        lambda: dict(zip(("x", "y"), map(tf.constant, data.regression(49)), strict=True)),
        narrow=True,
        feature="tensors",
    ),
    Problem(
        "whole_numbers",
        lambda: compiled(pixel_model()),
        lambda: dict(zip(("x", "y"), pixels(57), strict=True)),
        lambda: pixels(21, seed=1),
        narrow=True,
        feature="uint8 pixels",
    ),
]

"""Trains where tasks have different numbers of rows, and on one device with the same global batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import tfdist

BATCH = 12
ROWS = (24, 8, 0)  # of each task; how many of them any task can be asked to tell is unknown


def rows_of(rank: int, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gives the rows of a task; all of them are larger than 1."""
    numbers = np.arange(first + 100 * rank, first + 100 * rank + ROWS[rank], dtype="float32")[:, None]
    return 2 + numbers / 50, np.cos(numbers)


def build() -> keras.Model:
    """Builds a model whose output and gradient are infinite or no number for rows of zeros."""
    given = keras.Input((1,))
    logarithm = keras.layers.Lambda(keras.ops.log)(given)
    hidden = keras.layers.Dense(4, activation="tanh")(logarithm)
    model = keras.Model(given, keras.layers.Dense(1)(hidden))
    model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"])
    return model


def dataset_fn(context: tfdist.DataContext) -> tf.data.Dataset:
    """Gives the rows of one task as a stream that nobody knows the length of."""
    data = tf.data.Dataset.from_tensor_slices(rows_of(context.rank))
    return data.filter(lambda x, y: x[0] > 0).batch(context.batch_size)


def joined(tasks: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields the global batches that the tasks' batches make up."""
    size = BATCH // tasks
    for step in range(max(ROWS) // size + 1):
        own = [[array[step * size :][:size] for array in rows_of(rank)] for rank in range(tasks)]
        if sum(len(x) for x, _ in own):
            yield np.concatenate([x for x, _ in own]), np.concatenate([y for _, y in own])


def train(strategy: Any, x: Any, **arguments: Any) -> dict[str, Any]:
    """Trains and evaluates; gives weights, logs and what the evaluation counted."""
    keras.utils.set_random_seed(1)
    trainer = tfdist.Trainer(build, strategy, seed=1)
    history = trainer.fit(x, epochs=3, verbose=0, validation_data=x, **arguments)
    evaluated = trainer.evaluate(x, verbose=0, **arguments)
    weights = [weight.numpy().tolist() for weight in trainer.model.weights]
    return {"weights": weights, "logs": history.history, "evaluated": evaluated}


def train_apart(strategy: Any) -> dict[str, Any]:
    """Trains with rows of each task's own."""
    return train(strategy, dataset_fn, global_batch_size=BATCH)


def train_together(tasks: int) -> dict[str, Any]:
    """Trains on one device, on the global batches that so many tasks make up."""
    spec = tf.TensorSpec((None, 1))
    whole = tf.data.Dataset.from_generator(lambda: joined(tasks), output_signature=(spec, spec))
    return train(tfdist.make_strategy("one_device"), whole)

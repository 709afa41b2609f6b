"""Models and made-up data for measuring speed. The labels follow from the images, so that the loss falls."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

SEED = 1


@dataclass(frozen=True)
class Workload:
    """What is trained.

    Attributes:
        build: Builds the model, each time with the same initial weights.
        image_shape: Shape of one row of the input.
        rows: Rows of an epoch, unless asked otherwise.
        batch_size: Rows of an update, unless asked otherwise.
        validation_rows: Rows to validate on after each epoch.
        epochs_per_turn: Epochs that are measured together, since one is too short.
    """

    build: Callable[[], Any]
    image_shape: tuple[int, ...]
    rows: int
    batch_size: int = 256
    validation_rows: int = 0
    epochs_per_turn: int = 1


def make_data(workload: Workload, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Makes up images, float32, and labels from 0 to 9, int32."""
    random = np.random.default_rng(SEED)
    images = random.standard_normal((rows, *workload.image_shape), dtype=np.float32)
    directions = random.standard_normal((np.prod(workload.image_shape), 10), dtype=np.float32)
    labels = np.argmax(images.reshape(rows, -1) @ directions, axis=1).astype(np.int32)
    return images, labels


def build_mlp() -> Any:
    """Builds 784-1024-1024-10."""
    import keras

    keras.utils.set_random_seed(SEED)
    return keras.Sequential(
        [
            keras.Input((784,)),
            keras.layers.Dense(1024, activation="relu"),
            keras.layers.Dense(1024, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def build_cnn() -> Any:
    """Builds two convolutions of 32 and 64 channels and a dense layer of 128."""
    import keras

    keras.utils.set_random_seed(SEED)
    return keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            keras.layers.Conv2D(32, 3, activation="relu"),
            keras.layers.Conv2D(64, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def build_digits() -> Any:
    """Builds 64-128-128-10, as in `tfdist.examples.digits`."""
    import keras

    keras.utils.set_random_seed(SEED)
    return keras.Sequential(
        [
            keras.Input((64,)),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(128, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


WORKLOADS = {
    "mlp": Workload(build_mlp, (784,), rows=20480),
    "cnn": Workload(build_cnn, (28, 28, 1), rows=5120),
    # As many rows as there are digits: 23 steps an epoch, so that what an epoch costs besides them shows.
    "digits": Workload(
        build_digits, (64,), rows=1472, batch_size=64, validation_rows=384, epochs_per_turn=10
    ),
}

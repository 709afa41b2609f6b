"""Handwritten digits: 1,797 real images of 8 x 8 pixels, shipped with scikit-learn, and a small network for
them.

The images are from the UCI repository (E. Alpaydin, C. Kaynak: Optical Recognition of Handwritten Digits,
1998).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from tfdist.errors import ConfigError

if TYPE_CHECKING:
    import keras

VALIDATION_ROWS = 360


def load(split_seed: int = 0) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Loads the images and divides them at random.

    Args:
        split_seed: Seed of the division.

    Returns:
        `train` with 1,437 and `validation` with 360 rows, each `(images, labels)`: float32 of shape `(rows,
        64)` from 0 to 1, and int32 of shape `(rows,)` from 0 to 9.

    Example:
        >>> [images.shape for images, labels in load().values()]
        [(1437, 64), (360, 64)]
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise ConfigError(
            "The digits come with scikit-learn, which is not installed.", "pip install 'tfdist[examples]'"
        ) from error
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(split_seed).permutation(len(images))
    images = (images[order] / 16.0).astype("float32")
    labels = labels[order].astype("int32")
    return {
        "train": (images[VALIDATION_ROWS:], labels[VALIDATION_ROWS:]),
        "validation": (images[:VALIDATION_ROWS], labels[:VALIDATION_ROWS]),
    }


def build_model(hidden: int = 128, dropout: float = 0.0) -> keras.Model:
    """Builds a network of two hidden layers; it is not compiled.

    Args:
        hidden: Units of each hidden layer.
        dropout: Fraction of units to drop while training.

    Returns:
        A model from `(rows, 64)` to probabilities `(rows, 10)`.

    Example:
        >>> build_model(hidden=32).output_shape
        (None, 10)
    """
    import keras

    layers: list[Any] = [keras.Input((64,), name="image")]
    for _ in range(2):
        layers.append(keras.layers.Dense(hidden, activation="relu"))
        if dropout:
            layers.append(keras.layers.Dropout(dropout))
    layers.append(keras.layers.Dense(10, activation="softmax", name="digit"))
    return keras.Sequential(layers, name="digits")

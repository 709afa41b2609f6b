"""Small data for the problems: the same in every process."""

from __future__ import annotations

import numpy as np

FEATURES = 4
CLASSES = 3
TOKENS = 11
LENGTH = 6
WORDS = np.array(["sea", "sky", "sun", "ice", "fog"])


def regression(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gives `x` of shape `(rows, 4)` and `y` of shape `(rows, 1)`, whose scale grows from row to row.

    It grows so that rows that are weighed wrongly show.
    """
    random = np.random.default_rng(seed)
    x = random.normal(size=(rows, FEATURES)) * np.linspace(0.5, 1.5, rows)[:, None]
    y = np.sin(x.sum(axis=1, keepdims=True)) + np.linspace(-1, 1, rows)[:, None]
    return x.astype("float32"), y.astype("float32")


def classification(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gives `x` of shape `(rows, 4)` and classes from 0 to 2, of shape `(rows,)`."""
    x, y = regression(rows, seed)
    return x, np.digitize(y[:, 0], [-0.6, 0.6]).astype("int32")


def binary(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gives `x` of shape `(rows, 4)` and labels 0 or 1, of shape `(rows, 1)`."""
    x, y = regression(rows, seed)
    return x, (y > 0).astype("float32")


def weights(rows: int, seed: int = 0) -> np.ndarray:
    """Gives weights from 0 to 3 of very different sizes, some of them 0, of shape `(rows,)`."""
    random = np.random.default_rng(seed + 10)
    values = random.uniform(0, 3, rows) * random.integers(0, 2, rows)
    values[:1] = 2.0
    return values.astype("float32")


def weighted(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gives `regression` with `weights`."""
    return (*regression(rows, seed), weights(rows, seed))


def sequences(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gives token ids of shape `(rows, 6)`, padded with 0 to any length, and a number for each token."""
    random = np.random.default_rng(seed)
    tokens = random.integers(1, TOKENS, (rows, LENGTH))
    lengths = random.integers(1, LENGTH + 1, rows)
    tokens[np.arange(LENGTH)[None] >= lengths[:, None]] = 0
    targets = np.cos(tokens + np.arange(LENGTH))[..., None] + np.linspace(-1, 1, rows)[:, None, None]
    return tokens.astype("int32"), targets.astype("float32")


def texts(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Gives words of shape `(rows, 2)` and a number for each row."""
    picked = np.random.default_rng(seed).integers(0, len(WORDS), (rows, 2))
    return WORDS[picked], picked.sum(axis=1, keepdims=True).astype("float32") / 4

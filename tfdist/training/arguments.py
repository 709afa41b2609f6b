"""Checks of what `Trainer` is called with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import keras

from tfdist.data.position import Position
from tfdist.data.source import Source
from tfdist.errors import ConfigError
from tfdist.problems import is_whole
from tfdist.step import keras_private


def require_positive(name: str, value: Any) -> None:
    """Refuses what is not a positive whole number."""
    if not is_whole(value, 1):
        raise ConfigError(
            f"{name} must be a positive whole number; received {value!r}.", f"for example {name}=1"
        )


def require_positive_if_given(**numbers: Any) -> None:
    """Refuses numbers that are given and not positive whole numbers."""
    for name, value in numbers.items():
        if value is not None:
            require_positive(name, value)


def checked_seed(seed: Any) -> int:
    """Gives a seed as an int, after checking it."""
    if not is_whole(seed, 0):
        raise ConfigError(
            f"seed must be a whole number of at least 0; received {seed!r}.", "for example seed=7"
        )
    return int(seed)


def split_arrays(x: Any, y: Any, sample_weight: Any, split: float) -> tuple[Any, Any]:
    """Takes the last `split` of the rows for validation, as Keras does."""
    if not isinstance(split, int | float) or not 0 < split < 1:
        raise ConfigError(f"validation_split must be between 0 and 1; received {split!r}.", "for example 0.1")
    data = tuple(part for part in (x, y, sample_weight) if part is not None)
    leaves = keras.tree.flatten(data)
    if not all(hasattr(leaf, "__getitem__") and hasattr(leaf, "shape") for leaf in leaves):
        raise ConfigError(
            f"validation_split works with arrays only; received x of type {type(x).__name__}.",
            "pass validation_data instead",
        )
    rows = len(leaves[0])
    boundary = int(rows * (1 - split))
    if not 0 < boundary < rows:
        raise ConfigError(
            f"validation_split={split} of {rows} rows leaves nothing to train or to validate on.",
            "pass more rows",
        )

    def part(begin: int, end: int) -> Any:
        return keras.tree.map_structure(
            lambda leaf: None if leaf is None else leaf[begin:end], (x, y, sample_weight)
        )

    return part(0, boundary), tuple(piece for piece in part(boundary, rows) if piece is not None)


def refuse_without_validation(steps: int | None, batch_size: int | None, frequency: Any) -> None:
    """Refuses arguments of a validation that is not asked for."""
    for name, value in (
        ("validation_steps", steps),
        ("validation_batch_size", batch_size),
        ("validation_freq", None if frequency == 1 else frequency),
    ):
        if value is not None:
            raise ConfigError(
                f"{name}={value} was given, but no validation_data.",
                f"pass validation_data or validation_split, or leave {name} out",
            )


def validates_after(frequency: int | Sequence[int]) -> Callable[[int], bool]:
    """Gives what tells whether to validate after an epoch, counted from 0."""
    if isinstance(frequency, int) and not isinstance(frequency, bool) and frequency > 0:
        return lambda epoch: (epoch + 1) % frequency == 0
    if isinstance(frequency, Sequence) and not isinstance(frequency, str):
        wanted = set(frequency)
        if not wanted or not all(isinstance(epoch, int) and epoch > 0 for epoch in wanted):
            raise ConfigError(
                f"validation_freq lists epochs, counted from 1; received {frequency!r}.", "for example [1, 5]"
            )
        return lambda epoch: epoch + 1 in wanted
    raise ConfigError(
        f"validation_freq must be a positive number of epochs or a list of epochs; received {frequency!r}.",
        "for example validation_freq=1",
    )


def checked_start(
    given: Position | Mapping[str, Any] | None, initial_epoch: int, epochs: int, steps_per_epoch: int | None
) -> Position | None:
    """Gives the position to start at, after checking that it is in one of the epochs."""
    if given is None:
        return None
    start = given if isinstance(given, Position) else Position.from_dict(given)
    if initial_epoch not in (0, start.epoch):
        raise ConfigError(
            f"initial_epoch={initial_epoch} was given together with a position in epoch {start.epoch}.",
            "leave initial_epoch out",
        )
    if start.epoch >= epochs:
        raise ConfigError(
            f"The position is in epoch {start.epoch}, counted from 0, and epochs={epochs} ends before.",
            f"pass epochs={start.epoch + 1} or more, the number of epochs in all",
        )
    if steps_per_epoch is not None and start.step > steps_per_epoch:
        raise ConfigError(
            f"The position is after {start.step} steps of an epoch, and steps_per_epoch={steps_per_epoch}.",
            "pass the steps_per_epoch that the position was saved with",
        )
    return start


def require_labels(model: keras.Model, source: Source) -> None:
    """Refuses data without labels for a model that is compiled with a loss of labels."""
    own = any(keras_private.overrides(model, name) for name in ("train_step", "compute_loss"))
    if own or keras_private.compiled_loss(model) is None or source.has_labels:
        return
    raise ConfigError(
        "The model is compiled with a loss of labels, and the data has none: only x was given.",
        "pass y as well; for a model whose layers add their loss, compile it without loss",
    )

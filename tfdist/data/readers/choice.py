"""Which named values of a row are inputs, labels and weight."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Names = str | Sequence[str]


@dataclass(frozen=True)
class Choice:
    """Names of the inputs, the labels and the weight: one name is one tensor, a list is a dict of tensors.

    Attributes:
        inputs: What the model gets.
        labels: What it should give; None where the loss needs none.
        weights: Weight of the row; None where all count alike.
    """

    inputs: Names
    labels: Names | None = None
    weights: str | None = None

    def names(self) -> Iterator[tuple[str, str]]:
        """Gives each argument with each of its names."""
        for argument in ("inputs", "labels", "weights"):
            given = getattr(self, argument)
            for name in [given] if isinstance(given, str) else given or ():
                yield argument, name

    def arrange(self, values: Mapping[str, Any]) -> tuple[Any, ...]:
        """Gives `(x[, y[, sample_weight]])` from values by name."""
        return arranged(
            _pick(self.inputs, values.__getitem__),
            None if self.labels is None else _pick(self.labels, values.__getitem__),
            None if self.weights is None else values[self.weights],
        )


def arranged(x: Any, y: Any = None, weights: Any = None) -> tuple[Any, ...]:
    """Gives `(x[, y[, sample_weight]])` without the parts at the end that are None."""
    return (x, y, weights) if weights is not None else (x, y) if y is not None else (x,)


def _pick(names: Names, value: Callable[[str], Any]) -> Any:
    return value(names) if isinstance(names, str) else {name: value(name) for name in names}

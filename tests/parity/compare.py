"""How two results differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

TOLERANCE = 1e-5


def differences(found: Any, expected: Any, where: str = "", tolerance: float = TOLERANCE) -> list[str]:
    """Gives each place in which two results differ by more than the tolerance, one line each.

    Numbers may differ by `tolerance`, or by that part of the number where it is larger than 1.
    """
    lines = []
    for place, one, other in _pairs(found, expected, where):
        if isinstance(one, str):
            lines.append(f"{place}: {one}")
        elif not np.isfinite(one).all():
            lines.append(f"{place}: not finite: {one}")
        elif one.size and not (beyond := _beyond(one, other)).max() <= tolerance:  # nor is NaN
            at = np.unravel_index(np.argmax(beyond), beyond.shape)
            lines.append(f"{place}: {one[at]!r} instead of {other[at]!r} at {[int(i) for i in at]}")
    return lines


def largest_difference(found: Any, expected: Any) -> float:
    """Gives the largest difference of two results in the measure of `differences`; infinity where their forms
    differ.
    """
    largest = 0.0
    for _, one, other in _pairs(found, expected, ""):
        if isinstance(one, str) or not (np.isfinite(one).all() and np.isfinite(other).all()):
            return float("inf")
        largest = max(largest, float(_beyond(one, other).max(initial=0.0)))
    return largest


def _beyond(found: np.ndarray, expected: np.ndarray) -> np.ndarray:
    return np.abs(found - expected) / np.maximum(1.0, np.abs(expected))


def _pairs(found: Any, expected: Any, where: str) -> Iterator[tuple[str, Any, Any]]:
    """Gives the arrays of numbers of two results side by side, each with its place; a text instead of the
    first one where there is nothing to compare.
    """
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping) or set(found) != set(expected):
            keys = sorted(found) if isinstance(found, Mapping) else found
            yield where, f"has {keys} instead of {sorted(expected)}", None
            return
        for key in expected:
            yield from _pairs(found[key], expected[key], f"{where}/{key}")
        return
    if isinstance(expected, list) and _is_nested(expected):
        if not isinstance(found, list) or len(found) != len(expected):
            yield where, "has another length or form", None
            return
        for index, pair in enumerate(zip(found, expected, strict=True)):
            yield from _pairs(*pair, f"{where}[{index}]")
        return
    if isinstance(found, list) and _is_nested(found):
        yield where, "has another form", None
        return
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape:
        yield where, f"shape {found.shape} instead of {expected.shape}", None
    elif expected.dtype.kind in "fiub":
        yield where, found.astype(float), expected.astype(float)
    elif not np.array_equal(found, expected):
        yield where, f"{found} instead of {expected}", None


def _is_nested(values: list[Any]) -> bool:
    """Tells whether a list holds dicts, or lists of different shapes, and so is no array."""
    if any(isinstance(entry, Mapping) for entry in values):
        return True
    try:
        np.asarray(values)
    except ValueError:
        return True
    return False

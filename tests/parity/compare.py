"""How two results differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

TOLERANCE = 1e-5


def differences(found: Any, expected: Any, where: str = "", tolerance: float = TOLERANCE) -> list[str]:
    """Gives each place in which two results differ by more than the tolerance, one line each.

    Numbers may differ by `tolerance`, or by that part of the number where it is larger than 1.
    """
    if isinstance(expected, Mapping):
        if not isinstance(found, Mapping) or set(found) != set(expected):
            keys = sorted(found) if isinstance(found, Mapping) else found
            return [f"{where}: has {keys} instead of {sorted(expected)}"]
        return [
            line
            for key in expected
            for line in differences(found[key], expected[key], f"{where}/{key}", tolerance)
        ]
    if isinstance(expected, list) and any(isinstance(entry, Mapping | list) for entry in expected):
        if not isinstance(found, list) or len(found) != len(expected):
            return [f"{where}: has another length or form"]
        if any(isinstance(entry, Mapping) for entry in expected):
            pairs = enumerate(zip(found, expected, strict=True))
            return [
                line for index, pair in pairs for line in differences(*pair, f"{where}[{index}]", tolerance)
            ]
    return _numbers_differ(found, expected, where, tolerance)


def _numbers_differ(found: Any, expected: Any, where: str, tolerance: float) -> list[str]:
    try:
        found, expected = np.asarray(found), np.asarray(expected)
    except ValueError:  # lists of arrays of different shapes
        if len(found) != len(expected):
            return [f"{where}: has {len(found)} entries instead of {len(expected)}"]
        pairs = enumerate(zip(found, expected, strict=True))
        return [
            line for index, pair in pairs for line in _numbers_differ(*pair, f"{where}[{index}]", tolerance)
        ]
    if found.shape != expected.shape:
        return [f"{where}: shape {found.shape} instead of {expected.shape}"]
    if expected.dtype.kind not in "fiub":
        return [] if np.array_equal(found, expected) else [f"{where}: {found} instead of {expected}"]
    if not np.isfinite(found).all():
        return [f"{where}: not finite: {found}"]
    beyond = np.abs(found - expected) - tolerance * np.maximum(1.0, np.abs(expected))
    if found.size == 0 or beyond.max() <= 0:
        return []
    at = np.unravel_index(np.argmax(beyond), beyond.shape)
    return [f"{where}: {found[at]!r} instead of {expected[at]!r} at {[int(i) for i in at]}"]

"""Prints measurements side by side, and writes them to a file."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lays out a table in Markdown, its columns aligned: the first to the left, the others to the right."""
    lines = [list(head), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]

    def layout(line: Sequence[str]) -> str:
        first, *others = (
            cell.rjust(width) if column else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        return "| " + " | ".join([first, *others]) + " |"

    rule = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    return "\n".join([layout(lines[0]), layout(rule), *map(layout, lines[1:])])


def median_and_spread(values: Sequence[float], digits: int) -> str:
    """Writes a median and the range of the middle half of the values: `14,321 (14,102-14,400)`."""
    low, middle, high = quartiles(values)
    return f"{middle:,.{digits}f} ({low:,.{digits}f}-{high:,.{digits}f})"


def ratios(values: Sequence[float], others: Sequence[float]) -> list[float]:
    """Divides round by round, so that a slow moment of the machine slows both sides of a ratio."""
    return [value / other for value, other in zip(values, others, strict=True)]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Gives the lower quartile, the median and the upper quartile."""
    if len(values) == 1:
        return values[0], values[0], values[0]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def compared(ours: Sequence[float], speeds: Sequence[float], turns: Sequence[Any]) -> dict[str, Any]:
    """Gives what `--json` holds of a variant: rows per second, turns, and how it compares with ours."""
    return {
        "rows_per_second": speeds,
        "turns": [asdict(turn) for turn in turns],
        "median": quartiles(speeds)[1],
        "tfdist_over_this": quartiles(ratios(ours, speeds))[1],
    }


def write_json(path: Path, benchmark: str, settings: Mapping[str, Any], results: Any) -> None:
    """Writes everything that was measured, with the machine and the versions it was measured on."""
    packages = ("tfdist", "tensorflow", "keras", "tf-keras", "numpy")
    content = {
        "benchmark": benchmark,
        "settings": dict(settings),
        "machine": {
            "cpus": len(os.sched_getaffinity(0)),
            "processor": platform.processor() or platform.machine(),
            "python": platform.python_version(),
            **{name: _version(name) for name in packages},
        },
        "results": results,
    }
    path.write_text(json.dumps(content, indent=1) + "\n")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None

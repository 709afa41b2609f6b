"""How the rows of one global batch are divided: over replicas, then over micro-batches.

Contiguous parts whose sizes differ by one at most, so that joining the parts in order gives the batch back:

    rows 10, 4 replicas:   0 1 | 2 3 4 | 5 6 | 7 8 9
"""

from __future__ import annotations

from typing import Any, TypeVar

Number = TypeVar("Number", int, Any)  # a Python int, or an integer tensor inside a graph


def part_bounds(rows: Number, parts: int, index: Number) -> tuple[Number, Number]:
    """Gives the rows of part `index` when `rows` rows are divided into `parts` parts.

    Args:
        rows: Rows to divide; an int or a scalar integer tensor.
        parts: How many parts.
        index: Which part, from 0.

    Returns:
        The first row of the part and the row after its last one.

    Example:
        >>> [part_bounds(10, 4, index) for index in range(4)]
        [(0, 2), (2, 5), (5, 7), (7, 10)]
    """
    return index * rows // parts, (index + 1) * rows // parts


def batch_count(rows: int, batch_size: int) -> int:
    """Gives the number of batches that hold `rows` rows; the last one may be smaller.

    Example:
        >>> batch_count(57, 16)
        4
    """
    return -(-rows // batch_size)

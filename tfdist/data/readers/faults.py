"""Which row of which file made reading fail. TensorFlow tells only that one did."""

from __future__ import annotations

import weakref
from typing import Any, Protocol

from tfdist.errors import TfdistError


class Readable(Protocol):
    """Rows of files that can be looked through."""

    def find_fault(self, error: Any) -> TfdistError | None:
        """Gives what is wrong with the files, if that may have led to the error."""


_in_use: weakref.WeakSet[Any] = weakref.WeakSet()


def register(rows: Readable) -> None:
    """Remembers rows for as long as they are in use."""
    _in_use.add(rows)


def fault_behind(error: Any) -> TfdistError | None:
    """Gives what is wrong with the files in use, where that may have led to an error of TensorFlow.

    Args:
        error: The `tf.errors.OpError`.
    """
    return next((fault for rows in list(_in_use) if (fault := rows.find_fault(error)) is not None), None)

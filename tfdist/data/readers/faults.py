"""Which row of which file made reading fail. TensorFlow tells only that one did."""

from __future__ import annotations

from typing import Any

from tfdist.data.indexed import IndexedSource
from tfdist.data.readers.stream import Stream
from tfdist.data.table import Table
from tfdist.errors import TfdistError


def fault_behind(error: Any, data: Any) -> TfdistError | None:
    """Gives what is wrong with files, where that may have led to an error of TensorFlow.

    Args:
        error: The `tf.errors.OpError`.
        data: What was read: rows of files, or the source made of them.
    """
    rows = data.table if isinstance(data, IndexedSource) else data
    return rows.find_fault(error) if isinstance(rows, Table | Stream) else None

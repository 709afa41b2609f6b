"""Which row of which file made reading fail. TensorFlow tells only that one did."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from tfdist.data.indexed import IndexedSource
from tfdist.data.readers.stream import Stream
from tfdist.data.source import UNEQUAL_ROWS
from tfdist.data.table import Table
from tfdist.errors import ConfigError


@contextlib.contextmanager
def naming_faults(*data: Any) -> Iterator[None]:
    """Names the file and the row where reading fails inside.

    Args:
        *data: What is read inside: rows of files, sources made of them, or anything else.

    Raises:
        TfdistError: What is wrong with a file, or with a batch.
    """
    try:
        yield
    except tf.errors.OpError as error:
        if UNEQUAL_ROWS in str(error):
            raise ConfigError(
                f"{UNEQUAL_ROWS}.", "give every tensor of a batch one entry per row in its first dimension"
            ) from error
        for each in data:
            rows = each.table if isinstance(each, IndexedSource) else each
            fault = rows.find_fault(error) if isinstance(rows, Table | Stream) else None
            if fault is not None:
                raise fault from error
        raise

"""CSV files, read into memory once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tfdist.data.readers.arrow import column_choice, require_pyarrow, rows_of
from tfdist.data.readers.choice import Names
from tfdist.data.readers.errors import ReaderError
from tfdist.data.readers.files import Patterns, matching_files
from tfdist.data.readers.memory import RowsInMemory


def read_csv(
    files: Patterns,
    inputs: Names | None = None,
    labels: Names | None = None,
    weights: str | None = None,
    *,
    stack: bool = True,
    dtype: str = "float32",
    delimiter: str = ",",
    header: bool = True,
    columns: Sequence[str] | None = None,
) -> RowsInMemory:
    """Reads CSV files into memory, with `pyarrow.csv`.

    Args:
        files: A glob or several; all with the same columns.
        inputs: A column, or a list of them. Left out: all columns that are neither labels nor weights.
        labels: A column, or a list of them: y is then a dict by name.
        weights: The column with the weight of the row.
        stack: Whether a list of inputs becomes one matrix with a column for each, instead of a dict by name.
        dtype: The type of that matrix: `float32`, `int32` or `int64`.
        delimiter: What stands between two values.
        header: Whether the first line has the names of the columns.
        columns: Their names, where no line has them.

    Returns:
        Rows that `tfdist.fit` takes as `x`.

    Raises:
        ConfigError: No file matches, one is no such CSV file, a column is missing or a value is.
    """
    require_pyarrow()
    import pyarrow as pa
    from pyarrow import csv

    names = matching_files(files)
    read_options = csv.ReadOptions(
        column_names=None if columns is None else list(columns),
        autogenerate_column_names=not header and columns is None,
        skip_rows=1 if header and columns is not None else 0,
    )
    parts: list[Any] = []
    for name in names:
        try:
            table = csv.read_csv(name, read_options, csv.ParseOptions(delimiter=delimiter))
        except (pa.ArrowInvalid, pa.ArrowKeyError, OSError) as error:
            raise ReaderError(
                "files",
                f"{name} cannot be read as a CSV file with the delimiter {delimiter!r}: {error}",
                "correct delimiter, header or columns; or the file",
            ) from error
        choice = column_choice(table.column_names, [name], inputs, labels, weights)
        parts.append(rows_of(table, choice, stack, dtype, name))
    return RowsInMemory.of_files(parts, names)

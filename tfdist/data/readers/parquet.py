"""Parquet files, their columns read into memory once."""

from __future__ import annotations

from tfdist.data.readers.arrow import column_choice, require_pyarrow, rows_of
from tfdist.data.readers.choice import Names
from tfdist.data.readers.errors import ReaderError
from tfdist.data.readers.files import Patterns, matching_files
from tfdist.data.readers.memory import RowsInMemory


def read_parquet(
    files: Patterns,
    inputs: Names | None = None,
    labels: Names | None = None,
    weights: str | None = None,
    *,
    stack: bool = True,
    dtype: str = "float32",
) -> RowsInMemory:
    """Reads columns of Parquet files into memory, with `pyarrow.parquet`. Other columns are not read.

    Rows are stored in groups that can only be unpacked as a whole, so that reading shuffled rows from the
    file would unpack every group for every batch.

    Args:
        files: A glob or several; all with the same columns.
        inputs: A column, or a list of them. A column of lists of equal length is a matrix. Left out: all
            columns that are neither labels nor weights.
        labels: A column, or a list of them: y is then a dict by name.
        weights: The column with the weight of the row.
        stack: Whether a list of inputs becomes one matrix with the columns side by side, instead of a dict.
        dtype: The type of that matrix: `float32`, `int32` or `int64`.

    Returns:
        Rows that `tfdist.fit` takes as `x`.

    Raises:
        ConfigError: No file matches, one is no Parquet file, a column is missing or a value is.
    """
    require_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = matching_files(files)
    parts = []
    for name in names:
        try:
            with pq.ParquetFile(name) as file:
                choice = column_choice(file.schema_arrow.names, [name], inputs, labels, weights)
                table = file.read(columns=list(dict.fromkeys(column for _, column in choice.names())))
        except (pa.ArrowInvalid, OSError) as error:
            raise ReaderError(
                "files", f"{name} cannot be read as a Parquet file: {error}", "write or copy the file again"
            ) from error
        parts.append(rows_of(table, choice, stack, dtype, name))
    return RowsInMemory.of_files(parts, names)

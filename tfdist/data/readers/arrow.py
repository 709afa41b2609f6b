"""Columns of an Arrow table as arrays: what CSV and Parquet files have in common."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tfdist.data.readers.choice import Choice, Names, arranged
from tfdist.data.readers.errors import ReaderError, unknown_name
from tfdist.errors import ConfigError


def require_pyarrow() -> None:
    """Says how to install pyarrow where it is missing."""
    try:
        import pyarrow  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            "CSV and Parquet files are read with pyarrow, which is not installed.",
            "pip install 'tfdist[readers]'",
        ) from error


def column_choice(
    columns: Sequence[str],
    files: Sequence[str],
    inputs: Names | None,
    labels: Names | None,
    weights: str | None,
) -> Choice:
    """Gives the columns to read; where no inputs are named, these are all that are nothing else.

    Raises:
        ReaderError: There is no such column.
    """
    choice = Choice(inputs if inputs is not None else (), labels, weights)
    for argument, name in choice.names():
        if name not in columns:
            raise unknown_name(argument, name, "column", files[0], columns)
    if inputs is not None:
        return choice
    others = {name for _, name in choice.names()}
    rest = [name for name in columns if name not in others]
    if not rest:
        raise ReaderError("labels", f"{files[0]} has no other column to be an input.", "name fewer labels")
    return Choice(rest, labels, weights)


def rows_of(table: Any, choice: Choice, stack: bool, dtype: str, file: str) -> tuple[Any, ...]:
    """Gives `(x[, y[, sample_weight]])` of an Arrow table.

    Args:
        table: A `pyarrow.Table`.
        choice: Which columns.
        stack: Whether to put a list of inputs side by side in one matrix, instead of a dict.
        dtype: The type of that matrix.
        file: Where the table is from, for errors.
    """
    if not table.num_rows:
        raise ReaderError("files", f"{file} has no rows.", "leave it out, or write it again")
    twice = sorted({name for name in table.column_names if table.column_names.count(name) > 1})
    if twice:
        raise ReaderError(
            "files",
            f"{file} has more than one column named {', '.join(twice)}.",
            "give each a name of its own",
        )
    arrays = {name: _array(table.column(name), name, argument, file) for argument, name in choice.names()}
    _, y, weights = (*choice.arrange(arrays), None, None)[:3]
    if choice.labels is None:
        y = None
    if isinstance(choice.inputs, str) or not stack:
        x = choice.arrange(arrays)[0]
    else:
        x = _stacked([(name, arrays[name]) for name in choice.inputs], dtype, file)
    return arranged(x, y, weights)


def _stacked(columns: Sequence[tuple[str, np.ndarray]], dtype: str, file: str) -> np.ndarray:
    for name, array in columns:
        if array.dtype.kind not in "biuf":
            raise ReaderError(
                "inputs",
                f"{file}: the column {name!r} holds text, such as {_first_text(array)}, and cannot stand in"
                " a matrix of numbers.",
                "leave it out of inputs, or write stack: false and give the model an input for each column",
            )
        if dtype.startswith("int") and array.dtype.kind == "f":
            raise ReaderError(
                "dtype",
                f"{file}: the column {name!r} holds numbers such as {float(_first(array))!r}, and {dtype}"
                " would cut off what is behind the point.",
                "write dtype: float32",
            )
    matrices = [array.reshape(len(array), -1).astype(dtype, copy=False) for _, array in columns]
    return np.concatenate(matrices, axis=1)


def _first_text(array: np.ndarray) -> str:
    """Gives the first value that is no number, with its row, counted from 0."""
    for row, value in enumerate(array.tolist()):
        text = value.decode(errors="replace") if isinstance(value, bytes) else str(value)
        try:
            float(text)
        except ValueError:
            return f"{text!r} in row {row}"
    return repr(_first(array))


def _array(column: Any, name: str, argument: str, file: str) -> np.ndarray:
    """Gives a column as an array: lists of equal length become further dimensions."""
    import pyarrow as pa

    if column.null_count:
        row = int(np.flatnonzero(column.is_null().to_numpy())[0])
        raise ReaderError(
            argument,
            f"{file}: the column {name!r} has no value in row {row} (and {column.null_count - 1} others).",
            "fill in or leave out such rows when you write the file",
        )
    values = column.combine_chunks()
    shape = [len(values)]
    while pa.types.is_list(values.type) or pa.types.is_large_list(values.type) or _is_fixed(values.type):
        if _is_fixed(values.type):
            size = values.type.list_size
        else:
            sizes = np.unique(values.value_lengths().to_numpy())
            if len(sizes) > 1:
                raise ReaderError(
                    argument,
                    f"{file}: the lists in the column {name!r} have from {sizes[0]} to {sizes[-1]} entries.",
                    "make them equally long; a tensor needs rows of one shape",
                )
            size = int(sizes[0]) if len(sizes) else 0
        shape.append(size)
        values = values.flatten()
    if values.null_count:
        raise ReaderError(
            argument, f"{file}: a list in the column {name!r} has an entry without value.", "fill it"
        )
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_decimal(values.type):
        values = values.cast(pa.float64())
    array = values.to_numpy(zero_copy_only=False)
    if array.dtype == object:
        first = _first(array)
        if not isinstance(first, str | bytes):
            raise ReaderError(
                argument,
                f"{file}: the column {name!r} is of the type {column.type}, which is neither numbers nor"
                " text.",
                "convert it when you write the file",
            )
        array = array.astype(np.str_ if isinstance(first, str) else np.bytes_)
    elif array.dtype.kind not in "biuf":
        raise ReaderError(
            argument,
            f"{file}: the column {name!r} is of the type {column.type}, which is neither numbers nor text.",
            "convert it to a number when you write the file",
        )
    return array.reshape(shape)


def _is_fixed(type_: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_fixed_size_list(type_))


def _first(array: np.ndarray) -> Any:
    return array.flat[0] if array.size else ""

"""TFRecord files of `tf.train.Example` records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
import tensorflow as tf

from tfdist.data.readers.byte_rows import ByteRows
from tfdist.data.readers.choice import Choice, Names
from tfdist.data.readers.each_row import processors
from tfdist.data.readers.errors import ReaderError, unknown_name
from tfdist.data.readers.features import Feature, mistake_in, parse
from tfdist.data.readers.files import Patterns, identity_of, is_remote, matching_files
from tfdist.data.readers.memory import CachedTable
from tfdist.data.readers.stream import DEFAULT_SHUFFLE_BUFFER, Stream
from tfdist.data.readers.tfrecord_index import RecordIndex
from tfdist.data.table import Table


def read_tfrecord(
    files: Patterns,
    features: Mapping[str, Feature | Mapping[str, Any]],
    inputs: Names,
    labels: Names | None = None,
    weights: str | None = None,
    *,
    compression: Literal["auto", "none", "gzip"] = "auto",
    cache: Literal["none", "memory"] = "none",
    parallel_reads: int | None = None,
    shard: Literal["auto", "rows", "files"] | None = None,
    shuffle_buffer: int | None = None,
) -> Table | Stream:
    """Opens TFRecord files of `tf.train.Example` records.

    Files on this machine that are not compressed are read by record number: each task reads only its own
    rows, and each epoch is a new order of all of them. An index of the records is made first, which reads the
    length of every record. Compressed files, and those elsewhere, are read as a stream.

    Args:
        files: A glob or several, such as `data/train-*.tfrecord`.
        features: What to read of each record, by name: a `Feature`, or a mapping with its attributes.
        inputs: A feature, or a list of them: x is then a dict by name.
        labels: A feature, or a list of them: y is then a dict by name.
        weights: The feature with the weight of the row.
        compression: `auto` goes by the end of the names, `.gz`.
        cache: `memory`: read and decode all rows once, and hold them.
        parallel_reads: Batches, and files of a stream, to read side by side. Left out: as many as processors.
        shard: For a stream only; see `Stream`.
        shuffle_buffer: For a stream only; see `Stream`.

    Returns:
        What `tfdist.fit` takes as `x`: rows by number, or a stream.

    Raises:
        ConfigError: No file matches, a file is damaged, or the features are not those of its records.
    """
    known = {name: each if isinstance(each, Feature) else _feature(each) for name, each in features.items()}
    choice = Choice(inputs, labels, weights)
    for argument, name in choice.names():
        if name not in known:
            raise unknown_name(argument, name, "feature", "features", known)
    used = {name for _, name in choice.names()}
    known = {name: feature for name, feature in known.items() if name in used}
    names = matching_files(files)
    compressed = _compressed(names, compression)
    reads = parallel_reads or processors()
    as_stream = (compressed or any(map(is_remote, names))) and cache == "none"
    for argument, value in (("shard", shard), ("shuffle_buffer", shuffle_buffer)):
        if value is not None and not as_stream:
            raise ReaderError(
                argument,
                f"{value!r} has no effect: these rows are read by their numbers, each by the one task that"
                " needs"
                " it, and shuffled all together.",
                f"remove {argument}",
            )
    if not compressed and not any(map(is_remote, names)):
        table = Records(names, known, choice, reads)
        return CachedTable(table) if cache == "memory" else table
    stream = Stream(
        names,
        "GZIP" if compressed else "",
        lambda records: choice.arrange(parse(records, known)),
        lambda record: _told(mistake_in(record, known)),
        shard or "auto",
        shuffle_buffer or DEFAULT_SHUFFLE_BUFFER,
        reads,
    )
    _check_first_record(stream, known)
    if cache == "memory":
        return stream.in_memory()
    return stream


class Records(ByteRows):
    """Records of uncompressed TFRecord files.

    Args:
        files: The files.
        features: What to read of each record.
        choice: Which features are inputs, labels and weight.
        parallel_reads: Batches to read side by side.

    Raises:
        ReaderError: A file is damaged, or the first record is not as `features` says.
    """

    def __init__(
        self, files: list[str], features: Mapping[str, Feature], choice: Choice, parallel_reads: int
    ) -> None:
        super().__init__()
        self._files, self._features, self._choice = files, features, choice
        self._index = RecordIndex(files)
        self.rows = len(self._index)
        self.parallel_reads = parallel_reads
        if not self.rows:
            raise ReaderError("files", f"{', '.join(files[:3])}: no record.", "write records into the files")
        _check(self._index.fetch(np.array([0]))[0], self.origin(0), features)

    def fetch(self, numbers: np.ndarray) -> list[bytes]:
        """Reads records and checks their checksums."""
        return self._index.fetch(numbers)

    def decode(self, rows: tf.Tensor, numbers: tf.Tensor) -> tuple[Any, ...]:
        """Parses records, all of a batch at once."""
        return self._choice.arrange(parse(rows, self._features))

    def fault_in(self, row: bytes, number: int) -> str:
        """Says which feature of a record is not as it should be."""
        return _told(mistake_in(row, self._features))

    def identity(self) -> str:
        """Names the files and their sizes."""
        return identity_of(self._files)

    def origin(self, number: int) -> str:
        """Names the file and the record there, counted from 0."""
        file, record = self._index.place(number)
        return f"{file}:{record}"


def _feature(given: Mapping[str, Any]) -> Feature:
    image = given.get("encoding") == "image"
    values = {"dtype": "uint8", **given} if image else dict(given)
    return Feature(**{**values, "shape": tuple(values.get("shape", ()))})


def _compressed(files: list[str], compression: str) -> bool:
    if compression != "auto":
        return compression == "gzip"
    compressed = {Path(name).suffix == ".gz" for name in files}
    if len(compressed) > 1:
        raise ReaderError(
            "files",
            "some of the files end in .gz and some do not.",
            "name only one kind of them, or compress all files alike",
        )
    return compressed.pop()


def _check_first_record(stream: Stream, features: Mapping[str, Feature]) -> None:
    file = stream.files[0]
    try:
        first = list(tf.data.TFRecordDataset(file, stream.compression).take(1).as_numpy_iterator())
    except tf.errors.OpError as error:
        raise ReaderError(
            "files",
            f"{file} cannot be read as a TFRecord file"
            f"{' compressed with gzip' if stream.compression else ''}: {str(error).splitlines()[0]}",
            "correct compression, or write the file again",
        ) from error
    if not first:
        raise ReaderError("files", f"{file} holds no record.", "write records into it, or leave it out")
    _check(first[0], f"{file}:0", features)


def _check(record: bytes, origin: str, features: Mapping[str, Feature]) -> None:
    wrong = mistake_in(record, features)
    if wrong is not None:
        name, what, fix = wrong
        raise ReaderError(f"features.{name}" if name else "files", f"{origin}: {what}", fix)


def _told(wrong: tuple[str, str, str] | None) -> str:
    return "" if wrong is None else f"{wrong[0]}: {wrong[1]}" if wrong[0] else wrong[1]

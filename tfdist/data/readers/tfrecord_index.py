"""Where each record of uncompressed TFRecord files begins.

A record is its length (uint64), the checksum of the length (uint32), the bytes and their checksum (uint32),
all little-endian; see tensorflow/core/lib/io/record_writer.h.
"""

from __future__ import annotations

import functools
import mmap
import os
import struct
from collections.abc import Sequence
from pathlib import Path

import google_crc32c
import numpy as np

from tfdist.data.readers.errors import ReaderError
from tfdist.errors import TrainingError

_LENGTH = struct.Struct("<QI")
_BETWEEN = struct.Struct("<IQI")  # from the end of one record's bytes to the beginning of the next one's
_FOOTER = struct.Struct("<I")
_OPEN_FILES = 256
_GZIP = b"\x1f\x8b"


class RecordIndex:
    """Every record of some files, by number.

    Args:
        files: Uncompressed TFRecord files.

    Raises:
        ReaderError: A file is no TFRecord file, ends in the middle of a record, or a length is damaged.
    """

    def __init__(self, files: Sequence[str]) -> None:
        self._files = list(files)
        self._map = functools.lru_cache(_OPEN_FILES)(lambda file: _mapped(self._files[file]))
        scans = [_scan(name) for name in files]
        self._offsets, self._lengths, self._checksums = (
            np.concatenate([scan[column] for scan in scans]) for column in range(3)
        )
        self._first_rows = np.cumsum([0, *(len(offsets) for offsets, _, _ in scans)])

    def __len__(self) -> int:
        return int(self._first_rows[-1])

    def place(self, number: int) -> tuple[str, int]:
        """Gives the file of a record, and its number there."""
        file = int(np.searchsorted(self._first_rows, number, side="right")) - 1
        return self._files[file], number - int(self._first_rows[file])

    def fetch(self, numbers: np.ndarray) -> list[bytes]:
        """Reads records.

        Raises:
            TrainingError: The bytes of a record do not have the checksum that stands beside them.
        """
        begins = self._offsets[numbers]
        ends = begins + self._lengths[numbers]
        if len(self._files) == 1:
            held = self._map(0)
            records = [held[begin:end] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]
        else:
            files = np.searchsorted(self._first_rows, numbers, side="right") - 1
            places = zip(files.tolist(), begins.tolist(), ends.tolist(), strict=True)
            records = [self._map(file)[begin:end] for file, begin, end in places]
        found = _masked(np.fromiter(map(google_crc32c.value, records), np.uint32, len(records)))
        wrong = np.flatnonzero(found != self._checksums[numbers])
        if len(wrong):
            file, record = self.place(int(numbers[wrong[0]]))
            raise TrainingError(
                f"{file} is damaged: the bytes of record {record}, from byte {begins[wrong[0]]} on, do not"
                " have"
                " the checksum they were written with.",
                "write or copy the file again",
            )
        return records


def _mapped(file: str) -> mmap.mmap:
    with open(file, "rb") as opened:
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def _scan(file: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Gives where the bytes of each record begin, how many they are, and their checksums."""
    size = os.path.getsize(file)
    offsets: list[int] = []
    lengths: list[int] = []
    checksums: list[int] = []
    lengths_checksums: list[int] = []
    if size:
        held = _mapped(file)
        between = _BETWEEN.unpack_from
        position = _LENGTH.size
        length, checksum = _LENGTH.unpack_from(held) if size >= position else (size, 0)
        last = size - _BETWEEN.size
        while True:
            offsets.append(position)
            lengths.append(length)
            lengths_checksums.append(checksum)
            position += length
            if position > last:
                break
            found, length, checksum = between(held, position)
            checksums.append(found)
            position += _BETWEEN.size
        complete = position == size - _FOOTER.size
        if complete:
            checksums.append(_FOOTER.unpack_from(held, position)[0])
        _check_lengths(file, held, lengths, lengths_checksums, offsets)
        if not complete:
            raise ReaderError(
                "files",
                f"{file} ends in the middle of a record: record {len(offsets) - 1} begins at byte"
                f" {offsets[-1] - _LENGTH.size} and the file has {size} bytes.",
                "write or copy the file again; it was cut off",
            )
    return np.array(offsets, np.int64), np.array(lengths, np.int64), np.array(checksums, np.uint32)


def _check_lengths(
    file: str, held: mmap.mmap, lengths: list[int], checksums: list[int], offsets: list[int]
) -> None:
    """Refuses a file with a length that is damaged: all that follows would be read from a wrong place."""
    texts = np.array(lengths, "<u8").tobytes()
    computed = (google_crc32c.value(texts[begin : begin + 8]) for begin in range(0, len(texts), 8))
    found = _masked(np.fromiter(computed, np.uint32, len(lengths)))
    wrong = np.flatnonzero(found != np.array(checksums, np.uint32))
    if not len(wrong):
        return
    if wrong[0] == 0:
        if held[:2] == _GZIP:
            raise ReaderError("files", f"{file} is compressed with gzip.", "write compression: gzip")
        raise ReaderError(
            "files",
            f"{Path(file)} is no TFRecord file: its first 12 bytes are no length with a checksum.",
            "write the file with tf.io.TFRecordWriter, or correct the pattern",
        )
    raise ReaderError(
        "files",
        f"{file} is damaged: the length of record {wrong[0]}, at byte {offsets[wrong[0]] - _LENGTH.size},"
        " does"
        " not have the checksum it was written with.",
        "write or copy the file again",
    )


def _masked(checksums: np.ndarray) -> np.ndarray:
    """Masks CRC-32C checksums as TFRecord does: rotated right by 15 bits, plus a constant."""
    rotated = (checksums >> np.uint32(15)) | (checksums << np.uint32(17))
    return rotated + np.uint32(0xA282EAD8)

"""Which rows each replica reads in an epoch, found out in one process for all tasks."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np

from tfdist.data.dataset_fn import DataContext
from tfdist.data.indexed import IndexedSource
from tfdist.data.source import Source

FIRST_ROWS = 4


@dataclass(frozen=True)
class Reader:
    """A task that reads data.

    Attributes:
        task: Its name, such as `worker:1`.
        context: What a `dataset_fn` of this task is told.
        replicas: Global numbers of its replicas.
    """

    task: str
    context: DataContext
    replicas: tuple[int, ...]


@dataclass
class Reading:
    """What one replica reads in an epoch.

    Attributes:
        task: The task it belongs to.
        replica: Its number.
        batches: Rows of each batch.
        numbers: The numbers of its rows in their order; empty where rows have none.
        first: Where its first rows come from, such as `train-0.csv:17`.
        files: How many of its rows come from each file; empty where rows come from no file.
    """

    task: str
    replica: int
    batches: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    first: list[str] = field(default_factory=list)
    files: dict[str, int] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Rows in the epoch."""
        return sum(self.batches)


@dataclass
class Epoch:
    """What all replicas read in an epoch.

    Attributes:
        readings: One for each replica.
        twice: Rows that were read more than once, or that tasks which read by themselves have in common.
        never: Rows that were not read; None where only the data itself knows how many there are.
        complete: Whether the whole epoch was looked at.
    """

    readings: list[Reading]
    twice: int
    never: int | None
    complete: bool = True


def read_epoch(
    make: Callable[[Reader], Source], readers: list[Reader], epoch: int, most_batches: int | None
) -> Epoch:
    """Finds out what each replica reads.

    Args:
        make: Makes the source of a task.
        readers: All tasks that read data.
        epoch: Number of the epoch.
        most_batches: Batches to look at where each has to be read; None for all.
    """
    source = make(readers[0])
    if isinstance(source, IndexedSource):
        return _by_number(source, readers, epoch)
    return _by_reading(make, readers, epoch, most_batches)


def _by_number(source: IndexedSource, readers: list[Reader], epoch: int) -> Epoch:
    source.begin_epoch(epoch)
    readings = []
    for reader in readers:
        for replica in reader.replicas:
            reading = Reading(reader.task, replica)
            for batch in range(source.batches or 0):
                numbers = source.rows_of(batch, replica, reader.context.total_replicas)
                reading.batches.append(len(numbers))
                reading.numbers += numbers
            origins = [source.table.origin(number) for number in reading.numbers]
            reading.first = origins[:FIRST_ROWS]
            reading.files = dict(Counter(file for file in map(_file_of, origins) if file))
            readings.append(reading)
    seen = np.bincount(
        np.concatenate([np.asarray(reading.numbers, np.int64) for reading in readings]),
        minlength=source.table.rows,
    )
    dropped = source.table.rows - (source.rows or 0)
    return Epoch(readings, int((seen > 1).sum()), int((seen == 0).sum()) - dropped)


def _by_reading(
    make: Callable[[Reader], Source], readers: list[Reader], epoch: int, most_batches: int | None
) -> Epoch:
    readings: list[Reading] = []
    seen: list[Counter[bytes]] = []
    per_task, complete, known = False, True, None
    for reader in readers:
        source = make(reader)
        per_task = source.per_task
        known = source.rows
        source.begin_epoch(epoch)
        own = [Reading(reader.task, replica) for replica in reader.replicas]
        found: Counter[bytes] = Counter()
        for number, (parts, _) in enumerate(
            source.parts(reader.replicas, reader.context.total_replicas, fingerprint=False)
        ):
            if number == most_batches:
                complete = False
                break
            for reading, part in zip(own, parts, strict=True):
                rows = int(part.rows)
                reading.batches.append(rows)
                if rows:
                    _note(found, reading, part.data)
        readings += own
        seen.append(found)
    twice = 0
    if per_task:  # else the parts of a batch cannot overlap, and equal rows are rows of the data
        tasks_with = Counter(row for found in seen for row in found)
        twice = sum(1 for count in tasks_with.values() if count > 1)
    never = None if known is None or not complete else known - sum(reading.rows for reading in readings)
    return Epoch(readings, twice, never, complete)


def _note(found: Counter[bytes], reading: Reading, data: tuple[Any, ...]) -> None:
    arrays = [np.asarray(leaf) for leaf in keras.tree.flatten(data)]
    for row in range(len(arrays[0])):
        digest = hashlib.blake2b(digest_size=12)
        for array in arrays:
            digest.update(array[row].tobytes() if array.dtype != object else repr(array[row]).encode())
        found[digest.digest()] += 1
        if len(reading.first) < FIRST_ROWS:
            reading.first.append(_shown(data, row))


def _shown(data: tuple[Any, ...], row: int) -> str:
    """Shows a row that has no number by its label, or by its first value."""
    value = np.asarray(keras.tree.flatten(data[1] if len(data) > 1 else data[0])[0])[row]
    return f"label {np.ravel(value)[0]}" if len(data) > 1 else f"{np.ravel(value)[0]}…"


def _file_of(origin: str) -> str:
    """Gives the file of `train-0.csv:17` or `cat/1.png`; nothing for `row 17`."""
    if origin.startswith("row "):
        return ""
    file, colon, number = origin.rpartition(":")
    return file if colon and number.isdigit() else origin


def describe_files(files: Mapping[str, int], most: int = 3) -> str:
    """Gives a short list of files.

    Example:
        >>> describe_files({"a.csv": 3, "b.csv": 4})
        'a.csv (3 rows), b.csv (4 rows)'
    """
    if len(files) > most and set(files.values()) == {1}:
        return f"{len(files)} files, one row each"
    shown = [f"{file} ({rows} rows)" for file, rows in list(files.items())[:most]]
    return ", ".join(shown) + (f" and {len(files) - most} more files" if len(files) > most else "")

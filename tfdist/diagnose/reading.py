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
        twice: Rows that are read more than once. Of tasks that read by themselves: rows that several of them
            read, more often than one task would that reads alone.
        never: Rows that are not read; None where the data does not tell.
        complete: Whether the whole epoch was looked at.
    """

    readings: list[Reading]
    twice: int
    never: int | None
    complete: bool = True

    @property
    def is_wrong(self) -> bool:
        """Whether a row is read more than once, or never."""
        return bool(self.twice or self.never)


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
    source = make(readers[0])
    if not source.per_task:
        # One reading for all tasks, since a dataset that shuffles has another order in the next. The parts of
        # a batch do not overlap, and hold all of it.
        readings, _, complete = _read(source, readers, epoch, most_batches)
        return Epoch(readings, 0, 0 if complete else None, complete)
    readings, seen, complete = [], [], True
    for reader in readers:
        own, found, whole = _read(make(reader), [reader], epoch, most_batches)
        readings += own
        seen.append(found)
        complete = complete and whole
    alone = _read_alone(make, epoch) if complete else None
    return Epoch(readings, *_compare(seen, alone), complete)


def _read(
    source: Source, readers: list[Reader], epoch: int, most_batches: int | None
) -> tuple[list[Reading], Counter[bytes], bool]:
    """Reads an epoch: what each replica reads, how often each row comes, and whether that is all."""
    if epoch:
        source.restore(epoch, begun=False)
    source.begin_epoch(epoch)
    readings = [Reading(reader.task, replica) for reader in readers for replica in reader.replicas]
    replicas = [reading.replica for reading in readings]
    found: Counter[bytes] = Counter()
    dataset = source.parts(replicas, readers[0].context.total_replicas, fingerprint=False)
    for number, (parts, _) in enumerate(dataset):
        if number == most_batches:
            return readings, found, False
        for reading, part in zip(readings, parts, strict=True):
            rows = int(part.rows)
            reading.batches.append(rows)
            if rows:
                _note(found, reading, part.data)
    return readings, found, True


def _read_alone(make: Callable[[Reader], Source], epoch: int) -> Counter[bytes] | None:
    """Gives the rows that one task reads which is alone; None where it has no end."""
    source = make(Reader("alone", DataContext(), (0,)))
    if source.endless:
        return None
    source.begin_epoch(epoch)
    found: Counter[bytes] = Counter()
    for data in source.pipeline():
        found.update(_digests(data))
    return found


def _compare(seen: list[Counter[bytes]], alone: Counter[bytes] | None) -> tuple[int, int | None]:
    """Gives how many rows are read more than once, and how many never.

    Args:
        seen: The rows of each task, and how often it reads each.
        alone: Those of one task that is alone. It tells what there is, unless it is told other rows: where
            rows are changed at random, or chosen by the task's number only.
    """
    together: Counter[bytes] = sum(seen, Counter())
    tasks_with = Counter(row for found in seen for row in found)
    shared = [row for row, tasks in tasks_with.items() if tasks > 1]
    if alone is None or not together.keys() <= alone.keys():
        return len(shared), None
    return sum(together[row] > alone[row] for row in shared), (alone - together).total()


def _note(found: Counter[bytes], reading: Reading, data: tuple[Any, ...]) -> None:
    digests = _digests(data)
    found.update(digests)
    for row in range(min(len(digests), FIRST_ROWS - len(reading.first))):
        reading.first.append(_shown(data, row))


def _digests(data: tuple[Any, ...]) -> list[bytes]:
    """Gives a short name for what each row of a batch holds."""
    arrays = [np.asarray(leaf) for leaf in keras.tree.flatten(data)]
    digests = []
    for row in range(len(arrays[0])):
        digest = hashlib.blake2b(digest_size=12)
        for array in arrays:
            digest.update(array[row].tobytes() if array.dtype != object else repr(array[row]).encode())
        digests.append(digest.digest())
    return digests


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

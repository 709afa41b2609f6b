"""Trains on data of every kind, and writes down which rows each replica met.

    python read_rows.py DIRECTORY

Writes one line of JSON for each case: its name, and the rows of each step by replica.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grain
import keras
import numpy as np
import pandas
import tensorflow as tf

import tfdist
from tests.data.recorder import Recorded, build
from tests.data.uneven_rows import train_apart, train_together
from tfdist.data.readers import read_tfrecord

BATCH = 12
SIZES = {"even": 36, "ragged": 41, "one row": 1}
EPOCHS = 2
POSITIONED = 41  # rows that a run is stopped and gone on in


def arrays(rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Gives the numbers of the rows, and labels that differ."""
    numbers = np.arange(rows, dtype="float32")[:, None]
    return numbers, numbers / 100


def order(rows: int, shuffle: bool) -> np.ndarray:
    """Gives the order that a user's own code reads rows in."""
    return np.random.default_rng(1).permutation(rows) if shuffle else np.arange(rows)


def batches(rows: int, shuffle: bool) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yields batches."""
    x, y = arrays(rows)
    numbers = order(rows, shuffle)
    for begin in range(0, rows, BATCH):
        yield x[numbers[begin : begin + BATCH]], y[numbers[begin : begin + BATCH]]


class Sequence(keras.utils.PyDataset):
    """Batches by index, with inputs by name, read by two threads."""

    def __init__(self, rows: int) -> None:
        super().__init__(workers=2)
        self._rows = rows

    def __len__(self) -> int:
        return -(-self._rows // BATCH)

    def __getitem__(self, index: int) -> Any:
        x, y = list(batches(self._rows, False))[index]
        return {"number": x, "other": x * 0}, y


def dataset(rows: int, shuffle: bool) -> tf.data.Dataset:
    """Gives global batches; another order in each epoch if they are shuffled."""
    data = tf.data.Dataset.from_tensor_slices(arrays(rows))
    if shuffle:
        data = data.shuffle(20, seed=5)
    return data.batch(BATCH)


def from_generator(rows: int, shuffle: bool) -> tf.data.Dataset:
    """Gives a dataset of what a generator yields, whose length nobody knows."""
    spec = tf.TensorSpec((None, 1))
    return tf.data.Dataset.from_generator(lambda: batches(rows, shuffle), output_signature=(spec, spec))


def unknown_length(rows: int, shuffle: bool) -> tf.data.Dataset:
    """Gives the rows that a filter leaves, which are all."""
    return dataset(rows, shuffle).unbatch().filter(lambda x, y: y[0] >= 0).batch(BATCH)


def loader(rows: int, shuffle: bool) -> Any:
    """Gives a grain pipeline of batches."""
    x, y = arrays(rows)
    data = grain.MapDataset.source(np.arange(rows))
    if shuffle:
        data = data.seed(3).shuffle()
    return data.to_iter_dataset().map(lambda number: (x[number], y[number])).batch(BATCH)


def batches_by_number(rows: int, shuffle: bool) -> Any:
    """Gives a grain dataset of batches that are reached by number."""
    x, y = arrays(rows)
    return grain.MapDataset.source(order(rows, shuffle)).map(lambda row: (x[row], y[row])).batch(BATCH)


def per_task(rows: int, shuffle: bool) -> Any:
    """Gives a pipeline for each task."""

    def dataset_fn(context: tfdist.DataContext) -> tf.data.Dataset:
        data = tf.data.Dataset.from_tensor_slices(arrays(rows))
        if shuffle:
            data = data.shuffle(rows, seed=context.seed + context.epoch)
        return context.shard(data).batch(context.batch_size)

    return dataset_fn


def by_arrays(make: Callable[[np.ndarray], Any]) -> Any:
    """Gives arguments of fit with arrays."""

    def arguments(rows: int, shuffle: bool) -> dict[str, Any]:
        x, y = arrays(rows)
        return {"x": make(x), "y": y, "global_batch_size": BATCH, "shuffle": shuffle}

    return arguments


FILES = 3  # of each table and stream: as many as there are tasks at most


def write_files(directory: Path) -> None:
    """Writes tables of all sizes as TFRecord files, plain and compressed. Of one row, two are empty."""
    for rows in SIZES.values():
        bounds = [-(-rows * number // FILES) for number in range(FILES + 1)]
        for ending, compression in (("tfrecord", ""), ("tfrecord.gz", "GZIP")):
            for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
                file = directory / f"{rows}-{number}.{ending}"
                with tf.io.TFRecordWriter(str(file), compression) as writer:
                    for x, y in zip(*(array[begin:end, 0] for array in arrays(rows)), strict=True):
                        values = {
                            name: tf.train.Feature(float_list=tf.train.FloatList(value=[value]))
                            for name, value in (("x", x), ("y", y))
                        }
                        example = tf.train.Example(features=tf.train.Features(feature=values))
                        writer.write(example.SerializeToString())


def by_files(ending: str, **options: Any) -> Any:
    """Gives arguments of fit with what a reader gives."""
    features = {name: {"dtype": "float32", "shape": [1]} for name in ("x", "y")}

    def arguments(rows: int, shuffle: bool) -> dict[str, Any]:
        files = str(Path(sys.argv[1]) / f"{rows}-*.{ending}")
        x = read_tfrecord(files, features, inputs="x", labels="y", **options)
        return {"x": x, "global_batch_size": BATCH, "shuffle": shuffle}

    return arguments


KINDS: dict[str, Callable[[int, bool], dict[str, Any]]] = {
    "numpy": by_arrays(np.asarray),
    "pandas": by_arrays(pandas.DataFrame),
    "tf.data": lambda rows, shuffle: {"x": dataset(rows, shuffle)},
    "tf.data of unknown length": lambda rows, shuffle: {"x": unknown_length(rows, shuffle)},
    "from_generator": lambda rows, shuffle: {"x": from_generator(rows, shuffle)},
    "PyDataset": lambda rows, shuffle: {"x": Sequence(rows), "shuffle": shuffle},
    "generator": lambda rows, shuffle: {"x": batches(rows, shuffle), "epochs": 1},
    "grain loader": lambda rows, shuffle: {"x": loader(rows, shuffle)},
    "grain by number": lambda rows, shuffle: {"x": batches_by_number(rows, shuffle), "shuffle": False},
    "dataset_fn": lambda rows, shuffle: {"x": per_task(rows, shuffle), "global_batch_size": BATCH},
    "table in files": by_files("tfrecord"),
    "stream by rows": by_files("tfrecord.gz", shard="rows", shuffle_buffer=20),
    "stream by files": by_files("tfrecord.gz", shard="files", shuffle_buffer=20),
}
NAMED = ("PyDataset",)
WITHOUT_POSITION = ("generator",)
PER_TASK = ("dataset_fn", "stream by files")  # each task reads rows of its own, and has positions of its own


class Stops(keras.callbacks.Callback):
    """Stops after some steps of the second epoch and keeps the position."""

    def __init__(self, trainer: tfdist.Trainer, after: int) -> None:
        super().__init__()
        self._trainer, self._after = trainer, after
        self.position: dict[str, Any] = {}
        self._epoch = 0

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self._epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._epoch == 1 and batch + 1 == self._after:
            self.position = json.loads(json.dumps(self._trainer.position.to_dict()))
            self.model.stop_training = True


class Reader:
    """Trains two recording models under a strategy."""

    def __init__(self, strategy: Any) -> None:
        self.recorded: Recorded = {}
        self._plain = tfdist.Trainer(lambda: build(self.recorded), strategy, seed=7)
        names = ("number", "other")
        self._named = tfdist.Trainer(lambda: build(self.recorded, names), strategy, seed=7)

    def trainer(self, kind: str) -> tfdist.Trainer:
        """Gives the trainer of the model that takes such data."""
        return self._named if kind in NAMED else self._plain

    def rows(self, kind: str, **arguments: Any) -> Recorded:
        """Trains, and gives the rows of each step by replica."""
        self.recorded.clear()
        self.trainer(kind).fit(**{"epochs": EPOCHS, "verbose": 0, **arguments})
        return dict(self.recorded)


def read(name: str, strategy: Any, directory: Path, rank: int = 0) -> None:
    """Reads everything under one strategy, and goes on from the positions that the first of them saved."""
    reader = Reader(strategy)
    with directory.joinpath(f"{name}-{rank}.jsonl").open("w") as file:

        def write(case: list[Any], found: Any) -> None:
            print(json.dumps({"case": case, "found": found}), file=file, flush=True)

        for kind in KINDS:
            for size, rows in SIZES.items():
                for shuffle in (False, True):
                    write(["rows", kind, size, shuffle], reader.rows(kind, **KINDS[kind](rows, shuffle)))
        for kind in KINDS:
            if kind in WITHOUT_POSITION:
                continue
            stops = Stops(reader.trainer(kind), after=2)
            before = reader.rows(kind, **KINDS[kind](POSITIONED, True), callbacks=[stops])
            saved = directory / f"{kind}.json"
            if name == "one_device":
                saved.write_text(json.dumps(stops.position))
            position = stops.position if kind in PER_TASK else json.loads(saved.read_text())
            after = reader.rows(kind, **KINDS[kind](POSITIONED, True), start_at=position)
            write(["position", kind], {"before": before, "after": after})


def main(directory: Path) -> None:
    """Reads on one device, or as a task of several, which then join with different numbers of rows."""
    cluster = tfdist.Cluster.discover()
    tasks, rank = len(cluster.tasks), cluster.task.index
    if tasks == 1:
        del os.environ["TF_CONFIG"]
        write_files(directory)
        read("one_device", tfdist.make_strategy("one_device"), directory)
        for several in (2, 3):
            directory.joinpath(f"together-{several}.json").write_text(json.dumps(train_together(several)))
        return
    strategy = tfdist.make_strategy("multi_worker_mirrored", cluster)
    read(f"multi_worker_{tasks}", strategy, directory, rank)
    apart = train_apart(strategy)
    if rank == 0:
        directory.joinpath(f"apart-{tasks}.json").write_text(json.dumps(apart))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

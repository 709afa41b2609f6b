"""Rows per second read from TFRecord: `tfdist`'s reader, and a pipeline of `tf.data` tuned by hand.

python benchmarks/input.py [--rows 200000] [--rounds 8] [--json input.json]

Both read the same files in one process, parse a batch at a time and hand batches to a loop in the graph,
which adds up the labels. What is counted is a whole epoch, with the making of its iterator.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from table import compared, format_table, median_and_spread, ratios, write_json
from turns import MANY_TURNS, Measured, Turns, take_turns

WARM_UP = 2
FLOATS = 16


@dataclass(frozen=True)
class Reading:
    """What to read, the same in every variant."""

    folder: str
    rows: int
    batch_size: int
    shuffle: bool
    shuffle_buffer: int


def main() -> None:
    """Measures and prints."""
    arguments = _parse()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        write_files(Path(folder), arguments.rows, arguments.files)
        for shuffle in (False, True):
            reading = Reading(folder, arguments.rows, arguments.batch_size, shuffle, arguments.shuffle_buffer)
            variants = {
                "tfdist": (run_tfdist, (reading, "none")),
                "tfdist, cache: memory": (run_tfdist, (reading, "memory")),
                "tf.data by hand": (run_tf_data, (reading,)),
            }
            measured = take_turns(
                variants, warm_up=WARM_UP, rounds=arguments.rounds, patience=arguments.patience
            )
            _require_every_row(reading, measured)
            _print_table(reading, measured)
            results["shuffled" if shuffle else "in order"] = _as_json(reading, measured)
    if arguments.json is not None:
        write_json(arguments.json, "input", vars(arguments) | {"json": None}, results)


def write_files(folder: Path, rows: int, files: int) -> None:
    """Writes records of 16 floats and a label, which is the number of the row."""
    import tensorflow as tf

    draw = np.random.default_rng(0)
    bounds = np.linspace(0, rows, files + 1).astype(int)
    for number in range(files):
        with tf.io.TFRecordWriter(str(folder / f"{number:03}.tfrecord")) as writer:
            for row in range(bounds[number], bounds[number + 1]):
                values = {
                    "x": tf.train.Feature(float_list=tf.train.FloatList(value=draw.random(FLOATS))),
                    "y": tf.train.Feature(int64_list=tf.train.Int64List(value=[row])),
                }
                example = tf.train.Example(features=tf.train.Features(feature=values))
                writer.write(example.SerializeToString())


def run_tfdist(turns: Turns, reading: Reading, cache: str) -> list[int]:
    """Reads with `read_tfrecord`, as `tfdist.fit` on one device does."""
    from tfdist.data.indexed import IndexedSource
    from tfdist.data.readers import read_tfrecord

    features = {"x": {"dtype": "float32", "shape": [FLOATS]}, "y": {"dtype": "int64"}}
    rows: Any = read_tfrecord(f"{reading.folder}/*.tfrecord", features, "x", "y", cache=cache)
    source = IndexedSource(rows, reading.batch_size, shuffle=reading.shuffle, seed=0)

    def begin(epoch: int) -> Any:
        source.begin_epoch(epoch)
        return iter(source.parts([0], 1, fingerprint=False))

    return _read(turns, reading, begin, lambda parts, _: parts[0].data[1])


def run_tf_data(turns: Turns, reading: Reading) -> list[int]:
    """Reads with `TFRecordDataset`: files in parallel, a shuffle buffer, batches that are parsed at once."""
    import tensorflow as tf

    spec = {"x": tf.io.FixedLenFeature([FLOATS], tf.float32), "y": tf.io.FixedLenFeature([], tf.int64)}
    files = tf.io.gfile.glob(f"{reading.folder}/*.tfrecord")
    dataset = tf.data.TFRecordDataset(files, num_parallel_reads=tf.data.AUTOTUNE)
    if reading.shuffle:
        dataset = dataset.shuffle(reading.shuffle_buffer, seed=0)
    options = tf.data.Options()
    options.deterministic = not reading.shuffle  # free to take records as they come
    dataset = (
        dataset.batch(reading.batch_size)
        .map(lambda records: tf.io.parse_example(records, spec), num_parallel_calls=tf.data.AUTOTUNE)
        .prefetch(tf.data.AUTOTUNE)
        .with_options(options)
    )
    return _read(turns, reading, lambda _: iter(dataset), lambda values: values["y"])


def _read(
    turns: Turns, reading: Reading, begin: Callable[[int], Any], labels: Callable[..., Any]
) -> list[int]:
    """Reads an epoch in each turn and gives the sums of the labels."""
    import tensorflow as tf

    steps = math.ceil(reading.rows / reading.batch_size)

    @tf.function
    def read(iterator: Any) -> tf.Tensor:
        total = tf.constant(0, tf.int64)
        for _ in tf.range(steps):
            batch = next(iterator)
            taken = labels(*batch) if isinstance(batch, tuple) else labels(batch)
            total += tf.reduce_sum(taken)
        return total

    sums = []
    for epoch in range(MANY_TURNS):
        turns.begin()
        sums.append(int(read(begin(epoch))))
        if not turns.end():
            break
    return sums


def _require_every_row(reading: Reading, measured: Mapping[str, Measured]) -> None:
    """Stops with an error if a variant did not read each row once."""
    every = reading.rows * (reading.rows - 1) // 2
    for variant, taken in measured.items():
        if set(taken.result) != {every}:
            raise SystemExit(f"Not comparable: {variant} read rows with the sums {set(taken.result)}.")


def _print_table(reading: Reading, measured: Mapping[str, Measured]) -> None:
    ours = _speeds(reading, measured["tfdist"])
    lines = []
    for variant, taken in measured.items():
        speeds = _speeds(reading, taken)
        cpu = np.median([turn.cpu_seconds for turn in taken.turns])
        ratio = median_and_spread(ratios(ours, speeds), 2) if variant != "tfdist" else ""
        lines.append([variant, median_and_spread(speeds, 0), f"{1000 * cpu:,.0f}", ratio])
    order = f"shuffled (tf.data: buffer of {reading.shuffle_buffer:,})" if reading.shuffle else "in order"
    print(
        f"\n{reading.rows:,} records of {FLOATS} floats and a label, batch {reading.batch_size}, {order}; "
        f"median (middle half) of {len(measured['tfdist'].turns)} rounds; others used up to "
        f"{max(turn.others for taken in measured.values() for turn in taken.turns):.0%} of the machine\n"
    )
    print(format_table(["", "rows/s", "CPU ms/epoch", "tfdist / this"], lines), flush=True)


def _speeds(reading: Reading, taken: Measured) -> list[float]:
    return [reading.rows / seconds for seconds in taken.seconds]


def _as_json(reading: Reading, measured: Mapping[str, Measured]) -> dict[str, Any]:
    ours = _speeds(reading, measured["tfdist"])
    return {
        variant: compared(ours, _speeds(reading, taken), taken.turns) for variant, taken in measured.items()
    }


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=200_000, help="records in all files")
    parser.add_argument("--files", type=int, default=8, help="files that they are in")
    parser.add_argument("--batch-size", type=int, default=256, help="rows of a batch")
    parser.add_argument("--shuffle-buffer", type=int, default=10_000, help="of tf.data")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each variant that are measured")
    parser.add_argument(
        "--patience",
        type=float,
        default=30.0,
        help="seconds to wait before a round while others use the machine",
    )
    parser.add_argument("--json", type=Path, help="file to write everything measured to")
    return parser.parse_args()


if __name__ == "__main__":
    main()

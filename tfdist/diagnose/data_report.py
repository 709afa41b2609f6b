"""`tfdist data report`: who reads what, whether every row is read once, and whether the input keeps up."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tfdist.cluster import Cluster
from tfdist.config import RunConfig, load
from tfdist.data.dataset_fn import DataContext
from tfdist.data.inputs import make_source, size_for, unpack_data
from tfdist.data.readers.section import explaining
from tfdist.data.readers.stream import Stream
from tfdist.data.source import Source
from tfdist.diagnose.reading import Epoch, Reader, describe_files, read_epoch
from tfdist.diagnose.speed import input_speed, step_speed
from tfdist.errors import ConfigError
from tfdist.strategies.registry import get_kind, kinds
from tfdist.training.from_config import load_data, make_trainer

FASTER = (
    "Fix: for a reader, data.parallel_reads or cache: memory; in a pipeline of your own, num_parallel_calls,"
    " cache() and prefetch()"
)
ENDLESS_BATCHES = 100  # to look at of data that has no end


@dataclass
class DataReport:
    """What a run reads.

    Attributes:
        config: The YAML file.
        epoch: The epoch of training that was looked at, from 0.
        global_batch_size: Rows in a full global batch; None where only the data knows.
        seed: Seed of the run, or a drawn one where the configuration has none.
        parts: What all replicas read, of `train` and, if there is any, `validation`.
        rows_per_second: What each task reads, of training data.
        step_rows_per_second: What one replica trains; None where it was not measured.
    """

    config: str
    epoch: int
    global_batch_size: int | None
    seed: int
    parts: dict[str, Epoch]
    rows_per_second: dict[str, float | None]
    step_rows_per_second: float | None

    def keeps_up(self, task: str) -> float | None:
        """Gives how many times as fast as its replicas train a task reads; None where it was not measured."""
        read = self.rows_per_second.get(task)
        if not read or not self.step_rows_per_second:
            return None
        replicas = sum(reading.task == task for reading in self.parts["train"].readings)
        return read / (replicas * self.step_rows_per_second)

    def to_dict(self) -> dict[str, Any]:
        """Gives the report as what JSON can hold."""
        ratios = {task: self.keeps_up(task) for task in self.rows_per_second}
        return {**asdict(self), "keeps_up": ratios}

    def __str__(self) -> str:
        """Gives the report as lines for a terminal."""
        lines = [f"{self.config}, epoch {self.epoch}, seed {self.seed}"]
        for name, epoch in self.parts.items():
            lines += ["", *_lines_of(name, epoch)]
        if self.rows_per_second:
            lines += ["", *self._speed_lines()]
        return "\n".join(lines)

    def _speed_lines(self) -> list[str]:
        lines = []
        for task, read in self.rows_per_second.items():
            ratio = self.keeps_up(task)
            if read is None:
                lines.append(f"{task} has too few rows to time its reading")
                continue
            line = f"{task} reads {read:,.0f} rows/s"
            if ratio is not None:
                line += f"; one replica trains {self.step_rows_per_second:,.0f} rows/s here: "
                line += (
                    f"the input keeps up, {ratio:.1f} times as fast"
                    if ratio >= 1
                    else f"the input is too slow, {ratio:.2f} times as fast. {FASTER}"
                )
            lines.append(line)
        return lines

    def plot(self, axes: Any = None, most_batches: int = 12) -> Any:
        """Draws the rows of the first global batches of training: one bar for each replica's part.

        Args:
            axes: Matplotlib axes; left out: new ones.
            most_batches: How many batches to draw.

        Returns:
            The axes.
        """
        if axes is None:
            import matplotlib.pyplot as plt

            axes = plt.subplots(figsize=(8, 3))[1]
        readings = self.parts["train"].readings
        count = min(most_batches, max(len(reading.batches) for reading in readings))
        left = [0] * count
        for reading in readings:
            rows = (reading.batches + [0] * count)[:count]
            axes.barh(range(count), rows, left=left, label=f"{reading.task}, replica {reading.replica}")
            left = [begin + more for begin, more in zip(left, rows, strict=True)]
        axes.set(xlabel="rows", ylabel="global batch", yticks=range(count))
        axes.invert_yaxis()
        axes.legend(loc="center left", bbox_to_anchor=(1, 0.5))
        return axes


def data_report(
    config: str | Path,
    overrides: Sequence[str] = (),
    *,
    epoch: int = 0,
    seconds: float = 1.0,
    environ: Mapping[str, str] | None = None,
) -> DataReport:
    """Finds out what a configured run reads, in this process alone: no other task has to run.

    Args:
        config: The YAML file.
        overrides: Values that replace those of the file, each as `train.epochs=20`.
        epoch: Which epoch of training to look at, from 0.
        seconds: How long to time the reading of each task, and training; 0 for not at all.
        environ: The environment, in which a cluster may be found; left out: this process's.

    Returns:
        The report. `print` shows it, `.plot()` draws it.

    Raises:
        ConfigError: The configuration is wrong, or its data cannot be read.

    Example:
        >>> report = data_report("configs/digits_multi_worker.yaml", seconds=0)
        >>> [(reading.task, reading.rows) for reading in report.parts["train"].readings]
        [('worker:0', 718), ('worker:1', 719)]
    """
    loaded = load(str(config), overrides, kinds=kinds())
    seed = secrets.randbits(31) if loaded.train.seed is None else loaded.train.seed
    readers = _readers(loaded, loaded.known_cluster(os.environ if environ is None else environ))
    data = load_data(loaded, seed)
    with explaining(loaded, data):
        parts = {
            name: read_epoch(
                _maker(loaded, data, name, seed),
                readers,
                epoch if name == "train" else 0,
                _most_batches(loaded, data, name, seed, readers[0]),
            )
            for name in ("train", "validation")
            if name in data
        }
        for name, part in parts.items():
            if isinstance(data[name], Stream) and data[name].drop_remainder:
                part.never = None  # what each task leaves out at its end is meant to be
        source = _maker(loaded, data, "train", seed)
        rates, step = {}, None
        if seconds > 0:
            rates = {reader.task: input_speed(source, reader, seconds) for reader in readers}
            step = step_speed(
                lambda strategy: make_trainer(loaded, strategy, seed), source, readers[0], seconds
            )
    return DataReport(str(config), epoch, loaded.train.global_batch_size, seed, parts, rates, step)


def _readers(config: RunConfig, cluster: Cluster | None) -> list[Reader]:
    """Gives the tasks that read data, and what each is told of itself."""
    kind = get_kind(config.strategy.kind)
    counts = kind.replicas_of_readers(config.strategy, cluster)
    total = sum(counts.values())
    readers = []
    begin = 0
    for rank, (task, count) in enumerate(counts.items()):
        context = DataContext(rank=rank, world_size=len(counts), total_replicas=total)
        readers.append(Reader(task, context, tuple(range(begin, begin + count))))
        begin += count
    return readers


def _maker(config: RunConfig, data: Mapping[str, Any], name: str, seed: int) -> Callable[[Reader], Source]:
    x, y, sample_weight = unpack_data(data[name])

    def make(reader: Reader) -> Source:
        return make_source(
            x,
            y,
            sample_weight,
            batch_size=size_for(x, config.train.global_batch_size),
            shuffle=config.train.shuffle and name == "train",
            seed=seed,
            context=reader.context,
            replicas=reader.replicas,
        )

    return make


def _most_batches(
    config: RunConfig, data: Mapping[str, Any], name: str, seed: int, reader: Reader
) -> int | None:
    if isinstance(data[name], Iterator):
        raise ConfigError(
            f"{config.where('data', 'build')}: the {name} data is a"
            f" {type(data[name]).__name__}, which can be read only once.",
            "return a function of a context that makes the pipeline, or a keras.utils.PyDataset",
        )
    if not _maker(config, data, name, seed)(reader).endless:
        return None
    return config.train.steps_per_epoch or ENDLESS_BATCHES


def _lines_of(name: str, epoch: Epoch) -> list[str]:
    batches = max((len(reading.batches) for reading in epoch.readings), default=0)
    sizes = [
        sum((reading.batches[number : number + 1] or [0])[0] for reading in epoch.readings)
        for number in range(batches)
    ]
    rows = sum(sizes)
    head = f"{name}: {rows:,} rows in {batches:,} global batch{'' if batches == 1 else 'es'}"
    if sizes:
        head += f" of {sizes[0]:,}" + ("" if sizes[-1] == sizes[0] else f", the last of {sizes[-1]:,}")
    lines = [head if epoch.complete else f"{head} (the data has no end; only these were read)"]
    table = [("task", "replica", "rows", "per batch", "in the last", "its first rows")]
    for reading in epoch.readings:
        table.append(
            (
                reading.task,
                str(reading.replica),
                f"{reading.rows:,}",
                str(reading.batches[0]) if reading.batches else "0",
                str(reading.batches[-1]) if reading.batches else "0",
                ", ".join(reading.first) or "none",
            )
        )
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines += ["  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in table]
    lines += [
        f"  replica {reading.replica} reads {describe_files(reading.files)}"
        for reading in epoch.readings
        if reading.files
    ]
    return [*lines, "  " + _verdict(epoch)]


def _verdict(epoch: Epoch) -> str:
    found = []
    for count, how in ((epoch.twice, "read more than once"), (epoch.never, "never read")):
        if count:
            found.append(f"{count:,} row{' is' if count == 1 else 's are'} {how}")
    if found:
        return f"WRONG: {' and '.join(found)}. Fix: give each row to one task, as context.shard(dataset) does"
    if not epoch.complete:
        return "no row is in two tasks, as far as was read"
    if epoch.never is None:
        return "no row is in two tasks; whether any is left out, the data does not tell"
    return "every row is read once: none twice, none left out"

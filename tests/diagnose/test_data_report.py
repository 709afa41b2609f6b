"""`tfdist data report`: which task reads which rows, and what is wrong with that."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.figure
import pytest
import yaml

from tests.diagnose.data_of_tasks import ROWS
from tests.end_to_end.command import run
from tfdist import DistributedSampler, cli, data_report
from tfdist.diagnose.data_report import ENDLESS_BATCHES
from tfdist.examples import digits_files

BATCH = 12
ONCE = "every row is read once: none twice, none left out"

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Gives a function that writes a configuration of two workers."""

    def write(data: str | dict[str, Any], batch: bool = True, **train: Any) -> Path:
        section = {"build": f"tests.diagnose.data_of_tasks:{data}"} if isinstance(data, str) else data
        config = {
            "strategy": {"kind": "multi_worker_mirrored"},
            "cluster": {"local": {"workers": 2}},
            "model": {"build": "tfdist.examples.digits:build_model"},
            "data": section,
            "train": {"seed": 7, **({"global_batch_size": BATCH} if batch else {}), **train},
        }
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
        return tmp_path / "run.yaml"

    return write


def report(config: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Runs the command in this process, without measuring."""
    code = cli.main(["data", "report", str(config), "--seconds", "0", *arguments])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.parametrize("epoch", [0, 3])
def test_the_rows_of_two_workers_are_those_of_the_sampler(
    write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path, epoch: int
) -> None:
    found = tmp_path / "report.json"
    code, text = report(write("in_memory"), capsys, "--epoch", str(epoch), "--json", str(found))
    assert code == 0
    assert f"run.yaml, epoch {epoch}, seed 7" in text
    assert "train: 41 rows in 4 global batches of 12, the last of 5" in text
    assert "validation: 5 rows in 1 global batch of 5" in text
    assert text.count(ONCE) == 2
    readings = json.loads(found.read_text())["parts"]["train"]["readings"]
    assert [reading["task"] for reading in readings] == ["worker:0", "worker:1"]
    for replica, reading in enumerate(readings):
        sampler = DistributedSampler(ROWS, BATCH, replica=replica, replicas=2, seed=7)
        sampler.set_epoch(epoch)
        batches = [rows.tolist() for rows in sampler]
        assert reading["numbers"] == [row for rows in batches for row in rows]
        assert reading["batches"] == [len(rows) for rows in batches]
        assert reading["first"] == [f"row {row}" for row in batches[0][:4]]
        assert ", ".join(reading["first"]) in text


def test_a_real_process_measures_too(tmp_path: Path) -> None:
    found = tmp_path / "report.json"
    config = "configs/digits_multi_worker.yaml"
    code, text = run("data", "report", config, "--seconds", "0.1", "--json", found)
    assert code == 0, text
    assert text.count(ONCE) == 2
    written = json.loads(found.read_text())
    assert set(written["rows_per_second"]) == {"worker:0", "worker:1"}
    for task, speed in written["rows_per_second"].items():
        assert speed > 0
        assert written["keeps_up"][task] == pytest.approx(speed / written["step_rows_per_second"])
        assert f"{task} reads {speed:,.0f} rows/s; one replica trains" in text


def test_tasks_that_divide_the_rows(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = report(write("sharded"), capsys)
    assert (code, ONCE in text) == (0, True)
    assert "label 0, label 2, label 4, label 6" in text
    assert "label 1, label 3, label 5, label 7" in text


@pytest.mark.parametrize(
    ("function", "finding"),
    [
        ("forgets_to_shard", "WRONG: 40 rows are read more than once."),  # 41, of which two are equal
        ("drops_rows", "WRONG: 1 row is never read."),
    ],
)
def test_rows_read_twice_or_never_are_an_error(
    write: Write, capsys: pytest.CaptureFixture[str], function: str, finding: str
) -> None:
    code, text = report(write(function), capsys)
    assert code == 1
    assert f"{finding} Fix: give each row to one task, as context.shard(dataset) does" in text
    assert report(write(function), capsys, "--set", "cluster.local.workers=1")[0] == 0


def test_rows_that_change_cannot_be_missed(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = report(write("changes_rows"), capsys)
    assert code == 0
    assert "no row is in two tasks; whether any is left out, the data does not tell" in text


def test_all_tasks_share_one_order_of_a_shuffled_dataset(write: Write) -> None:
    orders = []
    for epoch in (0, 1):
        found = data_report(write("shuffled", batch=False), epoch=epoch, seconds=0).parts["train"]
        assert (found.twice, found.never) == (0, 0)
        first = [row for reading in found.readings for row in reading.first]
        assert len(set(first)) == 8
        orders.append(first)
    assert orders[0] != orders[1]


def test_data_without_an_end_is_looked_at_in_part(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = report(write("endless", batch=False), capsys)
    assert code == 0
    rows = ENDLESS_BATCHES * BATCH
    assert f"train: {rows:,} rows in {ENDLESS_BATCHES} global batches of 12 (the data has no end;" in text
    assert "no row is in two tasks, as far as was read" in text
    assert "in 5 global batches" in report(write("endless", batch=False, steps_per_epoch=5), capsys)[1]


def test_files_are_named(write: Write, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    digits_files.write(tmp_path, ["tfrecord", "tfrecord.gz"])
    section: dict[str, Any] = {
        "reader": "tfrecord",
        "features": {"pixels": {"dtype": "float32", "shape": [64]}, "label": {"dtype": "int64"}},
        "inputs": "pixels",
        "labels": "label",
    }
    config = write({**section, "files": f"{tmp_path}/train-*.tfrecord"}, shuffle=False)
    code, text = report(config, capsys)
    assert (code, ONCE in text) == (0, True)
    assert f"{tmp_path}/train-0.tfrecord:0, {tmp_path}/train-0.tfrecord:1," in text
    assert f"replica 1 reads {tmp_path}/train-0.tfrecord (" in text
    for drop_remainder, verdict in ((False, ONCE), (True, "whether any is left out, the data does not tell")):
        streams = {**section, "files": f"{tmp_path}/train-*.gz", "drop_remainder": drop_remainder}
        code, text = report(write(streams), capsys)
        assert (code, verdict in text) == (0, True), text


def test_the_figure_has_a_bar_for_each_part(write: Write) -> None:
    axes = matplotlib.figure.Figure().subplots()
    data_report(write("in_memory"), seconds=0).plot(axes)
    bars = [[bar.get_width() for bar in replica] for replica in axes.containers]
    assert bars == [[6, 6, 6, 2], [6, 6, 6, 3]]


@pytest.mark.parametrize(
    ("arguments", "words", "fix"),
    [
        (["--epoch", "-1"], "--epoch -1", "count epochs from 0"),
        (["--seconds", "-1"], "--seconds -1", "leave them out"),
        (["--epoch", "first"], "'first'", "tfdist data report --help"),
        (["--secs", "1"], "does not take --secs", "--seconds?"),
        (["--set", "train.seeds=1"], "train.seeds", "seed?"),
    ],
)
def test_wrong_usage(
    write: Write, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str, fix: str
) -> None:
    assert cli.main(["data", "report", str(write("in_memory")), *arguments]) == 2
    captured = capsys.readouterr()
    assert words in captured.err
    assert fix in captured.err.partition("Fix: ")[2]
    assert not captured.out


def test_data_that_is_read_once_is_refused(write: Write, capsys: pytest.CaptureFixture[str]) -> None:
    code, text = report(write("once", batch=False), capsys)
    assert code == 2
    assert "data.build" in text
    assert "can be read only once" in text

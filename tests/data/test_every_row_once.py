"""Every row is read once in an epoch, on one replica, in the same batches for any number of workers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.read_rows import KINDS, PER_TASK, POSITIONED, SIZES, WITHOUT_POSITION
from tests.parity.compare import differences
from tests.processes import run_tasks
from tfdist.cluster import Cluster

SCRIPT = Path(__file__).with_name("read_rows.py")
REPLICAS = {"one_device": 1, "multi_worker_2": 2, "multi_worker_3": 3}

Steps = list[list[list[int]]]  # of each step: of each replica: the rows


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Gives the folder in which one, two and three workers wrote down what they read."""
    directory = tmp_path_factory.mktemp("rows")
    for workers in (1, 2, 3):  # the first saves the positions
        run_tasks(SCRIPT, Cluster.local(workers=workers), args=[str(directory)], timeout=300)
    return directory


@pytest.fixture(scope="module")
def found(directory: Path) -> dict[str, dict[str, Any]]:
    """Gives what each way of training read: the cases' results by name, of each of its replicas."""
    results: dict[str, dict[str, Any]] = {}
    for file in sorted(directory.glob("*.jsonl")):
        cases = results.setdefault(file.stem.rpartition("-")[0], {})
        for line in file.open():
            entry = json.loads(line)
            merge(cases.setdefault(json.dumps(entry["case"]), {}), entry["found"])
    return results


def merge(into: dict[str, Any], given: dict[str, Any]) -> None:
    """Adds what another task found."""
    for key, value in given.items():
        if isinstance(value, dict):
            merge(into.setdefault(key, {}), value)
        else:
            into[key] = value


def steps(by_replica: dict[str, list[list[int]]], replicas: int) -> Steps:
    """Turns the rows of each replica into those of each step."""
    assert set(by_replica) == set(map(str, range(replicas)))
    lists = [by_replica[str(replica)] for replica in range(replicas)]
    assert len(set(map(len, lists))) == 1, "every replica takes the same number of steps"
    return [list(step) for step in zip(*lists, strict=True)]


def flat(nested: Steps) -> list[list[int]]:
    """Gives the rows of each step."""
    return [[row for rows in step for row in rows] for step in nested]


def epochs(batches: list[list[int]], rows: int, count: int) -> list[list[int]]:
    """Gives the rows of each epoch."""
    whole = [row for batch in batches for row in batch]
    assert len(whole) == rows * count
    return [whole[rows * epoch : rows * (epoch + 1)] for epoch in range(count)]


CASES = [(kind, size, shuffle) for kind in KINDS for size in SIZES for shuffle in (False, True)]


@pytest.mark.parametrize(("kind", "size", "shuffle"), CASES)
@pytest.mark.parametrize("way", REPLICAS)
def test_every_row_once(found: dict[str, Any], way: str, kind: str, size: str, shuffle: bool) -> None:
    case = json.dumps(["rows", kind, size, shuffle])
    batches = flat(steps(found[way][case], REPLICAS[way]))
    rows = SIZES[size]
    for epoch in epochs(batches, rows, 1 if kind == "generator" else 2):
        assert sorted(epoch) == list(range(rows))
        # A PyDataset has its batches mixed; tasks that read by themselves divide rows as they like.
        if rows > 1 and kind not in ("PyDataset", *PER_TASK):
            assert (epoch != list(range(rows))) == shuffle
    if kind == "stream by files":  # each task makes its part of a batch of its own files
        return
    expected = flat(steps(found["one_device"][case], 1))
    if kind == "dataset_fn":  # in which order the rows of a batch stand is up to the function
        batches, expected = list(map(sorted, batches)), list(map(sorted, expected))
    assert batches == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITHOUT_POSITION])
@pytest.mark.parametrize("way", REPLICAS)
def test_a_run_goes_on_with_the_next_unseen_row(found: dict[str, Any], way: str, kind: str) -> None:
    case = found[way][json.dumps(["position", kind])]
    before, after = (flat(steps(case[part], REPLICAS[way])) for part in ("before", "after"))
    first, second = epochs(before + after, POSITIONED, 2)
    assert sorted(first) == sorted(second) == list(range(POSITIONED))
    if kind != "stream by files":
        assert len(before) == 4 + 2


@pytest.mark.parametrize("tasks", [2, 3])
def test_workers_with_different_numbers_of_rows_finish_together(directory: Path, tasks: int) -> None:
    apart, together = (
        json.loads(directory.joinpath(f"{name}-{tasks}.json").read_text()) for name in ("apart", "together")
    )
    assert not differences(apart, together)

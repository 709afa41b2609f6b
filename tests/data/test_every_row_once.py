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
SEVERAL = [2, pytest.param(3, marks=pytest.mark.slow)]
WORKERS = [1, *SEVERAL]

Steps = list[list[list[int]]]  # of each step: of each replica: the rows


class Launches:
    """What one, two and three workers wrote down; each is launched when it is first asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._found: dict[int, dict[str, Any]] = {}

    def of(self, workers: int) -> dict[str, Any]:
        """Gives the cases' results by name, of each replica."""
        if workers not in self._found:
            if workers > 1:
                self.of(1)  # it saves the positions that the others go on from
            self._found[workers] = {}
            run_tasks(SCRIPT, Cluster.local(workers=workers), args=[str(self._directory)], timeout=400)
            way = "one_device" if workers == 1 else f"multi_worker_{workers}"
            for file in sorted(self._directory.glob(f"{way}-*.jsonl")):
                for line in file.open():
                    entry = json.loads(line)
                    merge(self._found[workers].setdefault(json.dumps(entry["case"]), {}), entry["found"])
        assert self._found[workers], f"{workers} workers found nothing"
        return self._found[workers]

    def uneven(self, name: str, workers: int) -> Any:
        """Gives what training with other numbers of rows came to: `apart` in tasks, or `together`."""
        self.of(workers)
        return json.loads(self._directory.joinpath(f"{name}-{workers}.json").read_text())


@pytest.fixture(scope="module")
def launches(tmp_path_factory: pytest.TempPathFactory) -> Launches:
    return Launches(tmp_path_factory.mktemp("rows"))


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
@pytest.mark.parametrize("workers", WORKERS)
def test_every_row_once(launches: Launches, workers: int, kind: str, size: str, shuffle: bool) -> None:
    case = json.dumps(["rows", kind, size, shuffle])
    batches = flat(steps(launches.of(workers)[case], workers))
    rows = SIZES[size]
    for epoch in epochs(batches, rows, 1 if kind == "generator" else 2):
        assert sorted(epoch) == list(range(rows))
        # A PyDataset has its batches mixed; tasks that read by themselves divide rows as they like.
        if rows > 1 and kind not in ("PyDataset", *PER_TASK):
            assert (epoch != list(range(rows))) == shuffle
    if kind == "stream by files":  # each task makes its part of a batch of its own files
        return
    expected = flat(steps(launches.of(1)[case], 1))
    if kind == "dataset_fn":  # in which order the rows of a batch stand is up to the function
        batches, expected = list(map(sorted, batches)), list(map(sorted, expected))
    assert batches == expected


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in WITHOUT_POSITION])
@pytest.mark.parametrize("workers", WORKERS)
def test_a_run_goes_on_with_the_next_unseen_row(launches: Launches, workers: int, kind: str) -> None:
    case = launches.of(workers)[json.dumps(["position", kind])]
    before, after = (flat(steps(case[part], workers)) for part in ("before", "after"))
    first, second = epochs(before + after, POSITIONED, 2)
    assert sorted(first) == sorted(second) == list(range(POSITIONED))
    if kind != "stream by files":
        assert len(before) == 4 + 2


@pytest.mark.parametrize("workers", SEVERAL)
def test_workers_with_different_numbers_of_rows_finish_together(launches: Launches, workers: int) -> None:
    assert not differences(launches.uneven("apart", workers), launches.uneven("together", workers))

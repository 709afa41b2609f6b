"""Callbacks in several tasks: decisions and learning rates are everybody's, files are the chief's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.processes import run_tasks
from tfdist.cluster import Cluster


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Gives what the chief and the other task saw."""
    script = Path(__file__).with_name("two_workers.py")
    folder = tmp_path_factory.mktemp("files")
    found = []
    for result in run_tasks(script, Cluster.local(workers=2), args=[str(folder)], timeout=200):
        line = next(line for line in result.output.splitlines() if line.startswith("SEEN "))
        found.append(json.loads(line.removeprefix("SEEN ")))
    return found


def test_a_rate_that_the_chief_sets_reaches_all(seen: list[dict[str, Any]]) -> None:
    assert [task["rate"] for task in seen] == [0.01, 0.01]
    assert seen[0]["weights"] == seen[1]["weights"]


def test_one_task_that_stops_stops_all_at_the_same_batch(seen: list[dict[str, Any]]) -> None:
    assert [task["stopped after"] for task in seen] == [2, 2]
    assert [task["batches"] for task in seen] == [[0, 1], [0, 1]]


def test_the_chief_alone_writes_files(seen: list[dict[str, Any]]) -> None:
    assert [task["files"] for task in seen] == [["chief.csv", "chief.keras"], []]


def test_arrays_that_differ_are_refused(seen: list[dict[str, Any]]) -> None:
    for task in seen:
        assert "has other rows than the other tasks" in task["arrays"]


def test_data_of_different_unknown_lengths_is_refused(seen: list[dict[str, Any]]) -> None:
    for task in seen:
        assert "read other rows than the other tasks" in task["unknown lengths"]


def test_data_of_different_lengths_is_refused(seen: list[dict[str, Any]]) -> None:
    assert "worker:0 has 4 batches" in seen[0]["lengths"]
    assert "worker:1 has 2 batches" in seen[1]["lengths"]
    assert all("Fix: pass the same data in every task" in task["lengths"] for task in seen)

"""One device and two mirrored ones: the features that the parity problems leave out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.processes import MARK, ROOT


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[int, dict[str, Any]]:
    """Runs the cases on one device and on two, side by side."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **MARK}
    processes = {
        replicas: subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("cases.py")), str(replicas)],
            cwd=tmp_path_factory.mktemp(f"replicas-{replicas}"),
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for replicas in (1, 2)
    }
    found = {}
    for replicas, process in processes.items():
        output, _ = process.communicate(timeout=400)
        lines = [line for line in output.splitlines() if line.startswith("RESULTS ")]
        assert lines, output
        found[replicas] = json.loads(lines[0].removeprefix("RESULTS "))
    return found


EQUAL = [
    "distributed optimizer, 1 batches",
    "distributed optimizer, 2 batches",
    "distributed optimizer, 4 batches",
    "averages overwrite",
    "averages overwrite, accumulated",
    "graph",
    "eager",
    "two players",
    "normalized spectrum",
    "kernels without decay",
    "one number per batch",
    "fits in a row",
]


@pytest.mark.parametrize("case", EQUAL)
def test_two_devices_equal_one(results: dict[int, dict[str, Any]], case: str) -> None:
    one, two = results[1][case], results[2][case]
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert two[name] == (value if isinstance(value, str) else pytest.approx(value, abs=1e-5))


@pytest.mark.parametrize("batches", [1, 2, 4])
@pytest.mark.parametrize("replicas", [1, 2])
def test_distributed_optimizer_equals_keras_on_one_device(
    results: dict[int, dict[str, Any]], replicas: int, batches: int
) -> None:
    expected = results[1]["keras alone"]
    found = results[replicas][f"distributed optimizer, {batches} batches"]
    assert found["weights"] == pytest.approx(expected["weights"], abs=1e-5)
    assert found["iterations"] == expected["iterations"] == 8
    assert found["saved as"].startswith("keras.")


def test_keras_alone_clips_before_it_sums(results: dict[int, dict[str, Any]]) -> None:
    """The fault that DistributedOptimizer mends; if it goes away one day, so may the class."""
    assert results[2]["keras alone"]["weights"] != pytest.approx(
        results[1]["keras alone"]["weights"], abs=1e-3
    )


@pytest.mark.parametrize("way", ["eager", "xla"])
def test_every_way_of_running_gives_the_same(results: dict[int, dict[str, Any]], way: str) -> None:
    assert results[1][way]["weights"] == pytest.approx(results[1]["graph"]["weights"], abs=1e-5)


def test_averages_overwrite_the_same_with_micro_batches(results: dict[int, dict[str, Any]]) -> None:
    whole = results[1]["averages overwrite"]["weights"]
    assert results[1]["averages overwrite, accumulated"]["weights"] == pytest.approx(whole, abs=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_what_was_set_on_an_optimizer_stays(results: dict[int, dict[str, Any]], replicas: int) -> None:
    expected = results[replicas]["without decay"]["weights"]
    assert results[replicas]["kernels without decay"]["weights"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("replicas", [1, 2])
def test_fits_in_a_row_are_one_long_fit(results: dict[int, dict[str, Any]], replicas: int) -> None:
    found = results[replicas]["fits in a row"]
    assert found["in a row"] == pytest.approx(found["at once"], abs=1e-6)


@pytest.mark.parametrize("replicas", [1, 2])
def test_layers_draw_new_numbers_while_predicting(results: dict[int, dict[str, Any]], replicas: int) -> None:
    assert results[replicas]["drawn while predicting"] == {"calls differ": True, "halves differ": True}


def test_each_replica_drops_other_entries(results: dict[int, dict[str, Any]]) -> None:
    # An entry that neither, one or both replicas kept: three levels. With the same mask on both there are
    # two.
    assert results[2]["dropout"]["levels"] == 3


REFUSED = {
    "distributed twice": "pass the plain optimizer to tfdist.fit",
    "backup": "Fix: ",
    "endless": "Fix: pass steps",
    "unknown loss": "Could not interpret loss identifier: msee",
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("replicas", [1, 2])
def test_is_refused(results: dict[int, dict[str, Any]], replicas: int, case: str) -> None:
    assert REFUSED[case] in results[replicas]["refusals"][case]

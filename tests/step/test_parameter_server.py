"""The learning rate and LARS under `parameter_server`."""

import json
from pathlib import Path

import numpy as np

import tfdist
from tests.processes import run_tasks
from tests.step.problems import PROBLEMS, expected

SCRIPT = Path(__file__).with_name("parameter_server.py")


def test_one_worker_follows_the_plan_and_correction_is_refused():
    results = run_tasks(SCRIPT, tfdist.Cluster.local(workers=1, ps=1), timeout=240)
    output = next(result.output for result in results if result.task.type == "chief")
    (weights,) = (line.partition(" ")[2] for line in output.splitlines() if line.startswith("WEIGHTS "))
    for name, found in json.loads(weights).items():
        for one, right in zip(found, expected(PROBLEMS[name]), strict=True):
            np.testing.assert_allclose(one, right, rtol=1e-6, atol=1e-5)
    (refused,) = (line for line in output.splitlines() if line.startswith("REFUSED "))
    assert "cannot be exact under parameter_server" in refused
    assert "Fix: leave momentum_correction out" in refused

"""When a job is done or has failed, and its exit code: no processes."""

from __future__ import annotations

import signal

import pytest

from tfdist.cluster import Cluster, Task
from tfdist.launch.policy import Ending, Outcome, State, exit_code, state_of


def ended(text: str) -> list[Ending]:
    """Read `worker:0=0 ps:0=-9`; a code in brackets was asked for."""
    endings = []
    for second, word in enumerate(text.split()):
        task, code = word.split("=")
        endings.append(
            Ending(Task.parse(task), int(code.strip("()")), float(second), asked=code.startswith("("))
        )
    return endings


WORKERS = {"workers": 2}
SERVERS = {"chief": True, "workers": 2, "ps": 1}
BETWEEN_GRAPH = {"chief": False, "workers": 2, "ps": 1}
CHIEF_AND_WORKER = {"chief": True, "workers": 1, "evaluator": True}


@pytest.mark.parametrize(
    ("cluster", "endings", "state"),
    [
        (WORKERS, "", State.RUNNING),
        (WORKERS, "worker:0=0", State.RUNNING),
        (WORKERS, "worker:0=0 worker:1=0", State.DONE),
        (WORKERS, "worker:0=0 worker:1=1", State.FAILED),
        (WORKERS, "worker:0=-9", State.FAILED),
        (WORKERS, "worker:0=(-15)", State.RUNNING),
        (SERVERS, "chief:0=0", State.DONE),
        (SERVERS, "worker:0=0 worker:1=0 ps:0=0", State.RUNNING),
        (SERVERS, "worker:0=-9", State.FAILED),
        (SERVERS, "ps:0=1", State.FAILED),
        (SERVERS, "ps:0=1 chief:0=0", State.DONE),
        (BETWEEN_GRAPH, "worker:0=0", State.RUNNING),
        (BETWEEN_GRAPH, "worker:0=0 worker:1=0", State.DONE),
        (CHIEF_AND_WORKER, "chief:0=0", State.RUNNING),
        (CHIEF_AND_WORKER, "evaluator:0=1", State.RUNNING),
        (CHIEF_AND_WORKER, "evaluator:0=1 chief:0=0 worker:0=0", State.DONE),
    ],
    ids=str,
)
def test_state(cluster: dict, endings: str, state: State) -> None:
    assert state_of(Cluster.local(**cluster).tasks, ended(endings)) is state


@pytest.mark.parametrize(
    ("state", "endings", "interrupted_by", "code"),
    [
        (State.DONE, "worker:0=0 evaluator:0=5", None, 0),
        (State.FAILED, "worker:0=3 worker:1=1", None, 3),
        (State.FAILED, "evaluator:0=5 worker:1=2", None, 2),
        (State.FAILED, "worker:0=-9 worker:1=3", None, 1),
        (State.FAILED, "worker:0=126", None, 1),
        (State.FAILED, "worker:0=(3) worker:1=4", None, 4),
        (State.INTERRUPTED, "worker:0=(-15)", signal.SIGINT, 130),
        (State.INTERRUPTED, "worker:0=3", signal.SIGTERM, 143),
        (State.TIMED_OUT, "worker:0=(-9)", None, 1),
        (State.OUTPUT_CLOSED, "worker:0=(-15)", None, 141),
    ],
)
def test_exit_code(state: State, endings: str, interrupted_by: signal.Signals | None, code: int) -> None:
    assert exit_code(Outcome(state, tuple(ended(endings)), 1.0, interrupted_by)) == code

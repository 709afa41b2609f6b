"""The harness that other tests start tasks with: it must fail where it should."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import MARK, Fault, left_running, run_tasks
from tfdist.cluster import Cluster

CHILD = Path(__file__).with_name("child.py")


def args(default: str, **actions: str) -> list[str]:
    return [json.dumps({task.replace("_", ":"): action for task, action in actions.items()}), default]


def test_results_in_order() -> None:
    first, second = run_tasks(
        CHILD, Cluster.local(workers=2), args=args("print_environment CUDA_VISIBLE_DEVICES"), timeout=30
    )
    assert (str(first.task), str(second.task), first.code) == ("worker:0", "worker:1", 0)
    assert "CUDA_VISIBLE_DEVICES=\n" in second.output


def test_servers_are_ended_with_the_chief() -> None:
    cluster = Cluster.local(workers=1, ps=1)
    chief, *servers = run_tasks(CHILD, cluster, args=args("ignore_sigterm", chief_0="finish 0.3"), timeout=30)
    assert (chief.code, chief.asked) == (0, False)
    assert [server.asked for server in servers] == [True, True]
    assert all("serving" in server.output for server in servers)


def test_failure_shows_every_task() -> None:
    with pytest.raises(AssertionError) as failure:
        run_tasks(
            CHILD, Cluster.local(workers=2), args=args("exit_with 3", worker_1="finish 0.2"), timeout=30
        )
    text = str(failure.value)
    assert "Failed: worker:0 (exit code 3)." in text
    assert "about to fail" in text
    assert "finished" in text


def test_failure_that_is_expected() -> None:
    results = run_tasks(
        CHILD,
        Cluster.local(workers=2),
        args=args("exit_with 3", worker_1="exit_with 4 0.3"),
        timeout=30,
        check=False,
    )
    assert [result.code for result in results] == [3, 4]


def test_deadline_kills_everything() -> None:
    with pytest.raises(
        AssertionError, match=r"(?s)not done after 1 s.*worker:1: ended by the harness.*serving"
    ):
        run_tasks(CHILD, Cluster.local(workers=2), args=args("ignore_sigterm"), timeout=1)


def test_fault_happens_when_its_line_came() -> None:
    results = run_tasks(
        CHILD,
        Cluster.local(workers=2),
        args=args("finish 0.5", worker_1="serve"),
        timeout=30,
        faults=[Fault("worker:1", "^serv", signal.SIGKILL)],
    )
    assert [(result.code, result.asked) for result in results] == [(0, False), (-signal.SIGKILL, False)]


def test_fault_that_never_happens_fails_the_test() -> None:
    with pytest.raises(AssertionError, match=r"Never happened.*step 3"):
        run_tasks(
            CHILD,
            Cluster.local(workers=1),
            args=args("finish"),
            timeout=30,
            faults=[Fault("worker:0", "step 3", signal.SIGKILL)],
        )


def test_process_that_fled_into_its_own_session_is_found() -> None:
    fled = subprocess.Popen(
        [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(600)"],
        env=MARK,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    with fled:
        assert fled.stdout is not None
        fled.stdout.readline()
        (found,) = left_running(timeout=0.0)
        assert found.startswith(f"{fled.pid}: ")
    assert left_running() == []

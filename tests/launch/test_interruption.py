"""A supervisor that is interrupted, killed or loses its reader: in no case do tasks stay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.processes import MARK, alive, left_running
from tfdist.cluster import Cluster
from tfdist.launch.local import run_local

HERE = Path(__file__).parent
DEADLINE = 30.0


@contextmanager
def supervisor(
    default: str, grace: float = 10.0, actions: dict[str, str] | None = None, **cluster: int
) -> Iterator[subprocess.Popen[str]]:
    """Start a supervisor; kill it at the end, if it has not ended."""
    cluster = cluster or {"workers": 2}
    words = [json.dumps(cluster), json.dumps(actions or {}), default, str(grace)]
    with subprocess.Popen(
        [sys.executable, str(HERE / "supervise.py"), *words],
        env={**os.environ, **MARK, "PYTHONUNBUFFERED": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_for(process: subprocess.Popen[str], text: str, times: int = 2) -> None:
    """Read the supervisor's output until some text has come so often."""
    assert process.stdout is not None
    while times:
        line = process.stdout.readline()
        assert line, f"ended before it printed {text!r}: {process.communicate()}"
        times -= text in line


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)], ids=str
)
def test_one_signal_ends_all_tasks(number: signal.Signals, code: int) -> None:
    with supervisor("serve") as process:
        wait_for(process, "serving")
        process.send_signal(number)
        _, report = process.communicate(timeout=DEADLINE)
    assert process.returncode == code
    assert f"{number.name}: ending all tasks" in report
    assert "failed" not in report


def test_one_signal_lets_tasks_save() -> None:
    with supervisor("save_on_sigterm") as process:
        wait_for(process, "serving")
        process.send_signal(signal.SIGTERM)
        output, _ = process.communicate(timeout=DEADLINE)
    assert output.count("saved") == 2


def test_second_ctrl_c_kills_at_once() -> None:
    with supervisor("ignore_sigterm", grace=600) as process:
        wait_for(process, "serving")
        process.send_signal(signal.SIGINT)
        wait_for(process, "no, thanks")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)  # far less than the grace
    assert process.returncode == 130


def test_ctrl_c_while_servers_are_ended_kills_them_at_once() -> None:
    actions = {"chief:0": "finish 0.3"}
    with supervisor("ignore_sigterm", grace=600, actions=actions, workers=1, ps=1) as process:
        wait_for(process, "no, thanks")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=DEADLINE)
    assert process.returncode == 0  # the chief had finished


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.15, 0.2, 0.25, 0.3])
def test_signal_while_tasks_start(delay: float) -> None:
    with supervisor("serve", workers=8) as process:
        assert process.stderr is not None
        process.stderr.readline()  # "starting 8 tasks": signals are handled from here on, or a moment later
        time.sleep(delay)  # not to wait for anything, but to hit different moments
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
    assert process.returncode in (143, -signal.SIGTERM)


@pytest.mark.parametrize("default", ["serve", "ignore_sigterm", "stop_itself", "wrap_in_shell"])
def test_killed_supervisor_takes_its_tasks_along(default: str) -> None:
    with supervisor(default) as process:
        wait_for(process, "stopping" if default == "stop_itself" else "serving")
        process.kill()
        process.wait()
        assert left_running() == []


def test_killed_supervisor_takes_grandchildren_along() -> None:
    # In groups of their own, left behind by a task that has ended.
    with supervisor("serve", grace=600, actions={"worker:0": "leave_grandchildren 0 group"}) as process:
        wait_for(process, "left two", 1)
        process.kill()
        process.wait()
        assert left_running() == []


def test_second_ctrl_c_works_while_nobody_reads() -> None:
    with supervisor("flood_for_ever ignore_sigterm", grace=600) as process:
        wait_for(process, "xxx")
        time.sleep(0.5)  # so that the supervisor is blocked in a write; if not yet, this passes anyway
        process.send_signal(signal.SIGINT)
        process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + DEADLINE
        while len(alive()) > 1 and time.monotonic() < deadline:
            time.sleep(0.02)
        assert list(alive()) == [process.pid]
        process.communicate()
    assert process.returncode in (130, 143)  # signals that are sent together may arrive in either order


@pytest.mark.parametrize(("default", "text"), [("flood_for_ever", "xxx"), ("chat_for_ever", "word")])
def test_reader_that_goes_away_ends_the_job(default: str, text: str) -> None:
    with supervisor(default) as process:
        wait_for(process, text)
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        report = process.stderr.read()
        assert process.wait(timeout=DEADLINE) == 141
    assert "Exception" not in report


def test_two_log_lines_when_all_is_well() -> None:
    with supervisor("finish") as process:
        _, report = process.communicate(timeout=DEADLINE)
    first, last = report.splitlines()
    assert "starting 2 tasks: worker:0 127.0.0.1:" in first
    assert "done after" in last


def test_error_while_starting_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "log-worker-1.txt").mkdir()  # so that the second task's log cannot be opened
    with pytest.raises(IsADirectoryError):
        run_local(
            [sys.executable, str(HERE / "child.py"), "{}", "serve"],
            Cluster.local(workers=2),
            log_directory=tmp_path,
            environ={**os.environ, **MARK},
        )
    assert left_running() == []


def test_handlers_are_put_back() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    run_local([sys.executable, "-c", ""], Cluster.local(workers=1), environ={**os.environ, **MARK})
    assert before == [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]

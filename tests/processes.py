"""Starts real tasks for a test, disturbs them on purpose, and leaves none behind.

    results = run_tasks(Path(__file__).with_name("cases.py"), Cluster.local(workers=2), timeout=120)
    results = run_tasks(script, cluster, timeout=60, faults=[Fault("worker:1", r"step 3", signal.SIGKILL)])

The tasks run under the supervisor of `tfdist launch` itself.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tfdist.cluster import Cluster, Task
from tfdist.launch.local import task_environments
from tfdist.launch.output import Console, log_name
from tfdist.launch.policy import Ending, Outcome, State
from tfdist.launch.supervisor import supervise

ROOT = Path(__file__).parents[1]
# Every process that a test starts inherits this, whatever session or parent it ends up with.
MARK = {"TFDIST_TEST_MARK": secrets.token_hex(8)}
_STOP_GRACE = 1.0  # TensorFlow ignores SIGTERM while it is blocked
_SETTLE = 3.0
_TAIL_LINES = 40


@dataclass(frozen=True)
class Fault:
    """Something that happens to a task.

    Attributes:
        task: To which, such as `worker:1`.
        after_line: A regular expression: it happens once, when the task has printed a line with a match.
        signal: What is sent to every process of the task.
    """

    task: str
    after_line: str
    signal: signal.Signals


@dataclass(frozen=True)
class TaskResult:
    """How one task ended and what it printed.

    Attributes:
        task: Which one.
        code: Its exit code, or minus the number of the signal that ended it.
        output: All it printed.
        asked: Whether it was ended because the job was over, as servers are.
    """

    task: Task
    code: int
    output: str
    asked: bool


def run_tasks(
    script: Path,
    cluster: Cluster,
    *,
    args: Sequence[str] = (),
    timeout: float,
    faults: Sequence[Fault] = (),
    check: bool | None = None,
    environ: Mapping[str, str] | None = None,
) -> list[TaskResult]:
    """Run a Python script once per task of a cluster, without GPUs, until the job is over.

    Args:
        script: Run with `args` in every task, with its TF_CONFIG; it can import from `tests`.
        cluster: The tasks.
        args: Arguments of the script.
        timeout: Seconds after which every task is killed and the test fails.
        faults: What happens to the tasks meanwhile. Each must happen.
        check: Whether a task that fails fails the test; by default, unless there are `faults`. If not, tasks
            that are left after a failure run on until they end by themselves, or until `timeout`.
        environ: Environment variables besides those of this process.

    Returns:
        One result per task, in the cluster's order.

    Raises:
        AssertionError: A task failed, a fault never happened, the time was over or a process was left. It
            shows the last lines of every task.
    """
    check = not faults if check is None else check
    waiting = list(faults)

    def disturb(task: Task, line: str) -> signal.Signals | None:
        for fault in waiting:
            if fault.task == str(task) and re.search(fault.after_line, line):
                waiting.remove(fault)
                return fault.signal
        return None

    variables = {
        **os.environ,
        "CUDA_VISIBLE_DEVICES": "",
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        **MARK,
        **(environ or {}),
    }
    with tempfile.TemporaryDirectory() as directory, open(os.devnull, "w") as nowhere:
        outcome, _ = supervise(
            [sys.executable, str(script), *args],
            cluster,
            task_environments(cluster, variables),
            Console(nowhere),
            log_directory=Path(directory),
            stop_grace=_STOP_GRACE,
            settle=_SETTLE if check else math.inf,
            timeout=timeout,
            on_line=disturb,
        )
        outputs = {
            task: log.read_text(errors="replace")
            for task in cluster.tasks
            if (log := Path(directory) / log_name(task)).exists()
        }
    problem = _problem(outcome, timeout, waiting, check)
    if left := left_running():
        problem += f" Processes were left running: {left}."
    if problem:
        raise AssertionError(_report(problem, outcome, outputs))
    endings = {ending.task: ending for ending in outcome.endings}
    return [
        TaskResult(task, endings[task].code, outputs[task], endings[task].asked) for task in cluster.tasks
    ]


def left_running(timeout: float = 5.0) -> list[str]:
    """Give the processes of this test run that outlive a short wait, as `pid: command`, and kill them."""
    deadline = time.monotonic() + timeout
    while found := alive():
        if time.monotonic() >= deadline:
            for pid in found:
                os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.02)
    return [f"{pid}: {command}" for pid, command in found.items()]


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    """Fail a test that leaves processes. A `conftest.py` that imports this puts it around its tests."""
    yield
    left = left_running()
    assert not left, "processes were left running"


def alive() -> dict[int, str]:
    """Give the processes of this test run that are alive: their ids and commands."""
    ((name, value),) = MARK.items()
    mark = f"{name}={value}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # Of a process that has ended and not been collected, the environment reads as empty.
            if mark in (entry / "environ").read_bytes().split(b"\0"):
                found[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended meanwhile, or is another user's
            continue
    return found


def _problem(outcome: Outcome, timeout: float, waiting: Sequence[Fault], check: bool) -> str:
    if outcome.state is State.TIMED_OUT:
        return f"The tasks were not done after {timeout:g} s."
    if outcome.state is State.INTERRUPTED:
        raise KeyboardInterrupt
    if waiting:
        return "Never happened, because no line matched: " + ", ".join(map(str, waiting)) + "."
    if check and outcome.failures:
        return "Failed: " + ", ".join(f"{ending.task} ({ending})" for ending in outcome.failures) + "."
    return ""


def _report(problem: str, outcome: Outcome, outputs: Mapping[Task, str]) -> str:
    endings = {ending.task: ending for ending in outcome.endings}
    parts = [problem]
    for task, output in outputs.items():
        parts.append(f"--- {task}: {_ended(endings.get(task))}")
        parts += output.splitlines()[-_TAIL_LINES:]
    return "\n".join(parts)


def _ended(ending: Ending | None) -> str:
    if ending is None:
        return "still there"
    return f"ended by the harness after {ending.seconds:.1f} s" if ending.asked else str(ending)

"""What becomes of a job when a task does something: real processes, faults as data."""

from __future__ import annotations

import io
import json
import os
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.processes import MARK
from tfdist.cluster import Cluster
from tfdist.launch.local import run_local

CHILD = Path(__file__).with_name("child.py")
WORKERS = {"workers": 2}
SERVERS = {"workers": 2, "ps": 1}


@dataclass
class Case:
    """Tasks that do `actions`, and `default` where none is given; what is expected of them."""

    name: str
    actions: dict[str, str]
    code: int
    default: str = "finish"
    cluster: dict = field(default_factory=lambda: WORKERS)
    report: list[str] = field(default_factory=list)  # regular expressions, on standard error
    absent: list[str] = field(default_factory=list)
    output: list[str] = field(default_factory=list)
    grace: float = 10.0


CASES = [
    Case("all finish", {}, 0, output=[r"(?m)^\[worker:0\] finished$", r"(?m)^\[worker:1\] finished$"]),
    Case("one later", {"worker:1": "finish 0.5"}, 0, output=[r"\[worker:1\] finished"]),
    Case(
        "own exit code is passed on",
        {"worker:1": "exit_with 3"},
        3,
        default="serve",
        report=[r"worker:1 failed: exit code 3, ", r"  \| about to fail"],
        absent=["Then failed", r"worker:0 (failed|\()"],
    ),
    Case("largest code that is passed on", {"worker:0": "exit_with 125"}, 125, default="serve"),
    Case(
        "code of a shell is not", {"worker:0": "exit_with 126"}, 1, default="serve", report=["exit code 126"]
    ),
    Case(
        "killed",
        {"worker:1": "die SIGKILL"},
        1,
        default="serve",
        report=["worker:1 failed: killed by SIGKILL, which the kernel also sends when memory runs out"],
    ),
    Case("crashed", {"worker:0": "die SIGSEGV"}, 1, default="serve", report=["worker:0 .*killed by SIGSEGV"]),
    Case("terminated by another", {"worker:0": "die SIGTERM"}, 1, default="serve", report=["SIGTERM"]),
    Case(
        "the first failure is the one shown",
        {"worker:0": "exit_with 7 0.4", "worker:1": "exit_with 5"},
        5,
        report=[r"^worker:1 failed: exit code 5", r"Then failed: worker:0 \(exit code 7, 0\.\d s later\)"],
    ),
    Case("a survivor ignores SIGTERM", {"worker:1": "exit_with 4"}, 4, default="ignore_sigterm", grace=0.5),
    Case(
        "a survivor is stopped",
        {"worker:0": "stop_itself", "worker:1": "exit_with 4 0.3"},
        4,
        output=[r"\[worker:0\] woke up"],
    ),
    Case(
        "a survivor has time to save",
        {"worker:0": "save_on_sigterm", "worker:1": "exit_with 4 0.3"},
        4,
        output=[r"\[worker:0\] saved"],
    ),
    Case(
        "the child of a shell has time to save",
        {"worker:0": "wrap_in_shell", "worker:1": "exit_with 4 0.5"},
        4,
        output=[r"\[worker:0\] saved"],
        absent=["never"],
    ),
    Case("grandchildren outlive a task that finished", {"worker:0": "leave_grandchildren 0"}, 0, grace=0.2),
    Case("grandchildren outlive a task that failed", {"worker:0": "leave_grandchildren 9"}, 9, grace=0.2),
    Case("grandchildren in their own group", {"worker:0": "leave_grandchildren 0 group"}, 0, grace=0.2),
    Case("much output, last words", {}, 0, default="flood 20000", output=[r"\[worker:1\] last words\n"]),
    Case(
        "much output, then failure",
        {"worker:1": "flood 20000 6"},
        6,
        report=[r"Its last 20 lines:\n  \| line 19981 x", r"  \| last words\nIts log: .*log-worker-1\.txt"],
    ),
    Case("output closed early", {"worker:1": "close_output 0"}, 0),
    Case("output closed early, then failure", {"worker:1": "close_output 8"}, 8, report=[r"\| closing"]),
    Case("failed without a word", {"worker:0": "finish nonsense"}, 1, report=["ValueError"]),
    Case(
        "servers end when the chief has",
        {"chief:0": "finish 0.3"},
        0,
        default="serve",
        cluster=SERVERS,
        output=[r"\[ps:0\] serving", r"\[chief:0\] finished"],
    ),
    Case("servers that ignore it", {"chief:0": "finish 0.3"}, 0, "ignore_sigterm", SERVERS, grace=0.3),
    Case("a server may end well before the chief", {"chief:0": "finish 0.4"}, 0, "finish", SERVERS),
    Case("parameter server dies", {"ps:0": "die SIGKILL"}, 1, "serve", SERVERS, [r"ps:0 failed: killed by"]),
    Case("worker server dies", {"worker:1": "exit_with 3"}, 3, "serve", SERVERS, [r"worker:1 failed"]),
    Case("chief fails", {"chief:0": "exit_with 2"}, 2, "serve", SERVERS, [r"chief:0 failed: exit code 2"]),
    Case(
        "an evaluator's failure does not end the training",
        {"evaluator:0": "exit_with 9", "worker:0": "finish 0.6"},
        0,
        cluster={"workers": 2, "evaluator": True},
        report=[r"evaluator:0 failed: exit code 9, .* The job was done all the same\.", r"\| about to fail"],
    ),
    Case(
        "the evaluator is not waited for",
        {"evaluator:0": "serve"},
        0,
        cluster={"workers": 1, "evaluator": True},
    ),
    Case(
        "the evaluator's failure is not the first cause",
        {"evaluator:0": "exit_with 9", "worker:1": "exit_with 4 0.4"},
        4,
        default="serve",
        cluster={"workers": 2, "evaluator": True},
        report=[r"^worker:1 failed"],
    ),
    Case(
        "bytes, bars and halves of lines",
        {
            "worker:0": r"print_bytes \xff\xfe!\n",
            "worker:1": r"print_bytes 10%\r\x20\x20\r99%\r\r\nhalf\rwhole",
        },
        0,
        output=["\\[worker:0\\] \ufffd\ufffd!\n", r"\[worker:1\] 99%\n", r"\[worker:1\] whole\n"],
        absent=["10%", "half"],
    ),
    Case(
        "the environment of a task",
        {},
        0,
        "print_environment PYTHONUNBUFFERED TF_CONFIG",
        output=[r"0\] PYTHONUNBUFFERED=1", r'1\] TF_CONFIG=\{.*"index": 1', r"1\] input=''"],
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_fault(case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster.local(**case.cluster)
    output = io.StringIO()
    code = run_local(
        [sys.executable, str(CHILD), json.dumps(case.actions), case.default],
        cluster,
        log_directory=tmp_path / "logs",
        stop_grace=case.grace,
        environ={name: value for name, value in (os.environ | MARK).items() if name != "PYTHONUNBUFFERED"},
        output=output,
    )
    report = capfd.readouterr().err
    assert code == case.code, report
    for pattern in case.report:
        assert re.search(pattern, report), report
    if not case.report and case.code == 0:
        assert report == ""
    for pattern in case.output:
        assert re.search(pattern, output.getvalue()), output.getvalue()
    for pattern in case.absent:
        assert not re.search(pattern, report + output.getvalue().replace("\r", "")), pattern
    logs = {file.name for file in (tmp_path / "logs").iterdir()}
    assert logs == {f"log-{task.type}-{task.index}.txt" for task in cluster.tasks}


def test_logs_hold_every_byte_and_earlier_runs(tmp_path: Path) -> None:
    text = r"a\r\nb\xff\x1b[31mred\x1b[0m\rc"
    for _ in range(2):
        run_local(
            [sys.executable, str(CHILD), "{}", f"print_bytes {text}"],
            Cluster.local(workers=1),
            log_directory=tmp_path,
            environ={**os.environ, **MARK},
            output=io.StringIO(),
        )
    assert (tmp_path / "log-worker-0.txt").read_bytes() == b"a\r\nb\xff\x1b[31mred\x1b[0m\rc" * 2

"""Tasks that die, users who press Ctrl-C: every task ends, and the first failure is named."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.end_to_end.command import finish, run, start
from tests.end_to_end.test_start_up import config_file


def until(process: subprocess.Popen[str], pattern: str) -> str:
    """Reads what a process prints until a line matches, and gives what was read."""
    read = ""
    for line in process.stdout:
        read += line
        if re.search(pattern, line):
            return read
    raise AssertionError(f"it ended without a line like {pattern!r}; it printed:\n{read}")


def pid_of(workdir: Path, task: str) -> int:
    """Finds the process that runs a task's Python, by its environment."""
    index = re.sub(r"(\w+):(\d+)", r'"type": "\1", "index": \2', task)
    found = []
    for folder in Path("/proc").iterdir():
        try:
            environ = (folder / "environ").read_bytes().decode(errors="replace")
            command = (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if f"{workdir}" in command and index in environ and "leash" not in command:
            found.append(int(folder.name))
    assert len(found) == 1, found
    return found[0]


def config(folder: Path, kind: str, cluster: str) -> Path:
    path = config_file(folder, kind, timeout=60)
    path.write_text(path.read_text() + f"cluster: {{local: {cluster}}}\n")
    return path


CASES = {
    "worker": ("multi_worker_mirrored", "{workers: 2}", "worker:1"),
    "first worker": ("multi_worker_mirrored", "{workers: 2}", "worker:0"),
    "ps": ("parameter_server", "{workers: 1, ps: 1}", "ps:0"),
    "chief": ("parameter_server", "{workers: 1, ps: 1}", "chief:0"),
    # The chief could go on with the other worker; on one machine, a dead task means that something is wrong.
    "worker of a chief": ("parameter_server", "{workers: 2, ps: 1}", "worker:1"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_killed_task_ends_the_job_and_is_named(case: str, tmp_path: Path) -> None:
    kind, cluster, victim = CASES[case]
    process = start("fit", config(tmp_path, kind, cluster), "--workdir", tmp_path)
    until(process, r"Epoch 3/")
    os.kill(pid_of(tmp_path, victim), signal.SIGKILL)
    code, output = finish(process)
    assert code == 1, output
    assert re.search(rf"^{victim} failed: .*SIGKILL", output, re.MULTILINE), output


@pytest.mark.parametrize(("number", "expected"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_job_ends_its_tasks(number: signal.Signals, expected: int, tmp_path: Path) -> None:
    process = start("fit", config(tmp_path, "multi_worker_mirrored", "{workers: 2}"), "--workdir", tmp_path)
    until(process, r"Epoch 3/")
    process.send_signal(number)
    code, output = finish(process)
    assert code == expected, output
    assert "Traceback" not in output


def test_an_error_of_the_user_shows_once_and_ends_the_job(tmp_path: Path) -> None:
    path = config(tmp_path, "multi_worker_mirrored", "{workers: 2}")
    path.write_text(path.read_text().replace("optimizer: adam", "optimizer: adman"))
    code, output = run("fit", path, "--workdir", tmp_path)
    assert code == 2, output
    assert f"{path.name}:4: train.optimizer: Keras has no optimizer 'adman'." in output
    assert "Fix: did you mean adam" in output


def test_a_workdir_in_use_is_refused(tmp_path: Path) -> None:
    from tfdist.launch.workdir import held

    path = config_file(tmp_path, "one_device", timeout=60)
    with held(tmp_path / "run", {}):
        code, output = run("fit", path, "--workdir", tmp_path / "run")
    assert code == 2, output
    assert f"is in use by process {os.getpid()}" in output
    assert "Fix: " in output

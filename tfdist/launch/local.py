"""Run a command once per task of a cluster, all on this machine, and look after the tasks."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from absl import logging

from tfdist.cluster import Cluster, Task
from tfdist.errors import ConfigError
from tfdist.launch.output import TAIL_LINES, Console, TaskOutput
from tfdist.launch.policy import Ending, Outcome, State, exit_code
from tfdist.launch.supervisor import supervise

_LONGEST_TAIL_LINE = 500  # characters


def run_local(
    command: Sequence[str],
    cluster: Cluster,
    *,
    log_directory: Path | None = None,
    stop_grace: float = 10.0,
    environ: Mapping[str, str] | None = None,
    output: TextIO | None = None,
) -> int:
    """Run a command once per task, each with its TF_CONFIG, until the job is done or has failed.

    The job is done when chief and workers have ended with 0; with parameter servers, when the chief has:
    workers and parameter servers are then servers, and are ended. When a task fails, the first failure is
    reported on standard error, and all others are ended: SIGTERM, `stop_grace` seconds, SIGKILL, for
    everything the task started. Ctrl-C, SIGTERM and SIGHUP end the job the same way, a second one at once. If
    this process is killed, the tasks end too. An evaluator that fails is reported and does not end the job.

    Args:
        command: Program and arguments.
        cluster: The tasks and their addresses, all on this machine.
        log_directory: Keeps the whole output of each task, in `log-worker-1.txt` and so on; files that exist
        are
            appended to. None keeps no files.
        stop_grace: Seconds between SIGTERM and SIGKILL.
        environ: The tasks' environment beside TF_CONFIG and PYTHONUNBUFFERED; None means this process's.
        output: Where the tasks' lines are shown, as `[worker:1] …`; None means standard output.

    Returns:
        0 when the job is done; the exit code of the task that failed first, if that is 1 to 125, else 1; 128
        and the number of the signal when interrupted (Ctrl-C: 130); 141 when `output` was closed by its
        reader.

    Raises:
        ConfigError: The command cannot be run. Nothing was started.

    Example:
        >>> import sys
        >>> from tfdist.cluster import Cluster
        >>> run_local([sys.executable, "-c", "print('hello')"], Cluster.local(workers=1, ps=0, chief=False))
        [worker:0] hello
        0
    """
    environ = dict(os.environ if environ is None else environ)
    check_command(command, environ)
    where = "not kept"
    if log_directory is not None:
        try:
            log_directory.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"The folder for logs, {log_directory}, cannot be made: {error.strerror}.",
                "choose another folder",
            ) from error
        where = str(log_directory)
    tasks = cluster.tasks
    addresses = ", ".join(f"{task} {cluster.address(task)}" for task in tasks)
    logging.info("starting %d tasks: %s; logs: %s", len(tasks), addresses, where)
    outcome, outputs = supervise(
        command,
        cluster,
        task_environments(cluster, environ),
        Console(sys.stdout if output is None else output),
        log_directory=log_directory,
        stop_grace=stop_grace,
    )
    if outcome.failures:
        print(describe_failure(outcome, outputs), file=sys.stderr, flush=True)
    logging.info("%s after %.1f s", outcome.state.name.lower().replace("_", " "), outcome.seconds)
    return exit_code(outcome)


def task_environments(cluster: Cluster, environ: Mapping[str, str]) -> dict[Task, dict[str, str]]:
    """Give each task's environment: the one given, with its TF_CONFIG and unbuffered output of Python."""
    return {
        task: {**environ, "TF_CONFIG": cluster.tf_config(task), "PYTHONUNBUFFERED": "1"}
        for task in cluster.tasks
    }


def check_command(command: Sequence[str], environ: Mapping[str, str]) -> None:
    """Refuse a command that cannot be started.

    Raises:
        ConfigError: It is empty, its program is not found, is a directory or is not executable.
    """
    if not command or not command[0]:
        raise ConfigError("The command to run in each task is empty.", "give one, such as: python train.py")
    program = command[0]
    path = environ.get("PATH", os.defpath)
    if shutil.which(program, path=path):
        return
    file = Path(program)
    if file.is_dir():
        raise ConfigError(
            f"The command {program!r} is a directory, not a program.", "name the program in it."
        )
    if file.is_file():
        why = "not a program on the PATH" if os.access(file, os.X_OK) else "not executable"
        if file.suffix == ".py":
            fix = f"put python before it: python {program}"
        else:
            fix = f"chmod +x {program}, and name it as {os.path.join(file.parent, file.name)}"
        raise ConfigError(f"The command {program!r} is a file here, but {why}.", fix)
    where = "there is no such file" if os.sep in program else f"it is in no directory of PATH={path}"
    raise ConfigError(
        f"The command {program!r} was not found: {where}.",
        "correct the name, activate the environment that has it, or give its whole path.",
    )


def describe_failure(outcome: Outcome, outputs: Mapping[Task, TaskOutput]) -> str:
    """Tell which task failed first, how, and what it printed last; the others in one line."""
    first, *others = outcome.failures
    text = [f"{first.task} failed: {first}, {first.seconds:.1f} s after the start."]
    if outcome.state is State.DONE:
        text[0] += " The job was done all the same."
    output = outputs[first.task]
    tail = [
        line if len(line) <= _LONGEST_TAIL_LINE else line[:_LONGEST_TAIL_LINE] + " …" for line in output.tail
    ]
    if tail:
        text.append(f"Its last {len(tail)} lines:" if len(tail) == TAIL_LINES else "Its output:")
        text += [f"  | {line}" for line in tail]
    else:
        text.append("It printed nothing.")
    if output.log is not None:
        text.append(f"Its log: {output.log}")
    if others:
        text.append("Then failed: " + "; ".join(_later(first, ending) for ending in others) + ".")
    return "\n".join(text)


def _later(first: Ending, ending: Ending) -> str:
    return f"{ending.task} ({ending}, {ending.seconds - first.seconds:.1f} s later)"

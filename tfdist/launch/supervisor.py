"""Run the tasks of one job side by side until it is done or has failed, and end every one of them."""

from __future__ import annotations

import math
import os
import selectors
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from signal import Signals
from types import TracebackType

from absl import logging

from tfdist.cluster import Cluster, Task
from tfdist.launch.interruption import noted_signals
from tfdist.launch.output import Console, StartupWatch, TaskOutput, log_name
from tfdist.launch.policy import Ending, Outcome, State, finishers, state_of
from tfdist.launch.process import TaskProcess

_TICK = 0.1  # seconds between two looks at processes and signals; output is handled as it comes
_READ_BYTES = 1 << 16
_PIPE_READS = 32  # reads that empty any pipe: Linux allows 1 MiB
_KILL_SECONDS = 5.0  # how long a killed process may take to vanish before we say that it did not


class Job:
    """The running tasks of a cluster with their output. Leaving its `with` block leaves no process behind.

    Args:
        cluster: Whose tasks.
        console: Where their output is shown.
        log_directory: Where each task's output is kept; None keeps none. It must exist.
        stop_grace: Seconds between SIGTERM and SIGKILL.
        on_line: Called with each line as it is shown; a signal that it returns is sent to that task.

    Attributes:
        endings: How tasks ended, in that order.
        outputs: Output of every started task.
    """

    def __init__(
        self,
        cluster: Cluster,
        console: Console,
        log_directory: Path | None = None,
        stop_grace: float = 10.0,
        on_line: Callable[[Task, str], Signals | None] | None = None,
    ) -> None:
        self._cluster = cluster
        self._console = console
        self._log_directory = log_directory
        self._stop_grace = stop_grace
        self._on_line = on_line
        self._start = time.monotonic()
        self._startup = StartupWatch(self._start)
        self._selector = selectors.DefaultSelector()
        self._processes: dict[Task, TaskProcess] = {}
        self._asked: set[Task] = set()
        self._closed: set[Task] = set()
        self._stopped_at = math.inf
        self.outputs: dict[Task, TaskOutput] = {}
        self.endings: list[Ending] = []

    def __enter__(self) -> Job:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        deadline = time.monotonic() + _KILL_SECONDS
        while self.running and time.monotonic() < deadline:
            self.tend()
        for task in self.running:
            logging.error("%s (process %d) is still there after SIGKILL.", task, self._processes[task].pid)
        for process in self._processes.values():
            process.close()
        for output in self.outputs.values():
            output.finish()
        self._selector.close()

    @property
    def running(self) -> list[Task]:
        """The tasks of which some process runs."""
        return [task for task, process in list(self._processes.items()) if not process.gone]

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    @property
    def overdue(self) -> bool:
        """Whether processes outlive even SIGKILL."""
        return self.seconds > self._stopped_at + self._stop_grace + _KILL_SECONDS

    def start(self, task: Task, command: Sequence[str], environ: Mapping[str, str]) -> None:
        """Start one task."""
        log = self._log_directory / log_name(task) if self._log_directory is not None else None
        self.outputs[task] = TaskOutput(task, log)
        process = TaskProcess(command, environ, self._stop_grace)
        self._processes[task] = process
        self._selector.register(process.output, selectors.EVENT_READ, task)

    def stop(self) -> None:
        """Ask all tasks to end; `tend` kills those that outlive their grace."""
        self._stopped_at = self.seconds
        for task, process in self._processes.items():
            self._asked.add(task)
            process.stop()

    def kill(self) -> None:
        """Kill all tasks. Safe inside a signal handler."""
        for task, process in list(self._processes.items()):
            self._asked.add(task)
            process.kill()

    def tend(self) -> None:
        """Handle output for up to a tenth of a second, then note the tasks that ended."""
        for key, _ in self._selector.select(_TICK):
            self._read(key.data)
        now = time.monotonic()
        for task, process in self._processes.items():
            process.tend()
            if process.code is not None and all(ending.task != task for ending in self.endings):
                self._read_all(task)  # so that its last words are there when its end is reported
                ending = Ending(task, process.code, self.seconds, asked=task in self._asked)
                self.endings.append(ending)
                if ending.failed and task.type == "evaluator":
                    logging.warning("%s failed (%s); the training goes on without it", task, ending)
            if process.gone:
                self._read_all(task)
                self._close_output(task)
            self._show(task, self.outputs[task].overdue(now))
        silent = [task for task in self.running if self.outputs[task].silent]
        if remark := self._startup.remark(silent, now):
            logging.warning("%s", remark)

    def state(self) -> State:
        """Judge the job by the tasks that have ended."""
        return state_of(self._cluster.tasks, self.endings)

    def waited_for(self) -> set[Task]:
        """Give the tasks whose end the job waits for and that still run."""
        return finishers(self._cluster.tasks) - {ending.task for ending in self.endings}

    def _read_all(self, task: Task) -> None:
        for _ in range(_PIPE_READS):  # not for ever: something it left behind may go on printing
            if not self._read(task):
                break

    def _read(self, task: Task) -> bool:
        """Read once; False when there is nothing to read for now, or ever."""
        if task in self._closed:
            return False
        try:
            data = os.read(self._processes[task].output, _READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            self._close_output(task)
            return False
        now = time.monotonic()
        self._startup.heard(now)
        self._show(task, self.outputs[task].receive(data, now))
        return True

    def _close_output(self, task: Task) -> None:
        if task in self._closed:
            return
        self._closed.add(task)
        self._selector.unregister(self._processes[task].output)
        self._show(task, self.outputs[task].finish())

    def _show(self, task: Task, lines: list[str]) -> None:
        self._console.show(task, lines)
        if self._on_line is not None:
            for line in lines:
                if number := self._on_line(task, line):
                    self._processes[task].send(number)


def supervise(
    command: Sequence[str],
    cluster: Cluster,
    environments: Mapping[Task, Mapping[str, str]],
    console: Console,
    *,
    log_directory: Path | None = None,
    stop_grace: float = 10.0,
    settle: float = 1.0,
    timeout: float | None = None,
    on_line: Callable[[Task, str], Signals | None] | None = None,
) -> tuple[Outcome, dict[Task, TaskOutput]]:
    """Start a command once per task, look after all of them, and return when every process has ended.

    Args:
        command: Program and arguments, the same for every task.
        cluster: The tasks.
        environments: Each task's whole environment.
        console: Where their output is shown.
        log_directory: Where each task's output is kept; None keeps none. It must exist.
        stop_grace: Seconds between SIGTERM and SIGKILL.
        settle: Seconds that the others get after a failure to fail by themselves, before they are ended.
        timeout: Seconds after which every task is killed; None waits for ever.
        on_line: Called with each line as it is shown; a signal that it returns is sent to that task.

    Returns:
        How the job ended, and what each task printed.
    """
    job = Job(cluster, console, log_directory, stop_grace, on_line)
    with noted_signals(on_repeat=job.kill) as signals, job:
        for task in cluster.tasks:
            if not signals:
                job.start(task, command, environments[task])
        state = State.RUNNING
        failed_at: float | None = None
        while state is State.RUNNING:
            job.tend()
            if signals:
                state = State.INTERRUPTED
                logging.info("%s: ending all tasks (Ctrl-C once more: at once)", signals[0].name)
            elif console.closed:
                state = State.OUTPUT_CLOSED
            elif timeout is not None and job.seconds >= timeout:
                state = State.TIMED_OUT
                job.kill()
            elif (judged := job.state()) is State.FAILED:
                failed_at = job.seconds if failed_at is None else failed_at
                # Once only servers are left, nobody's own failure is worth waiting for.
                if job.seconds - failed_at >= settle or not job.waited_for():
                    state = judged
            else:
                state = judged
        patience = 1 if state is State.INTERRUPTED else 0  # signals that may have come without hurry
        job.stop()
        while job.running and not job.overdue:
            job.tend()
            if len(signals) > patience:
                job.kill()  # not only in the handler: a task may have been starting just then
        interrupted_by = signals[0] if state is State.INTERRUPTED else None
        outcome = Outcome(state, tuple(job.endings), job.seconds, interrupted_by)
    return outcome, job.outputs

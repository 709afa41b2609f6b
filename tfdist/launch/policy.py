"""When a job of several tasks is done or has failed, and what that means as an exit code. No processes."""

from __future__ import annotations

import enum
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tfdist.cluster import Task
from tfdist.errors import EXIT_DONE, EXIT_FAILED

_SIGNAL_BASE = 128  # what shells add to the number of the signal that ended a command


class State(enum.Enum):
    """How a job stands."""

    RUNNING = enum.auto()
    DONE = enum.auto()
    FAILED = enum.auto()
    INTERRUPTED = enum.auto()
    TIMED_OUT = enum.auto()
    OUTPUT_CLOSED = enum.auto()


@dataclass(frozen=True)
class Ending:
    """How one task ended.

    Attributes:
        task: Which one.
        code: Its exit code, or minus the number of the signal that ended it.
        seconds: Since the job's start.
        asked: Whether it was asked to end before it did, so that the code says nothing about the task.
    """

    task: Task
    code: int
    seconds: float
    asked: bool = False

    @property
    def failed(self) -> bool:
        """Whether it ended by itself and not well."""
        return self.code != 0 and not self.asked

    def __str__(self) -> str:
        if self.code >= 0:
            return f"exit code {self.code}"
        try:
            name = signal.Signals(-self.code).name
        except ValueError:
            name = f"signal {-self.code}"
        if name == "SIGKILL":
            name += ", which the kernel also sends when memory runs out"
        return f"killed by {name}"


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        state: Anything but `RUNNING`.
        endings: One for each task that was started, in the order in which they ended.
        seconds: How long the job took.
        interrupted_by: The signal that ended the job, when one did.
    """

    state: State
    endings: tuple[Ending, ...]
    seconds: float
    interrupted_by: signal.Signals | None = None

    @property
    def failures(self) -> list[Ending]:
        """The tasks that failed by themselves, first one first; evaluators only when nothing else failed."""
        failed = [ending for ending in self.endings if ending.failed]
        return [ending for ending in failed if ending.task.type != "evaluator"] or failed


def finishers(tasks: Iterable[Task]) -> set[Task]:
    """Give the tasks that the job waits for: chief and workers; beside parameter servers the chief alone.

    Workers and parameter servers that a chief drives are servers, which never end by themselves.
    """
    tasks = list(tasks)
    types = {task.type for task in tasks}
    waited_for = {"chief"} if {"chief", "ps"} <= types else {"chief", "worker"}
    return {task for task in tasks if task.type in waited_for}


def state_of(tasks: Iterable[Task], endings: Sequence[Ending]) -> State:
    """Judge a job by the tasks that have ended so far: `RUNNING`, `DONE` or `FAILED`.

    An evaluator's end never decides. Nor does the end of a server once all that were waited for ended well.
    """
    ended_well = {ending.task for ending in endings if ending.code == 0}
    if finishers(tasks) <= ended_well:
        return State.DONE
    if any(ending.failed and ending.task.type != "evaluator" for ending in endings):
        return State.FAILED
    return State.RUNNING


def exit_code(outcome: Outcome) -> int:
    """Give the job's exit code: the first failed task's own where it can be passed on (1 to 125), else 1.

    An interrupted job gives 128 and the number of the signal, as shells do: 130 for Ctrl-C, 143 for SIGTERM.
    """
    if outcome.state is State.DONE:
        return EXIT_DONE
    if outcome.state is State.OUTPUT_CLOSED:
        return _SIGNAL_BASE + signal.SIGPIPE
    if outcome.interrupted_by is not None:
        return _SIGNAL_BASE + outcome.interrupted_by
    code = outcome.failures[0].code if outcome.failures else EXIT_FAILED
    return code if 1 <= code <= 125 else EXIT_FAILED

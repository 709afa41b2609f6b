"""The name of one process of the job."""

from __future__ import annotations

from dataclasses import dataclass

from tfdist.errors import ConfigError
from tfdist.problems import nearest, shown

TASK_TYPES = ("chief", "worker", "ps", "evaluator")

# What other tools and older versions write for the same thing.
ALIASES = {
    "master": "chief",
    "workers": "worker",
    "parameter_server": "ps",
    "parameter_servers": "ps",
    "evaluators": "evaluator",
}


@dataclass(frozen=True)
class Task:
    """One process of the job.

    Attributes:
        type: `chief`, `worker`, `ps` or `evaluator`.
        index: Its number among the tasks of that type, from 0.

    Raises:
        ConfigError: The type is not one of these, or the index is not a whole number from 0.

    Example:
        >>> str(Task("worker", 1))
        'worker:1'
    """

    type: str
    index: int = 0

    def __post_init__(self) -> None:
        if self.type not in TASK_TYPES:
            raise ConfigError(*unknown_type(self.type))
        if isinstance(self.index, bool) or not isinstance(self.index, int) or self.index < 0:
            raise ConfigError(
                f"The index of a task is {shown(self.index)}; it is a whole number, counted from 0.",
                f"write Task({self.type!r}, 0) for the first {self.type}",
            )

    def __str__(self) -> str:
        return f"{self.type}:{self.index}"

    @classmethod
    def parse(cls, text: str) -> Task:
        """Reads a task as people write it; `chief` alone is `chief:0`.

        Raises:
            ConfigError: It is not `type:index`.

        Example:
            >>> Task.parse("worker:1")
            Task(type='worker', index=1)
        """
        type_, colon, index = text.partition(":")
        if colon and not (index.isascii() and index.isdigit()):
            raise ConfigError(f"{shown(text)} is not a task; a task is `type:index`.", "write, say, worker:1")
        return cls(type_, int(index) if colon else 0)


def unknown_type(name: object) -> tuple[str, str]:
    """Gives the problem and the fix for a name that is not a task type."""
    meant = ALIASES.get(str(name).casefold()) or nearest(name, TASK_TYPES)
    return (
        f"{shown(name)} is not a type of task; the types are {', '.join(TASK_TYPES)}.",
        f"did you mean {meant}?" if meant else f"use one of {', '.join(TASK_TYPES)}",
    )

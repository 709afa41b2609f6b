"""A cluster on this machine, on ports that the system gives."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Mapping
from typing import Any

from tfdist.cluster.task import Task
from tfdist.problems import Problem, nearest, shown

_KEYS = ("workers", "ps", "chief", "evaluator")


def local_problems(local: Mapping[Any, Any]) -> list[Problem]:
    """Finds what is wrong with the numbers of a local cluster, given as `{"workers": 2, "ps": 1}`."""
    problems = []
    for key, value in local.items():
        if key not in _KEYS:
            meant = nearest(key, _KEYS)
            what = f"unknown key (received {shown(value)}). local has {', '.join(_KEYS)}."
            problems.append(Problem((key,), what, f"did you mean {meant}?" if meant else f"remove {key}"))
        elif key in ("workers", "ps") and (
            isinstance(value, bool) or not isinstance(value, int) or value < 0
        ):
            problems.append(
                Problem((key,), f"{shown(value)} is not a whole number, 0 or more.", "give it as 2")
            )
        elif key in ("chief", "evaluator") and not isinstance(value, bool | None):
            what = f"{shown(value)} is not true or false; there is at most one {key}."
            problems.append(Problem((key,), what, "give it as true"))
    if not problems and not local.get("workers") and not _has_chief(local):
        what = f"{shown(dict(local))} has no worker and no chief, so nothing would train."
        problems.append(Problem((), what, "give it workers, such as 2"))
    return problems


def local_addresses(local: Mapping[str, Any]) -> dict[str, list[str]]:
    """Gives a loopback address for each task of a local cluster that has no problems."""
    counts = {
        "chief": int(_has_chief(local)),
        "worker": local.get("workers", 0),
        "ps": local.get("ps", 0),
        "evaluator": int(bool(local.get("evaluator"))),
    }
    tasks = [Task(type_, index) for type_, count in counts.items() for index in range(count)]
    addresses: dict[str, list[str]] = {}
    for task, port in zip(tasks, _free_ports(len(tasks)), strict=True):
        addresses.setdefault(task.type, []).append(f"127.0.0.1:{port}")
    return addresses


def _has_chief(local: Mapping[str, Any]) -> bool:
    chief = local.get("chief")
    return bool(local.get("ps")) if chief is None else chief


def _free_ports(count: int) -> list[int]:
    # All are held until the last is known: no port is given twice, here or to a job that starts meanwhile.
    with contextlib.ExitStack() as held:
        sockets = [
            held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM)) for _ in range(count)
        ]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]

"""The rules that every cluster keeps, wherever its description came from."""

from __future__ import annotations

from collections.abc import Mapping

from tfdist.cluster.address import is_this_machine_only, mistake
from tfdist.cluster.task import TASK_TYPES, Task, unknown_type
from tfdist.problems import Problem, shown


def problems_with(addresses: Mapping[str, object]) -> list[Problem]:
    """Finds what is wrong with the addresses of a cluster.

    Args:
        addresses: The addresses of each task type, such as `{"worker": ["n1:2222", "n2:2222"]}`.

    Returns:
        The problems, with paths such as `("worker", 1)`; none if it is a cluster that can work.
    """
    problems: list[Problem] = []
    valid: dict[Task, str] = {}
    for type_, hosts in addresses.items():
        if type_ not in TASK_TYPES:
            problems.append(Problem((type_,), *unknown_type(type_)))
        elif not isinstance(hosts, list | tuple):
            fix = f"write [{hosts}]" if isinstance(hosts, str) else 'write ["host:port", …]'
            problems.append(Problem((type_,), f"{shown(hosts)} is not a list of addresses.", fix))
        else:
            for index, address in enumerate(hosts):
                wrong = mistake(address)
                if wrong:
                    problems.append(Problem((type_, index), *wrong))
                else:
                    valid[Task(type_, index)] = address
    if problems:
        return problems
    return [
        *_counts(addresses),
        *_duplicates(valid),
        *_loopback_beside_other_hosts(valid),
    ]


def _counts(addresses: Mapping[str, object]) -> list[Problem]:
    problems = []
    for type_ in ("chief", "evaluator"):
        count = len(addresses.get(type_) or ())  # type: ignore[arg-type]
        if count > 1:
            fix = "move the others to worker" if type_ == "chief" else "keep one of them"
            what = f"there are {count} addresses; a cluster has at most one {type_}."
            problems.append(Problem((type_,), what, fix))
    if not addresses.get("chief") and not addresses.get("worker"):
        what = f"there is no chief and no worker among {shown(dict(addresses))}, so nothing would train."
        problems.append(Problem((), what, "add worker, a list of host:port"))
    return problems


def _duplicates(valid: Mapping[Task, str]) -> list[Problem]:
    problems = []
    first: dict[str, Task] = {}
    for task, address in valid.items():
        other = first.setdefault(address.casefold(), task)
        if other != task:
            what = f"{shown(address)} is the address of {other} too; each task listens on its own."
            problems.append(Problem((task.type, task.index), what, f"give {task} another host or port"))
    return problems


def _loopback_beside_other_hosts(valid: Mapping[Task, str]) -> list[Problem]:
    # Nobody connects to an evaluator, so its address does no harm.
    training = {task: address for task, address in valid.items() if task.type != "evaluator"}
    far = next((task for task, address in training.items() if not is_this_machine_only(address)), None)
    if far is None:
        return []
    return [
        Problem(
            (task.type, task.index),
            f"{shown(address)} means this machine on every machine, but {far} is at {training[far]}: "
            f"it could not reach {task}.",
            f"give {task} the name or address by which {far} reaches it",
        )
        for task, address in training.items()
        if is_this_machine_only(address)
    ]

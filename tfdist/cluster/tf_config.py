"""Reads TF_CONFIG, the JSON by which TensorFlow's tasks know each other, as it was meant; and writes it.

TensorFlow checks nothing in it: most mistakes make it wait for ever without a word.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from absl import logging

from tfdist.cluster.cluster import Cluster
from tfdist.cluster.rules import problems_with
from tfdist.cluster.task import ALIASES, TASK_TYPES, Task, unknown_type
from tfdist.errors import ConfigError
from tfdist.problems import Path, Problem, config_error, nearest, shown

NAME = "TF_CONFIG"

_EXAMPLE = '{"cluster": {"worker": ["host1:2222", "host2:2222"]}, "task": {"type": "worker", "index": 0}}'


@dataclass(frozen=True)
class TfConfig:
    """What a TF_CONFIG says; each part is None if it says nothing of it."""

    addresses: Mapping[str, Sequence[str]] | None
    task: Task | None


def discover(environ: Mapping[str, str]) -> Cluster | None:
    """Finds the cluster in the variable TF_CONFIG; None if it is not set or describes none."""
    text = environ.get(NAME)
    if text is None:
        return None
    found = read(text)
    if found.addresses is None and found.task is None:
        _say(f"is {shown(text)}, which describes no cluster: this process trains alone.")
        return None
    return read_cluster(text)


def read_cluster(text: str | None) -> Cluster:
    """Reads a TF_CONFIG that describes a cluster; see `Cluster.from_tf_config`."""
    if text is None:
        raise ConfigError(f"{NAME} is not set in the environment.", f"export {NAME}='{_EXAMPLE}'")
    found = read(text)
    if found.addresses is None:
        received = f"has a task ({found.task}) but" if found.task else f"is {shown(text)}: it"
        raise ConfigError(
            f"{NAME} {received} has no key `cluster`, so TensorFlow would train alone without saying so.",
            f"unset {NAME} to train alone, or add the cluster: {_EXAMPLE}",
        )
    cluster = Cluster(found.addresses, source=NAME)
    task = found.task
    if task is None:
        if len(cluster.tasks) > 1:
            raise ConfigError(
                f"{NAME} has no key `task`, so this process cannot know which of "
                f"{', '.join(map(str, cluster.tasks))} it is.",
                f'add "task": {{"type": "{cluster.chief.type}", "index": 0}}, different on each task',
            )
        task = cluster.tasks[0]
        _say(f"has no key `task`; this process is {task}, the only one there is.")
    return cluster.with_task(task)


def read(text: str) -> TfConfig:
    """Reads a TF_CONFIG, whole or in part.

    Raises:
        ConfigError: It is not JSON, or something in it is wrong.
    """
    content = _parse(text)
    problems: list[Problem] = []
    addresses = _read_addresses(content, problems)
    task = _read_task(content, addresses, problems)
    if content.get("rpc_layer") not in (None, "grpc"):
        what = f"{shown(content['rpc_layer'])} is not supported; the tasks talk by grpc."
        problems.append(Problem(("rpc_layer",), what, "remove rpc_layer"))
    if problems:
        raise config_error(problems, lambda path: NAME)
    return TfConfig(addresses or None, task)


def write(addresses: Mapping[str, Sequence[str]], task: Task) -> str:
    """Writes the TF_CONFIG of a task; see `Cluster.tf_config`."""
    content: dict[str, Any] = {
        "cluster": {type_: list(hosts) for type_, hosts in addresses.items() if type_ != "evaluator"},
        "task": {"type": task.type, "index": task.index},
    }
    if "evaluator" in addresses:
        content["evaluator"] = list(addresses["evaluator"])
    return json.dumps(content)


def _parse(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}

    def no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        for key in (names := [name for name, _ in pairs]):
            if names.count(key) > 1:
                raise ConfigError(
                    f"{NAME} has the key {shown(key)} twice in one object, and one of the two would be lost.",
                    "keep one of them",
                )
        return dict(pairs)

    try:
        content = json.loads(text, object_pairs_hook=no_duplicates)
    except json.JSONDecodeError as error:
        near = text[max(0, error.pos - 20) : error.pos + 20]
        quotes = "use double quotes inside, single quotes outside" if "'" in text else "write it as JSON"
        raise ConfigError(
            f"{NAME} is not valid JSON: {error.msg} at character {error.pos + 1}, near {shown(near)}.",
            f"{quotes}: export {NAME}='{_EXAMPLE}'",
        ) from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        hint = (
            "it was put in quotes twice; take one pair away"
            if isinstance(content, str)
            else "write an object"
        )
        raise ConfigError(f"{NAME} is {shown(content)}, not a JSON object.", f"{hint}: {NAME}='{_EXAMPLE}'")
    return content


def _read_addresses(content: Mapping[str, Any], problems: list[Problem]) -> dict[str, list[str]] | None:
    """Gives the addresses by the right names, whatever the user called them; None if there are none."""
    given = content.get("cluster")
    if not given and not isinstance(given, list | str):
        meant = nearest("cluster", [key for key in content if key not in ("cluster", "task", "environment")])
        if meant:
            what = "unknown key, and there is no key `cluster`."
            problems.append(Problem((meant,), what, "rename it to cluster"))
        return None
    if not isinstance(given, dict):
        what = f"{shown(given)} is not an object with the addresses of each type of task."
        problems.append(Problem(("cluster",), what, 'write {"worker": ["host1:2222", "host2:2222"]}'))
        return None

    addresses: dict[str, list[str]] = {}
    names: dict[str, str] = {}
    for name, hosts in given.items():
        type_ = _type_meant(name)
        if type_ is None:
            problems.append(Problem(("cluster", name), *unknown_type(name)))
            continue
        if type_ in names:
            what = f"{names[type_]} and {name} are two names for the same type of task, {type_}."
            fix = f"keep one of them, named {type_}" + (
                ", and move the other to worker" if type_ == "chief" else ""
            )
            problems.append(Problem(("cluster", name), what, fix))
            continue
        names[type_] = name
        addresses[type_] = _read_hosts(hosts, ("cluster", name), problems)
    if not problems and addresses.get("evaluator"):
        _say("lists the evaluator in `cluster`; it is kept from TensorFlow, which would wait for it.")
    if "evaluator" in content and "evaluator" not in addresses:
        addresses["evaluator"] = _read_hosts(content["evaluator"], ("evaluator",), problems)

    for each in problems_with(addresses) if not problems else ():
        type_ = str(each.path[0]) if each.path else ""
        path: Path = ("cluster", names[type_]) if type_ in names else ("cluster",)
        if type_ == "evaluator" and type_ not in names:
            path = ("evaluator",)
        problems.append(Problem((*path, *each.path[1:]), each.what, each.fix))
    return addresses


def _type_meant(name: str) -> str | None:
    folded = name.strip().casefold()
    type_ = ALIASES.get(folded, folded)
    if type_ not in TASK_TYPES:
        return None
    if type_ != name:
        why = ": TensorFlow 2 has no master" if folded == "master" else ""
        _say(f"says {shown(name)}, read as {type_}{why}.")
    return type_


def _read_hosts(hosts: Any, path: Path, problems: list[Problem]) -> list[Any]:
    """Gives the list that was meant."""
    if isinstance(hosts, str):
        _say(f"gives {path[-1]} as text, {shown(hosts)}, read as a list.")
        hosts = [each for each in hosts.replace(",", " ").split() if each]
    if isinstance(hosts, dict):
        expected = [str(index) for index in range(len(hosts))]
        missing = [index for index in expected if index not in hosts]
        if missing:
            what = (
                f"{shown(hosts)} leaves out {path[-1]} {missing[0]}: every task has to know all the others. "
                "Kubeflow writes this for dynamic workers."
            )
            problems.append(
                Problem(path, what, "set enableDynamicWorker: false in the TFJob, or list all of them")
            )
            return []
        hosts = [hosts[index] for index in expected]
    if not isinstance(hosts, list):
        what = f"{shown(hosts)} is not a list of addresses."
        problems.append(Problem(path, what, 'write ["host1:2222", "host2:2222"]'))
        return []
    return [_address_meant(host) for host in hosts]


def _address_meant(host: Any) -> Any:
    if not isinstance(host, str):
        return host
    meant = host.strip()
    if meant.casefold().startswith("grpc://"):
        meant = meant[len("grpc://") :].rstrip("/")
    if meant != host:
        _say(f"has the address {shown(host)}, read as {meant}.")
    return meant


def _read_task(
    content: Mapping[str, Any], addresses: Mapping[str, Sequence[str]] | None, problems: list[Problem]
) -> Task | None:
    given = content.get("task")
    if given is None or given == {}:
        return None
    if not isinstance(given, dict):
        what = f"{shown(given)} is not an object with a type and an index."
        problems.append(Problem(("task",), what, 'write {"type": "worker", "index": 0}'))
        return None
    type_ = _read_task_type(given, addresses, problems)
    index = _read_task_index(given, len(addresses.get(type_, ())) if addresses and type_ else None, problems)
    if type_ is None or index is None:
        return None
    if addresses and not problems:
        _check_in_range(type_, index, addresses, problems)
    return Task(type_, index)


def _read_task_type(
    task: Mapping[str, Any], addresses: Mapping[str, Sequence[str]] | None, problems: list[Problem]
) -> str | None:
    name = task.get("type")
    listed = [type_ for type_ in addresses or () if type_ != "evaluator"]
    if name is None:
        if len(listed) == 1:
            _say(f"has no task.type, read as {listed[0]}, the only type there is.")
            return listed[0]
        choices = ", ".join(listed or TASK_TYPES)
        what = f"there is no task.type in {shown(dict(task))}; it says what this process is: {choices}."
        problems.append(Problem(("task",), what, 'add "type": "worker", or what this process is'))
        return None
    type_ = _type_meant(name) if isinstance(name, str) else None
    if type_ is None:
        problems.append(Problem(("task", "type"), *unknown_type(name)))
    return type_


def _read_task_index(task: Mapping[str, Any], count: int | None, problems: list[Problem]) -> int | None:
    index = task.get("index")
    if index is None:
        if count == 1 or task.get("type") == "evaluator":
            _say(f"has no task.index, read as 0, the only {task.get('type', 'one')} there is.")
            return 0
        what = f"there is no task.index in {shown(dict(task))}; it says which of its type this process is."
        problems.append(Problem(("task",), what, 'add "index": 0, a different one on each task'))
        return None
    if isinstance(index, str) and index.strip().isascii() and index.strip().isdigit():
        _say(f"has the task.index {shown(index)} as text, read as the number {int(index)}.")
        index = int(index)
    if isinstance(index, float) and index.is_integer():
        index = int(index)
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        what = f"{shown(index)} is not a whole number, counted from 0."
        problems.append(Problem(("task", "index"), what, 'write "index": 0 for the first task of its type'))
        return None
    return index


def _check_in_range(
    type_: str, index: int, addresses: Mapping[str, Sequence[str]], problems: list[Problem]
) -> None:
    count = len(addresses.get(type_, ()))
    if index < count or (type_ == "evaluator" and index == 0):
        return
    if count == 0:
        what = f"this process is {type_}:{index}, but `cluster` lists no {type_}."
        fix = f"add the {type_} to cluster, or use a type that is there: {', '.join(addresses)}"
        problems.append(Problem(("task", "type"), what, fix))
    else:
        what = f"{index} is out of range: `cluster` lists {count} of type {type_}, and counting starts at 0."
        fix = f"use an index from 0 to {count - 1}" if count > 1 else "use the index 0"
        problems.append(Problem(("task", "index"), what, f"{fix}, or add the missing address"))


@functools.cache
def _say(text: str) -> None:
    """Logs what was read otherwise than written; once, however often the variable is read."""
    logging.warning("%s %s", NAME, text)

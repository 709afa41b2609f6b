"""What `tfdist cluster` prints: who is in the job, a task's TF_CONFIG, and who answers."""

from __future__ import annotations

import os
from collections.abc import Mapping

from tfdist import yaml_source
from tfdist.cluster.cluster import Cluster
from tfdist.cluster.discovery import resolve
from tfdist.cluster.reachability import probe
from tfdist.cluster.task import Task
from tfdist.errors import ConfigError

_ALONE = "There is no cluster"


def describe(config: str | None, task: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Gives the tasks, their addresses, and where each fact came from."""
    cluster = _resolve(config, environ)
    if cluster is None:
        return f"{_ALONE}: {_looked_at(config)}. This process trains alone."
    local = _is_local(config, cluster)
    cluster = _as_task(cluster, task)
    lines = [f"from {cluster.source}{f', task from --task {task}' if task else ''}"]
    if local:
        lines.append("on this machine; each start takes new free ports, such as these")
    width = max(len(str(each)) for each in cluster.tasks)
    for each in cluster.tasks:
        remarks = [
            "this process" if each == cluster.task else "",
            "writes files" if each == cluster.chief else "",
            "kept from TensorFlow" if each.type == "evaluator" else "",
        ]
        remark = ", ".join(filter(None, remarks))
        lines.append(
            f"  {str(each).ljust(width)}  {cluster.address(each)}{f'  ({remark})' if remark else ''}"
        )
    if cluster.task is None and not local:
        lines.append("Nothing says which task this process is: TF_CONFIG or --task can.")
    return "\n".join(lines)


def tf_config(config: str | None, task: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Gives the TF_CONFIG of a task.

    Raises:
        ConfigError: There is no cluster, its ports are not known yet, or nothing says which task is meant.
    """
    cluster = _resolve(config, environ)
    if cluster is None:
        raise ConfigError(
            f"{_ALONE}: {_looked_at(config)}.", "name a YAML file that has a section cluster, with addresses"
        )
    if _is_local(config, cluster):
        raise ConfigError(
            f"{cluster.source}: cluster.local takes new free ports on each start, so a TF_CONFIG printed now "
            "would not fit the other tasks.",
            "list the addresses in the section cluster, or run `tfdist launch --workers 2 -- COMMAND`",
        )
    cluster = _as_task(cluster, task)
    if cluster.task is None:
        raise ConfigError(
            f"{cluster.source}: nothing says which of {', '.join(map(str, cluster.tasks))} is meant.",
            f"add --task {cluster.chief}",
        )
    return cluster.tf_config()


def check(
    config: str | None, task: str | None, timeout: float, environ: Mapping[str, str] = os.environ
) -> tuple[str, bool]:
    """Tries to connect to the other tasks; the evaluator is left out, because nothing connects to it.

    Returns:
        What to print, and whether all answered.
    """
    if timeout <= 0:
        raise ConfigError(f"--timeout {timeout:g}: it has to be more than 0 seconds.", "write --timeout 5")
    cluster = _resolve(config, environ)
    if cluster is None:
        return f"{_ALONE}: {_looked_at(config)}. Nothing to check.", True
    if _is_local(config, cluster):
        return (
            f"{cluster.source}: cluster.local starts its tasks itself, on free ports. Nothing to check.",
            True,
        )
    cluster = _as_task(cluster, task)
    others = {
        each: cluster.address(each)
        for each in cluster.tasks
        if each != cluster.task and each.type != "evaluator"
    }
    missing = probe(others, timeout)
    width = max((len(f"{each} at {address}") for each, address in others.items()), default=0)
    lines = [
        f"{f'{each} at {address}'.ljust(width)}  {missing.get(each, 'answers')}"
        for each, address in others.items()
    ]
    answered = len(others) - len(missing)
    lines.append(f"{answered} of {len(others)} answered within {timeout:g} s.")
    if missing:
        lines.append(f"Fix: start {', '.join(map(str, missing))}; a task answers only while it runs")
    return "\n".join(lines), not missing


def _resolve(config: str | None, environ: Mapping[str, str]) -> Cluster | None:
    if config is None:
        return Cluster.discover(environ)
    source = yaml_source.read(config)
    return resolve(source.data.get("cluster"), lambda path: source.locate(("cluster", *path)), environ)


def _as_task(cluster: Cluster, task: str | None) -> Cluster:
    return cluster.with_task(Task.parse(task)) if task else cluster


def _is_local(config: str | None, cluster: Cluster) -> bool:
    """Tells whether the addresses are only examples, as those of `cluster.local` before it is started."""
    if config is None or cluster.task is not None:
        return False
    return yaml_source.read(config).data["cluster"].get("local") is not None


def _looked_at(config: str | None) -> str:
    file = f"{config} has no section cluster, and " if config else ""
    return f"{file}TF_CONFIG describes none"

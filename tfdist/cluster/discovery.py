"""Finds the cluster that the job system, or the YAML, describes.

Each job system is one function in one file: it takes the environment variables and gives the cluster, or None
if this is not its job. The first that gives one wins.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from tfdist.cluster import tf_config
from tfdist.cluster.cluster import Cluster
from tfdist.cluster.section import read_section
from tfdist.errors import ConfigError
from tfdist.problems import Path

SOURCES: tuple[Callable[[Mapping[str, str]], Cluster | None], ...] = (tf_config.discover,)


def discover(environ: Mapping[str, str] = os.environ) -> Cluster | None:
    """Gives the cluster of the first source that knows one; see `Cluster.discover`."""
    for source in SOURCES:
        cluster = source(environ)
        if cluster is not None:
            return cluster
    return None


def resolve(
    section: Mapping[str, Any] | None,
    locate: Callable[[Path], str],
    environ: Mapping[str, str] = os.environ,
) -> Cluster | None:
    """Puts together what the YAML says of the cluster and what the environment says.

    With no section, the environment alone says it. With `local`, a process that a launcher has started finds
    the addresses and its task in the environment; elsewhere the ports are new and the task is None. With
    addresses, the environment adds which task this process is; a TF_CONFIG with the key `task` alone will do.

    Args:
        section: What the YAML section `cluster` holds; None if there is none.
        locate: Gives the place of a path inside the section, such as `my.yaml:3`.
        environ: The environment variables.

    Returns:
        The cluster, or None if there is none: this process trains alone.

    Raises:
        ConfigError: One of the two is wrong, or they contradict each other.
    """
    if section is None:
        return discover(environ)
    declared = read_section(section, locate)
    if section.get("local") is not None:
        found = discover(environ)
        if found is None:
            return declared
        if _counts(found) != _counts(declared):
            raise _contradiction(declared, found)
        return found
    return _with_task_from(environ, declared)


def _with_task_from(environ: Mapping[str, str], declared: Cluster) -> Cluster:
    task = None
    if environ.get(tf_config.NAME) and tf_config.read(environ[tf_config.NAME]).addresses is None:
        task, source = tf_config.read(environ[tf_config.NAME]).task, tf_config.NAME
    else:
        found = discover(environ)
        if found is not None:
            if _without_evaluator(found) != _without_evaluator(declared):
                raise _contradiction(declared, found)
            task, source = found.task, found.source
    if task is None:
        return declared.with_task(declared.tasks[0]) if len(declared.tasks) == 1 else declared
    return Cluster(declared.addresses, task, f"{declared.source}, task from {source}")


def _contradiction(declared: Cluster, found: Cluster) -> ConfigError:
    return ConfigError(
        f"{declared.source}: cluster: it has {_sum_up(declared)}, but {found.source} in the environment has "
        f"{_sum_up(found)}, and only one of them can be right.",
        f"remove the section cluster to use {found.source}, or unset {found.source}",
    )


def _sum_up(cluster: Cluster) -> str:
    addresses = ", ".join(f"{type_} {' '.join(hosts)}" for type_, hosts in cluster.addresses.items())
    return addresses if len(addresses) < 120 else f"{addresses[:119]}…"


def _counts(cluster: Cluster) -> dict[str, int]:
    return {type_: len(hosts) for type_, hosts in cluster.addresses.items() if type_ != "evaluator"}


def _without_evaluator(cluster: Cluster) -> dict[str, Any]:
    return {type_: hosts for type_, hosts in cluster.addresses.items() if type_ != "evaluator"}

"""Reads the YAML section `cluster`: lists of addresses, or `local`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tfdist.cluster.cluster import Cluster
from tfdist.cluster.local import local_problems
from tfdist.cluster.rules import problems_with
from tfdist.cluster.task import Task
from tfdist.problems import Path, Problem, config_error, shown


def read_section(section: Any, locate: Callable[[Path], str], task: Task | None = None) -> Cluster:
    """Makes the cluster that a section describes.

    Args:
        section: What the section holds.
        locate: Gives the place of a path inside the section, such as `my.yaml:3`; `()` is the section itself.
        task: The task that this process is.

    Raises:
        ConfigError: Something in it is wrong; the error tells all that is.
    """
    problems = section_problems(section)
    if problems:
        placed = [Problem(("cluster", *each.path), each.what, each.fix) for each in problems]
        raise config_error(placed, lambda path: locate(path[1:]))
    section = _without_blanks(section)
    if "local" in section:
        return replace(Cluster.local(**section["local"]), task=task, source=locate(()))
    return Cluster(section, task, locate(()))


def section_problems(section: Any) -> list[Problem]:
    """Finds what is wrong with a section `cluster`; the paths begin inside it."""
    if isinstance(section, Mapping):
        section = _without_blanks(section)
    if not isinstance(section, Mapping) or not section:
        what = f"{shown(section)} is not a mapping; it lists addresses by type of task, or has the key local."
        return [Problem((), what, "write, say, {local: {workers: 2}} or {worker: [host1:2222, host2:2222]}")]
    if "local" not in section:
        return problems_with(section)
    others = ", ".join(str(key) for key in section if key != "local")
    if others:
        what = f"local stands beside {others}; a cluster is either local or lists its addresses."
        return [Problem(("local",), what, f"remove either local or {others}")]
    local = section["local"]
    if not isinstance(local, Mapping):
        return [Problem(("local",), f"{shown(local)} is not a mapping.", "write {workers: 2}")]
    return [Problem(("local", *each.path), each.what, each.fix) for each in local_problems(local)]


def _without_blanks(section: Mapping[Any, Any]) -> dict[Any, Any]:
    """Leaves out the keys that have no value, as `ps:` alone on its line."""
    return {key: value for key, value in section.items() if value is not None}

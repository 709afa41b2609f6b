"""`Cluster`: the tasks of a job and their addresses, as immutable data."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from tfdist.cluster.rules import problems_with
from tfdist.cluster.task import TASK_TYPES, Task
from tfdist.errors import ConfigError
from tfdist.problems import Path, config_error


@dataclass(frozen=True)
class Cluster:
    """The tasks of a job, their addresses, and which of them this process is.

    Args:
        addresses: The addresses (`host:port`) of each task type that has any, in the order chief, worker, ps,
            evaluator.
        task: The task that this process is; None if it is none of them, as a launcher.
        source: Where this was learned, such as `TF_CONFIG` or `my.yaml:3`. Takes no part in comparison.

    Raises:
        ConfigError: An address is wrong or used twice, a task type is unknown, or `task` is not there.

    Example:
        >>> cluster = Cluster({"worker": ["n1:2222", "n2:2222"]}, Task("worker", 1))
        >>> cluster.address(cluster.task), str(cluster.chief), cluster.is_chief
        ('n2:2222', 'worker:0', False)
    """

    addresses: Mapping[str, Sequence[str]]
    task: Task | None = None
    source: str = field(default="Cluster", compare=False)

    def __post_init__(self) -> None:
        problems = problems_with(self.addresses)
        if problems:
            raise config_error(problems, lambda path: self.source)
        in_order = {type_: tuple(self.addresses.get(type_, ())) for type_ in TASK_TYPES}
        addresses = MappingProxyType({type_: hosts for type_, hosts in in_order.items() if hosts})
        object.__setattr__(self, "addresses", addresses)
        if self.task is not None:
            self._require(self.task)

    def __hash__(self) -> int:
        return hash((tuple(self.addresses.items()), self.task))

    def __reduce__(self) -> tuple[Any, ...]:  # a mapping proxy cannot be pickled
        return Cluster, (dict(self.addresses), self.task, self.source)

    @property
    def tasks(self) -> tuple[Task, ...]:
        """All tasks that have an address."""
        return tuple(
            Task(type_, index) for type_, hosts in self.addresses.items() for index in range(len(hosts))
        )

    @property
    def training_tasks(self) -> tuple[Task, ...]:
        """The chief and the workers: the tasks that compute."""
        return tuple(task for task in self.tasks if task.type in ("chief", "worker"))

    @property
    def chief(self) -> Task:
        """The task that writes files: the chief if there is one, else the first worker."""
        return self.training_tasks[0]

    @property
    def is_chief(self) -> bool:
        """Whether this process is the task that writes files."""
        return self.task == self.chief

    @property
    def summary(self) -> str:
        """How many tasks there are of each type, such as `1 chief, 2 workers, 1 ps`."""
        counts = {type_: len(hosts) for type_, hosts in self.addresses.items()}
        return ", ".join(
            f"{n} {type_}{'s' if n > 1 and type_ != 'ps' else ''}" for type_, n in counts.items()
        )

    def address(self, task: Task) -> str:
        """Gives the `host:port` on which a task listens.

        Raises:
            ConfigError: The task is not in the cluster, or is an evaluator without an address.
        """
        self._require(task)
        hosts = self.addresses.get(task.type, ())
        if not hosts:
            raise ConfigError(
                f"{task} has no address in {self.source}; nothing connects to it.", "leave it out"
            )
        return hosts[task.index]

    def with_task(self, task: Task | None) -> Cluster:
        """Gives the same cluster as seen by another task.

        Raises:
            ConfigError: The task is not in the cluster.
        """
        return replace(self, task=task)

    def tf_config(self, task: Task | None = None) -> str:
        """Gives the TF_CONFIG of a task.

        The evaluator is left out of the key `cluster`, because TensorFlow waits for ever with it; its address
        goes into a key `evaluator` of its own, which TensorFlow ignores and `from_tf_config` reads.

        Args:
            task: Which task; by default, the task that this process is.

        Returns:
            JSON for the environment variable TF_CONFIG.

        Raises:
            ConfigError: The task is not in the cluster, or none was given and this process is none.
        """
        from tfdist.cluster.tf_config import write

        task = self.task if task is None else task
        if task is None:
            raise ConfigError(
                f"TF_CONFIG says which task a process is; the cluster from {self.source} does not know that.",
                f"name the task: tf_config(Task({self.chief.type!r}, 0))",
            )
        self._require(task)
        return write(self.addresses, task)

    def _require(self, task: Task) -> None:
        hosts = self.addresses.get(task.type, ())
        if task.index < len(hosts):
            return
        if task == Task("evaluator", 0):
            return  # Nothing connects to it, so it need not have an address.
        have = (
            f"has {', '.join(map(str, self.tasks))}"
            if len(self.tasks) < 9
            else (f"has {len(hosts)} of type {task.type}, counted from 0")
        )
        raise ConfigError(
            f"{self.source}: there is no {task}; the cluster {have}.",
            "use one of these tasks, or add an address for it",
        )

    @classmethod
    def from_mapping(
        cls, mapping: Mapping[str, Any], task: Task | None = None, source: str = "Cluster.from_mapping"
    ) -> Cluster:
        """Makes a cluster of what the YAML section `cluster` holds.

        Args:
            mapping: Either lists of addresses, `{"chief": [...], "worker": [...], "ps": [...]}`, or
                `{"local": {"workers": 2, "ps": 1}}`, which takes free ports of this machine.
            task: The task that this process is.
            source: Where this was learned.

        Raises:
            ConfigError: A key, address or number in it is wrong.
        """
        from tfdist.cluster.section import read_section

        return read_section(mapping, lambda path: source, task)

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str], task: Task | None = None) -> Cluster:
        """Reads the section `cluster` of a YAML file; nothing else in it is looked at.

        Args:
            path: The file.
            task: The task that this process is.

        Raises:
            ConfigError: The file cannot be read, has no such section, or something in the section is wrong.
        """
        from tfdist import yaml_source
        from tfdist.cluster.section import read_section

        source = yaml_source.read(path)
        if "cluster" not in source.data:
            raise ConfigError(
                f"{source.name}: there is no key `cluster`; its keys are {', '.join(map(str, source.data))}.",
                "add, say, `cluster: {local: {workers: 2}}`, or use Cluster.discover()",
            )

        def locate(path: Path) -> str:
            return source.locate(("cluster", *path))

        return read_section(source.data["cluster"], locate, task)

    @classmethod
    def from_tf_config(cls, text: str | None = None) -> Cluster:
        """Reads a TF_CONFIG, as TensorFlow, Kubeflow and others write it.

        What is plainly meant is read, with a line in the log: `master` is the chief, `Workers` are workers,
        an index may be text, an evaluator among the others is kept from TensorFlow. The rest is refused.

        Args:
            text: The JSON; by default, the environment variable TF_CONFIG.

        Raises:
            ConfigError: It is not set, not JSON, incomplete, or describes a cluster that cannot work.
        """
        from tfdist.cluster.tf_config import read_cluster

        return read_cluster(os.environ.get("TF_CONFIG") if text is None else text)

    @classmethod
    def local(
        cls, workers: int = 0, ps: int = 0, chief: bool | None = None, evaluator: bool = False
    ) -> Cluster:
        """Makes a cluster on this machine, on free ports that the system gives.

        Args:
            workers: How many workers.
            ps: How many parameter servers.
            chief: Whether there is a chief beside the workers; by default, only with parameter servers.
            evaluator: Whether there is an evaluator.

        Raises:
            ConfigError: A number is negative, or there would be neither chief nor worker.

        Example:
            >>> [str(task) for task in Cluster.local(workers=2, ps=1).tasks]
            ['chief:0', 'worker:0', 'worker:1', 'ps:0']
        """
        from tfdist.cluster.local import local_addresses, local_problems

        local = {"workers": workers, "ps": ps, "chief": chief, "evaluator": evaluator}
        problems = local_problems(local)
        if problems:
            raise config_error(problems, lambda path: "Cluster.local")
        return cls(local_addresses(local), source="Cluster.local")

    @classmethod
    def discover(cls, environ: Mapping[str, str] = os.environ) -> Cluster | None:
        """Finds the cluster in the environment that the job system has set up; for now, in TF_CONFIG.

        Args:
            environ: The environment variables.

        Returns:
            The cluster, or None if nothing says that there is one: this process trains alone.

        Raises:
            ConfigError: The environment describes a cluster that cannot work.
        """
        from tfdist.cluster.discovery import discover

        return discover(environ)

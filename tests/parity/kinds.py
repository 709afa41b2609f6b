"""The kinds of strategies that solve the problems, each in a cluster of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tfdist.cluster import Cluster


@dataclass(frozen=True)
class Kind:
    """A way of training.

    Attributes:
        name: Names it in the tests.
        strategy: Name of the strategy kind; empty for Keras alone.
        options: Options of the strategy.
        tasks: The cluster, as arguments of `Cluster.local`; empty for a process on its own.
        copies: Copies of the weights, over all tasks.
        processes: Processes that share the kind's problems, where each is on its own.
    """

    name: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Any] = field(default_factory=dict)
    copies: int = 1
    processes: int = 1


# A task that fails alone leaves the others in an exchange, which ends them after this many seconds.
EXCHANGE = {"communication": "ring", "timeout_seconds": 120.0}

KINDS = {
    kind.name: kind
    for kind in [
        Kind("one_device", "one_device"),
        Kind("keras", ""),
        Kind("mirrored_2", "mirrored", {"logical_cpus": 2}, copies=2, processes=2),
        Kind("mirrored_3", "mirrored", {"logical_cpus": 3}, copies=3),
        Kind("multi_worker_2", "multi_worker_mirrored", EXCHANGE, {"workers": 2}, copies=2),
        Kind("multi_worker_3", "multi_worker_mirrored", EXCHANGE, {"workers": 2, "chief": True}, copies=3),
        # One worker with one piece of work at a time is synchronous, so it is exact.
        Kind("parameter_server_1", "parameter_server", {"closures_in_flight": 1}, {"workers": 1, "ps": 1}),
        Kind("parameter_server_2", "parameter_server", {}, {"workers": 2, "ps": 1}),
    ]
}

REFERENCES = ("one_device", "keras")
# What runs side by side: several kinds, so that no core waits for another, but not so many that time-outs end
# what is only slow.
WAVES = (
    tuple(name for name, kind in KINDS.items() if not kind.tasks),
    ("multi_worker_2", "parameter_server_1"),
    ("multi_worker_3", "parameter_server_2"),
)
EXACT = ("mirrored_2", "mirrored_3", "multi_worker_2", "multi_worker_3", "parameter_server_1")
ASYNCHRONOUS = "parameter_server_2"


@dataclass(frozen=True)
class Place:
    """What one process of a wave is.

    Attributes:
        kind: The kind that it belongs to.
        share: Which share of the kind's problems it solves, of how many.
        tf_config: Its TF_CONFIG; empty for a process on its own.
    """

    kind: str
    share: tuple[int, int] = (0, 1)
    tf_config: str = ""


def places(names: Sequence[str], addresses: Sequence[str] | None = None) -> list[Place]:
    """Gives what each process of a wave of kinds is.

    Args:
        names: The kinds.
        addresses: An address for each process; made-up ones when left out, to count them.
    """
    found: list[Place] = []
    for name in names:
        kind = KINDS[name]
        if not kind.tasks:
            found += [Place(name, (share, kind.processes)) for share in range(kind.processes)]
            continue
        tasks = Cluster.local(**kind.tasks).tasks
        own: dict[str, list[str]] = {}
        for number, task in enumerate(tasks, len(found)):
            own.setdefault(task.type, []).append(
                addresses[number] if addresses else f"localhost:{number + 1}"
            )
        cluster = Cluster(own)
        found += [Place(name, tf_config=cluster.tf_config(task)) for task in tasks]
    return found

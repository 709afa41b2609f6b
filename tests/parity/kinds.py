"""The kinds of strategies that solve the problems, each in a cluster of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Kind:
    """A way of training.

    Attributes:
        name: Names it in the tests.
        strategy: Name of the strategy kind; empty for Keras alone.
        options: Options of the strategy.
        tasks: The cluster, as arguments of `Cluster.local`; empty for a process on its own.
        copies: Copies of the weights, over all tasks.
    """

    name: str
    strategy: str
    options: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[str, Any] = field(default_factory=dict)
    copies: int = 1


# A task that fails alone leaves the others in an exchange, which ends them after this many seconds.
EXCHANGE = {"communication": "ring", "timeout_seconds": 120.0}

KINDS = {
    kind.name: kind
    for kind in [
        Kind("one_device", "one_device"),
        Kind("keras", ""),
        Kind("mirrored_2", "mirrored", {"logical_cpus": 2}, copies=2),
        Kind("mirrored_3", "mirrored", {"logical_cpus": 3}, copies=3),
        Kind("multi_worker_2", "multi_worker_mirrored", EXCHANGE, {"workers": 2}, copies=2),
        Kind("multi_worker_3", "multi_worker_mirrored", EXCHANGE, {"workers": 2, "chief": True}, copies=3),
        # One worker with one piece of work at a time is synchronous, so it is exact.
        Kind("parameter_server_1", "parameter_server", {"closures_in_flight": 1}, {"workers": 1, "ps": 1}),
        Kind("parameter_server_2", "parameter_server", {}, {"workers": 2, "ps": 1}),
    ]
}

REFERENCES = ("one_device", "keras")
ON_ITS_OWN = tuple(name for name, kind in KINDS.items() if not kind.tasks)
EXACT = ("mirrored_2", "mirrored_3", "multi_worker_2", "multi_worker_3", "parameter_server_1")
ASYNCHRONOUS = "parameter_server_2"

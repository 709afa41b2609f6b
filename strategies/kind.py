"""What a strategy kind is: its options, its factory and the engine that trains with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict
from tfdist.strategies.cluster_rules import any_cluster

from tfdist.cluster import Cluster


class StrategyOptions(BaseModel):
    """Base of a kind's typed options: the keys allowed beside `kind` in the YAML section `strategy`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


def one_reader(options: Any, cluster: Cluster | None) -> dict[str, int]:
    """Says that one process reads all data, for one replica."""
    del options
    return {"this process" if cluster is None else str(cluster.chief): 1}


@dataclass(frozen=True)
class StrategyKind:
    """One way of training that users choose by name.

    Attributes:
        name: The name users write, such as `mirrored`.
        summary: One line for `tfdist --help` and the docs: what it is for.
        options: The typed options.
        create: `create(options, cluster, startup_timeout)` gives a `tf.distribute.Strategy` (or another
            object that `engine` accepts). It must be the first place that imports TensorFlow: options and
            errors come without it. `startup_timeout` is in seconds.
        engine: `module:attribute` of the engine class that runs its steps.
        engine_options: `engine_options(options)` gives keyword arguments for the engine.
        check_cluster: `check_cluster(options, cluster)` says what is wrong with a cluster; see
            `cluster_rules.py`.
        replicas_divisor: `(options, cluster)` gives a number that certainly divides the number of replicas,
            as far as can be known without looking at devices. Used to refuse impossible batch sizes before
            TensorFlow loads.
        replicas_of_readers: `(options, cluster)` gives the names of the tasks that read data, in the order of
            their replicas, and how many replicas each has, as far as this machine tells. For `tfdist data
            report`; may import TensorFlow.
    """

    name: str
    summary: str
    options: type[StrategyOptions]
    create: Callable[..., Any]
    engine: str = "tfdist.engines.replicated:ReplicatedEngine"
    engine_options: Callable[[Any], dict[str, Any]] = lambda options: {}
    check_cluster: Callable[[Any, Cluster | None], tuple[str, str] | None] = any_cluster
    replicas_divisor: Callable[[Any, Cluster | None], int] = lambda options, cluster: 1
    replicas_of_readers: Callable[[Any, Cluster | None], dict[str, int]] = one_reader

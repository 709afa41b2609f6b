"""`multi_worker_mirrored`: the devices of several machines, each with a copy of the model, in step with one
another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field
from tfdist.strategies.cluster_rules import workers_in_step
from tfdist.strategies.kind import StrategyKind, StrategyOptions

from tfdist.cluster import Cluster

if TYPE_CHECKING:
    import tensorflow as tf


class Options(StrategyOptions):
    """Options of `multi_worker_mirrored`."""

    communication: Literal["auto", "ring", "nccl"] = Field(
        "auto",
        description=(
            "How gradients travel: ring works everywhere (gRPC), nccl needs NVIDIA GPUs, auto picks nccl"
            " where it can."
        ),
    )
    bytes_per_pack: int = Field(
        0,
        description=(
            "Gradients are sent in packs of this many bytes, so that the first packs travel while the"
            " backward pass still runs. 0: all in one pack."
        ),
        ge=0,
    )
    timeout_seconds: float | None = Field(
        None,
        description="Give up on a single exchange after this many seconds. Left out: wait for ever.",
        gt=0,
    )


def create(options: Options, cluster: Cluster, startup_timeout: float) -> tf.distribute.Strategy:
    """Makes a `tf.distribute.MultiWorkerMirroredStrategy`, or fails naming the tasks that did not start in
    time.
    """
    from tfdist.strategies import tensorflow_startup

    return tensorflow_startup.start_multi_worker(
        cluster,
        communication=options.communication,
        bytes_per_pack=options.bytes_per_pack,
        timeout_seconds=options.timeout_seconds,
        startup_timeout=startup_timeout,
    )


def _replicas_divisor(options: Options, cluster: Cluster | None) -> int:
    return len(cluster.training_tasks) if cluster is not None else 1


def _replicas_of_readers(options: Options, cluster: Cluster | None) -> dict[str, int]:
    import tensorflow as tf

    each = len(tf.config.list_physical_devices("GPU")) or 1  # as on this machine; on CPUs always one
    return {str(task): each for task in cluster.training_tasks} if cluster else {"this process": each}


KIND = StrategyKind(
    name="multi_worker_mirrored",
    summary="Several machines in step with one another, each with any number of GPUs.",
    options=Options,
    create=create,
    check_cluster=workers_in_step,
    replicas_divisor=_replicas_divisor,
    replicas_of_readers=_replicas_of_readers,
)

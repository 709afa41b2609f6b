"""`mirrored`: several devices of one machine, each with a copy of the model; gradients are summed at each
step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field
from tfdist.strategies.cluster_rules import one_task
from tfdist.strategies.kind import StrategyKind, StrategyOptions

from tfdist.cluster import Cluster
from tfdist.errors import ConfigError

if TYPE_CHECKING:
    import tensorflow as tf


class Options(StrategyOptions):
    """Options of `mirrored`."""

    devices: list[str] | None = Field(
        None,
        description="Devices to use, such as [GPU:0, GPU:2]. Left out: every GPU, or else the CPU.",
        min_length=1,
    )
    logical_cpus: int | None = Field(
        None,
        description=(
            "Where the machine has no GPU, split its CPU into this many devices: for trying things out and"
            " tests."
        ),
        ge=1,
        le=64,
    )


def create(options: Options, cluster: Cluster | None, startup_timeout: float) -> tf.distribute.Strategy:
    """Makes a `tf.distribute.MirroredStrategy`."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if options.logical_cpus is not None and not gpus:
        _split_cpu(options.logical_cpus)
    devices = options.devices
    if devices is None:
        count = len(gpus) if gpus else len(tf.config.list_logical_devices("CPU"))
        devices = [f"{'GPU' if gpus else 'CPU'}:{index}" for index in range(count)]
    visible = [device.name.removeprefix("/device:") for device in tf.config.list_logical_devices()]
    unknown = [device for device in devices if device not in visible]
    if unknown or len(set(devices)) < len(devices):
        problem = f"has no {', '.join(unknown)}" if unknown else "cannot use one device twice"
        raise ConfigError(
            f"Option 'devices' of strategy 'mirrored' is {devices}, but this machine {problem}.",
            f"use some of {', '.join(visible)}"
            + ("; on a machine without GPUs, logical_cpus: 2 makes CPU:0 and CPU:1" if not gpus else ""),
        )
    # Without NCCL, adding on one device and copying back is both the fastest on one machine and free of the
    # state that TensorFlow's ring keeps between models (a second model fails with 'Shape mismatch in the
    # collective instance').
    cross_device_ops = None if gpus else tf.distribute.ReductionToOneDevice()
    return tf.distribute.MirroredStrategy(devices, cross_device_ops=cross_device_ops)


def _split_cpu(count: int) -> None:
    """Splits the CPU into `count` logical devices."""
    import tensorflow as tf

    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * count)
    except RuntimeError:
        present = len(tf.config.list_logical_devices("CPU"))
        if present != count:
            raise ConfigError(
                f"logical_cpus is {count}, but TensorFlow already runs with {present} CPU device(s) and"
                " cannot change that.",
                "make the strategy before anything else uses TensorFlow in this process (in a notebook:"
                " restart the kernel)",
            ) from None


def _replicas_divisor(options: Options, cluster: Cluster | None) -> int:
    return len(options.devices) if options.devices else 1


def _replicas_of_readers(options: Options, cluster: Cluster | None) -> dict[str, int]:
    import tensorflow as tf

    gpus = len(tf.config.list_physical_devices("GPU"))
    replicas = len(options.devices) if options.devices else gpus or options.logical_cpus or 1
    return {"this process" if cluster is None else str(cluster.chief): replicas}


KIND = StrategyKind(
    name="mirrored",
    summary="Several GPUs of one machine.",
    options=Options,
    create=create,
    check_cluster=one_task,
    replicas_divisor=_replicas_divisor,
    replicas_of_readers=_replicas_of_readers,
)

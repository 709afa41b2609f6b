"""`one_device`: no distribution at all; the same loop on one GPU or on the CPU."""

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
    """Options of `one_device`."""

    device: str | None = Field(
        None, description="Device to use, such as GPU:1 or CPU:0. Left out: the first GPU, or the CPU."
    )


def create(options: Options, cluster: Cluster | None, startup_timeout: float) -> tf.distribute.Strategy:
    """Makes a `tf.distribute.OneDeviceStrategy`."""
    import tensorflow as tf

    visible = [device.name.removeprefix("/physical_device:") for device in tf.config.list_physical_devices()]
    gpus = [name for name in visible if name.startswith("GPU:")]
    device = options.device or (gpus[0] if gpus else "CPU:0")
    if device not in visible:
        raise ConfigError(
            f"Option 'device' of strategy 'one_device' names {device!r}, which this machine does not have.",
            f"use one of {', '.join(visible)}",
        )
    return tf.distribute.OneDeviceStrategy(f"/device:{device}")


KIND = StrategyKind(
    name="one_device",
    summary="One GPU, or the CPU. The reference that all other kinds are equal to.",
    options=Options,
    create=create,
    check_cluster=one_task,
)

"""`parameter_server`: a chief hands out work, workers compute at their own pace, ps tasks hold weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field
from tfdist.strategies.cluster_rules import chief_workers_and_ps
from tfdist.strategies.kind import StrategyKind, StrategyOptions

from tfdist.cluster import Cluster

if TYPE_CHECKING:
    import tensorflow as tf


class Options(StrategyOptions):
    """Options of `parameter_server`."""

    closures_in_flight: int | None = Field(
        None,
        description=(
            "Units of work, each of steps_per_call steps, that workers may hold at a time. An update is"
            " computed from weights at most (closures_in_flight - 1) x steps_per_call updates old. Left out:"
            " two for each worker."
        ),
        ge=1,
    )


def create(
    options: Options, cluster: Cluster, startup_timeout: float
) -> tf.distribute.ParameterServerStrategy:
    """Makes the chief's `tf.distribute.ParameterServerStrategy`; workers and ps serve it and end their
    process.
    """
    from tfdist.strategies import tensorflow_startup

    return tensorflow_startup.start_parameter_server(cluster, startup_timeout)


def _engine_options(options: Options) -> dict[str, Any]:
    return {"closures_in_flight": options.closures_in_flight}


KIND = StrategyKind(
    name="parameter_server",
    summary=(
        "Many or uneven workers that must not wait for one another, or weights too large for one device's"
        " memory."
    ),
    options=Options,
    create=create,
    check_cluster=chief_workers_and_ps,
    engine="tfdist.engines.parameter_server:ParameterServerEngine",
    engine_options=_engine_options,
)

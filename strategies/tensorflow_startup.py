"""Starting and ending TensorFlow's part of a cluster, with deadlines. The only module of strategies that
touches TensorFlow internals. Tested with TensorFlow 2.21.

TensorFlow's own constructors wait for missing tasks for ever, silently, without letting any Python code or
signal handler run. Its coordination service, set up beforehand with a registration barrier, makes them fail
in time and name who is missing.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import re
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from absl import logging

from tfdist.cluster import Cluster, Task
from tfdist.cluster.presence import wait_until_gone
from tfdist.cluster.reachability import require_known_name, wait_for
from tfdist.errors import ClusterError, ConfigError

if TYPE_CHECKING:
    import tensorflow as tf

END_BARRIER_SECONDS = 60.0


def start_multi_worker(
    cluster: Cluster,
    *,
    communication: str,
    bytes_per_pack: int,
    timeout_seconds: float | None,
    startup_timeout: float,
) -> tf.distribute.MultiWorkerMirroredStrategy:
    """Joins this task with the others of the cluster.

    Raises:
        ClusterError: If not all tasks have joined after `startup_timeout` seconds, naming them.
        ConfigError: If TensorFlow was used before in this process, so that it cannot join any more.
    """
    import tensorflow as tf

    options = tf.distribute.experimental.CommunicationOptions(
        bytes_per_pack=bytes_per_pack,
        timeout_seconds=timeout_seconds,
        implementation=tf.distribute.experimental.CommunicationImplementation[communication.upper()],
    )
    addresses = {
        type_: list(cluster.addresses[type_]) for type_ in ("chief", "worker") if type_ in cluster.addresses
    }
    task = cluster.task
    if task is None or task not in cluster.training_tasks:
        raise ConfigError(
            f"The cluster ({cluster.source}) does not say which of its training tasks this process is; it"
            f" says {task}.",
            "start the tasks with `tfdist fit` or `tfdist launch`, set TF_CONFIG, or pass"
            " cluster.with_task(Task('worker', 0))",
        )
    require_known_name(task, cluster.address(task))
    # TensorFlow's message about a missing leader does not name it, so it is waited for here.
    if task != cluster.chief:
        wait_for({cluster.chief: cluster.address(cluster.chief)}, startup_timeout)
    _configure_coordination(addresses, startup_timeout)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec(addresses), task_type=task.type, task_id=task.index, rpc_layer="grpc"
    )
    try:
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=resolver, communication_options=options
        )
    except (tf.errors.OpError, RuntimeError) as error:
        raise _startup_error(cluster, task, error, startup_timeout) from error
    if len(cluster.training_tasks) > 1:
        _end_together(task)
    return strategy


def start_parameter_server(cluster: Cluster, startup_timeout: float) -> tf.distribute.ParameterServerStrategy:
    """Gives the chief its strategy. In a worker or ps task: serves the chief until it ends, then ends the
    process.

    Raises:
        ClusterError: If a task cannot be reached within `startup_timeout` seconds, naming it.
        SystemExit: In a worker or ps task, when the chief has ended.
    """
    import tensorflow as tf

    task = cluster.task
    types = ("chief", "worker", "ps")
    addresses = {type_: list(cluster.addresses[type_]) for type_ in types if type_ in cluster.addresses}
    specification = tf.train.ClusterSpec(addresses)
    if task is None or task.type not in types:
        raise ConfigError(
            f"The cluster ({cluster.source}) does not say which of its tasks this process is; it says"
            f" {task}.",
            "start the tasks with `tfdist fit` or `tfdist launch`, set TF_CONFIG, or pass"
            " cluster.with_task(Task('chief', 0))",
        )
    require_known_name(task, cluster.address(task))
    if task.type != "chief":
        _serve(cluster, task, specification, startup_timeout)
    others = {other: cluster.address(other) for other in cluster.tasks if other.type in ("worker", "ps")}
    wait_for(others, startup_timeout)
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(
        specification, task_type="chief", task_id=0, rpc_layer="grpc"
    )
    try:
        with _warnings_only():  # it logs its whole session configuration
            return tf.distribute.ParameterServerStrategy(resolver)
    except (tf.errors.OpError, RuntimeError) as error:
        raise _startup_error(cluster, task, error, startup_timeout) from error


@contextlib.contextmanager
def _warnings_only() -> Iterator[None]:
    """Leaves log lines below a warning out for as long as the context is open."""
    before = logging.get_verbosity()
    logging.set_verbosity(logging.WARNING)
    try:
        yield
    finally:
        logging.set_verbosity(before)


def _serve(
    cluster: Cluster, task: Task, specification: tf.train.ClusterSpec, startup_timeout: float
) -> NoReturn:
    """Lets the chief use this task's devices until the chief has ended."""
    import tensorflow as tf

    try:
        server = tf.distribute.Server(
            specification, job_name=task.type, task_index=task.index, protocol="grpc", start=True
        )
    except tf.errors.OpError as error:
        raise _startup_error(cluster, task, error, startup_timeout) from error
    chief = cluster.chief
    address = cluster.address(chief)
    logging.info("%s serves %s at %s until it ends.", task, chief, address)
    wait_for({chief: address}, startup_timeout)
    wait_until_gone(address)
    logging.info("%s ends: %s at %s has ended.", task, chief, address)
    del server  # kept alive until here: its threads do the work
    raise SystemExit(0)


def _configure_coordination(addresses: dict[str, list[str]], startup_timeout: float) -> None:
    from tensorflow.compiler.xla.tsl.protobuf import coordination_config_pb2
    from tensorflow.python.eager import context

    jobs = [
        coordination_config_pb2.CoordinatedJob(name=type_, num_tasks=len(hosts))
        for type_, hosts in addresses.items()
    ]
    leader = next(iter(addresses))
    context.context().configure_coordination_service(
        "standalone",
        service_leader=f"/job:{leader}/replica:0/task:0",
        coordinated_jobs=jobs,
        cluster_register_timeout_in_ms=math.ceil(startup_timeout * 1000),
    )
    # Without the barrier a task waits only for the leader, and blocks in its first exchange for the rest.
    context.context()._coordination_service_config.cluster_register_with_barrier = True


def _startup_error(
    cluster: Cluster, task: Task, error: Exception, startup_timeout: float
) -> ClusterError | ConfigError:
    """Says what TensorFlow's error means for this cluster."""
    text = str(error)
    if "Could not start gRPC server" in text:
        return ClusterError(
            f"{task} cannot listen on its address {cluster.address(task)}: the port is taken, or the address"
            " is not this machine's.",
            "end what listens there (`ss -ltnp` lists it), or choose another port; run each task on the"
            " machine its address names",
        )
    if "program startup" in text or "already initialized" in text:
        return ConfigError(
            f"{task} cannot join the cluster: TensorFlow was used in this process before the strategy was"
            f" made. TensorFlow says: {text.splitlines()[0]}",
            "make the strategy right after the imports, once per process (in a notebook: restart the kernel)",
        )
    missing = [Task(type_, int(index)) for type_, index in _timed_out_tasks(text)]
    if missing:
        names = ", ".join(f"{other} at {cluster.address(other)}" for other in missing)
        return ClusterError(
            f"{task} waited {startup_timeout:g} s for {names}, which did not join.",
            "start the missing tasks at about the same time, look into their logs, or raise startup_timeout",
        )
    return ClusterError(
        f"{task} at {cluster.address(task)} could not join the cluster. TensorFlow says: {text.strip()}",
        "`tfdist cluster check` tells which tasks can be reached",
    )


def _timed_out_tasks(text: str) -> list[tuple[str, str]]:
    """Finds the tasks that TensorFlow lists as missing at its registration barrier, each once."""
    _, found, names = text.partition("timed out task names:")
    tasks = re.findall(r"/job:(\w+)/replica:\d+/task:(\d+)", names.split("Additional", 1)[0]) if found else []
    return sorted(set(tasks))


_ends_well = True


def end_without_waiting() -> None:
    """Says that this task has failed, so it must not wait for the others when it ends."""
    global _ends_well
    _ends_well = False


def _end_together(task: Task) -> None:
    """Makes this task wait for the others when it ends, since TensorFlow takes one that leaves early for
    dead.

    A chief that still writes the model would otherwise be stopped by its workers' leaving.
    """
    from tensorflow.python.eager import context

    def wait() -> None:
        if not _ends_well or getattr(sys, "last_value", None) is not None:
            return
        try:
            context.context().wait_at_barrier("tfdist_end", math.ceil(END_BARRIER_SECONDS * 1000))
        except (
            Exception
        ) as error:  # the work is done; whatever went wrong elsewhere must not turn it into a failure
            logging.warning(
                "%s is done, but not all others ended within %g s: %s",
                task,
                END_BARRIER_SECONDS,
                str(error).splitlines()[0],
            )

    atexit.register(wait)

"""Which clusters a kind can work with: functions for `StrategyKind.check_cluster`.

Each gives what is wrong, as the rest of a sentence that begins with the kind's name, and the fix; or None.
"""

from __future__ import annotations

from typing import Any

from tfdist.cluster import Cluster

Mistake = tuple[str, str]


def any_cluster(options: Any, cluster: Cluster | None) -> Mistake | None:
    """Accepts everything."""
    return None


def one_task(options: Any, cluster: Cluster | None) -> Mistake | None:
    """Accepts a single process."""
    if cluster is None or len(cluster.tasks) == 1:
        return None
    return (
        f"trains in one process, but the cluster ({cluster.source}) has {cluster.summary}.",
        "remove the cluster, or write kind: multi_worker_mirrored",
    )


def workers_in_step(options: Any, cluster: Cluster | None) -> Mistake | None:
    """Accepts workers, with or without a chief, and no ps."""
    if cluster is None:
        return (
            "needs a cluster; none was given, and TF_CONFIG is not set.",
            "add cluster: {local: {workers: 2}}, or list the addresses of the workers",
        )
    if "ps" in cluster.addresses:
        return (
            f"has no use for a ps, but the cluster ({cluster.source}) has {cluster.summary}.",
            "remove ps, or write kind: parameter_server",
        )
    return None


def chief_workers_and_ps(options: Any, cluster: Cluster | None) -> Mistake | None:
    """Accepts a chief with workers and ps."""
    if cluster is None:
        return (
            "needs a cluster; none was given, and TF_CONFIG is not set.",
            "add cluster: {local: {workers: 2, ps: 1}}, or list the addresses of chief, worker and ps",
        )
    missing = [type_ for type_ in ("chief", "worker", "ps") if type_ not in cluster.addresses]
    if not missing:
        return None
    fix = f"add {' and '.join(missing)} to the cluster"
    if missing == ["ps"]:
        fix += ", or write kind: multi_worker_mirrored"
    return f"needs a chief, workers and a ps, but the cluster ({cluster.source}) has {cluster.summary}.", fix

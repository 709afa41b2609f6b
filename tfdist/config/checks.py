"""What cannot work although each key by itself is right; found before TensorFlow loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tfdist.cluster import Cluster
from tfdist.config.model import RunConfig
from tfdist.config.schema import KindLike
from tfdist.problems import Problem

Rule = Callable[[Cluster | None], tuple[str, str] | None]


def problems_with(config: RunConfig, cluster: Cluster | None, kind: KindLike) -> list[Problem]:
    """Finds what cannot work in a configuration.

    Args:
        config: The configuration; each key by itself is right.
        cluster: Its cluster, as far as it is known.
        kind: The strategy kind it names.
    """
    problems = [
        *_strategy_and_cluster(config, cluster),
        *_evaluator(config),
        *_loss_weights(config),
    ]
    return problems or _batch_size(config, cluster, kind)


def _strategy_and_cluster(config: RunConfig, cluster: Cluster | None) -> list[Problem]:
    rule = _CLUSTER_RULES.get(config.strategy.kind)
    wrong = rule(cluster) if rule else None
    if wrong is None:
        return []
    what, fix = wrong
    return [Problem(("strategy", "kind"), f"{config.strategy.kind} {what}", fix)]


def _evaluator(config: RunConfig) -> list[Problem]:
    section = config.cluster
    if section is None or not (section.evaluator or (section.local and section.local.evaluator)):
        return []
    path = ("cluster", "evaluator") if section.evaluator else ("cluster", "local", "evaluator")
    what = "`tfdist fit` has no work for an evaluator; validation runs in the training tasks."
    return [Problem(path, what, "remove evaluator, and return the key validation from data.build")]


def _loss_weights(config: RunConfig) -> list[Problem]:
    loss, weights = config.train.loss, config.train.loss_weights
    if not weights or loss is None:
        return []
    if isinstance(loss, str):
        what = "it gives weights by output, but train.loss is one loss for all outputs."
        return [Problem(("train", "loss_weights"), what, "give train.loss as a mapping of output to loss")]
    return [
        Problem(
            ("train", "loss_weights", output),
            f"there is no such output in train.loss, which has {', '.join(loss)}.",
            "use a name from train.loss",
        )
        for output in weights
        if output not in loss
    ]


def _batch_size(config: RunConfig, cluster: Cluster | None, kind: KindLike) -> list[Problem]:
    size = config.train.global_batch_size
    if size is None:
        return []
    replicas = kind.replicas_divisor(config.strategy, cluster)
    micro_batches = config.train.accumulate_steps
    parts = replicas * micro_batches
    if size % parts == 0:
        return []
    factors = " times ".join(
        text
        for count, text in (
            (replicas, f"{replicas} replicas"),
            (micro_batches, f"{micro_batches} micro-batches"),
        )
        if count > 1
    )
    lower, upper = size // parts * parts, (size // parts + 1) * parts
    choices = f"{lower} or {upper}" if lower else str(upper)
    what = f"{size} rows cannot be shared out evenly; it has to be a multiple of {parts}, for {factors}."
    return [Problem(("train", "global_batch_size"), what, f"write global_batch_size: {choices}")]


def _one_task(cluster: Cluster | None) -> tuple[str, str] | None:
    if cluster is None or len(cluster.tasks) == 1:
        return None
    return (
        f"trains in one process, but the cluster ({cluster.source}) has {_tasks(cluster)}.",
        "remove the cluster, or write kind: multi_worker_mirrored",
    )


def _workers_in_step(cluster: Cluster | None) -> tuple[str, str] | None:
    if cluster is None:
        return (
            "needs a cluster; the file has none, and TF_CONFIG is not set.",
            "add cluster: {local: {workers: 2}}, or list the addresses of the workers",
        )
    if "ps" in cluster.addresses:
        return (
            f"has no use for a ps, but the cluster ({cluster.source}) has {_tasks(cluster)}.",
            "remove ps, or write kind: parameter_server",
        )
    return None


def _chief_workers_and_ps(cluster: Cluster | None) -> tuple[str, str] | None:
    if cluster is None:
        return (
            "needs a cluster; the file has none, and TF_CONFIG is not set.",
            "add cluster: {local: {workers: 2, ps: 1}}, or list the addresses of chief, worker and ps",
        )
    missing = [type_ for type_ in ("chief", "worker", "ps") if type_ not in cluster.addresses]
    if not missing:
        return None
    return (
        f"needs a chief, workers and a ps, but the cluster ({cluster.source}) has {_tasks(cluster)}.",
        f"add {' and '.join(missing)} to the cluster, or write kind: multi_worker_mirrored"
        if missing == ["ps"]
        else f"add {' and '.join(missing)} to the cluster",
    )


def _tasks(cluster: Cluster) -> str:
    counts = {type_: len(hosts) for type_, hosts in cluster.addresses.items()}
    return ", ".join(f"{n} {type_}{'s' if n > 1 and type_ != 'ps' else ''}" for type_, n in counts.items())


# The kinds that come with tfdist; others check the cluster when they make their strategy.
_CLUSTER_RULES: Mapping[str, Rule] = {
    "one_device": _one_task,
    "mirrored": _one_task,
    "multi_worker_mirrored": _workers_in_step,
    "parameter_server": _chief_workers_and_ps,
}

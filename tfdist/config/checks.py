"""What cannot work although each key by itself is right; found before TensorFlow loads."""

from __future__ import annotations

from tfdist.cluster import Cluster
from tfdist.config.data_checks import data_problems
from tfdist.config.model import RunConfig
from tfdist.config.schema import KindLike
from tfdist.problems import Problem


def problems_with(config: RunConfig, cluster: Cluster | None, kind: KindLike) -> list[Problem]:
    """Finds what cannot work in a configuration.

    Args:
        config: The configuration; each key by itself is right.
        cluster: Its cluster, as far as it is known.
        kind: The strategy kind it names.
    """
    problems = [
        *_strategy_and_cluster(config, cluster, kind),
        *_evaluator(config),
        *_loss_weights(config),
        *_learning_rate(config),
        *data_problems(config),
    ]
    return problems or _batch_size(config, cluster, kind)


def _strategy_and_cluster(config: RunConfig, cluster: Cluster | None, kind: KindLike) -> list[Problem]:
    wrong = kind.check_cluster(config.strategy, cluster)
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


def _learning_rate(config: RunConfig) -> list[Problem]:
    section, optimizer = config.train.learning_rate, config.train.optimizer
    if section is None:
        return []
    problems = [
        Problem(("train", "learning_rate", name), what, fix)
        for name, what, fix in section.mistakes(config.train.epochs)
    ]
    if optimizer and "learning_rate" in optimizer.arguments:
        what = f"{optimizer.arguments['learning_rate']!r} has no effect: train.learning_rate replaces it."
        problems.append(
            Problem(
                ("train", "optimizer", "learning_rate"), what, "remove it here, or remove train.learning_rate"
            )
        )
    return problems


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

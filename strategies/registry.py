"""The strategy kinds that are installed, found by entry point, and the factory that makes one by name."""

from __future__ import annotations

import functools
import weakref
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any

from pydantic import ValidationError
from tfdist.strategies.kind import StrategyKind, StrategyOptions

from tfdist.cluster import Cluster
from tfdist.errors import ConfigError
from tfdist.problems import nearest

ENTRY_POINT_GROUP = "tfdist.strategies"
DEFAULT_STARTUP_TIMEOUT = 60.0


@dataclass(frozen=True)
class Made:
    """How a strategy was made: its kind, its options and the cluster it runs in."""

    kind: StrategyKind
    options: StrategyOptions
    cluster: Cluster | None


_made: weakref.WeakKeyDictionary[Any, Made] = weakref.WeakKeyDictionary()


@functools.cache
def kinds() -> dict[str, StrategyKind]:
    """Gives every installed strategy kind by its name.

    Raises:
        ConfigError: If an installed package registers something that is not a `StrategyKind`, or a name
            twice.

    Example:
        >>> sorted(kinds())[:2]
        ['mirrored', 'multi_worker_mirrored']
    """
    found: dict[str, StrategyKind] = {}
    for entry in entry_points(group=ENTRY_POINT_GROUP):
        kind = entry.load()
        if not isinstance(kind, StrategyKind):
            raise ConfigError(
                f"Entry point {entry.name} = {entry.value} in group {ENTRY_POINT_GROUP} is not a"
                f" StrategyKind; received {kind!r}.",
                "point it at an instance of tfdist.strategies.kind.StrategyKind",
            )
        if kind.name in found:
            raise ConfigError(
                f"Two installed packages register the strategy kind {kind.name!r}; the second is"
                f" {entry.value}.",
                "uninstall one of them, or give its kind another name",
            )
        found[kind.name] = kind
    return dict(sorted(found.items()))


def get_kind(name: str) -> StrategyKind:
    """Gives a strategy kind by its name.

    Raises:
        ConfigError: If there is none, naming the nearest one.
    """
    known = kinds()
    if name not in known:
        meant = nearest(str(name), known)
        raise ConfigError(
            f"There is no strategy kind {name!r}. Installed: {', '.join(known)}.",
            f"use {meant!r}" if meant else f"use one of {', '.join(known)}",
        )
    return known[name]


def make_strategy(
    kind: str,
    cluster: Cluster | None = None,
    *,
    startup_timeout: float = DEFAULT_STARTUP_TIMEOUT,
    **options: Any,
) -> Any:
    """Makes a strategy by the name of its kind.

    Args:
        kind: Name of an installed kind, such as `mirrored`.
        cluster: The cluster and which task of it this process is. Left out: discovered from the environment.
        startup_timeout: Seconds to wait for the other tasks of the cluster to start.
        **options: The kind's options.

    Returns:
        A `tf.distribute.Strategy` for the kinds that come with tfdist, usable with `tfdist.fit` and in a
        custom loop.

    Raises:
        ConfigError: If the kind, an option or the cluster does not fit.
        ClusterError: If another task cannot be reached within `startup_timeout`.

    Example:
        >>> strategy = make_strategy("one_device")
        >>> strategy.num_replicas_in_sync
        1
    """
    chosen = get_kind(kind)
    if not startup_timeout > 0:
        raise ConfigError(
            f"startup_timeout must be a positive number of seconds; received {startup_timeout!r}.",
            "for example startup_timeout=60",
        )
    try:
        parsed = chosen.options(**options)
    except ValidationError as error:
        raise ConfigError(*_describe(chosen, error)) from None
    if cluster is None:
        cluster = Cluster.discover()
    wrong = chosen.check_cluster(parsed, cluster)
    if wrong is not None:
        raise ConfigError(f"{kind} {wrong[0]}", wrong[1])
    strategy = chosen.create(parsed, cluster, startup_timeout)
    _made[strategy] = Made(chosen, parsed, cluster)
    return strategy


def how_made(strategy: Any) -> Made | None:
    """Tells how a strategy was made, or gives None if it was not made by `make_strategy`."""
    try:
        return _made.get(strategy)
    except TypeError:  # not weakly referencable, so not ours
        return None


def _describe(kind: StrategyKind, error: ValidationError) -> tuple[str, str]:
    first = error.errors()[0]
    name = ".".join(str(part) for part in first["loc"])
    known = list(kind.options.model_fields)
    if first["type"] == "extra_forbidden":
        meant = nearest(name, known)
        problem = f"Strategy {kind.name!r} has no option {name!r} (received {first['input']!r})."
        if meant:
            return problem, f"did you mean {meant}?"
        return problem, f"its options are: {', '.join(known)}" if known else "it has no options; leave it out"
    message = first["msg"].removeprefix("Value error, ")
    return (
        f"Option {name!r} of strategy {kind.name!r} is wrong: {message} (received {first['input']!r}).",
        f"correct {name}: {kind.options.model_fields[str(first['loc'][0])].description}",
    )

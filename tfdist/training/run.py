"""Runs what a YAML file describes, in the process of one task."""

from __future__ import annotations

import importlib
import json
import math
import os
import platform
import secrets
import signal
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from absl import logging

from tfdist.cluster import Cluster
from tfdist.config import RunConfig
from tfdist.config.data import ReaderSection
from tfdist.errors import ConfigError, TrainingError
from tfdist.strategies.registry import make_strategy

_signals: list[int] = []  # that asked this task to end


def run_task(config: RunConfig, cluster: Cluster | None, workdir: Path) -> None:
    """Trains as configured. The chief writes `run.json`, `history.json` and `model.keras` into the workdir.

    Args:
        config: The configuration.
        cluster: The cluster and which task of it this process is; None for a process on its own.
        workdir: An existing directory.

    Raises:
        TfdistError: With what is wrong and how to mend it.
        SystemExit: In a worker or ps of a parameter server, when the chief has ended.
    """
    try:
        _run_task(config, cluster, workdir)
    except Exception as error:
        if _signals:  # inside a call, TensorFlow makes an error of its own of the SystemExit
            raise SystemExit(128 + _signals[0]) from error
        raise


def _run_task(config: RunConfig, cluster: Cluster | None, workdir: Path) -> None:
    import keras

    from tfdist.data.inputs import unpack_data
    from tfdist.data.readers.section import explaining
    from tfdist.engines.engine import engine_for
    from tfdist.step.learning_rate import LearningRate
    from tfdist.training.trainer import Trainer

    if "" not in sys.path:  # a console script does not look for modules in the current folder
        sys.path.insert(0, "")
    train = config.train
    options = config.strategy.model_dump(exclude={"kind"})
    strategy = make_strategy(
        config.strategy.kind, cluster, startup_timeout=config.launch.startup_timeout, **options
    )
    # Only now: TensorFlow takes over SIGTERM when it starts the task's server.
    signal.signal(signal.SIGTERM, _end_on_signal)
    engine = engine_for(strategy)
    seed = int(engine.agree(secrets.randbits(31) if train.seed is None else train.seed))
    keras.utils.set_random_seed(seed)
    data = _load_data(config, seed)
    trainer = Trainer(
        lambda: _build(config, "model"),
        engine,
        optimizer=_make_optimizer(config),
        loss=train.loss,
        metrics=train.metrics or None,
        loss_weights=train.loss_weights,
        accumulate_steps=train.accumulate_steps,
        clip_global_norm=train.clip_global_norm,
        precision=train.precision,
        synchronized_batch_norm=train.synchronized_batch_norm,
        learning_rate=LearningRate.from_section(train.learning_rate) if train.learning_rate else None,
        steps_per_call=train.steps_per_call,
        seed=seed,
    )
    if trainer.is_chief:
        _write_json(workdir / "run.json", _describe_run(config, cluster, trainer.num_replicas, seed))
        logging.info(
            "Training with %s: %s; workdir %s, seed %d.",
            config.strategy.kind,
            engine.description,
            workdir,
            seed,
        )
    x, y, sample_weight = unpack_data(data["train"])
    with explaining(config, data):
        history = trainer.fit(
            x,
            y,
            sample_weight,
            global_batch_size=train.global_batch_size,
            epochs=train.epochs,
            steps_per_epoch=train.steps_per_epoch,
            shuffle=train.shuffle,
            validation_data=data.get("validation"),
            verbose=train.verbose,
        )
    if trainer.is_chief:
        _write_results(workdir, trainer.model, history.history)


def _write_results(workdir: Path, model: Any, history: Mapping[str, Any]) -> None:
    """Writes the model first: it is what cannot be had again."""
    unfinished = workdir / "unfinished.keras"
    try:
        model.save(unfinished)
        os.replace(unfinished, workdir / "model.keras")
        _write_json(workdir / "history.json", history)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise TrainingError(
            f"Training is done, but its results cannot be written to {workdir}: {error.strerror}.",
            "make room or permission there, or choose another folder with --workdir DIR; then train again",
        ) from error
    logging.info("Wrote model.keras and history.json to %s.", workdir)


def _end_on_signal(number: int, _: Any) -> None:
    """Ends the task at once, between two calls into TensorFlow, whose own end can wait for other tasks."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(128 + number)


def _load_data(config: RunConfig, seed: int) -> Mapping[str, Any]:
    from tfdist.data.inputs import is_batched
    from tfdist.data.readers.section import open_data

    if isinstance(config.data, ReaderSection):
        return open_data(config, seed)
    data = _build(config, "data")
    where = config.where("data", "build")
    if not isinstance(data, Mapping) or "train" not in data:
        received = (
            f"a mapping with the keys {list(data)}"
            if isinstance(data, Mapping)
            else repr(type(data).__name__)
        )
        raise ConfigError(
            f"{where}: the function must return a mapping with the key train; it returned {received}.",
            "return {'train': (x, y), 'validation': (x, y)}",
        )
    unknown = set(data) - {"train", "validation"}
    if unknown:
        raise ConfigError(
            f"{where}: the function returned the keys {sorted(map(str, unknown))}, which nothing reads.",
            "return the keys train and validation only",
        )
    if not is_batched(data["train"]) and config.train.global_batch_size is None:
        raise ConfigError(
            f"{config.where('train')}: global_batch_size is missing, and {where} gives arrays, which have no"
            " batches of their own.",
            "add global_batch_size: 64",
        )
    return data


def _build(config: RunConfig, section: str) -> Any:
    """Calls the function that `model.build` or `data.build` names."""
    chosen = getattr(config, section)
    module_name, _, path = chosen.build.partition(":")
    try:
        target: Any = importlib.import_module(module_name)
        for name in path.split("."):
            target = getattr(target, name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{config.where(section, 'build')}: {chosen.build} cannot be loaded: {error}",
            f"`python -c 'import {module_name}'` in this folder shows where it fails",
        ) from error
    try:
        return target(**chosen.args)
    except TypeError as error:
        if (
            error.__traceback__ is not None and error.__traceback__.tb_next is None
        ):  # the call itself, not the body
            raise ConfigError(
                f"{config.where(section, 'args')}: {chosen.build} does not take these arguments: {error}",
                f"correct {section}.args",
            ) from error
        raise


def _make_optimizer(config: RunConfig) -> Any:
    import keras

    from tfdist.problems import nearest
    from tfdist.step.lamb import LAMB
    from tfdist.step.lars import LARS

    chosen = config.train.optimizer
    if chosen is None:
        return None
    known = {
        name.lower(): value
        for name, value in vars(keras.optimizers).items()
        if isinstance(value, type) and issubclass(value, keras.optimizers.Optimizer) and name != "Optimizer"
    }
    known |= {"lars": LARS, "lamb": LAMB}  # Keras's Lamb decays weights otherwise than the paper
    if chosen.name.lower() not in known:
        meant = nearest(chosen.name.lower(), known)
        raise ConfigError(
            f"{config.where('train', 'optimizer')}: Keras has no optimizer {chosen.name!r}.",
            f"did you mean {meant}?" if meant else f"use one of {', '.join(sorted(known))}",
        )
    try:
        return known[chosen.name.lower()](**chosen.arguments)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{config.where('train', 'optimizer')}: {chosen.name} cannot be made with {chosen.arguments!r}:"
            f" {error}",
            f"its arguments are those of {_public_name(known[chosen.name.lower()])}",
        ) from error


def _public_name(optimizer: type) -> str:
    package = "tfdist" if optimizer.__module__.startswith("tfdist.") else "keras.optimizers"
    return f"{package}.{optimizer.__name__}"


def _describe_run(config: RunConfig, cluster: Cluster | None, replicas: int, seed: int) -> dict[str, Any]:
    return {
        "config": config.model_dump(mode="json"),
        "cluster": (
            None if cluster is None else {type_: list(hosts) for type_, hosts in cluster.addresses.items()}
        ),
        "replicas": replicas,
        "seed": seed,
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in ("tfdist", "tensorflow", "keras", "numpy")},
        },
    }


def _write_json(path: Path, value: Any) -> None:
    """Writes a file in one piece, so that none is ever seen half-written."""
    unfinished = path.with_name(f"{path.name}.unfinished")
    try:
        unfinished.write_text(json.dumps(_without_nan(value), indent=2) + "\n")
        os.replace(unfinished, path)
    finally:
        unfinished.unlink(missing_ok=True)


def _without_nan(value: Any) -> Any:
    """Writes what is no finite number as null, since strict readers of JSON refuse NaN."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _without_nan(item) for key, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, list | tuple) else value

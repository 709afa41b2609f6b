"""Runs what a YAML file describes, in the process of one task."""

from __future__ import annotations

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
from tfdist.errors import TrainingError
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
    from tfdist.training.from_config import load_data, make_trainer

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
    data = load_data(config, seed)
    trainer = make_trainer(config, engine, seed)
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

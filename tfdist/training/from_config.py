"""The parts of a run that a YAML file describes: data, model, optimizer, trainer."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

import keras

from tfdist.config import RunConfig
from tfdist.config.data import ReaderSection
from tfdist.data.inputs import is_batched
from tfdist.data.readers.section import open_data
from tfdist.errors import ConfigError
from tfdist.problems import nearest
from tfdist.step.lamb import LAMB
from tfdist.step.lars import LARS
from tfdist.step.learning_rate import LearningRate
from tfdist.training.trainer import Trainer


def make_trainer(config: RunConfig, strategy: Any, seed: int) -> Trainer:
    """Makes the trainer of a configuration.

    Args:
        config: The configuration.
        strategy: As `Trainer` takes it.
        seed: Seed of the run.

    Raises:
        ConfigError: The configuration describes something that cannot be.
    """
    train = config.train
    return Trainer(
        lambda: build(config, "model"),
        strategy,
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


def load_data(config: RunConfig, seed: int) -> Mapping[str, Any]:
    """Gives the data of a configuration, as what `Trainer.fit` takes.

    Args:
        config: The configuration.
        seed: Seed of the order of the rows.

    Returns:
        `train` and, if there is any, `validation`.

    Raises:
        ConfigError: The data cannot be had.
    """
    if isinstance(config.data, ReaderSection):
        return open_data(config, seed)
    data = build(config, "data")
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


def build(config: RunConfig, section: str) -> Any:
    """Calls the function that `model.build` or `data.build` names.

    Args:
        config: The configuration.
        section: `model` or `data`.

    Raises:
        ConfigError: There is no such function, or it does not take the arguments.
    """
    if "" not in sys.path:  # a console script does not look for modules in the current folder
        sys.path.insert(0, "")
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

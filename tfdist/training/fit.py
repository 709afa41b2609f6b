"""`fit` in one call."""

from __future__ import annotations

from typing import Any

import keras

from tfdist.cluster import Cluster
from tfdist.errors import ConfigError
from tfdist.step.learning_rate import LearningRate
from tfdist.strategies.registry import DEFAULT_STARTUP_TIMEOUT
from tfdist.training.model import BuildModel
from tfdist.training.trainer import Trainer


def fit(
    model: keras.Model | BuildModel,
    x: Any = None,
    y: Any = None,
    sample_weight: Any = None,
    *,
    strategy: Any = "one_device",
    cluster: Cluster | None = None,
    optimizer: Any = None,
    loss: Any = None,
    metrics: Any = None,
    loss_weights: Any = None,
    weighted_metrics: Any = None,
    accumulate_steps: int = 1,
    clip_global_norm: float | None = None,
    precision: str | None = None,
    synchronized_batch_norm: bool = False,
    learning_rate: LearningRate | None = None,
    steps_per_call: int | None = None,
    seed: int | None = None,
    startup_timeout: float = DEFAULT_STARTUP_TIMEOUT,
    batch_size: int | None = None,
    global_batch_size: int | None = None,
    **fit_arguments: Any,
) -> keras.callbacks.History:
    """Trains a model under a strategy: `Trainer(…).fit(…)` in one call.

    Args:
        model: See `Trainer`.
        x: See `Trainer.fit`.
        y: See `Trainer.fit`.
        sample_weight: See `Trainer.fit`.
        strategy: See `Trainer`.
        cluster: See `Trainer`.
        optimizer: See `Trainer`.
        loss: See `Trainer`.
        metrics: See `Trainer`.
        loss_weights: See `Trainer`.
        weighted_metrics: See `Trainer`.
        accumulate_steps: See `Trainer`.
        clip_global_norm: See `Trainer`.
        precision: See `Trainer`.
        synchronized_batch_norm: See `Trainer`.
        learning_rate: See `Trainer`.
        steps_per_call: See `Trainer`.
        seed: See `Trainer`.
        startup_timeout: See `Trainer`.
        batch_size: Keras's name for `global_batch_size`.
        global_batch_size: See `Trainer.fit`.
        **fit_arguments: The other arguments of `Trainer.fit`: `epochs`, `validation_data`, `callbacks`,
            `verbose`, …

    Returns:
        The history; `history.model` is the trained model.

    Example:
        >>> import keras, numpy as np, tfdist
        >>> def build_model():
        ...     return keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
        >>> x, y = np.ones((8, 4)), np.ones((8, 1))
        >>> history = tfdist.fit(build_model, x, y, optimizer="sgd", loss="mse", verbose=0)
        >>> history.model.count_params()
        5
    """
    if batch_size is not None and global_batch_size is not None:
        raise ConfigError(
            f"batch_size={batch_size} and global_batch_size={global_batch_size} were both given; they mean"
            " the same.",
            "leave batch_size out",
        )
    trainer = Trainer(
        model,
        strategy,
        cluster=cluster,
        optimizer=optimizer,
        loss=loss,
        metrics=metrics,
        loss_weights=loss_weights,
        weighted_metrics=weighted_metrics,
        accumulate_steps=accumulate_steps,
        clip_global_norm=clip_global_norm,
        precision=precision,
        synchronized_batch_norm=synchronized_batch_norm,
        learning_rate=learning_rate,
        steps_per_call=steps_per_call,
        seed=seed,
        startup_timeout=startup_timeout,
    )
    rows = batch_size if global_batch_size is None else global_batch_size
    return trainer.fit(x, y, sample_weight, global_batch_size=rows, **fit_arguments)

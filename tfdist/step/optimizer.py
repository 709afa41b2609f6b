"""Applies gradients that are summed over replicas already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfdist.errors import ConfigError
from tfdist.step import keras_private
from tfdist.step.state import assign_everywhere


def apply_gradients(
    optimizer: keras.optimizers.Optimizer,
    gradients: Sequence[Any],
    weights: Sequence[keras.Variable],
    apply: Callable[..., Any] | None = None,
) -> None:
    """Clips, decays and updates, as the optimizer is set up. Called by each replica, with the same gradients.

    Where the optimizer overwrites weights with their moving average every so often, that is done here: Keras
    does it where TensorFlow does not allow it under a strategy.

    Args:
        optimizer: The optimizer.
        gradients: Gradients of the global batch, None where there is none.
        weights: The weights.
        apply: The optimizer's own `apply`, where that has been replaced.

    Raises:
        ConfigError: A weight is trained that was frozen when the optimizer was set up.
    """
    _require_known(optimizer, weights)
    (apply or optimizer.apply)(gradients, weights)
    frequency = keras_private.ema_overwrite_frequency(optimizer)
    if frequency:
        inner = keras_private.innermost_optimizer(optimizer)
        averages = keras_private.moving_averages(inner)
        assign_everywhere(
            [(weight, average.value) for weight, average in averages],
            when=lambda: inner.iterations.value % frequency == 0,
        )


def _require_known(optimizer: keras.optimizers.Optimizer, weights: Sequence[keras.Variable] | None) -> None:
    inner = keras_private.innermost_optimizer(optimizer)
    if weights is None or not inner.built:
        return
    known = {id(weight) for weight in keras_private.weights_updated_by(inner)}
    new = [weight.path for weight in weights if id(weight) not in known]
    if new:
        raise ConfigError(
            f"The {type(inner).__name__} was set up while {', '.join(new)} did not train, so it has no state"
            " for what is to train now.",
            "after a change of `trainable`, compile the model again, as Keras asks for too:"
            " model.compile(optimizer=…, loss=…)",
        )

"""Applies gradients that are summed over replicas already."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

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
    """
    (apply or optimizer.apply)(gradients, weights)
    frequency = keras_private.ema_overwrite_frequency(optimizer)
    if frequency:
        inner = keras_private.innermost_optimizer(optimizer)
        averages = keras_private.moving_averages(inner)
        assign_everywhere(
            [(weight, average.value) for weight, average in averages],
            when=lambda: inner.iterations.value % frequency == 0,
        )

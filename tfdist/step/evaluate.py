"""One batch of evaluation or prediction on one replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfdist.data.batch import Part
from tfdist.step import keras_private
from tfdist.step.forward import forward_pass


def evaluate_step(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    *,
    sum_over_replicas: Callable[[Any], Any],
) -> list[Any]:
    """Counts one part in the metrics. Called in the context of one replica.

    Returns:
        The new metric states.
    """
    forward = forward_pass(
        model,
        part,
        metric_variables,
        metric_states,
        training=False,
        size_of_whole=lambda size: sum_over_replicas([size])[0],
    )
    return forward.metric_states


def predict_step(model: keras.Model, part: Part) -> Any:
    """Gives the model's output for one part."""
    x, _, _ = keras.utils.unpack_x_y_sample_weight(part.data)
    with keras_private.CapturingScope([]):
        return keras_private.call_model(model, x, training=False)

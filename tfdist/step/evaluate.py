"""One batch of evaluation or prediction on one replica."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfdist.data.batch import Part
from tfdist.step import keras_private
from tfdist.step.custom import run_custom_step
from tfdist.step.forward import forward_pass


def evaluate_step(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    *,
    sum_over_replicas: Callable[[Any], Any],
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Counts one part in the metrics. Called in the context of one replica.

    Returns:
        The new metric states, and what a `test_step` of the model's own returned.
    """
    if keras_private.overrides(model, "test_step"):
        states, _, logs = run_custom_step(
            model,
            model.test_step,
            part,
            metric_variables,
            metric_states,
            states=(),
            sum_over_replicas=sum_over_replicas,
        )
        return states, logs
    forward = forward_pass(
        model,
        part,
        metric_variables,
        metric_states,
        training=False,
        size_of_whole=lambda size: sum_over_replicas([size])[0],
    )
    return forward.metric_states, {}


def predict_step(model: keras.Model, part: Part) -> Any:
    """Gives the model's output for one part."""
    with keras_private.CapturingScope([]):
        if keras_private.overrides(model, "predict_step"):
            return model.predict_step(part.data if len(part.data) > 1 else part.data[0])
        x, _, _ = keras.utils.unpack_x_y_sample_weight(part.data)
        return keras_private.call_model(model, x, training=False)

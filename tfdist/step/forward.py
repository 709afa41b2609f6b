"""The forward pass of one replica on one part of a batch: predictions, loss and metrics, with nothing
assigned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.batch import Part
from tfdist.step import keras_private
from tfdist.step.part import WorkOnPart, working_on

State = tuple[keras.Variable, Any]


@dataclass
class Forward:
    """What a forward pass gives.

    Attributes:
        loss: Scalar whose share-weighted sum over parts is the loss of the global batch.
        gradients: Of `share * loss` with respect to the trainable variables, `None` where there is none;
            empty when evaluating.
        metric_states: The metric states after this part.
        changes: The other variables that layers assigned, by their ids, with the value assigned last.
    """

    loss: Any
    gradients: list[Any]
    metric_states: list[Any]
    changes: dict[int, State]


def forward_pass(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    *,
    training: bool,
    states: Sequence[State] = (),
    size_of_whole: Callable[[Any], Any],
) -> Forward:
    """Computes predictions, loss, metrics and, when training, gradients of one part.

    Args:
        model: The model, built and compiled, with its losses wrapped as `GlobalLoss`.
        part: The rows.
        metric_variables: The variables of the model's metrics.
        metric_states: Their values before this part.
        training: Whether to call the model in training mode and compute gradients.
        states: Other variables that layers shall see with another value than they have.
        size_of_whole: See `tfdist.step.part.WorkOnPart`.

    Returns:
        The results.
    """
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(part.data)
    weights = model.trainable_variables if training else []
    mapping = [*zip(metric_variables, metric_states, strict=True), *states]
    work = WorkOnPart(part.share, size_of_whole)
    with keras_private.CapturingScope(mapping) as scope, working_on(work):
        with tf.GradientTape() as tape:
            y_pred = keras_private.call_model(model, x, training)
            trackers = _Trackers(model, scope)
            loss = keras_private.compute_loss(model, x, y, y_pred, sample_weight, training)
            trackers.record(work.loss_values, part.rows)
            objective = tf.cast(loss, tf.float32) * part.share
            if training:
                objective = model.optimizer.scale_loss(objective)
        keras_private.loss_tracker(model).update_state(loss, sample_weight=part.rows)
        model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        metric_states = metric_states_after(scope, part, metric_variables, metric_states)
        changes = changes_in(scope, metric_variables)
    gradients = tape.gradient(objective, [weight.value for weight in weights]) if weights else []
    return Forward(loss, gradients, metric_states, changes)


def metric_states_after(
    scope: keras_private.CapturingScope,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    before: Sequence[Any],
) -> list[Any]:
    """Gives the metric states at the end of a scope; those from before where the part has no own rows."""
    return [
        tf.where(part.rows > 0, scope.get_current_value(variable), old)
        for variable, old in zip(metric_variables, before, strict=True)
    ]


def changes_in(
    scope: keras_private.CapturingScope, metric_variables: Sequence[keras.Variable]
) -> dict[int, State]:
    """Gives what layers assigned inside a scope: each variable, by its id, with its last value."""
    metric_ids = {id(variable) for variable in metric_variables}
    return {
        key: (variable, scope.get_current_value(variable))
        for key, variable in scope.assigned.items()
        if key not in metric_ids
    }


class _Trackers:
    """The metrics that show each output's own loss, counted in rows.

    Keras counts them in batches where the batch size is not static, which is not the mean over rows.
    """

    def __init__(self, model: keras.Model, scope: keras.StatelessScope) -> None:
        losses = keras_private.compiled_loss(model)
        self._metrics = [] if losses is None else list(losses.metrics)
        self._scope = scope
        self._before: Mapping[int, Any] = {
            id(variable): scope.get_current_value(variable)
            for metric in self._metrics
            for variable in metric.variables
        }

    def record(self, values: Sequence[Any], rows: Any) -> None:
        self._scope.state_mapping.update(self._before)
        if len(values) == len(self._metrics):
            for metric, value in zip(self._metrics, values, strict=True):
                metric.update_state(value, sample_weight=rows)

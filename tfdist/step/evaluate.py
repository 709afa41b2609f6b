"""One batch of evaluation or prediction on one replica.

What layers assign meanwhile is kept, as Keras keeps it: random generators move on, and a stateful layer
remembers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from tfdist.data.batch import Part
from tfdist.step import keras_private
from tfdist.step.custom import run_custom_step
from tfdist.step.forward import State, changes_in, forward_pass
from tfdist.step.state import fold_stream, moves_of, write_changes


def evaluate_step(
    model: keras.Model,
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    *,
    seeds: Sequence[keras.Variable],
    stream: Any,
    sum_over_replicas: Callable[[Any], Any],
) -> tuple[Sequence[Any], dict[str, Any]]:
    """Counts one part in the metrics. Called in the context of one replica.

    Args:
        model: The model, built and compiled, with its losses wrapped as `GlobalLoss`.
        part: This replica's part of the batch.
        metric_variables: The variables of the model's metrics.
        metric_states: Their values on this replica.
        seeds: State of each random generator that layers draw from.
        stream: Number of this replica's stream of random numbers.
        sum_over_replicas: Sums a list of tensors over all replicas.

    Returns:
        The new metric states, and what a `test_step` of the model's own returned.
    """
    states = [(seed, fold_stream(seed.value, stream)) for seed in seeds]
    logs: dict[str, Any] = {}
    after: Sequence[Any]
    if keras_private.overrides(model, "test_step"):
        after, changes, logs = run_custom_step(
            model,
            model.test_step,
            part,
            metric_variables,
            metric_states,
            states=states,
            sum_over_replicas=sum_over_replicas,
        )
    else:
        forward = forward_pass(
            model,
            part,
            metric_variables,
            metric_states,
            training=False,
            states=states,
            size_of_whole=lambda size: sum_over_replicas([size])[0],
        )
        after, changes = forward.metric_states, forward.changes
    _keep(changes, part, seeds, stream, sum_over_replicas)
    return after, logs


def predict_step(
    model: keras.Model,
    part: Part,
    *,
    seeds: Sequence[keras.Variable],
    stream: Any,
    sum_over_replicas: Callable[[Any], Any],
) -> Any:
    """Gives the model's output for one part; arguments are those of `evaluate_step`."""
    states = [(seed, fold_stream(seed.value, stream)) for seed in seeds]
    with keras_private.CapturingScope(states) as scope:
        if keras_private.overrides(model, "predict_step"):
            output = model.predict_step(part.data if len(part.data) > 1 else part.data[0])
        else:
            x, _, _ = keras.utils.unpack_x_y_sample_weight(part.data)
            output = keras_private.call_model(model, x, training=False)
        changes = changes_in(scope, ())
    _keep(changes, part, seeds, stream, sum_over_replicas)
    return output


def _keep(
    changes: dict[int, State],
    part: Part,
    seeds: Sequence[keras.Variable],
    stream: Any,
    sum_over_replicas: Callable[[Any], Any],
) -> None:
    averaged, moves = moves_of(changes, part.share)
    write_changes(changes, averaged, sum_over_replicas(moves), {id(seed) for seed in seeds}, stream)

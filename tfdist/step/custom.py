"""A model's own `train_step` or `test_step`, made to mean the same on any number of replicas.

Such a step computes a loss on its part of the batch, as a mean, and applies gradients itself, with one
optimizer or several. Its code runs as it is; what it touches is adapted while it runs:

    optimizer.apply(gradients)    gradients x share, summed over replicas, then clipped and applied
    Mean.update_state(scalar)     counts with weight `share`, so that all parts together count as one batch
    returned values               averaged over replicas by share
    layers' state, seeds          captured and put together, as in a step of ours

So a loss that is a plain mean over rows gives exactly the gradient of the global batch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import tensorflow as tf

from tfdist.data.batch import Part
from tfdist.errors import ConfigError
from tfdist.step import keras_private
from tfdist.step.forward import State, changes_in, metric_states_after
from tfdist.step.optimizer import apply_gradients
from tfdist.step.part import WorkOnPart, weigh, work_on_part, working_on


def run_custom_step(
    model: keras.Model,
    step: Callable[[Any], Any],
    part: Part,
    metric_variables: Sequence[keras.Variable],
    metric_states: Sequence[Any],
    *,
    states: Sequence[State],
    sum_over_replicas: Callable[[Any], Any],
) -> tuple[Sequence[Any], dict[int, State], dict[str, Any]]:
    """Runs the model's own step on one part.

    Args:
        model: The model.
        step: Its bound `train_step` or `test_step`.
        part: The rows.
        metric_variables: The variables of the model's metrics.
        metric_states: Their values before.
        states: Other variables that layers shall see with another value than they have.
        sum_over_replicas: Sums a list of tensors over all replicas.

    Returns:
        The new metric states; what layers assigned; and the scalars that the step returned, of the global
        batch.
    """
    mapping = [*zip(metric_variables, metric_states, strict=True), *states]
    work = WorkOnPart(part.share, lambda size: sum_over_replicas([size])[0], sum_over_replicas)
    with keras_private.CapturingScope(mapping) as scope, working_on(work):
        returned = step(part.data if len(part.data) > 1 else part.data[0])
        new_states = metric_states_after(scope, part, metric_variables, metric_states)
        changes = changes_in(scope, metric_variables)
    if not isinstance(returned, dict):
        raise ConfigError(
            f"{type(model).__name__}.{step.__name__} must return a dict of logs; it returned {returned!r}.",
            "return {'loss': loss}",
        )
    logs = _flat(returned)
    names = [name for name, value in logs.items() if _is_scalar(value)]
    weighted = [weigh(tf.cast(logs[name], tf.float32), part.share) for name in names]
    return new_states, changes, dict(zip(names, sum_over_replicas(weighted), strict=True))


def _flat(logs: dict[str, Any]) -> dict[str, Any]:
    """Gives logs without dicts inside, such as the result of all compiled metrics together."""
    flat: dict[str, Any] = {}
    for name, value in logs.items():
        flat.update(_flat(value) if isinstance(value, dict) else {name: value})
    return flat


def _is_scalar(value: Any) -> bool:
    return isinstance(value, int | float) or (tf.is_tensor(value) and value.shape.rank == 0)


def has_own_steps(model: keras.Model) -> bool:
    """Tells whether the model's class has a `train_step` or `test_step` of its own."""
    return keras_private.overrides(model, "train_step") or keras_private.overrides(model, "test_step")


@contextlib.contextmanager
def adapted_to_custom_steps(model: keras.Model) -> Iterator[None]:
    """Adapts the model's optimizers and means of scalars, for as long as the context is open.

    They change only inside `run_custom_step`; elsewhere they do what they always do.
    """
    with contextlib.ExitStack() as stack:
        for optimizer in keras_private.optimizers_of(model):
            apply = _global_apply(optimizer)
            stack.enter_context(keras_private.attribute_replaced(optimizer, "apply", apply))
        for metric in keras_private.means_of(model):
            update = _batch_update(metric.update_state)
            stack.enter_context(keras_private.attribute_replaced(metric, "update_state", update))
        yield


def build_own_optimizers(model: keras.Model, spec: tuple[Any, ...]) -> None:
    """Creates the variables of the optimizers that the model's `train_step` uses, by tracing it once.

    An optimizer learns at its first `apply` which weights it updates, and must have its variables by then.
    """
    optimizers = [optimizer for optimizer in keras_private.optimizers_of(model) if not optimizer.built]
    if not optimizers:
        return
    updated: dict[int, list[Any]] = {}

    def recorder(optimizer: keras.optimizers.Optimizer) -> Callable[..., Any]:
        def note(gradients: Any, trainable_variables: Any = None) -> None:
            updated.setdefault(id(optimizer), list(trainable_variables or model.trainable_variables))

        return note

    def trace(*data: Any) -> None:
        def replica() -> None:
            with keras_private.CapturingScope([]):
                model.train_step(data if len(data) > 1 else data[0])

        tf.distribute.get_strategy().run(replica)

    with contextlib.ExitStack() as stack:
        for optimizer in optimizers:
            stack.enter_context(keras_private.attribute_replaced(optimizer, "apply", recorder(optimizer)))
        tf.function(trace, autograph=False).get_concrete_function(*spec)
    for optimizer in optimizers:
        if id(optimizer) in updated:
            optimizer.build(updated[id(optimizer)])


def _global_apply(optimizer: keras.optimizers.Optimizer) -> Callable[..., Any]:
    """Gives an `apply` that takes a part's gradients and applies those of the global batch."""
    apply = optimizer.apply

    def apply_global(gradients: Any, trainable_variables: Any = None) -> Any:
        work = work_on_part()
        if work is None or work.sum_over_replicas is None:
            return apply(gradients, trainable_variables)
        gradients = list(gradients)
        given = [weigh(gradient, work.share) for gradient in gradients if gradient is not None]
        summed = iter(work.sum_over_replicas(given))
        whole = [None if gradient is None else next(summed) for gradient in gradients]
        with keras_private.outside_stateless_scope():
            return apply_gradients(optimizer, whole, trainable_variables, apply)

    return apply_global


def _batch_update(update_state: Callable[..., Any]) -> Callable[..., Any]:
    """Makes a scalar that a part gives to a mean over batches count as a part of its batch."""

    def update_with_share(values: Any, sample_weight: Any = None) -> Any:
        work = work_on_part()
        if work is not None and work.sum_over_replicas is not None and sample_weight is None:
            sample_weight = work.share if len(getattr(values, "shape", ())) == 0 else None
        return update_state(values, sample_weight=sample_weight)

    return update_with_share


def per_batch_update(metric: keras.metrics.MeanMetricWrapper) -> Callable[..., Any]:
    """Makes a metric function that gives one number per batch count its part of a batch by share."""
    update_state = metric.update_state

    def update_with_share(y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        work = work_on_part()
        if work is not None and sample_weight is None:
            value = keras_private.function_value(metric, y_true, y_pred)
            sample_weight = work.share if len(getattr(value, "shape", ())) == 0 else None
        return update_state(y_true, y_pred, sample_weight=sample_weight)

    return update_with_share

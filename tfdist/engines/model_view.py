"""A model as the steps see it while they are traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

from tfdist.step import keras_private
from tfdist.step.custom import adapted_to_custom_steps, has_own_steps, per_batch_update
from tfdist.step.losses import GlobalLoss
from tfdist.step.momentum import corrected_momentum


@contextlib.contextmanager
def as_seen_by_steps(model: keras.Model) -> Iterator[None]:
    """Sets the model up for tracing a step: losses of the global batch, gradients that arrive summed."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(keras_private.replaced_losses(model, GlobalLoss))
        for optimizer in keras_private.optimizers_of(model):
            stack.enter_context(keras_private.without_gradient_reduction(optimizer))
            stack.enter_context(keras_private.without_ema_overwrite(optimizer))
            stack.enter_context(corrected_momentum(optimizer))
        for metric in keras_private.function_metrics_of(model):
            update = per_batch_update(metric)
            stack.enter_context(keras_private.attribute_replaced(metric, "update_state", update))
        if has_own_steps(model):
            stack.enter_context(adapted_to_custom_steps(model))
        yield

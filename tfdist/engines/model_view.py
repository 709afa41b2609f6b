"""A model as the steps see it while they are traced."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import keras

from tfdist.step import keras_private
from tfdist.step.losses import GlobalLoss


@contextlib.contextmanager
def as_seen_by_steps(model: keras.Model) -> Iterator[None]:
    """Sets the model up for tracing a step: losses of the global batch, gradients that arrive summed."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(keras_private.replaced_losses(model, GlobalLoss))
        if model.optimizer is not None:
            stack.enter_context(keras_private.without_gradient_reduction(model.optimizer))
        yield

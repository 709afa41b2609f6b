"""What tfdist needs to know of the inside of Keras's optimizers. Tested with Keras 3.15."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras

from tfdist.errors import TrainingError
from tfdist.step import keras_private


def _missing(what: str) -> TrainingError:
    return TrainingError(
        f"Keras {keras.__version__} has no {what}, which tfdist relies on; tested with Keras"
        f" {keras_private.TESTED_KERAS}.",
        f"pip install 'keras=={keras_private.TESTED_KERAS}.*'",
    )


def schedule_of(
    optimizer: keras.optimizers.Optimizer | None,
) -> keras.optimizers.schedules.LearningRateSchedule | None:
    """Gives the schedule that the optimizer takes its learning rate from, or None where that is a number.

    `optimizer.learning_rate` gives the schedule's value of now, not the schedule.
    """
    rate = None if optimizer is None else rate_source(optimizer)
    return rate if isinstance(rate, keras.optimizers.schedules.LearningRateSchedule) else None


def rate_source(optimizer: keras.optimizers.Optimizer) -> Any:
    """Gives what the optimizer takes its learning rate from: a variable, a schedule, or a function."""
    try:
        return keras_private.innermost_optimizer(optimizer)._learning_rate
    except AttributeError:
        raise _missing("Optimizer._learning_rate") from None


@contextlib.contextmanager
def before_each_update(optimizer: keras.optimizers.Optimizer, act: Callable[[Any], None]) -> Iterator[None]:
    """Calls `act` with the learning rate before each update, for as long as the context is open.

    That is in the context of each replica, after clipping and weight decay, and only where loss scaling does
    not skip the update.
    """
    update = getattr(optimizer, "_backend_update_step", None)
    if update is None:
        raise _missing("Optimizer._backend_update_step")

    def act_and_update(gradients: Any, weights: Any, learning_rate: Any) -> Any:
        act(learning_rate)
        return update(gradients, weights, learning_rate)

    with keras_private.attribute_replaced(optimizer, "_backend_update_step", act_and_update):
        yield


class OptimizerWithOwnDecay(keras.optimizers.Optimizer):
    """Base of optimizers whose weight decay is a part of their update.

    Keras would subtract `learning_rate * weight_decay * weight` before the update.
    """

    def _apply_weight_decay(self, variables: Sequence[Any]) -> None:
        del variables

    def index_of(self, weight: Any) -> int:
        """Gives the place of a weight, as `update_step` receives it, in the list given to `build`."""
        index: int = self._get_variable_index(weight)
        return index


if not hasattr(keras.optimizers.Optimizer, "_apply_weight_decay"):
    raise _missing("Optimizer._apply_weight_decay")

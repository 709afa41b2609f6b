"""Momentum correction: momentum that holds past gradients times the learning rate of now.

Keras's SGD and LARS fold the rate into the velocity, as equation (10) of Goyal et al. 2017 (arXiv 1706.02677,
section 3) does, while the scaling rule is about equation (9), where it is not:

    (9)   u <- m u + gradient             w <- w - rate u
    (10)  v <- m v + rate gradient        w <- w - v

They are the same while the rate stays. When it changes, (10) goes on with the old rate in `v` unless `v` is
multiplied by new rate / old rate before the update (remark 2 of that section). Done at every update, with the
rates that the schedule gives, (10) is exactly (9), with Nesterov's momentum too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import keras
import tensorflow as tf

from tfdist.errors import ConfigError
from tfdist.step import keras_private
from tfdist.step.keras_optimizer_private import before_each_update, schedule_of
from tfdist.step.lars import LARS
from tfdist.step.state import assign_everywhere

_WITH_RATE_IN_VELOCITY = (keras.optimizers.SGD, LARS)


@contextlib.contextmanager
def corrected_momentum(optimizer: keras.optimizers.Optimizer) -> Iterator[None]:
    """Corrects the momentum in each update that is traced in the context, if the optimizer's schedule asks
    for it.
    """
    schedule = schedule_of(optimizer)
    if schedule is None or not getattr(schedule, "momentum_correction", False):
        yield
        return
    inner = keras_private.innermost_optimizer(optimizer)

    def correct(learning_rate: Any) -> None:
        done = inner.iterations.value
        before = tf.cast(schedule(done - 1), tf.float32)
        factor = tf.math.divide_no_nan(tf.cast(learning_rate, tf.float32), before)
        factor = tf.where(done > 0, factor, 1.0)
        # Those of frozen weights too: when they train again, all the changes since then count.
        assign_everywhere(
            [(velocity, velocity.value * tf.cast(factor, velocity.dtype)) for velocity in _velocities(inner)]
        )

    with before_each_update(inner, correct):
        yield


def rescale_momentum(optimizer: keras.optimizers.Optimizer, before: float, now: float) -> None:
    """Corrects the momentum between two runs, outside of a step.

    Args:
        optimizer: The optimizer; nothing is done where it has no momentum yet.
        before: Rate of the last update.
        now: Rate that the new schedule would have had for it.
    """
    inner = keras_private.innermost_optimizer(optimizer)
    if before == now or not before or not inner.built:
        return
    for velocity in _velocities(inner):
        velocity.assign(velocity * (now / before))


def require_correctable(optimizer: keras.optimizers.Optimizer, strategy: tf.distribute.Strategy) -> None:
    """Refuses momentum correction where there is nothing to correct or it cannot be exact.

    Raises:
        ConfigError: The optimizer does not keep the rate in its momentum, or updates are asynchronous.
    """
    inner = keras_private.innermost_optimizer(optimizer)
    if isinstance(strategy, tf.distribute.ParameterServerStrategy):
        raise ConfigError(
            "momentum_correction=True cannot be exact under parameter_server: workers update at the same"
            " time, so no two of them agree on which rate came before.",
            "leave momentum_correction out, or use another strategy",
        )
    if not isinstance(inner, _WITH_RATE_IN_VELOCITY):
        raise ConfigError(
            f"momentum_correction=True has no effect with {type(inner).__name__}; it is for SGD and LARS,"
            " which keep the learning rate in their momentum.",
            "leave momentum_correction out",
        )
    if not inner.momentum:
        raise ConfigError(
            f"momentum_correction=True has no effect: {type(inner).__name__} has no momentum.",
            "leave momentum_correction out, or give the optimizer momentum=0.9",
        )


def _velocities(optimizer: Any) -> list[keras.Variable]:
    return [velocity for velocity in optimizer.momentums if velocity is not None]

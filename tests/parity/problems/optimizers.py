"""What happens to the gradient of the whole batch: clipping, decay, schedules, averages."""

from __future__ import annotations

from typing import Any

import keras

from tests.parity import models
from tests.parity.problem import Problem, compiled
from tests.parity.problems.rows import regression, weighted

optimizers = keras.optimizers


def optimizer(name: str, make: Any, train: Any, layer: Any = None, **arguments: Any) -> Problem:
    """A problem that differs from others in its optimizer, or in arguments of its first layer."""
    return Problem(name, lambda: compiled(models.dense(**(layer or {})), make()), train, **arguments)


def momentum(**arguments: Any) -> Any:
    """Gives the function that makes plain gradient descent with momentum and more."""
    return lambda: optimizers.SGD(0.2, momentum=0.9, **arguments)


def schedule() -> Any:
    """A learning rate that rises, then falls."""
    return optimizers.SGD(
        optimizers.schedules.CosineDecay(0.2, decay_steps=9, warmup_steps=2, warmup_target=0.3)
    )


L2 = {"kernel_regularizer": keras.regularizers.L2(0.1)}
SHORT = {"kernel_constraint": keras.constraints.MaxNorm(0.5)}
CLIP = {"clip_global_norm": 0.1}
CLIP_AND_ACCUMULATE = {"clip_global_norm": 0.1, "accumulate_steps": 3}

PROBLEMS = [
    optimizer("sgd", lambda: optimizers.SGD(0.1), regression(57), narrow=True),
    optimizer("nesterov", momentum(nesterov=True), regression(57), narrow=True),
    optimizer("adam", lambda: optimizers.Adam(0.02), regression(57), narrow=True),
    optimizer("adamw", lambda: optimizers.AdamW(0.02, weight_decay=0.3), regression(57)),
    optimizer("rmsprop", lambda: optimizers.RMSprop(0.02), regression(57), narrow=True),
    optimizer("clipnorm", momentum(clipnorm=0.05), regression(57)),
    optimizer("clipvalue", momentum(clipvalue=0.02), regression(57), narrow=True),
    optimizer("global_clipnorm", momentum(global_clipnorm=0.1), weighted(57), narrow=True),
    optimizer("clip_global_norm", momentum(), regression(49), trainer=CLIP),
    optimizer("clip_after_accumulating", momentum(), weighted(49), trainer=CLIP_AND_ACCUMULATE),
    optimizer("schedule", schedule, regression(57)),
    optimizer("average_of_weights", momentum(use_ema=True, ema_momentum=0.7), regression(57)),
    optimizer("loss_scale", lambda: optimizers.LossScaleOptimizer(momentum(clipnorm=0.05)()), regression(57)),
    optimizer("l2_regularizer", momentum(), regression(57), L2, narrow=True),
    optimizer("l2_regularizer_accumulated", momentum(), regression(49), L2, trainer={"accumulate_steps": 3}),
    optimizer("weight_constraint", momentum(), regression(57), SHORT, narrow=True),
]

"""What happens to the gradient of the whole batch: clipping, decay, schedules, averages."""

from __future__ import annotations

from typing import Any

import keras

import tfdist
from tests.parity import models
from tests.parity.problem import Problem, compiled
from tests.parity.problems.rows import regression, weighted
from tfdist.step.learning_rate import LearningRate

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
WARM_UP = {"base_batch_size": 8, "scaling": "linear", "warmup_epochs": 1, "decay": "cosine"}
PLAN = {"learning_rate": LearningRate(0.05, **WARM_UP)}
CORRECTED = {"learning_rate": LearningRate(0.05, momentum_correction=True, **WARM_UP)}
OVERWRITE = {"use_ema": True, "ema_momentum": 0.7, "ema_overwrite_frequency": 3}

PROBLEMS = [
    optimizer(
        "sgd",
        lambda: optimizers.SGD(0.1),
        regression(57),
        narrow=True,
        feature="SGD",
    ),
    optimizer(
        "nesterov",
        momentum(nesterov=True),
        regression(57),
        narrow=True,
        feature="SGD with Nesterov's momentum",
    ),
    optimizer(
        "adam",
        lambda: optimizers.Adam(0.02),
        regression(57),
        narrow=True,
        feature="Adam",
    ),
    optimizer(
        "adamw",
        lambda: optimizers.AdamW(0.02, weight_decay=0.3),
        regression(57),
        feature="AdamW",
    ),
    optimizer(
        "rmsprop",
        lambda: optimizers.RMSprop(0.02),
        regression(57),
        narrow=True,
        feature="RMSprop",
    ),
    optimizer(
        "lion",
        lambda: optimizers.Lion(0.01),
        regression(57),
        narrow=True,
        feature="Lion",
    ),
    optimizer(
        "adafactor",
        lambda: optimizers.Adafactor(0.05),
        regression(57),
        feature="Adafactor",
    ),
    optimizer(
        "muon",
        lambda: optimizers.Muon(0.02),
        regression(57),
        narrow=True,
        feature="Muon",
    ),
    optimizer(
        "lars",
        lambda: tfdist.LARS(0.2, weight_decay=0.01, trust_coefficient=0.2),
        regression(57),
        feature="tfdist.LARS",
    ),
    optimizer("lamb", lambda: tfdist.LAMB(0.02, weight_decay=0.1), regression(57), feature="tfdist.LAMB"),
    optimizer(
        "clipnorm",
        momentum(clipnorm=0.05),
        regression(57),
        narrow=True,
        feature="`clipnorm`",
    ),
    optimizer(
        "clipvalue",
        momentum(clipvalue=0.02),
        regression(57),
        narrow=True,
        feature="`clipvalue`",
    ),
    optimizer(
        "global_clipnorm",
        momentum(global_clipnorm=0.1),
        weighted(57),
        narrow=True,
        feature="`global_clipnorm` with sample weights",
    ),
    optimizer(
        "clip_global_norm",
        momentum(),
        regression(49),
        trainer=CLIP,
        narrow=True,
        feature="`clip_global_norm` of tfdist",
    ),
    optimizer(
        "clip_after_accumulating",
        momentum(),
        weighted(49),
        trainer=CLIP_AND_ACCUMULATE,
        feature="`clip_global_norm` with `accumulate_steps=3` and sample weights",
    ),
    optimizer(
        "schedule",
        schedule,
        regression(57),
        narrow=True,
        feature="a Keras schedule with warm-up",
    ),
    optimizer(
        "learning_rate",
        momentum(),
        regression(57),
        trainer=PLAN,
        keras_agrees_in=(),  # it has no such plan
        feature="tfdist.LearningRate: scaled to the batch, warmed up, then falling",
    ),
    optimizer(
        "learning_rate_with_momentum_correction",
        momentum(),
        regression(57),
        trainer=CORRECTED,
        keras_agrees_in=(),
        refused={"parameter_server": "leave momentum_correction out, or use another strategy"},
        feature="the same with `momentum_correction`",
    ),
    optimizer(
        "average_of_weights",
        momentum(use_ema=True, ema_momentum=0.7),
        regression(57),
        narrow=True,
        feature="`use_ema`: at the end, weights become their moving average",
    ),
    optimizer(
        "average_overwrites_weights",
        momentum(**OVERWRITE),
        regression(57),
        feature="`ema_overwrite_frequency`: every third update too",
    ),
    optimizer(
        "loss_scale",
        lambda: optimizers.LossScaleOptimizer(momentum(clipnorm=0.05)()),
        regression(57),
        narrow=True,
        feature="LossScaleOptimizer around clipping",
    ),
    optimizer(
        "loss_scale_factor",
        momentum(loss_scale_factor=1024.0),
        regression(57),
        narrow=True,
        feature="`loss_scale_factor` of an optimizer",
    ),
    optimizer(
        "l2_regularizer",
        momentum(),
        regression(57),
        L2,
        narrow=True,
        feature="L2 regularization",
    ),
    optimizer(
        "l2_regularizer_accumulated",
        momentum(),
        regression(49),
        L2,
        trainer={"accumulate_steps": 3},
        narrow=True,
        feature="L2 regularization with `accumulate_steps=3`",
    ),
    optimizer(
        "weight_constraint",
        momentum(),
        regression(57),
        SHORT,
        narrow=True,
        feature="a constraint on the norm of weights",
    ),
]

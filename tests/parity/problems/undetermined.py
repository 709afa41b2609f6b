"""What several devices may do otherwise than one: random numbers, statistics of own rows, late updates.

So these problems are not in the table of `PROBLEMS`; tests of their own say what holds.
"""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from tests.parity import data, models
from tests.parity.problem import Problem, compiled
from tests.parity.problems.rows import held_out, regression

ROWS = 12
SYNCHRONOUS = ("mirrored", "multi_worker_mirrored")
OWN_NUMBERS = "each replica draws numbers of its own, so that no two rows share a mask"
NUMBERED_STEPS = "each step draws from numbers of its own, whichever worker runs it"
OWN_STATISTICS = "rows are normalized by the mean of those that are computed together"


def numbers() -> dict[str, Any]:
    """Gives the number of each row."""
    rows = np.arange(ROWS, dtype="float32")[:, None]
    return {"x": rows, "y": np.zeros_like(rows)}


class SumOfPredictions(keras.losses.Loss):
    """A loss whose gradient is 1 for each row."""

    def call(self, y_true: Any, y_pred: Any) -> Any:
        return keras.ops.sum(y_pred, axis=-1)


def masks(name: str, own_generator: bool = True, **arguments: Any) -> Problem:
    """A problem whose weights show the random numbers that each row met."""

    def build() -> keras.Model:
        model = models.MaskOfEachRow(ROWS, own_generator)
        return compiled(model, keras.optimizers.SGD(1.0), SumOfPredictions(reduction="sum"))

    fit = {"global_batch_size": ROWS, "epochs": 1, **arguments.pop("fit", {})}
    return Problem(name, build, numbers, fit=fit, **arguments)


def dropout() -> keras.Model:
    """A dense network with dropout."""
    network = keras.Sequential(
        [
            keras.Input((data.FEATURES,)),
            keras.layers.Dense(8),
            keras.layers.Dropout(0.5),
            keras.layers.Dense(1),
        ]
    )
    return compiled(network, keras.optimizers.SGD(0.05))


def calm() -> keras.Model:
    """A dense network that learns slowly enough for updates that are a few steps late."""
    return compiled(models.dense(), keras.optimizers.SGD(0.02))


PROBLEMS = {
    problem.name: problem
    for problem in [
        masks("masks"),
        masks("masks_of_keras_random", own_generator=False),
        masks("masks_of_micro_batches", trainer={"accumulate_steps": 2}),
        masks("masks_of_two_steps", fit={"epochs": 2}),
        Problem(
            "dropout",
            dropout,
            regression(57),
            held_out,
            fit={"epochs": 3},
            inexact=dict.fromkeys(SYNCHRONOUS, OWN_NUMBERS) | {"parameter_server": NUMBERED_STEPS},
            feature="Dropout, and other layers that draw random numbers",
        ),
        Problem("dropout_again", dropout, regression(57), held_out, fit={"epochs": 3}),
        Problem("at_their_own_pace", calm, regression(160), held_out, fit={"epochs": 8}),
        Problem(
            "batch_normalization",
            lambda: compiled(models.normalized(False)),
            regression(57),
            held_out,
            fit={"epochs": 3},
            inexact=dict.fromkeys(SYNCHRONOUS, OWN_STATISTICS),
            feature="BatchNormalization that is not synchronized",
        ),
        Problem(
            "batch_normalization_accumulated",
            lambda: compiled(models.normalized(False)),
            regression(49),
            held_out,
            trainer={"accumulate_steps": 2},
            inexact=dict.fromkeys((*SYNCHRONOUS, "parameter_server"), OWN_STATISTICS),
            feature="the same with `accumulate_steps`: each micro-batch is normalized by itself",
        ),
    ]
}

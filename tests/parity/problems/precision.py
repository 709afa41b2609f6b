"""Numbers of 16 bits: float16 with a loss scale, and bfloat16."""

from typing import Any

import keras

from tests.parity import data, models
from tests.parity.problem import Problem, compiled
from tests.parity.problems.rows import held_out, regression

# A gradient of a weight is a sum over rows that is added up in 16 bits, before replicas add theirs in 32: its
# rounding depends on how the rows are cut. It is half a unit in the last place of a number, at most, in each
# addition; updates with momentum carry it on.
FLOAT16 = (2e-3, "sums over a replica's rows are rounded to float16, which has 11 bits")
BFLOAT16 = (2e-2, "sums over a replica's rows are rounded to bfloat16, which has 8 bits")


def dense() -> keras.Model:
    """A regression model with a metric, whose own policy settles how it is trained."""
    return compiled(models.dense(), metrics=["mae"])


def scaled() -> keras.Model:
    """The same with a loss scale that stays clear of what float16 cannot hold.

    Keras starts with the largest scale that could do. Whether a sum over rows is too large then depends on
    how many of them a replica has.
    """
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    return compiled(
        models.dense(),
        keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=64.0, dynamic_growth_steps=3),
        metrics=["mae"],
    )


def clipped() -> keras.Model:
    """A model that starts with so large a loss scale that `one_large_label` overflows once."""
    optimizer = keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.5)
    return compiled(
        models.dense(),
        keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0**13, dynamic_growth_steps=100),
    )


def one_large_label() -> dict[str, Any]:
    """Gives four batches; of the third, one row has an error of about 100.

    The gradient at its prediction is 2 x 100 / 16 = 12.5; times 8192 it is more than float16 holds, times
    4096 it is not.
    """
    x, y = data.regression(57)
    y[2 * 16 + 3] = 100.0
    return {"x": x, "y": y}


def precise(
    name: str, build: Any, train: Any, bound: tuple[float, str], policy: str, **other: Any
) -> Problem:
    """A problem under a dtype policy."""
    trainer = {"precision": policy, **other.pop("trainer", {})}
    return Problem(name, build, train, trainer=trainer, tolerance=bound[0], why=bound[1], **other)


PROBLEMS = [
    precise(
        "float16",
        scaled,
        regression(57),
        FLOAT16,
        "mixed_float16",
        held_out=held_out,
        narrow=True,
        feature="mixed_float16 with a loss scale that grows",
    ),
    precise(
        "float16_overflow",
        clipped,
        one_large_label,
        FLOAT16,
        "mixed_float16",
        fit={"epochs": 3},
        feature="mixed_float16 with a step that overflows in one row: all replicas skip it",
    ),
    precise(
        "bfloat16",
        dense,
        regression(57),
        BFLOAT16,
        "mixed_bfloat16",
        feature="mixed_bfloat16",
    ),
    precise(
        "bfloat16_accumulated",
        dense,
        regression(49),
        BFLOAT16,
        "mixed_bfloat16",
        trainer={"accumulate_steps": 2},
        narrow=True,
        feature="mixed_bfloat16 with `accumulate_steps=2`",
    ),
]

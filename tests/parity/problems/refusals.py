"""Pairs of a strategy and an option that do not go together: refused at once, with what to do instead.

More of what no strategy does is in `tests/training/cases.py`, `tests/step/test_learning_rate_in_fit.py` and
`tests/step/test_large_batch_training.py`, which need no strategy to say so.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.parity import data, models
from tests.parity.problem import Problem, compiled
from tests.parity.problems.layers import unfreeze
from tests.parity.problems.rows import dense, regression

SEVERAL_REPLICAS = ("mirrored", "multi_worker_mirrored")
IN_PARALLEL = (*SEVERAL_REPLICAS, "parameter_server")
EVERYWHERE = ("one_device", *IN_PARALLEL)


class Largest(keras.metrics.Metric):
    """The largest prediction so far."""

    def __init__(self) -> None:
        super().__init__(name="largest")
        self.value = self.add_variable((), "zeros", name="value")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.value.assign(tf.maximum(self.value, tf.reduce_max(y_pred)))

    def result(self) -> Any:
        return self.value


class LargestOfBatches(keras.metrics.Metric):
    """The mean over batches of the largest error in each."""

    def __init__(self) -> None:
        super().__init__(name="largest_of_batches")
        self.total = self.add_variable((), "zeros", name="total")
        self.count = self.add_variable((), "zeros", name="count")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign(self.total + tf.reduce_max(tf.abs(tf.cast(y_true, y_pred.dtype) - y_pred)))
        self.count.assign(self.count + 1)

    def result(self) -> Any:
        return self.total / self.count


def counting(metric: type[keras.metrics.Metric]) -> Any:
    """Gives the function that builds a model with a metric."""
    return lambda: compiled(models.dense(), metrics=[metric()])


def remembering() -> keras.Model:
    """A recurrent network that remembers each row of a batch until the next one."""
    given = keras.Input(batch_shape=(16, data.LENGTH, 1))
    return compiled(keras.Model(given, keras.layers.LSTM(2, stateful=True)(given)))


def series() -> dict[str, Any]:
    """Gives three batches of sequences."""
    random = np.random.default_rng(0)
    return {"x": random.normal(size=(48, data.LENGTH, 1)), "y": random.normal(size=(48, 2))}


def refused(name: str, build: Any, by: tuple[str, ...], fix: str, **arguments: Any) -> Problem:
    """A problem that some strategies refuse; the others solve it."""
    train = arguments.pop("train", regression(57))
    fixes: Mapping[str, str] = dict.fromkeys(by, fix)
    return Problem(name, build, train, refused=fixes, **arguments)


PROBLEMS = [
    refused(
        "synchronized_batch_normalization_accumulated",
        lambda: compiled(models.normalized(True)),
        IN_PARALLEL,
        "set synchronized=False, or leave accumulate_steps out",
        trainer={"accumulate_steps": 2},
        keras_agrees_in=(),  # each micro-batch is normalized by itself
        feature="synchronized BatchNormalization with `accumulate_steps`",
    ),
    refused(
        "stateful_layer",
        remembering,
        SEVERAL_REPLICAS,
        "set stateful=False, or use strategy='one_device'",
        train=series,
        fit={"epochs": 3},
        feature="a recurrent layer with `stateful=True`",
    ),
    refused(
        "metric_that_is_no_sum",
        counting(Largest),
        IN_PARALLEL,
        "write the metric so that update_state only adds to its variables, or compute it in a callback",
        feature="a metric of your own whose state is no sum, such as a maximum",
    ),
    refused(
        "metric_of_batches",
        counting(LargestOfBatches),
        IN_PARALLEL,
        "add what each row contributes and count rows, as keras.metrics.Mean does",
        feature="a metric of your own that counts batches",
    ),
    refused(
        "own_step_accumulated",
        lambda: compiled(models.OwnStep()),
        EVERYWHERE,
        "leave accumulate_steps out, or override compute_loss instead of train_step",
        trainer={"accumulate_steps": 2},
        feature="a `train_step` of your own with `accumulate_steps`",
    ),
    refused(
        "two_optimizers_clipped",
        lambda: compiled(models.TwoOptimizers()),
        EVERYWHERE,
        "make each of them with global_clipnorm, as in keras.optimizers.SGD(0.1, global_clipnorm=1.0)",
        trainer={"clip_global_norm": 1.0},
        feature="`clip_global_norm` with a model of several optimizers",
    ),
    refused(
        "clipped_twice",
        lambda: compiled(models.dense(), keras.optimizers.SGD(0.1, clipnorm=1.0)),
        EVERYWHERE,
        "leave one of the two out",
        trainer={"clip_global_norm": 1.0},
        feature="`clip_global_norm` with an optimizer that clips",
    ),
    refused(
        "layer_unfrozen_without_compile",
        lambda: compiled(models.frozen_first()),
        EVERYWHERE,
        "after a change of `trainable`, compile the model again, as Keras asks for too:"
        " model.compile(optimizer=…, loss=…)",
        then=[{}],
        between=unfreeze,
        feature="a layer that trains from the second fit on, with the optimizer of the first",
    ),
    refused(
        "accumulating_optimizer",
        lambda: compiled(models.dense(), keras.optimizers.SGD(0.1, gradient_accumulation_steps=2)),
        EVERYWHERE,
        "leave it out and pass accumulate_steps=2 to tfdist",
        feature="`gradient_accumulation_steps` of an optimizer",
    ),
    refused(
        "validation_steps_alone",
        dense,
        EVERYWHERE,
        "pass validation_data or validation_split, or leave validation_steps out",
        fit={"validation_steps": 2},
        feature="`validation_steps` without `validation_data`",
    ),
    refused(
        "validation_freq_alone",
        dense,
        EVERYWHERE,
        "pass validation_data or validation_split, or leave validation_freq out",
        fit={"validation_freq": 2},
        feature="`validation_freq` without `validation_data`",
    ),
    refused(
        "steps_per_call_twice",
        lambda: compiled(models.dense(), steps_per_execution=4),
        EVERYWHERE,
        "leave one of the two out",
        trainer={"steps_per_call": 2},
        feature="`steps_per_call` with another `steps_per_execution` of `compile`",
    ),
    refused(
        "startup_timeout_too_late",
        dense,
        EVERYWHERE,
        "pass startup_timeout to make_strategy instead",
        trainer={"startup_timeout": 5.0},
        feature="`startup_timeout` with a strategy that is made already",
    ),
]

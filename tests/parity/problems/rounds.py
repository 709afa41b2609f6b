"""Epochs, steps, validation, callbacks and how much is predicted."""

from typing import Any

import keras
import tensorflow as tf

from tests.parity import data
from tests.parity.problem import Problem
from tests.parity.problems.inputs import dataset
from tests.parity.problems.rows import dense, regression, weighted


def validated(rows: int, **arguments: Any) -> Any:
    """Gives the function that gives 57 rows, and so many weighted ones to validate on."""
    return lambda: {**regression(57)(), "validation_data": data.weighted(rows, seed=2), **arguments}


def validated_by_dataset() -> dict[str, Any]:
    """Gives 57 rows, and a dataset of unknown length to validate on."""
    rows = (
        tf.data.Dataset.from_tensor_slices(data.regression(40, seed=2))
        .filter(lambda x, y: x[0] > 0)
        .batch(16)
    )
    return {**regression(57)(), "validation_data": rows}


class HalvesRate(keras.callbacks.Callback):
    """Halves the learning rate after every third batch."""

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if batch % 3 == 2:
            self.model.optimizer.learning_rate = self.model.optimizer.learning_rate / 2


class StopsAtBatch(keras.callbacks.Callback):
    """Stops in the middle of the second epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.epoch == 1 and batch == 2:
            self.model.stop_training = True


def with_callbacks(*make: Any) -> Any:
    """Gives the function that gives 57 rows, validation and new callbacks."""
    return lambda: {
        **regression(57)(),
        "validation_data": data.regression(19, seed=2),
        "callbacks": [each() for each in make],
    }


def reduce_on_plateau() -> Any:
    """Lowers the learning rate unless the loss falls a lot."""
    return keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.3, patience=1, min_delta=10.0)


def early_stopping() -> Any:
    """Stops unless the loss falls a lot, and goes back to the best weights."""
    return keras.callbacks.EarlyStopping("val_loss", patience=2, min_delta=10.0, restore_best_weights=True)


def rate_by_epoch() -> Any:
    """Sets the learning rate of each epoch."""
    return keras.callbacks.LearningRateScheduler(lambda epoch, rate: 0.2 / (epoch + 1))


def round_(name: str, train: Any, narrow: bool = False, **fit: Any) -> Problem:
    """A problem that differs from others in arguments of `fit`."""
    return Problem(name, dense, train, fit=fit, narrow=narrow)


def predicting(rows: int, build: Any = dense) -> Problem:
    """A problem that differs from others in how much is evaluated and predicted."""
    return Problem(
        f"predict_{rows}", build, regression(16), lambda: data.weighted(rows, seed=1), fit={"epochs": 1}
    )


# Keras starts each epoch at the first batch and shuffles by other numbers: it is no reference where
# `keras_agrees_in` is empty.
PROBLEMS = [
    round_("validation_ragged_37", validated(37)),
    round_("validation_one_row", validated(1)),
    round_("validation_batch_size", validated(37), narrow=True, validation_batch_size=5),
    round_("validation_every_second_epoch", validated(19), narrow=True, epochs=4, validation_freq=2),
    round_("validation_steps", validated(37), validation_steps=2),
    round_("validation_dataset", validated_by_dataset),
    round_("validation_split", weighted(57), narrow=True, validation_split=0.3),
    Problem(
        "steps_across_passes",
        dense,
        regression(57),
        fit={"steps_per_epoch": 3, "epochs": 4},
        keras_agrees_in=(),
    ),
    Problem(
        "steps_across_shuffled_passes",
        dense,
        regression(57),
        fit={"steps_per_epoch": 7, "epochs": 2, "shuffle": True},
        keras_agrees_in=(),
    ),
    Problem(
        "endless_dataset",
        dense,
        lambda: {"x": dataset().repeat()},
        fit={"steps_per_epoch": 6},
    ),
    Problem("one_step_per_call", dense, regression(57), trainer={"steps_per_call": 1}, narrow=True),
    Problem("seven_steps_per_call", dense, regression(160), trainer={"steps_per_call": 7}),
    Problem(
        "continued",
        dense,
        regression(57),
        fit={"epochs": 1, "shuffle": True},
        then=[{"epochs": 3, "initial_epoch": 1}],
        keras_agrees_in=(),
    ),
    Problem(
        "uninterrupted",
        dense,
        regression(57),
        fit={"epochs": 3, "shuffle": True},
        narrow=True,
        keras_agrees_in=(),
    ),
    Problem("continued_from_the_start", dense, regression(57), then=[{}], narrow=True),
    round_("callback_between_batches", with_callbacks(HalvesRate), epochs=2),
    round_("callback_stops_between_batches", with_callbacks(StopsAtBatch), epochs=3),
    round_("callback_lowers_rate", with_callbacks(reduce_on_plateau), epochs=3),
    round_("callback_sets_rate", with_callbacks(rate_by_epoch), narrow=True, epochs=3),
    round_("callback_stops_early", with_callbacks(early_stopping), epochs=5),
    predicting(1),
    predicting(5),
    predicting(101),
]

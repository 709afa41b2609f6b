"""Epochs, steps, validation, callbacks and how much is predicted."""

from typing import Any

import keras
import pandas
import tensorflow as tf

from tests.parity import data, models
from tests.parity.problem import Problem, compiled
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
    """Stops in the middle of the third epoch."""

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.epoch == 2 and batch == 2:
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


def best_checkpoint() -> Any:
    """Keeps the weights of the epoch with the largest loss, which is not the last."""
    return keras.callbacks.ModelCheckpoint(
        "best.weights.h5", "loss", mode="max", save_best_only=True, save_weights_only=True
    )


class LoadsBest(keras.callbacks.Callback):
    """Goes back to the weights that `best_checkpoint` kept, in every task."""

    def on_train_end(self, logs: Any = None) -> None:
        self.model.load_weights("best.weights.h5")


def keeping_best() -> dict[str, Any]:
    """Gives eight batches and the callbacks that keep the best epoch."""
    return {**regression(128)(), "callbacks": [best_checkpoint(), LoadsBest()]}


def csv() -> Any:
    """Writes the logs to a file."""
    return keras.callbacks.CSVLogger("log.csv")


class ReadsCsv(keras.callbacks.Callback):
    """Puts what `csv` wrote into the history, in every task."""

    def on_train_end(self, logs: Any = None) -> None:
        columns = pandas.read_csv("log.csv").to_dict("list")
        self.model.history.history.update({f"written_{name}": values for name, values in columns.items()})


def lambda_callback() -> Any:
    """Sets the learning rate between batches, and counts batches in the logs of an epoch."""
    batches: list[int] = []

    def after_batch(batch: int, logs: Any) -> None:
        batches.append(batch)
        callback.model.optimizer.learning_rate = 0.1 / len(batches)

    callback = keras.callbacks.LambdaCallback(
        on_train_batch_end=after_batch,
        on_epoch_end=lambda epoch, logs: logs.update(batches=float(len(batches))),
    )
    return callback


def one_label_without_measure() -> dict[str, Any]:
    """Gives twelve batches; the square of a label of the tenth is no number of float32."""
    x, y = data.regression(12 * 16)
    y[9 * 16 + 3] = 1e20
    return {"x": x, "y": y}


class CapsLoss(keras.callbacks.Callback):
    """Writes an infinite loss as a large one, which can be compared."""

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        logs.update({name: min(value, 1e30) for name, value in logs.items()})


def stops_on_nan() -> dict[str, Any]:
    """Gives the data and the callback that ends training at its bad batch."""
    return {**one_label_without_measure(), "callbacks": [keras.callbacks.TerminateOnNaN(), CapsLoss()]}


def averaging() -> Any:
    """A regression model whose optimizer keeps averages of the weights."""
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9, use_ema=True, ema_momentum=0.7)
    return compiled(models.dense(), optimizer)


def round_(name: str, train: Any, narrow: bool = False, feature: str = "", **fit: Any) -> Problem:
    """A problem that differs from others in arguments of `fit`."""
    return Problem(name, dense, train, fit=fit, narrow=narrow, feature=feature)


def predicting(rows: int, narrow: bool = False) -> Problem:
    """A problem that differs from others in how much is evaluated and predicted."""
    return Problem(
        f"predict_{rows}",
        dense,
        regression(16),
        lambda: data.weighted(rows, seed=1),
        fit={"epochs": 1},
        trains=False,
        narrow=narrow,
        feature=f"evaluating and predicting {rows} row{'s' if rows > 1 else ''}",
    )


# Keras starts each epoch at the first batch and shuffles by other numbers: it is no reference where
# `keras_agrees_in` is empty.
PROBLEMS = [
    round_(
        "validation_ragged_37",
        validated(37),
        feature="`validation_data` of 37 weighted rows",
    ),
    round_(
        "validation_one_row",
        validated(1),
        narrow=True,
        feature="`validation_data` of one row",
    ),
    round_(
        "validation_batch_size",
        validated(37),
        narrow=True,
        validation_batch_size=5,
        feature="`validation_batch_size`",
    ),
    round_(
        "validation_every_second_epoch",
        validated(19),
        narrow=True,
        epochs=4,
        validation_freq=2,
        feature="`validation_freq=2`",
    ),
    round_(
        "validation_steps",
        validated(37),
        validation_steps=2,
        narrow=True,
        feature="`validation_steps`",
    ),
    round_(
        "validation_dataset",
        validated_by_dataset,
        feature="`validation_data` as a dataset of unknown length",
    ),
    round_(
        "validation_split",
        weighted(57),
        narrow=True,
        epochs=3,
        validation_split=0.3,
        feature="`validation_split` with sample weights",
    ),
    Problem(
        "steps_across_passes",
        dense,
        regression(57),
        fit={"steps_per_epoch": 3, "epochs": 4},
        keras_agrees_in=(),
        narrow=True,
        feature="`steps_per_epoch` less than a pass",
    ),
    Problem(
        "steps_across_shuffled_passes",
        dense,
        regression(57),
        fit={"steps_per_epoch": 7, "epochs": 2, "shuffle": True},
        keras_agrees_in=(),
        feature="`steps_per_epoch` more than a pass, shuffled",
    ),
    Problem(
        "endless_dataset",
        dense,
        lambda: {"x": dataset().repeat()},
        fit={"steps_per_epoch": 6},
        narrow=True,
        feature="an endless dataset with `steps_per_epoch`",
    ),
    Problem(
        "one_step_per_call",
        dense,
        regression(57),
        trainer={"steps_per_call": 1},
        narrow=True,
        feature="`steps_per_call=1`",
    ),
    Problem(
        "seven_steps_per_call",
        dense,
        regression(160),
        trainer={"steps_per_call": 7},
        feature="`steps_per_call=7`",
    ),
    Problem(
        "continued",
        dense,
        regression(57),
        fit={"epochs": 1, "shuffle": True},
        then=[{"epochs": 3, "initial_epoch": 1}],
        keras_agrees_in=(),
        feature="a second `fit` with `initial_epoch`, shuffled",
    ),
    Problem(
        "uninterrupted",
        dense,
        regression(57),
        fit={"epochs": 3, "shuffle": True},
        narrow=True,
        keras_agrees_in=(),
        feature="the same epochs in one `fit`",
    ),
    Problem(
        "continued_from_the_start",
        dense,
        regression(57),
        then=[{}],
        narrow=True,
        feature="a second `fit` from epoch 0",
    ),
    round_(
        "callback_between_batches",
        with_callbacks(HalvesRate),
        epochs=2,
        feature="a callback that sets the rate between batches",
    ),
    round_(
        "callback_stops_between_batches",
        with_callbacks(StopsAtBatch),
        epochs=4,
        feature="a callback that stops in the middle of an epoch",
    ),
    round_(
        "callback_lowers_rate",
        with_callbacks(reduce_on_plateau),
        epochs=3,
        narrow=True,
        feature="ReduceLROnPlateau",
    ),
    round_(
        "callback_sets_rate",
        with_callbacks(rate_by_epoch),
        narrow=True,
        epochs=3,
        feature="LearningRateScheduler",
    ),
    round_(
        "callback_stops_early",
        with_callbacks(early_stopping),
        epochs=5,
        feature="EarlyStopping, which goes back to the best weights",
    ),
    round_(
        "callback_keeps_best",
        keeping_best,
        epochs=3,
        feature="ModelCheckpoint of the best epoch, loaded at the end",
    ),
    round_("callback_writes_csv", with_callbacks(csv, ReadsCsv), feature="CSVLogger"),
    round_(
        "callback_of_functions",
        with_callbacks(lambda_callback),
        narrow=True,
        feature="LambdaCallback with hooks of batches and epochs",
    ),
    round_("callback_ends_at_nan", stops_on_nan, feature="TerminateOnNaN"),
    Problem(
        "callback_swaps_averages",
        averaging,
        with_callbacks(lambda: keras.callbacks.SwapEMAWeights(swap_on_epoch=False)),
        feature="SwapEMAWeights: validation with averaged weights",
    ),
    predicting(1),
    predicting(5, narrow=True),
    predicting(101),
]

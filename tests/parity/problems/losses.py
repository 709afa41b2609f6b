"""What the loss is a mean of: rows, elements, weights, what a mask leaves, or nothing at all."""

from typing import Any

import keras
import numpy as np

from tests.parity import data, models
from tests.parity.data import LENGTH
from tests.parity.problem import Problem, compiled
from tests.parity.problems.rows import regression, weighted

losses = keras.losses


def with_loss(loss: Any, **arguments: Any) -> Any:
    """Gives the function that builds a regression model with a loss."""
    return lambda: compiled(models.dense(), keras.optimizers.SGD(0.05), loss, **arguments)


def tokens(rows: int, weights: str = "") -> Any:
    """Gives the function that gives so many padded sequences, with weights for each `row` or `token`."""

    def make() -> dict[str, Any]:
        given = dict(zip(("x", "y"), data.sequences(rows), strict=True))
        if weights == "row":
            given["sample_weight"] = data.weights(rows)[:, None]
        if weights == "token":
            given["sample_weight"] = data.weights(rows * LENGTH).reshape(rows, LENGTH)
        return given

    return make


def held_out_tokens() -> Any:
    """Gives sequences to evaluate on."""
    return data.sequences(21, seed=1)


def recurrent(layer: str) -> Any:
    """Gives the function that builds a recurrent model with a masked loss."""
    return lambda: compiled(models.recurrent(layer), keras.optimizers.SGD(0.2, momentum=0.5))


def masked(loss: Any = "mse") -> Any:
    """Gives the function that builds a model of single tokens with a masked loss."""
    return lambda: compiled(models.masked_values(), keras.optimizers.SGD(0.2, momentum=0.5), loss)


def ignored(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Gives classes of which many are -1."""
    x, y = data.classification(rows, seed)
    return x, np.where(data.weights(rows, seed) > 0, y, -1).astype("int32")


def ignoring_classifier() -> Any:
    """A classifier that leaves out rows of class -1."""
    return compiled(models.classifier(), loss=losses.SparseCategoricalCrossentropy(ignore_class=-1))


def two(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Gives two inputs and two outputs, by name."""
    x, number = data.regression(rows, seed)
    _, label = data.classification(rows, seed)
    return {"left": x, "right": x[:, ::-1].copy()}, {"number": number, "class": label}


def two_outputs(**arguments: Any) -> Any:
    """Gives the function that builds a model with two inputs and two outputs."""
    return lambda: compiled(
        models.two_in_two_out(),
        loss={"number": "mse", "class": "sparse_categorical_crossentropy"},
        loss_weights={"number": 0.3, "class": 2.0},
        metrics={"number": ["mae"], "class": ["accuracy"]},
        **arguments,
    )


def two_weighted(rows: int) -> dict[str, Any]:
    """Gives two outputs whose rows weigh differently."""
    x, y = two(rows)
    return {"x": x, "y": y, "sample_weight": {"number": data.weights(rows), "class": data.weights(rows, 1)}}


def pair(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Gives two inputs and two outputs, as lists."""
    x, y = data.regression(rows, seed)
    return [x, x[:, ::-1].copy()], [y, 1 - y]


def named(make: Any, rows: int) -> Any:
    """Gives the function that gives so many rows as arguments of `fit`."""
    return lambda: dict(zip(("x", "y"), make(rows), strict=True))


def own_loss(y_true: Any, y_pred: Any) -> Any:
    """A loss that is a plain function."""
    return keras.ops.mean(keras.ops.abs(y_true - y_pred) ** 1.5, axis=-1)


# Keras counts each output's loss in batches, not in rows, so its logs of ragged batches differ.
NOT_LOGS = ("iterations", "weights", "predicted")

PROBLEMS = [
    Problem(
        "loss_sum",
        with_loss(losses.MeanSquaredError(reduction="sum")),
        regression(57),
        narrow=True,
        feature='a loss with `reduction="sum"`',
    ),
    Problem(
        "loss_sum_accumulated",
        with_loss(losses.MeanSquaredError(reduction="sum")),
        weighted(49),
        trainer={"accumulate_steps": 3},
        narrow=True,
        feature="the same with sample weights and `accumulate_steps=3`",
    ),
    Problem(
        "mean_with_sample_weight",
        with_loss(losses.MeanSquaredError(reduction="mean_with_sample_weight")),
        weighted(57),
        lambda: data.weighted(21, seed=1),
        narrow=True,
        feature='a loss with `reduction="mean_with_sample_weight"`',
    ),
    Problem(
        "mean_with_sample_weight_accumulated",
        with_loss(losses.MeanSquaredError(reduction="mean_with_sample_weight")),
        weighted(49),
        trainer={"accumulate_steps": 3},
        narrow=True,
        feature="the same with `accumulate_steps=3`",
    ),
    Problem("loss_that_is_a_function", with_loss(own_loss), regression(57), narrow=True),
    Problem(
        "huber",
        with_loss(losses.Huber(0.3)),
        weighted(57),
        narrow=True,
        feature="Huber with sample weights",
    ),
    Problem(
        "masked_gru_57",
        recurrent("GRU"),
        tokens(57),
        held_out_tokens,
        narrow=True,
        feature="GRU on padded sequences, masked",
    ),
    Problem(
        "masked_lstm_row_weights_49",
        recurrent("LSTM"),
        tokens(49, "row"),
        narrow=True,
        feature="LSTM on padded sequences, masked, a weight for each row",
    ),
    Problem(
        "masked_token_weights_57",
        masked(),
        tokens(57, "token"),
        narrow=True,
        feature="masked tokens, a weight for each",
    ),
    Problem(
        "masked_accumulated",
        masked(),
        tokens(49),
        trainer={"accumulate_steps": 3},
        feature="masked tokens with `accumulate_steps=3`",
    ),
    Problem(
        "masked_mean_with_sample_weight",
        masked(losses.MeanSquaredError(reduction="mean_with_sample_weight")),
        tokens(49, "token"),
        feature="masked tokens with `mean_with_sample_weight`",
    ),
    Problem(
        "ignore_class",
        ignoring_classifier,
        named(ignored, 57),
        lambda: ignored(21, seed=1),
        narrow=True,
        feature="`ignore_class`",
    ),
    Problem(
        "ignore_class_accumulated",
        ignoring_classifier,
        named(ignored, 49),
        trainer={"accumulate_steps": 2},
        narrow=True,
        feature="`ignore_class` with `accumulate_steps=2`",
    ),
    Problem(
        "two_outputs",
        two_outputs(),
        named(two, 57),
        lambda: two(21, seed=1),
        narrow=True,
        keras_agrees_in=NOT_LOGS,
        feature="two outputs by name, with loss weights",
    ),
    Problem(
        "two_outputs_row_weights",
        two_outputs(),
        lambda: two_weighted(49),
        trainer={"accumulate_steps": 2},
        keras_agrees_in=NOT_LOGS,
        feature="two outputs whose rows weigh differently, with `accumulate_steps=2`",
    ),
    Problem(
        "pair_of_outputs",
        lambda: compiled(models.pair_in_pair_out(), loss=["mse", "mae"]),
        named(pair, 57),
        lambda: pair(21, seed=1),
        narrow=True,
        keras_agrees_in=NOT_LOGS,
        feature="two outputs in a list",
    ),
    Problem(
        "loss_of_a_layer",
        lambda: compiled(models.adds_loss()),
        regression(57),
        narrow=True,
        feature="`add_loss` of a mean",
    ),
    Problem(
        "loss_of_a_layer_accumulated",
        lambda: compiled(models.adds_loss()),
        weighted(49),
        trainer={"accumulate_steps": 2},
        narrow=True,
        feature="the same with sample weights and `accumulate_steps=2`",
    ),
    Problem(
        "model_with_its_own_loss",
        lambda: compiled(models.OwnLoss(), loss=None),
        regression(57),
        feature="a model with a `compute_loss` of its own",
    ),
]

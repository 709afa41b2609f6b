"""Metrics of all sorts: what they count on each replica is put together exactly."""

from typing import Any

import keras

from tests.parity import data, models
from tests.parity.problem import Problem, compiled
from tests.parity.problems.losses import named
from tests.parity.problems.rows import classes, weighted


class CountPositive(keras.metrics.Metric):
    """Counts positive predictions, in an integer."""

    def __init__(self) -> None:
        super().__init__(name="positive")
        self.count = self.add_variable((), "zeros", dtype="int32", name="count")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.count.assign(self.count + keras.ops.sum(keras.ops.cast(y_pred > 0.5, "int32")))

    def result(self) -> Any:
        return self.count


class StartsAtTen(keras.metrics.Metric):
    """Counts labels, from 10 on."""

    def __init__(self) -> None:
        super().__init__(name="from_ten")
        self.total = self.add_variable((), "zeros", name="total")
        self.reset_state()

    def reset_state(self) -> None:
        self.total.assign(10.0)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.total.assign(self.total + keras.ops.sum(keras.ops.cast(y_true, "float32")))

    def result(self) -> Any:
        return self.total


def binary_model() -> Any:
    """A classifier of two classes with metrics that are not means."""
    return compiled(
        models.dense(1, "sigmoid"),
        loss="binary_crossentropy",
        metrics=[
            keras.metrics.AUC(name="auc"),
            keras.metrics.F1Score(threshold=0.5, name="f1"),
            keras.metrics.Precision(name="precision"),
            keras.metrics.TruePositives(name="hits"),
            CountPositive(),
            StartsAtTen(),
        ],
    )


def classifier() -> Any:
    """A classifier of three classes with weighted and unweighted metrics."""
    return compiled(
        models.classifier(),
        loss="sparse_categorical_crossentropy",
        metrics=[keras.metrics.SparseTopKCategoricalAccuracy(2, name="top_2")],
        weighted_metrics=["accuracy", keras.metrics.MeanIoU(3, sparse_y_pred=False, name="iou")],
    )


def fit_quality() -> Any:
    """A regression model with metrics made of several sums."""
    return compiled(
        models.dense(),
        metrics=[keras.metrics.R2Score(name="r2"), keras.metrics.RootMeanSquaredError(name="rmse")],
        weighted_metrics=["mae"],
    )


PROBLEMS = [
    Problem(
        "metrics_of_two_classes",
        binary_model,
        named(data.binary, 57),
        lambda: data.binary(21, seed=1),
        feature="AUC, F1, precision, counts, two metrics of your own",
    ),
    Problem(
        "metrics_of_two_classes_accumulated",
        binary_model,
        named(data.binary, 33),
        fit={"epochs": 3},
        trainer={"accumulate_steps": 2},
        narrow=True,
        feature="the same with `accumulate_steps=2`",
    ),
    Problem(
        "metrics_of_three_classes",
        classifier,
        classes(57),
        lambda: data.classification(21, seed=1),
        narrow=True,
        feature="accuracies and IoU with class weights",
    ),
    Problem(
        "metrics_of_regression",
        fit_quality,
        weighted(57),
        lambda: data.weighted(21, seed=1),
        narrow=True,
        feature="R2, RMSE and MAE with sample weights",
    ),
]

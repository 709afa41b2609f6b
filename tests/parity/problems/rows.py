"""How many rows there are, how they are weighed and how they are cut into micro-batches."""

from typing import Any

from tests.parity import data, models
from tests.parity.problem import Problem, compiled


def regression(rows: int) -> Any:
    """Gives the function that gives so many rows."""
    return lambda: dict(zip(("x", "y"), data.regression(rows), strict=True))


def weighted(rows: int) -> Any:
    """Gives the function that gives so many rows with weights."""
    return lambda: dict(zip(("x", "y", "sample_weight"), data.weighted(rows), strict=True))


def classes(rows: int) -> Any:
    """Gives the function that gives so many rows of three classes, each with a weight."""
    return lambda: {
        **dict(zip(("x", "y"), data.classification(rows), strict=True)),
        "class_weight": {0: 0.5, 1: 3.0},
    }


def second_half_weighs_nothing() -> dict[str, Any]:
    """Gives batches of which all rows of the last replica weigh 0."""
    x, y, sample_weight = data.weighted(48)
    sample_weight = sample_weight + 0.5
    sample_weight.reshape(3, 16)[:, 5:] = 0
    return {"x": x, "y": y, "sample_weight": sample_weight}


def dense() -> Any:
    """A regression model with a metric."""
    return compiled(models.dense(), metrics=["mae"], weighted_metrics=["mse"])


def classifier() -> Any:
    """A classifier with a metric."""
    return compiled(models.classifier(), loss="sparse_categorical_crossentropy", metrics=["accuracy"])


def held_out() -> Any:
    """Gives rows to evaluate on, the last batch ragged."""
    return data.regression(21, seed=1)


PROBLEMS = [
    Problem(
        "even",
        dense,
        regression(64),
        feature="64 rows in batches of 16",
    ),
    Problem(
        "ragged_57",
        dense,
        regression(57),
        held_out,
        feature="57 rows in batches of 16: the last has 9",
    ),
    Problem(
        "ragged_49",
        dense,
        regression(49),
        feature="49 rows in batches of 16: the last has 1",
    ),
    Problem(
        "odd_batches",
        dense,
        regression(40),
        fit={"global_batch_size": 7},
        narrow=True,
        feature="batches of 7 rows",
    ),
    Problem(
        "last_batch_of_two_rows",
        dense,
        regression(34),
        fit={"epochs": 3},
        narrow=True,
        feature="34 rows in batches of 16: the last has 2",
    ),
    Problem(
        "one_row_in_all",
        dense,
        regression(1),
        fit={"epochs": 8},
        feature="one row in all: all other replicas have none",
    ),
    Problem(
        "rows_in_another_order",
        dense,
        regression(57),
        fit={"shuffle": True},
        keras_agrees_in=(),
        feature="rows in another order in each epoch",
    ),
    Problem(
        "sample_weights_57",
        dense,
        weighted(57),
        feature="sample weights from 0 to 3, last batch of 9",
    ),
    Problem(
        "sample_weights_49",
        dense,
        weighted(49),
        narrow=True,
        feature="sample weights from 0 to 3, last batch of 1",
    ),
    Problem(
        "a_replica_whose_rows_weigh_nothing",
        dense,
        second_half_weighs_nothing,
        fit={"epochs": 3},
        feature="sample weights that are 0 for all rows of the last replica",
    ),
    Problem(
        "class_weights_57",
        classifier,
        classes(57),
        narrow=True,
        feature="class weights",
    ),
    Problem(
        "accumulate_2_ragged_57",
        dense,
        regression(57),
        trainer={"accumulate_steps": 2},
        feature="`accumulate_steps=2`, last batch of 9",
    ),
    Problem(
        "accumulate_3_ragged_49",
        dense,
        regression(49),
        trainer={"accumulate_steps": 3},
        narrow=True,
        feature="`accumulate_steps=3`, last batch of 1",
    ),
    Problem(
        "accumulate_3_one_row_in_all",
        dense,
        regression(1),
        fit={"epochs": 8},
        trainer={"accumulate_steps": 3},
        narrow=True,
        feature="`accumulate_steps=3` with one row in all",
    ),
    Problem(
        "accumulate_2_sample_weights_57",
        dense,
        weighted(57),
        trainer={"accumulate_steps": 2},
        narrow=True,
        feature="`accumulate_steps=2` with sample weights",
    ),
    Problem(
        "accumulate_3_class_weights_49",
        classifier,
        classes(49),
        trainer={"accumulate_steps": 3},
        feature="`accumulate_steps=3` with class weights",
    ),
]

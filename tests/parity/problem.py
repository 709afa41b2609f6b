"""What a training problem is, and how one is solved: with tfdist under a strategy, or with Keras alone."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.parity.compare import TOLERANCE
from tfdist.step import keras_private
from tfdist.training.trainer import Trainer

SEED = 3
LEAST_UPDATES = 8
RESULT = ("iterations", "weights", "histories", "evaluated", "predicted")


@dataclass(frozen=True)
class Problem:
    """Something to train, whose result must not depend on the strategy.

    Attributes:
        name: Names it in the tests.
        build: Builds the model, compiled.
        train: Gives what to train on, as arguments of `fit`; called once for each fit.
        held_out: Gives `(x, y[, sample_weight])` to evaluate on and to predict; None where training says it
            all.
        fit: Other arguments of `fit`; those given here replace `FIT`.
        then: Arguments of further fits, one after the other, that replace those of the first.
        trainer: Arguments of `Trainer`.
        keras_agrees_in: What of the result Keras's own `fit` gives too; where it is not all, a comment says
            why.
        narrow: Whether it differs from another problem only in what happens within a replica, so that one way
            of having several replicas (`mirrored_2`) is enough to try it.
        between: Called with the model before each further fit.
        trains: Whether it is about training, and so makes at least `LEAST_UPDATES` updates.
        tolerance: How far results may be apart; where it is not that of float32, `why` says why.
        why: Reason of the tolerance, a half sentence.
        same_parts: Whether float order alone moves results by more than the tolerance, so that the reference
            is one device that adds the same parts in the same order. Solved with two replicas at most.
        inexact: Where it is not exact: the strategy with the reason, a half sentence.
        refused: Where it is refused: the strategy with the fix that the error names.
        feature: What it tries, for readers; its name says it where this is left out.
    """

    name: str
    build: Callable[[], keras.Model]
    train: Callable[[], dict[str, Any]]
    held_out: Callable[[], tuple[Any, ...]] | None = None
    fit: Mapping[str, Any] = field(default_factory=dict)
    then: Sequence[Mapping[str, Any]] = ()
    trainer: Mapping[str, Any] = field(default_factory=dict)
    keras_agrees_in: Sequence[str] = RESULT
    narrow: bool = False
    between: Callable[[keras.Model], None] | None = None
    trains: bool = True
    tolerance: float = TOLERANCE
    why: str = ""
    same_parts: bool = False
    inexact: Mapping[str, str] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    feature: str = ""

    def __post_init__(self) -> None:
        if (self.tolerance != TOLERANCE) != bool(self.why):
            raise ValueError(f"{self.name}: another tolerance than {TOLERANCE} needs a reason, and only that")

    def __str__(self) -> str:
        return self.name


SIZE = 16
FIT: Mapping[str, Any] = {"global_batch_size": SIZE, "epochs": 2, "shuffle": False, "verbose": 0}


def compiled(
    model: keras.Model, optimizer: Any = None, loss: Any = "mse", metrics: Any = (), **arguments: Any
) -> keras.Model:
    """Compiles a model and gives it back; momentum makes the order of the updates matter."""
    optimizer = optimizer or keras.optimizers.SGD(0.1, momentum=0.9)
    model.compile(optimizer, loss, metrics=metrics or None, **arguments)
    return model


def solve(problem: Problem, strategy: Any, reevaluate: bool = False) -> dict[str, Any]:
    """Trains, evaluates and predicts with tfdist; gives all that came out, ready for JSON.

    Args:
        problem: The problem.
        strategy: As `Trainer` takes it.
        reevaluate: Whether to evaluate the trained weights with Keras alone as well.
    """
    keras.utils.set_random_seed(SEED)
    trainer = Trainer(problem.build, strategy, seed=SEED, **problem.trainer)
    histories = []
    for number, fit in enumerate(_fits(problem)):
        if number and problem.between is not None:
            problem.between(trainer.model)
        history = trainer.fit(**problem.train(), **fit)
        histories.append({"epoch": history.epoch, **history.history})
    evaluated, predicted, plain = {}, [], {}
    if problem.held_out is not None:
        held_out = problem.held_out()
        evaluated = trainer.evaluate(*held_out, global_batch_size=SIZE, verbose=0)
        predicted = trainer.predict(held_out[0], global_batch_size=SIZE)
        plain = _evaluate_with_keras(problem, trainer.model) if reevaluate else {}
    return {
        **_result(trainer.model, histories, evaluated, predicted),
        "reevaluated": keras.tree.map_structure(_plain, plain),
    }


def solve_with_keras(problem: Problem) -> dict[str, Any]:
    """Does the same with `keras.Model` alone, on one device; whole batches instead of micro-batches."""
    keras.utils.set_random_seed(SEED)
    policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(problem.trainer.get("precision", "float32"))
    model = problem.build()
    keras.config.set_dtype_policy(policy)
    if "clip_global_norm" in problem.trainer:
        keras_private.innermost_optimizer(model.optimizer).global_clipnorm = problem.trainer[
            "clip_global_norm"
        ]
    histories = []
    for number, fit in enumerate(_fits(problem)):
        if number and problem.between is not None:
            problem.between(model)
        fit = dict(fit)
        size = fit.pop("global_batch_size", None)
        history = model.fit(**problem.train(), batch_size=size, **fit)
        histories.append({"epoch": history.epoch, **history.history})
    evaluated, predicted = {}, []
    if problem.held_out is not None:
        x, y, sample_weight = (*problem.held_out(), None)[:3]
        evaluated = model.evaluate(x, y, SIZE, sample_weight=sample_weight, verbose=0, return_dict=True)
        predicted = model.predict(x, SIZE, verbose=0)
    return _result(model, histories, evaluated, predicted)


def _evaluate_with_keras(problem: Problem, trained: keras.Model) -> dict[str, Any]:
    """Evaluates trained weights in a new model that knows nothing of strategies."""
    model = problem.build()
    model.set_weights(trained.get_weights())
    x, y, sample_weight = (*problem.held_out(), None)[:3]
    return model.evaluate(x, y, SIZE, sample_weight=sample_weight, verbose=0, return_dict=True)


def _fits(problem: Problem) -> list[dict[str, Any]]:
    fits = [{**FIT, **problem.fit}]
    fits += [{**fits[0], **again} for again in problem.then]
    if not isinstance(problem.train()["x"], np.ndarray | tf.Tensor | dict | list) and not hasattr(
        problem.train()["x"], "iloc"
    ):
        fits = [{name: value for name, value in fit.items() if name != "global_batch_size"} for fit in fits]
    return fits


def _result(
    model: keras.Model, histories: list[dict[str, Any]], evaluated: Mapping[str, Any], predicted: Any
) -> dict[str, Any]:
    return {
        "iterations": int(model.optimizer.iterations.numpy()),
        "weights": {
            f"{index} {_without_counts(variable.path)}": _plain(variable)
            for index, variable in enumerate(model.weights)
        },
        "histories": [keras.tree.map_structure(_plain, history) for history in histories],
        "evaluated": keras.tree.map_structure(_plain, dict(evaluated)),
        "predicted": [_plain(leaf) for leaf in keras.tree.flatten(predicted)],
        "copies_differ_by": max((_spread(variable) for variable in model.weights), default=0.0),
    }


def _without_counts(path: str) -> str:
    """Leaves out the numbers that Keras gives to equal names, which go on counting in a process."""
    return re.sub(r"_\d+(?=/)", "", path)


def _plain(value: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(value)).tolist()


def _spread(variable: keras.Variable) -> float:
    """Gives the largest difference between the replicas' copies of a variable."""
    native = variable.value
    copies = [copy.numpy() for copy in getattr(native, "values", [native])]
    if copies[0].dtype.kind not in "fiu":
        return 0.0
    spread = max(float(np.max(np.abs(copy - copies[0]), initial=0.0)) for copy in copies)
    return spread if math.isfinite(spread) else math.inf

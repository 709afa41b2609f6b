"""Small linear models trained by rules that NumPy can follow exactly.

`python -m tests.step.problems FILE` trains all of them under `mirrored` on two CPUs and writes their weights.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np

import tfdist

ROWS, BATCH, EPOCHS = 44, 8, 4  # the last batch of an epoch has 4 rows
STEPS = 6


def data(label_scale: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    x = random.normal(size=(ROWS, 5)).astype("float32")
    labels = x @ random.normal(size=(5, 3)) + random.normal(size=3)
    return x, (label_scale * labels).astype("float32")


def build(optimizer: Any) -> keras.Model:
    model = keras.Sequential([keras.Input((5,)), keras.layers.Dense(3, bias_initializer="ones")])
    model.compile(optimizer, "mse")
    kernel = np.random.default_rng(1).normal(size=(5, 3))
    model.layers[0].kernel.assign(kernel)
    return model


# A rule of NumPy: given index of the update, weights, gradients and rate, it changes the weights in place.
Rule = Callable[[int, list[np.ndarray], list[np.ndarray], float], None]


@dataclass(frozen=True)
class Problem:
    """An optimizer and the rule that it has to follow.

    Attributes:
        optimizer: Makes the optimizer.
        rule: Makes the rule.
        plan: The learning rate.
        trainer: Other arguments of `fit`.
        loss_scale: What the loss is scaled by at first, and after how many updates it is doubled.
        label_scale: What the labels are multiplied by.
    """

    optimizer: Callable[[], Any]
    rule: Callable[[], Rule]
    plan: tfdist.LearningRate
    trainer: dict[str, Any] = field(default_factory=dict)
    loss_scale: tuple[float, int] = (1.0, 10**6)
    label_scale: float = 1.0


def solve(problem: Problem, strategy: Any) -> list[np.ndarray]:
    """Trains with tfdist."""
    x, y = data(problem.label_scale)
    history = tfdist.fit(
        lambda: build(problem.optimizer()),
        x,
        y,
        strategy=strategy,
        learning_rate=problem.plan,
        global_batch_size=BATCH,
        epochs=EPOCHS,
        shuffle=False,
        verbose=0,
        **problem.trainer,
    )
    return [np.asarray(weight) for weight in history.model.get_weights()]


def expected(problem: Problem) -> list[np.ndarray]:
    """Trains with NumPy in double precision."""
    x, y = (part.astype("float64") for part in data(problem.label_scale))
    weights = [np.random.default_rng(1).normal(size=(5, 3)).astype("float32").astype("float64"), np.ones(3)]
    rates = problem.plan.values(global_batch_size=BATCH, steps_per_epoch=STEPS, epochs=EPOCHS)
    rule = problem.rule()
    scale, grows_after = problem.loss_scale
    done = since = 0
    for step in range(STEPS * EPOCHS):
        begin = step % STEPS * BATCH
        rows, truth = x[begin : begin + BATCH], y[begin : begin + BATCH]
        error = 2 * (rows @ weights[0] + weights[1] - truth) / truth.size
        if max(np.abs(rows.T @ error).max(), np.abs(error.sum(axis=0)).max()) * scale >= 2.0**128:
            scale, since = scale / 2, 0
            continue
        rule(done, weights, [rows.T @ error, error.sum(axis=0)], rates[done])
        done, since = done + 1, since + 1
        if since == grows_after:
            scale, since = scale * 2, 0
    return weights


def momentum_rule(nesterov: bool = False, rate_in_velocity: bool = False) -> Rule:
    """Momentum SGD, as equation (9) of Goyal et al. 2017, or as (10) without correction."""
    velocities = [0.0, 0.0]

    def update(index: int, weights: list[np.ndarray], gradients: list[np.ndarray], rate: float) -> None:
        inside, outside = (rate, 1.0) if rate_in_velocity else (1.0, rate)
        for at, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            velocities[at] = 0.9 * velocities[at] + inside * gradient
            step = inside * gradient + 0.9 * velocities[at] if nesterov else velocities[at]
            weight -= outside * step

    return update


def lars_rule(
    nesterov: bool = False,
    decay: float = 0.0,
    adapted: Sequence[bool] = (True, False),
    corrected: bool = False,
) -> Rule:
    """LARS, algorithm 1 of You et al. 2017, with trust coefficient 0.1 and momentum 0.9."""
    velocities = [0.0, 0.0]

    def update(index: int, weights: list[np.ndarray], gradients: list[np.ndarray], rate: float) -> None:
        inside, outside = (1.0, rate) if corrected else (rate, 1.0)
        for at, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            direction = gradient
            if adapted[at]:
                norm = np.linalg.norm(weight)
                local = 0.1 * norm / (np.linalg.norm(gradient) + decay * norm)
                direction = local * (gradient + decay * weight)
            velocities[at] = 0.9 * velocities[at] + inside * direction
            step = inside * direction + 0.9 * velocities[at] if nesterov else velocities[at]
            weight -= outside * step

    return update


def lamb_rule(decay: float = 0.0, adapted: Sequence[bool] = (True, False), epsilon: float = 1e-6) -> Rule:
    """LAMB, algorithm 2 of You et al. 2019."""
    means, squares = [0.0, 0.0], [0.0, 0.0]

    def update(index: int, weights: list[np.ndarray], gradients: list[np.ndarray], rate: float) -> None:
        for at, (weight, gradient) in enumerate(zip(weights, gradients, strict=True)):
            means[at] = 0.9 * means[at] + 0.1 * gradient
            squares[at] = 0.999 * squares[at] + 0.001 * gradient**2
            unbiased = means[at] / (1 - 0.9 ** (index + 1)), squares[at] / (1 - 0.999 ** (index + 1))
            direction = unbiased[0] / (np.sqrt(unbiased[1]) + epsilon)
            ratio = 1.0
            if adapted[at]:
                direction = direction + decay * weight
                ratio = np.linalg.norm(weight) / np.linalg.norm(direction)
            weight -= rate * ratio * direction

    return update


def rising(base: float, **options: Any) -> tfdist.LearningRate:
    """A rate that changes in every update."""
    return tfdist.LearningRate(base, 4, warmup_epochs=2, decay="polynomial", power=2, **options)


def lars(**options: Any) -> Callable[[], Any]:
    return lambda: tfdist.LARS(trust_coefficient=0.1, **options)


def sgd(**options: Any) -> Callable[[], Any]:
    return lambda: keras.optimizers.SGD(momentum=0.9, **options)


PROBLEMS = {
    "sgd": Problem(sgd(), lambda: momentum_rule(rate_in_velocity=True), rising(0.05)),
    "sgd, corrected": Problem(sgd(), momentum_rule, rising(0.05, momentum_correction=True)),
    "nesterov, corrected": Problem(
        sgd(nesterov=True), lambda: momentum_rule(nesterov=True), rising(0.05, momentum_correction=True)
    ),
    "corrected and accumulated": Problem(
        sgd(), momentum_rule, rising(0.05, momentum_correction=True), {"accumulate_steps": 2}
    ),
    "corrected at a drop": Problem(
        sgd(),
        momentum_rule,
        tfdist.LearningRate(0.1, decay="step", decay_at_epochs=[1, 3], momentum_correction=True),
    ),
    "corrected, with loss scale": Problem(
        lambda: keras.optimizers.LossScaleOptimizer(sgd()(), initial_scale=2.0**123, dynamic_growth_steps=4),
        momentum_rule,
        rising(0.05, momentum_correction=True),
        loss_scale=(2.0**123, 4),
        label_scale=40.0,
    ),
    "lars": Problem(lars(weight_decay=0.02), lambda: lars_rule(decay=0.02), rising(0.1)),
    "lars, nesterov, all": Problem(
        lars(weight_decay=0.02, nesterov=True, exclude=()),
        lambda: lars_rule(nesterov=True, decay=0.02, adapted=(True, True)),
        rising(0.1),
    ),
    "lars, kernels left out": Problem(
        lars(exclude=["kernel$"]), lambda: lars_rule(adapted=(False, True)), rising(0.02)
    ),
    "lars, corrected": Problem(
        lars(),
        lambda: lars_rule(corrected=True),
        rising(0.1, momentum_correction=True),
        {"accumulate_steps": 2},
    ),
    "lamb": Problem(lambda: tfdist.LAMB(weight_decay=0.1), lambda: lamb_rule(decay=0.1), rising(0.02)),
    "lamb, all, accumulated": Problem(
        lambda: tfdist.LAMB(exclude=(), weight_decay=0.1),
        lambda: lamb_rule(decay=0.1, adapted=(True, True)),
        rising(0.02),
        {"accumulate_steps": 4},
    ),
    "lamb of keras": Problem(
        lambda: keras.optimizers.Lamb(), lambda: lamb_rule(adapted=(True, True), epsilon=1e-7), rising(0.02)
    ),
}


def main() -> None:
    strategy = tfdist.make_strategy("mirrored", logical_cpus=2)
    found = {name: [w.tolist() for w in solve(problem, strategy)] for name, problem in PROBLEMS.items()}
    Path(sys.argv[1]).write_text(json.dumps(found))


if __name__ == "__main__":
    main()

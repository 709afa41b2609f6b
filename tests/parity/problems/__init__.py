"""The table of training problems. Every kind of strategy solves each of them as one device does."""

import dataclasses

from tests.parity.problem import Problem
from tests.parity.problems import (
    inputs,
    layers,
    losses,
    metrics,
    optimizers,
    precision,
    refusals,
    rounds,
    rows,
    undetermined,
)

GROUPS: dict[str, list[Problem]] = {
    "rows": rows.PROBLEMS,
    "optimizers": optimizers.PROBLEMS,
    "precision": precision.PROBLEMS,
    "losses": losses.PROBLEMS,
    "layers": layers.PROBLEMS,
    "metrics": metrics.PROBLEMS,
    "inputs": inputs.PROBLEMS,
    "rounds": rounds.PROBLEMS,
    "refusals": refusals.PROBLEMS,
}

PROBLEMS: dict[str, Problem] = {}
for _problem in (problem for group in GROUPS.values() for problem in group):
    if _problem.name in PROBLEMS:
        raise ValueError(f"two problems are named {_problem.name}")
    PROBLEMS[_problem.name] = _problem


def in_parts(problem: Problem, parts: int) -> Problem:
    """Gives the problem that adds the gradients of so many parts of a batch, as so many replicas do."""
    trainer = {**problem.trainer, "accumulate_steps": parts}
    return dataclasses.replace(problem, name=f"{problem.name}_in_{parts}_parts", trainer=trainer)


EVERY_PROBLEM = PROBLEMS | undetermined.PROBLEMS
for _problem in [problem for problem in PROBLEMS.values() if problem.same_parts]:
    _reference = in_parts(_problem, 2)
    EVERY_PROBLEM[_reference.name] = _reference

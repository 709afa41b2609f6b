"""The table of training problems. Every kind of strategy solves each of them as one device does."""

from tests.parity.problem import Problem
from tests.parity.problems import inputs, layers, losses, metrics, optimizers, rounds, rows, undetermined

PROBLEMS: dict[str, Problem] = {}
for _problem in [
    *rows.PROBLEMS,
    *optimizers.PROBLEMS,
    *losses.PROBLEMS,
    *layers.PROBLEMS,
    *metrics.PROBLEMS,
    *inputs.PROBLEMS,
    *rounds.PROBLEMS,
]:
    if _problem.name in PROBLEMS:
        raise ValueError(f"two problems are named {_problem.name}")
    PROBLEMS[_problem.name] = _problem

EVERY_PROBLEM = PROBLEMS | undetermined.PROBLEMS

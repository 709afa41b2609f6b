"""The page `docs/parity.md`: what the parity tests found, as a table of features and strategies.

Made by `python -m pytest tests/parity --parity-page docs/parity.md`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from tests.parity.compare import TOLERANCE, largest_difference
from tests.parity.kinds import EXACT, KINDS
from tests.parity.problem import LEAST_UPDATES, RESULT, Problem
from tests.parity.problems import GROUPS, undetermined
from tests.parity.solutions import Solutions
from tests.parity.table import given_to, reference_of

STRATEGIES = ("mirrored", "multi_worker_mirrored", "parameter_server")
TITLES = {
    "rows": "Rows, weights and micro-batches",
    "optimizers": "Optimizers, clipping, decay, rates and averages",
    "precision": "Numbers of 16 bits",
    "losses": "Losses and masks",
    "layers": "Models and layers",
    "metrics": "Metrics",
    "inputs": "What the data comes as",
    "rounds": "Epochs, validation, callbacks, evaluating and predicting",
    "refusals": "Pairs that do not go together",
    "undetermined": "What is not exact",
}
FIGURE = re.compile(r"(?<=: )(?:0|\d(?:\.\d)?e-\d\d)(?= \|)")

Figure = Callable[[str, str], str]

HEAD = f"""<!-- Made by `python -m pytest tests/parity --parity-page docs/parity.md`. -->

# Parity

Each row is a small training problem of `tests/parity`. It is solved on one device and under each strategy,
with the same global batches in the same order, and these are compared: every weight, the logs of every epoch
(loss, metrics, validation), what `evaluate` and `predict` give where the problem has rows for them, and the
number of updates. Each problem makes at least {LEAST_UPDATES} updates, except those that are about evaluating
and predicting. The result on one device is compared with that of Keras's own `fit`, wherever Keras has the
feature.

- **A cell** names the numbers of replicas that the strategy was tried with, and the largest difference that
  was found, rounded up: that of a number, or the part of the number where it is larger than 1. The copies of
  a weight on all replicas are equal to the last bit.
- **The bound** is what the tests allow: {TOLERANCE:.0e} in float32. Differences come from the order in which
  numbers are added; those here are of one machine, and others find others below the bound.
- **Float order.** In deep networks it alone can move results by more than the bound. A row for which it does
  says so; its reference is one device that adds the same parts of a batch in the same order.
- **parameter_server** is tried with one worker that holds one block of work at a time: updates then follow
  one another, and are exact. With several workers they are computed from weights that are a few updates old,
  so weights differ from run to run; counts, metrics, evaluation and prediction are exact even then. See
  [strategies](strategies.md#parameter_server).
- **not tried**: what the row changes happens within a replica, in the same code as under the strategy that it
  was tried with.
- **refused**: an error before the first update, whose fix is written here.

To make this page again: `python -m pytest tests/parity --parity-page docs/parity.md`. Besides these problems,
[hypothesis](https://hypothesis.readthedocs.io) looks for numbers of rows, batch sizes, replicas,
micro-batches and sample weights that give something else than one device: `tests/parity/test_properties.py`.
"""


def render(figure: Figure) -> str:
    """Gives the page.

    Args:
        figure: Gives the largest difference found, from the names of a strategy and a problem.
    """
    parts = [HEAD]
    groups = {**GROUPS, "undetermined": [each for each in undetermined.PROBLEMS.values() if each.inexact]}
    for name, problems in groups.items():
        parts.append(f"\n## {TITLES[name]}\n")
        parts.append(f"| | bound | {' | '.join(STRATEGIES)} |\n|---|---|{'---|' * len(STRATEGIES)}")
        parts += [_row(problem, figure) for problem in problems]
        reasons = {problem.tolerance: problem.why for problem in problems if problem.why}
        parts += [f"\nThe bound of {bound:.0e}: {why}." for bound, why in sorted(reasons.items())]
    return "\n".join(parts) + "\n"


def _row(problem: Problem, figure: Figure) -> str:
    feature = problem.feature or problem.name.replace("_", " ")
    cells = [_cell(problem, strategy, figure) for strategy in STRATEGIES]
    tried = any(cell[0].isdigit() for cell in cells)
    bound = f"{problem.tolerance:.0e}" if tried else ""
    return f"| {feature} | {bound} | {' | '.join(cells)} |"


def _cell(problem: Problem, strategy: str, figure: Figure) -> str:
    if strategy in problem.refused:
        return f"refused: {problem.refused[strategy]}"
    if problem.inexact:
        return (
            f"not exact, because {problem.inexact[strategy]}" if strategy in problem.inexact else "not tried"
        )
    copies = [str(KINDS[kind].copies) for kind in kinds_of(strategy, problem.name)]
    return f"{', '.join(copies)}: {figure(strategy, problem.name)}" if copies else "not tried"


def kinds_of(strategy: str, problem: str) -> list[str]:
    """Gives the kinds of a strategy that are given a problem."""
    return [kind for kind in EXACT if KINDS[kind].strategy == strategy and problem in given_to(kind)]


def found_by(solutions: Solutions) -> Figure:
    """Gives the function that reads the largest differences from results."""

    def figure(strategy: str, problem: str) -> str:
        differences = [
            largest_difference(
                {part: result[part] for part in RESULT}, {part: expected[part] for part in RESULT}
            )
            for kind in kinds_of(strategy, problem)
            for expected in solutions.of("one_device", reference_of(kind, problem))
            for result in solutions.of(kind, problem)
        ]
        return rounded_up(max(differences))

    return figure


def rounded_up(number: float) -> str:
    """Gives a number with one digit, no smaller than it is."""
    if number == 0:
        return "0"
    exponent = math.floor(math.log10(number))
    digit = math.ceil(number / 10**exponent - 1e-9)
    return f"{digit * 10.0**exponent:.0e}"

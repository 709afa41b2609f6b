"""N devices behave as one: under every kind, each problem ends as it does on one device, or is refused."""

import pytest

from tests.parity.compare import differences
from tests.parity.kinds import KINDS
from tests.parity.problem import LEAST_UPDATES, RESULT
from tests.parity.problems import PROBLEMS
from tests.parity.solutions import Solutions
from tests.parity.table import REFUSED, SOLVED, is_refused, reference_of, solved_by


@pytest.mark.parametrize(
    "problem",
    [
        name
        for name in solved_by("keras")
        if PROBLEMS[name].keras_agrees_in and not is_refused("one_device", name)
    ],
)
@pytest.mark.parametrize("kind", ["keras"])
def test_one_device_equals_keras(solutions: Solutions, kind: str, problem: str) -> None:
    parts = PROBLEMS[problem].keras_agrees_in
    (expected,) = solutions.of("keras", problem)
    (found,) = solutions.of("one_device", problem)
    assert not differences(
        {part: found[part] for part in parts},
        {part: expected[part] for part in parts},
        tolerance=PROBLEMS[problem].tolerance,
    )


@pytest.mark.parametrize(("kind", "problem"), SOLVED)
def test_equals_one_device(solutions: Solutions, kind: str, problem: str) -> None:
    (expected,) = solutions.of("one_device", reference_of(kind, problem))
    found = solutions.of(kind, problem)
    assert expected["iterations"] >= LEAST_UPDATES or not PROBLEMS[problem].trains
    for result in found:
        assert result["iterations"] == expected["iterations"]
        assert not differences(
            {part: result[part] for part in RESULT},
            {part: expected[part] for part in RESULT},
            tolerance=PROBLEMS[problem].tolerance,
        )
        # Copies are the same to the last bit, or they would drift apart.
        assert result["copies_differ_by"] == 0
        assert not differences(result["weights"], found[0]["weights"], tolerance=0.0)
    if KINDS[kind].strategy == "multi_worker_mirrored":
        assert len(found) == KINDS[kind].copies


@pytest.mark.parametrize("problem", [name for name in PROBLEMS if PROBLEMS[name].same_parts])
@pytest.mark.parametrize("kind", ["mirrored_2"])
def test_float_order_alone_moves_more(solutions: Solutions, kind: str, problem: str) -> None:
    """Or the problem needs no reference of its own."""
    (whole,) = solutions.of("one_device", problem)
    (parts,) = solutions.of("one_device", reference_of(kind, problem))
    assert differences(whole["weights"], parts["weights"])


@pytest.mark.parametrize(("kind", "problem"), REFUSED)
def test_is_refused_at_once(solutions: Solutions, kind: str, problem: str) -> None:
    for text in solutions.refusals(kind, problem):
        assert text.startswith("ConfigError: ")
        assert text.endswith(f"\nFix: {PROBLEMS[problem].refused[KINDS[kind].strategy]}")


@pytest.mark.parametrize(("problem", "again"), [("continued", "uninterrupted")])
@pytest.mark.parametrize("kind", ["one_device", "mirrored_2"])
def test_training_that_goes_on_equals_one_that_never_stopped(
    solutions: Solutions, kind: str, problem: str, again: str
) -> None:
    (continued,), (uninterrupted,) = solutions.of(kind, problem), solutions.of(kind, again)
    assert continued["iterations"] == uninterrupted["iterations"] == 12
    assert not differences(continued["weights"], uninterrupted["weights"])


@pytest.mark.parametrize("problem", ["float16_overflow"])
@pytest.mark.parametrize("kind", ["mirrored_2"])
def test_a_step_that_overflows_is_skipped(solutions: Solutions, kind: str, problem: str) -> None:
    """By both replicas, though the row that is too large is one replica's alone."""
    (found,) = solutions.of(kind, problem)
    assert found["iterations"] == 12 - 1

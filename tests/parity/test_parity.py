"""N devices behave as one: under every kind, each problem ends as it does on one device."""

import pytest

from tests.parity.compare import differences
from tests.parity.kinds import EXACT, KINDS, REFERENCES
from tests.parity.problem import RESULT
from tests.parity.problems import PROBLEMS
from tests.parity.solutions import Solutions

# Three replicas differ from two only in how rows are divided, and three processes from two only in number.
THREE_WORKERS = ("ragged_49", "one_row_in_all", "predict_1")
THREE_REPLICAS = (
    *THREE_WORKERS,
    "ragged_57",
    "odd_batches",
    "last_batch_of_two_rows",
    "sample_weights_57",
    "a_replica_whose_rows_weigh_nothing",
    "accumulate_3_class_weights_49",
    "accumulate_3_one_row_in_all",
    "clip_after_accumulating",
    "masked_accumulated",
    "masked_mean_with_sample_weight",
    "two_outputs_row_weights",
    "metrics_of_three_classes",
    "predict_101",
)


def solved_by(kind: str) -> list[str]:
    """Gives the names of the problems that a kind solves."""
    if kind in (*REFERENCES, "mirrored_2"):
        return list(PROBLEMS)
    chosen = {"mirrored_3": THREE_REPLICAS, "multi_worker_3": THREE_WORKERS}.get(kind, tuple(PROBLEMS))
    return [name for name in chosen if not PROBLEMS[name].narrow]


@pytest.mark.parametrize("problem", [name for name in solved_by("keras") if PROBLEMS[name].keras_agrees_in])
@pytest.mark.parametrize("kind", ["keras"])
def test_one_device_equals_keras(solutions: Solutions, kind: str, problem: str) -> None:
    parts = PROBLEMS[problem].keras_agrees_in
    (expected,) = solutions.of("keras", problem)
    (found,) = solutions.of("one_device", problem)
    assert not differences({part: found[part] for part in parts}, {part: expected[part] for part in parts})


@pytest.mark.parametrize(("kind", "problem"), [(kind, name) for kind in EXACT for name in solved_by(kind)])
def test_equals_one_device(solutions: Solutions, kind: str, problem: str) -> None:
    (expected,) = solutions.of("one_device", problem)
    found = solutions.of(kind, problem)
    for result in found:
        assert not differences(
            {part: result[part] for part in RESULT}, {part: expected[part] for part in RESULT}
        )
        # Copies are the same to the last bit, or they would drift apart.
        assert result["copies_differ_by"] == 0
        assert not differences(result["weights"], found[0]["weights"], tolerance=0.0)
    if KINDS[kind].strategy == "multi_worker_mirrored":
        assert len(found) == KINDS[kind].copies


@pytest.mark.parametrize(("problem", "again"), [("continued", "uninterrupted")])
@pytest.mark.parametrize("kind", ["one_device", "mirrored_2"])
def test_training_that_goes_on_equals_one_that_never_stopped(
    solutions: Solutions, kind: str, problem: str, again: str
) -> None:
    (continued,), (uninterrupted,) = solutions.of(kind, problem), solutions.of(kind, again)
    assert continued["iterations"] == uninterrupted["iterations"] == 12
    assert not differences(continued["weights"], uninterrupted["weights"])

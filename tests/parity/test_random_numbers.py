"""Random numbers differ between replicas, micro-batches and steps, and come again with their seed."""

import numpy as np
import pytest

from tests.parity.compare import differences
from tests.parity.kinds import KINDS
from tests.parity.problem import RESULT
from tests.parity.problems.undetermined import ROWS
from tests.parity.solutions import Solutions

SEVERAL = ["mirrored_2", "multi_worker_2", "parameter_server_1"]


def drawn(solutions: Solutions, kind: str, problem: str) -> np.ndarray:
    """Gives how often each unit of each row was kept, shape (rows, 16)."""
    (table,) = solutions.of(kind, problem)[0]["weights"].values()
    return -np.array(table)


def assert_rows_differ(masks: np.ndarray) -> None:
    """Among masks of 16 units that are drawn for each row, two equal ones are as likely as 1 in 1,000."""
    assert len({tuple(row) for row in masks}) == len(masks)
    assert 0.25 < masks.mean() / masks.max() < 0.75


@pytest.mark.parametrize("problem", ["masks", "masks_of_keras_random", "masks_of_micro_batches"])
@pytest.mark.parametrize("kind", ["one_device", *SEVERAL])
def test_each_row_meets_other_numbers(solutions: Solutions, kind: str, problem: str) -> None:
    masks = drawn(solutions, kind, problem)
    assert masks.shape == (ROWS, 16)
    assert set(np.unique(masks)) == {0.0, 1.0}
    assert_rows_differ(masks)


@pytest.mark.parametrize("problem", ["masks_of_two_steps"])
@pytest.mark.parametrize("kind", ["one_device", *SEVERAL])
def test_each_step_draws_other_numbers(solutions: Solutions, kind: str, problem: str) -> None:
    kept = drawn(solutions, kind, problem)
    assert set(np.unique(kept)) == {0.0, 1.0, 2.0}  # never 1, if both steps had the same masks
    assert_rows_differ(kept)


@pytest.mark.parametrize(("problem", "again"), [("dropout", "dropout_again")])
@pytest.mark.parametrize("kind", ["one_device", *SEVERAL])
def test_the_same_seed_gives_the_same_run(solutions: Solutions, kind: str, problem: str, again: str) -> None:
    first, second = solutions.of(kind, problem)[0], solutions.of(kind, again)[0]
    assert not differences(
        {part: first[part] for part in RESULT}, {part: second[part] for part in RESULT}, "", 1e-6
    )


@pytest.mark.parametrize("problem", ["dropout", "batch_normalization", "batch_normalization_accumulated"])
@pytest.mark.parametrize("kind", SEVERAL)
def test_replicas_stay_alike(solutions: Solutions, kind: str, problem: str) -> None:
    found = solutions.of(kind, problem)
    for result in found:
        assert result["copies_differ_by"] == 0
        assert not differences(result["weights"], found[0]["weights"], tolerance=0.0)
        parts = ("iterations", "histories", "evaluated", "predicted")
        assert not differences(
            {part: result[part] for part in parts}, {part: found[0][part] for part in parts}
        )
    if KINDS[kind].strategy == "multi_worker_mirrored":
        assert len(found) == KINDS[kind].copies


@pytest.mark.parametrize("problem", ["batch_normalization", "batch_normalization_accumulated"])
@pytest.mark.parametrize("kind", SEVERAL)
def test_moving_statistics_are_those_of_all_rows(solutions: Solutions, kind: str, problem: str) -> None:
    (expected,) = solutions.of("one_device", problem)
    found = solutions.of(kind, problem)[0]
    for name, value in found["weights"].items():
        if "moving" in name:
            # Each replica normalizes by its own rows, so they do not agree to rounding.
            np.testing.assert_allclose(value, expected["weights"][name], rtol=0.5, atol=0.5)
    assert found["histories"][0]["loss"][-1] < found["histories"][0]["loss"][0]

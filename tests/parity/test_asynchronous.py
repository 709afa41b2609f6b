"""The parameter server with several workers: when an update is applied is left open, how many are not."""

import math

import pytest

from tests.parity.compare import differences
from tests.parity.kinds import ASYNCHRONOUS
from tests.parity.problems import EVERY_PROBLEM
from tests.parity.solutions import Solutions

STEPS = {
    "at_their_own_pace": 80,
    "even": 8,
    "ragged_57": 8,
    "rows_in_another_order": 8,
    "adam": 8,
    "accumulate_2_ragged_57": 8,
    "steps_across_passes": 12,
    "steps_across_shuffled_passes": 14,
    "one_step_per_call": 8,
    "seven_steps_per_call": 20,
    "dataset_of_unknown_length": 8,
    "generator": 10,
    "continued": 12,
    "validation_ragged_37": 8,
    "metrics_of_two_classes": 8,
    "metrics_of_three_classes": 8,
    "predict_1": 1,
    "predict_101": 1,
}


@pytest.mark.parametrize("problem", STEPS)
@pytest.mark.parametrize("kind", [ASYNCHRONOUS])
def test_every_update_is_counted(solutions: Solutions, kind: str, problem: str) -> None:
    (found,) = solutions.of(kind, problem)
    assert found["iterations"] == STEPS[problem]


@pytest.mark.parametrize("problem", [name for name in STEPS if EVERY_PROBLEM[name].held_out is not None])
@pytest.mark.parametrize("kind", [ASYNCHRONOUS])
def test_evaluation_counts_every_row_once(solutions: Solutions, kind: str, problem: str) -> None:
    (found,) = solutions.of(kind, problem)
    assert found["evaluated"]
    assert not differences(found["evaluated"], found["reevaluated"])
    # Weights that stand still are predicted with as on one device.
    (rows,) = {len(found["predicted"][0])}
    assert rows == len(EVERY_PROBLEM[problem].held_out()[0])


@pytest.mark.parametrize("problem", ["at_their_own_pace"])
@pytest.mark.parametrize("kind", [ASYNCHRONOUS])
def test_loss_falls(solutions: Solutions, kind: str, problem: str) -> None:
    (found,) = solutions.of(kind, problem)
    losses = found["histories"][0]["loss"]
    assert all(map(math.isfinite, losses))
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("problem", ["metrics_of_two_classes"])
@pytest.mark.parametrize("kind", [ASYNCHRONOUS])
def test_metrics_count_every_row_of_an_epoch(solutions: Solutions, kind: str, problem: str) -> None:
    (found,) = solutions.of(kind, problem)
    labels = EVERY_PROBLEM[problem].train()["y"]
    assert found["histories"][0]["from_ten"] == [10 + labels.sum()] * 2

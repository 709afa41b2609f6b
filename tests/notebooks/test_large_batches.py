"""Runs the notebook in a real kernel and holds what its text says to its numbers."""

import numpy as np
import pytest

from tests.notebooks.execution import errors, execute, figures, require_shows_a_whole_run

NAME = "02_large_batches.ipynb"
FACTS = '{"losses": {name: list(values) for name, values in losses.items()}, "accuracies": accuracies}'
SMALL, WARMED_UP = "16 rows", "256 rows, scaled, warmed up"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    return execute(NAME, FACTS, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def losses(executed):
    return {name: np.array(values) for name, values in executed[1]["losses"].items()}


@pytest.fixture(scope="module")
def accuracies(executed):
    return executed[1]["accuracies"]


def test_it_runs_without_errors_and_draws_its_figures(executed):
    assert not errors(executed[0])
    assert len(figures(executed[0])) == 4


def test_the_rate_left_unchanged_falls_behind(losses, accuracies):
    unchanged = losses["256 rows, unchanged"]
    assert (unchanged > 5 * losses[SMALL]).all()
    assert unchanged[-1] > 15 * losses[SMALL][-1]
    assert accuracies["256 rows, unchanged"] < accuracies[SMALL]


def test_scaled_without_warm_up_throws_the_loss_up(losses):
    at_once = losses["256 rows, scaled"]
    assert at_once[0] > 1.5 * losses[WARMED_UP][0]
    assert at_once[-1] > 2 * losses[SMALL][-1]


def test_scaled_and_warmed_up_comes_to_the_same_curve(losses, accuracies):
    distance = np.abs(losses[WARMED_UP] - losses[SMALL])
    assert distance[10:].max() < 0.01
    assert distance[15:].max() < 0.002
    assert abs(accuracies[WARMED_UP] - accuracies[SMALL]) < 0.01


def test_lars_comes_to_it_as_well(losses, accuracies):
    assert np.abs(losses["256 rows, LARS"] - losses[SMALL])[15:].max() < 0.01
    assert losses["256 rows, LARS"][-1] < losses[SMALL][-1]
    assert abs(accuracies["256 rows, LARS"] - accuracies[SMALL]) < 0.015


@pytest.mark.parametrize("name", ["16 x 16 rows", "2 devices x 8 x 16 rows"])
def test_accumulation_has_the_curve_of_the_one_large_batch(losses, name):
    np.testing.assert_allclose(losses[name], losses[WARMED_UP], atol=1e-5)


def test_where_it_ends(losses, accuracies):
    sgd, lars = "1024 rows, scaled, warmed up", "1024 rows, LARS"
    assert losses[sgd][-1] > 10 * losses[SMALL][-1]
    assert losses[lars][-1] < 0.03
    assert accuracies[lars] < accuracies[SMALL]
    late = np.flatnonzero(losses[lars] < losses[SMALL][4])[0] + 1
    assert late > 15, "LARS needs about twenty epochs for what the small batch has after five"


def test_the_committed_file_shows_a_whole_run_and_is_small():
    require_shows_a_whole_run(NAME)

"""Runs the notebook in a real kernel and holds what its text says to its numbers."""

import numpy as np
import pytest

from tests.notebooks.execution import errors, execute, figures, require_shows_a_whole_run

NAME = "03_data.ipynb"
FACTS = (
    '{"one": one, "two": two, "sampled": sampled, "exit_code": exit_code, "sizes": sizes,'
    ' "histories": histories, "uneven_difference": uneven_difference, "before": before, "after": after,'
    ' "expected": expected, "resumed_difference": resumed_difference,'
    ' "parts": [reading.batches for reading in reports[2].parts["train"].readings]}'
)
ROWS = 1437


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    return execute(NAME, FACTS, tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def facts(executed):
    return executed[1]


def test_it_runs_without_errors_and_draws_its_figures(executed):
    assert not errors(executed[0])
    assert len(figures(executed[0])) == 3


def test_two_workers_share_the_batches_of_one(facts):
    assert facts["one"] == facts["two"] == facts["sampled"]
    assert [len(batch) for batch in facts["two"]] == [64] * 22 + [29]
    assert facts["parts"] == [[32] * 22 + [14], [32] * 22 + [15]]
    assert sorted(row for batch in facts["two"] for row in batch) == list(range(ROWS))


def test_uneven_workers_come_to_the_weights_of_one_device(facts):
    assert facts["exit_code"] == 0
    assert [sum(sizes) for sizes in facts["sizes"]] == [1000, 437]
    assert [size > 0 for size in facts["sizes"][1]] == [True] * 14 + [False] * 18
    assert facts["uneven_difference"] < 1e-5
    histories = facts["histories"]
    for name, values in histories["one device"].items():
        np.testing.assert_allclose(histories["two workers"][name], values, atol=1e-5, err_msg=name)
    assert histories["one device"]["loss"][-1] < 0.5 * histories["one device"]["loss"][0]


def test_a_run_goes_on_with_the_rows_that_it_has_not_seen(facts):
    before, after, expected = facts["before"], facts["after"], facts["expected"]
    assert len(before) == 10 * 64
    assert sorted(before + after) == list(range(ROWS))
    assert sorted(before) == sorted(expected[:640])
    assert after == expected[640:]
    assert facts["resumed_difference"] < 1e-5


def test_the_committed_file_shows_a_whole_run_and_is_small():
    require_shows_a_whole_run(NAME)

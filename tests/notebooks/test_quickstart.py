"""Runs the notebook in a real kernel and looks at what it found."""

import numpy as np
import pytest

from tests.notebooks.execution import errors, execute, figures, require_shows_a_whole_run

NAME = "01_quickstart.ipynb"
FACTS = '{"histories": histories, "wrong": len(wrong), "rows": len(test_labels), "exit_code": exit_code}'


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    return execute(NAME, FACTS, tmp_path_factory.mktemp("home"))


def test_it_runs_without_errors_and_draws_its_figures(executed):
    notebook, facts = executed
    assert not errors(notebook)
    assert len(figures(notebook)) == 3
    assert facts["exit_code"] == 0


def test_the_three_runs_have_the_same_curves(executed):
    histories = executed[1]["histories"]
    assert set(histories) == {"one_device", "mirrored", "two processes"}
    for name in ("mirrored", "two processes"):
        assert set(histories[name]) == {"loss", "accuracy", "val_loss", "val_accuracy"}
        for metric, values in histories[name].items():
            np.testing.assert_allclose(values, histories["one_device"][metric], atol=1e-5, err_msg=metric)


def test_the_network_can_read(executed):
    facts = executed[1]
    assert facts["histories"]["one_device"]["val_accuracy"][-1] > 0.95
    assert facts["wrong"] / facts["rows"] < 0.05, "the saved model scores as the training said"


def test_the_committed_file_shows_a_whole_run_and_is_small():
    require_shows_a_whole_run(NAME)

"""Runs the notebook in a real kernel and looks at what it found."""

import json
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "01_quickstart.ipynb"
FACTS = """
facts = {"histories": histories, "wrong": len(wrong), "rows": len(test_labels), "exit_code": exit_code}
print(json.dumps(facts))
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Gives the notebook after a run, and what it found, told by a cell added to it."""
    home = tmp_path_factory.mktemp("home")  # the kernel's temporary files and settings
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(FACTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(home))
        patch.delenv("TF_CONFIG", raising=False)
        client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOK.parent)}})
        client.execute()
    return notebook, json.loads(notebook.cells[-1].outputs[0].text)


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def test_it_runs_without_errors_and_draws_its_figures(executed):
    notebook, facts = executed
    assert not [output for output in outputs(notebook) if output.output_type == "error"]
    figures = [output for output in outputs(notebook) if "image/png" in output.get("data", {})]
    assert len(figures) == 3
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
    assert NOTEBOOK.stat().st_size < 300_000
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for output in outputs(notebook) if output.get("name") == "stderr"]

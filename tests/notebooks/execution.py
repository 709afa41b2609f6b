"""Runs a notebook in a real kernel, and says what every committed notebook has to be."""

import json
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"


def execute(name, facts, home):
    """Runs a notebook from its first cell to its last.

    Args:
        name: Its file, in `notebooks/`.
        facts: Python expression of what it found, of JSON's types, over the notebook's own names.
        home: Folder for the kernel's temporary files and settings.

    Returns:
        The notebook after the run, and the facts.
    """
    notebook = nbformat.read(NOTEBOOKS / name, as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(f"import json\nprint(json.dumps({facts}))"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(home))
        patch.delenv("TF_CONFIG", raising=False)
        client = NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(NOTEBOOKS)}})
        client.execute()
    return notebook, json.loads(notebook.cells[-1].outputs[0].text)


def outputs(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


def figures(notebook):
    return [output for output in outputs(notebook) if "image/png" in output.get("data", {})]


def errors(notebook):
    return [output for output in outputs(notebook) if output.output_type == "error"]


def require_shows_a_whole_run(name):
    """Requires the committed file to be executed from top to bottom, small, and without remarks on stderr."""
    file = NOTEBOOKS / name
    assert file.stat().st_size < 300_000
    notebook = nbformat.read(file, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for output in outputs(notebook) if output.get("name") == "stderr"]
    assert not errors(notebook)

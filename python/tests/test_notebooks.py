"""The notebooks of docs/notebooks run, and errors are readable in them."""

import json
import tempfile
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from conftest import ROOT

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


@pytest.fixture
def client(monkeypatch):
    """Runs cells as a front end does, in a folder, without what the user has set up."""
    # Not pytest's folder: names of sockets may not be long.
    with tempfile.TemporaryDirectory() as folder:
        for name in ["IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"]:
            monkeypatch.setenv(name, folder)
        config = Config({"KernelManager": {"transport": "ipc", "ip": f"{folder}/kernel"}})

        def of(notebook: nbformat.NotebookNode, within: Path = ROOT) -> NotebookClient:
            resources = {"metadata": {"path": str(within)}}
            return NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources, config=config)

        yield of


def outputs(notebook: nbformat.NotebookNode) -> list[nbformat.NotebookNode]:
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def test_there_is_one_for_each_question():
    assert [notebook.stem for notebook in NOTEBOOKS] == ["a-new-policy", "kdd-before-an-array", "which-buffer"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_without_outputs(path):
    """An output has the whole page of a report, a megabyte, and would change with every figure: see docs/python.md."""
    text = path.read_text(encoding="utf-8")
    notebook = json.loads(text)
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, "clear the outputs of all cells, and save it"
    assert text == json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(client, path):
    notebook = nbformat.read(path, as_version=4)
    client(notebook, path.parent).execute()
    brought = outputs(notebook)
    assert all(output.output_type != "error" and output.get("name") != "stderr" for output in brought), brought
    shown = [output["data"].get("text/html", "") for output in brought if "data" in output]
    assert any("<iframe srcdoc=" in html for html in shown), "a report"
    assert any("<table" in html and "<iframe" not in html for html in shown), "a table"
    assert "".join(output["text"] for output in brought if output.output_type == "stream").strip(), "an answer"


def test_an_error_is_one_readable_line(client):
    cells = [
        "import destage",
        "destage.simulate('traces/own.oltp-pgbench-ext4.destage', polici='lru')",
        "destage.Trace('nowhere.destage')",
        "destage.synth('no.destage', lenght=1)",
        "destage.Experiment('{}').table('run')",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    running = client(notebook)
    running.allow_errors = True
    running.execute()
    errors = outputs(notebook)
    assert [error.output_type for error in errors] == ["error"] * 4
    for error in errors:
        (line,) = error.traceback
        assert "\n" not in line and line == f"\x1b[31mDestageError\x1b[39m: {error.evalue}"
    assert errors[0].evalue == "there is no key 'polici'; did you mean 'policy'?"

"""sdf in a notebook: the one in examples/ runs as it is, and what its cells show; bars, reports and errors."""

import os
import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
SKEWED = ROOT / "examples" / "skewed_files.ipynb"
WIDGETS = "application/vnd.jupyter.widget-state+json"


def executed(notebook, folder, monkeypatch):
    """Run all cells in a kernel of its own, as Jupyter does; an error ends it, unless its cell is tagged for that."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("IPYTHONDIR", str(folder / "ipython"))  # whatever the user has there
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=600, coalesce_streams=True, resources=resources).execute()


def outputs_of(notebook, begin):
    """Return the outputs of the cell with a line that begins so."""
    (cell,) = [cell for cell in notebook.cells if re.search(f"^{re.escape(begin)}", cell.source, re.MULTILINE)]
    return cell.outputs


def shown(notebook, begin, kind="text/plain"):
    """Return what a cell shows as its value, as text or HTML."""
    return next(one.data[kind] for one in outputs_of(notebook, begin) if one.output_type == "execute_result")


AS_IT_IS = pytest.param(6000, marks=pytest.mark.slow("the same test with recordings of a quarter of the samples"))
# What takes long in each second. The quicker test waits instead: a core is dear, and the work must be worth a split.
WORK = 'echo = np.correlate(row, row, mode="full")[len(row) :]'
QUICKER = {
    '"engine": 6000': '"engine": 4000',
    "(seconds, 2000)": "(seconds, 500)",
    WORK: f'__import__("time").sleep(0.001); {WORK}',
}


@pytest.fixture(scope="module", params=[4000, AS_IT_IS])
def seconds(request):
    """How long the long recording is."""
    return request.param


@pytest.fixture(scope="module")
def skewed(tmp_path_factory, seconds):
    """The notebook of examples/, with its outputs."""
    notebook = nbformat.read(SKEWED, 4)
    for said, quicker in QUICKER.items() if seconds < 6000 else ():
        (cell,) = [cell for cell in notebook.cells if said in cell.source]
        cell.source = cell.source.replace(said, quicker)
    with pytest.MonkeyPatch.context() as monkeypatch:
        return executed(notebook, tmp_path_factory.mktemp("notebook"), monkeypatch)


def test_the_notebook_is_kept_without_outputs():
    """They would differ with each run, and make it large."""
    notebook = nbformat.read(SKEWED, 4)
    nbformat.validate(notebook)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in cells] == [([], None)] * len(cells)


def test_all_records_of_the_huge_file_are_there(skewed, seconds):
    """Each second of the recording, once."""
    assert shown(skewed, "features = run_sdf") == str(seconds + 420)
    assert re.search(rf"engine +{seconds}", shown(skewed, "features.toDF()"))


def test_a_cell_shows_the_report(skewed):
    """As a card with a timeline, which names the file that was split."""
    html = shown(skewed, "features.report", "text/html")
    assert "class=sdf-run" in html
    assert "<svg" in html
    assert re.search(r"straggler: .*engine\.npy.* it was split into \d+ parts", html)


def test_the_bar_is_a_widget_that_knows_how_much_there_is(skewed, seconds):
    """It is full at the end, and shows the cell of the error how far that came; no cell has more than its bar."""
    whole = seconds + 420.0
    widgets = [one["state"] for one in skewed.metadata.widgets[WIDGETS]["state"].values()]
    bars = [one for one in widgets if one["_model_name"] == "FloatProgressModel"]
    assert sorted((one["bar_style"], one["max"]) for one in bars) == [
        ("danger", whole), ("success", whole), ("success", whole)
    ]  # fmt: skip
    assert [one["value"] for one in bars if one["bar_style"] == "success"] == [whole, whole]
    kinds = [one.output_type for one in outputs_of(skewed, "features = run_sdf")]
    assert kinds == ["display_data", "execute_result"]


def test_an_error_shows_the_line_of_the_cell_and_hardly_any_of_sdf(skewed):
    """Which DoFn, on which file, where in the user's code."""
    (error,) = [one for one in outputs_of(skewed, "run_sdf(sc") if one.output_type == "error"]
    assert error.ename == "ProcessError"
    assert re.match(r"CrestFn\.process\(\) on .*cellar\.npy' raised ZeroDivisionError", error.evalue)
    text = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(error.traceback))
    assert re.search(r'line \d+, in features\n    return \{\*\*found, "crest": .*\nZeroDivisionError', text)
    assert set(re.findall(r"sdf/\w+/\w+\.py", text)) == {"sdf/spark/run.py"}
    assert len(text.splitlines()) < 40


def test_what_was_saved_is_read_by_pandas_and_spark(skewed, seconds):
    """The silent second is the one without a crest."""
    assert outputs_of(skewed, "saved = save_sdf")[-1].text.startswith(f"saved {seconds + 420:,} records in ")
    assert re.search(r"cellar +17 +0\.0 .*NaN$", shown(skewed, "table = pd.read_parquet"))
    assert re.search(r"engine +3\.\d", shown(skewed, "spark.read.parquet"))


TEXT_BAR = """
import sys
sys.modules["ipywidgets"] = None  # as if it were not installed
from sdf.reporting.progress import RunProgress
from sdf.spark.display import display
bar = display(None, "run_sdf()")
for done in (0, 3, 8):
    bar.show(RunProgress("CountFn", 1.0, done, 4 + done // 2, 1, 2, 1, ended=done == 8))
bar.wait()
"""


def test_without_widgets_the_bar_is_one_line_of_text(tmp_path, monkeypatch):
    """And nothing complains that they are not there."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(TEXT_BAR)])
    (output,) = executed(notebook, tmp_path, monkeypatch).cells[0].outputs
    assert output.name == "stderr"
    (line,) = output.text.splitlines()
    # On a slow machine the first bar is longer: blanks erase its end.
    assert re.match(r"CountFn: 100%\|█+\| 8\.00/8\.00 .*1/2 slots, 1 split\]$", line.rstrip(" "))

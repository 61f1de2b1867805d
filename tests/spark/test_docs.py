"""The documentation: every snippet in it runs, the tutorial does what it says, and Sphinx finds nothing to warn of."""

import ast
import builtins
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.programs import in_one_process
from support.warm import WARM_FOLDER
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

ROOT = Path(__file__).parents[2]
PAGES = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md"])
FENCE = re.compile(r"^```(\{code-block\} )?(\w*)\n(?::caption: (\S+)\n)?(.*?)^```$", re.DOTALL | re.MULTILINE)
TUTORIAL = ROOT / "docs" / "tutorial.md"
ELSEWHERE = {"tutorial.md", "coming-from-beam.md", "connect.md", "dataframes.md"}  # those have tests of their own
NOT_FOR_PYTHON = {"text", "", "console"}  # commands; those of the tutorial are run


def name(path):
    return path.name


@pytest.fixture(scope="module")
def two_slots(s3_server, start_spark):
    """Fewer workers than in other tests: each imports what each page needs."""
    return start_spark("local[2]")


# Dear: each page runs jobs, with libraries of its own in every worker.
@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ELSEWHERE], ids=name)
def test_every_snippet_runs(two_slots, tmp_path, monkeypatch, page):
    """In the order of the page, in an empty folder with notes.txt in it."""
    monkeypatch.chdir(tmp_path)
    Path("notes.txt").write_text("hello\nspark!\n")
    snippets = list(Sybil([PythonCodeBlockParser()]).parse(page).examples())
    fences = [language for _, language, *_ in FENCE.findall(page.read_text()) if language not in NOT_FOR_PYTHON]
    assert fences == ["python"] * len(fences)
    shown = [one for one in snippets if "invisible" not in one.document.text[one.start : one.start + 40]]
    assert len(shown) == len(fences)
    for snippet in snippets:
        snippet.namespace.update(__name__="__main__", sc=two_slots)  # so that classes are pickled by value
        snippet.evaluate()


@pytest.mark.parametrize("page", [page for page in PAGES if page.name not in ELSEWHERE], ids=name)
def test_what_a_snippet_needs_is_there_to_be_copied(page):
    """A name that the snippets of a page use is made by one of them, not by code that the page hides; but for `sc`."""
    shown = "".join(body for _, language, _, body in FENCE.findall(page.read_text()) if language == "python")
    nodes = list(ast.walk(ast.parse(shown)))
    used = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    made = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    made |= {node.arg for node in nodes if isinstance(node, ast.arg)}
    made |= {node.name for node in nodes if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.ExceptHandler))}
    made |= {(node.asname or node.name).split(".")[0] for node in nodes if isinstance(node, ast.alias)}
    assert used - made - set(dir(builtins)) - {"sc"} == set()


def test_the_tests_that_pages_name_are_there():
    """By file and function, such as those that show what the founding documents promise."""
    named = {pair for page in PAGES for pair in re.findall(r"(test_\w+\.py)::(test_\w+)", page.read_text())}
    there = {
        (file.name, test)
        for file in (ROOT / "tests").rglob("test_*.py")
        for test in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    assert len(named) > 20
    assert sorted(named - there) == []


def run(arguments, folder):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), WARM_FOLDER])}
    command = [sys.executable, *arguments]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def each_alone(files, folder):
    return [run([file], folder) for file in files]


def all_in_one(files, folder):
    return in_one_process(lambda *arguments: run(arguments, folder), files)


# Dear: it starts Spark for three programs.
@pytest.mark.parametrize(
    "run_files", [all_in_one, pytest.param(each_alone, marks=pytest.mark.slow("the same test in one process"))]
)
def test_the_tutorial_does_what_it_says(tmp_path, run_files):
    """Its files are written into an empty folder, its commands are run, and print what it shows; ... is anything."""
    shown = {}
    for directive, language, caption, body in FENCE.findall(TUTORIAL.read_text()):
        if caption:
            (tmp_path / caption).write_text(body)
        elif directive and language == "console":
            for step in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                command, _, expected = step.partition("\n")
                shown[command] = expected
        else:
            assert body == "pip install '.[files,gzip]'\n"
    files = ["slow.py", "fast.py", "broken.py", "logs.py"]
    tests = ["-m", "pytest", "-q", "test_fast.py"]
    commands = [f"python {file}" for file in files]
    assert list(shown) == [*commands[:2], "pip install pytest", f"python {' '.join(tests)}", *commands[2:]]
    for command, printed in zip(commands, run_files(files, tmp_path), strict=True):
        assert_prints(printed, shown[command])
    assert_prints(run(tests, tmp_path), shown[f"python {' '.join(tests)}"])


def assert_prints(printed, expected):
    pattern = ".*".join(map(re.escape, " ".join(expected.split()).split("...")))  # lines may be folded
    assert re.match(pattern, " ".join(printed.split()), re.DOTALL), printed


# Dear: Sphinx reads and writes all pages, the one way to find a link without a target.
def test_the_pages_are_built_without_a_warning(tmp_path):
    """Every public name has its place in the reference, and every link its target."""
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        str(ROOT / "docs"),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode == 0, done.stderr
    reference = (tmp_path / "api.html").read_text()
    import sdf
    import sdf.errors
    import sdf.io
    import sdf.sinks

    named = [f"{module.__name__}.{each}" for module in (sdf, sdf.io, sdf.sinks) for each in module.__all__]
    assert [each for each in named if f">{each.split('.')[-1]}<" not in reference] == []

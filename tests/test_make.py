"""What make sets up: for the demo no more than it needs, and every Spark that setup.cfg promises."""

import configparser
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from support.connect_server import WATCH

ROOT = Path(__file__).parent.parent
THIS_PYTHON = "{}.{}".format(*sys.version_info)


def script(path):
    """Load a script."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def steps(target):
    """Return what make would run for a target in a clean checkout."""
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    command = ["make", "--dry-run", "--always-make", target]
    own = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}  # of the make that runs us
    return subprocess.run(command, cwd=ROOT, env=own, capture_output=True, text=True, check=True).stdout


def test_demo_installs_what_it_needs_and_no_more():
    """No browser, no server, none of the libraries of the tests: it is the first thing that people run."""
    ran = steps("demo")
    assert "'.[avro]'" in ran
    assert [more for more in ("test]", "chromium") if more in ran] == []


def test_demo_says_how_long_it_took():
    """Setup and run, at its end."""
    assert "make demo took" in steps("demo").splitlines()[-1]


@pytest.mark.parametrize("target", ["test", "lint", "docs", "bench"])
def test_other_targets_bring_the_rest(target):
    """After what the demo needs."""
    ran = steps(target)
    assert ran.index("'.[avro]'") < ran.index("'.[test]'")
    assert "need-chromium" in ran


@pytest.fixture
def versions():
    """Load the script behind make test-versions."""
    return script(".ci/versions.py")


def test_every_spark_and_every_python_that_is_promised_is_among_the_combinations(versions):
    """And the first ones are the oldest of setup.cfg."""
    options = configparser.ConfigParser()
    options.read(ROOT / "setup.cfg")
    requirements = options["options"]["install_requires"].split()
    least = [one.removeprefix("pyspark>=").split(",")[0] for one in requirements if one.startswith("pyspark")]
    sparks = [*versions.COMBINATIONS]
    assert sparks[:1] == least
    assert all(f"pyspark=={spark}." in each.libraries[0] for spark, each in versions.COMBINATIONS.items())
    pythons = sorted({each.python for each in versions.COMBINATIONS.values()})
    assert pythons[0] == options["options"]["python_requires"].removeprefix(">=")
    assert pythons == ["3.10", "3.11", "3.12", "3.13"]


def test_every_test_that_is_to_run_with_every_spark_exists(versions):
    """pytest would stop at the first that does not. Those that docs/coverage.md names are among them."""
    chosen = versions.selected()
    assert "tests/journal/test_journal.py::test_show_prints_the_history" in chosen
    assert len(chosen) > 100
    assert len(chosen) == len({*chosen})
    files = {name: (ROOT / name.partition("::")[0]).read_text() for name in chosen}
    assert [
        name for name, text in files.items() if "::" in name and f"def {name.partition('::')[2]}(" not in text
    ] == []


def test_an_interpreter_is_found_by_its_version(versions):
    """It is one that runs, and is of this version."""
    code = "import sys; print('{}.{}'.format(*sys.version_info))"
    command = [versions.interpreter(THIS_PYTHON), "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip() == THIS_PYTHON


def test_a_shim_with_no_python_behind_it_is_none(versions, monkeypatch, tmp_path):
    """pyenv has one on the PATH for each version that any of its environments has, and most only fail."""
    shim = tmp_path / "python3.99"
    shim.write_text("#!/bin/sh\necho 'pyenv: python3.99: command not found' >&2\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("python3.99") == str(shim)
    assert versions.interpreter("3.99") is None


@pytest.fixture
def run(versions, monkeypatch, capsys, tmp_path):
    """Return a function that runs the script where some Pythons are missing and a test fails, and takes no time."""
    result = {"passed": 7, "failed": [], "skipped": {"no Spark": 2}}
    monkeypatch.setattr(versions, "BUILD", tmp_path)
    monkeypatch.setattr(versions, "RESULTS", tmp_path / "versions.json")
    monkeypatch.setattr(versions, "environment", lambda spark, python, combination: Path(python))
    monkeypatch.setattr(versions, "java_home", lambda version: tmp_path)
    monkeypatch.setattr(versions, "versions_in", lambda python, variables: {"python": "3.99.1"})

    def run(*only, missing=(), failed=()):
        monkeypatch.setattr(versions, "interpreter", lambda version: None if version in missing else sys.executable)
        monkeypatch.setattr(versions, "tested", lambda *_: {**result, "failed": [*failed]})
        return versions.main(only), capsys.readouterr().out, json.loads(versions.RESULTS.read_text() or "{}")

    return run


def test_a_python_that_is_missing_is_named_and_the_others_are_tested(run):
    """It is no failure."""
    code, said, results = run(missing=["3.10"])
    assert code == 0
    assert "Spark 3.5: NOT TESTED, there is no Python 3.10" in said
    assert "Spark 4.3: 7 passed, 0 failed, 2 skipped" in said
    assert [*results] == ["4.0", "4.1", "4.2", "4.3"]


def test_one_spark_leaves_the_results_of_the_others(run):
    """And one that there is not is told."""
    run("3.5", failed=["test_a.py::test_b"])
    code, said, results = run("4.1")
    assert code == 0
    assert "Spark 3.5" not in said
    assert [len(results[spark]["failed"]) for spark in ("3.5", "4.1")] == [1, 0]
    with pytest.raises(SystemExit, match=r"no combination for Spark 2\.4: choose of 3\.5, 4\.0"):
        run("2.4")


def test_a_test_that_fails_fails_the_target(run):
    """And is named."""
    code, said, _ = run("4.3", failed=["test_a.py::test_b"])
    assert code == 1
    assert "failed: test_a.py::test_b" in said


LACKS = "could not import 'sdf.a': sdf.a needs Spark 4.0 (got pyspark 3.5.0). And so on."
REPORT = f"""<r>
  <testcase classname="tests.io.test_a" name="test_b[1]"><error/></testcase>
  <testcase/>
  <testcase><skipped message="why"/></testcase>
  <testcase><skipped message="Skipped: why"/></testcase>
  <testcase><skipped message="collection skipped">("test_c.py", 3, "Skipped: {LACKS}")</skipped></testcase>
</r>"""


def test_the_outcome_of_tests_is_read_from_their_report(versions):
    """The reasons of those skipped are counted."""
    outcome = versions.outcome(ET.fromstring(REPORT))
    assert (outcome["passed"], outcome["failed"]) == (1, ["test_a::test_b[1]"])
    assert outcome["skipped"] == {"why": 2, "sdf.a needs Spark 4.0": 1}


def test_the_page_of_versions_is_what_the_results_say():
    """`make docs` writes it again."""
    page = script("docs/versions.py")
    assert page.PAGE.read_text() == page.page(json.loads(page.RESULTS.read_text()))


FILES = {
    "sdf/__init__.py": "from sdf.model import Fn\nif TYPE_CHECKING:\n    from sdf.run import run\n",
    "sdf/model.py": "class Fn: pass",
    "sdf/run.py": "from sdf import store\n",
    "sdf/store.py": "",
    "sdf/sinks/__init__.py": "from sdf.sinks.files import Files",
    "sdf/sinks/files.py": "def write():\n    from sdf import store",
    "examples/count.py": "from sdf import run",
    "docs/page.md": "",
    "setup.cfg": "",
    "tests/conftest.py": "def server():\n    from support.server import Server",
    "tests/support/server.py": "DAEMON = 'support.daemon'",
    "tests/support/daemon.py": "",
    "tests/support/fns.py": "from sdf import Fn",
    "tests/test_model.py": "from sdf import Fn",
    "tests/test_run.py": "from sdf import run\nfrom support.fns import ListFn",
    "tests/sinks/test_files.py": "import sdf.sinks",
    "tests/test_child.py": "run([python, '-c', 'import x'], env={'MODULE': 'sdf.store'})",
    "tests/test_docs.py": "for page in Path('docs').iterdir(): pass",
    "tests/test_examples.py": "for program in Path('examples').iterdir(): pass",
    "tests/test_program.py": "run([python, '-c', 'import sys; from sdf import run'])",
    "tests/test_whole.py": "import sdf",
}
WHOLE = ["test_docs", "test_examples", "test_program", "test_whole"]  # they run programs, or import sdf whole
ALL = sorted(Path(name).stem for name in FILES if "/test_" in name)


@pytest.fixture
def reached(tmp_path):
    """Return a function from changed files to the tests of a small checkout that reach them."""
    module = script(".ci/reached.py")
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for step in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *step], cwd=tmp_path, check=True)

    def run(*changed, commit="HEAD", add=True):
        for name in changed:
            if name.startswith("- "):
                (tmp_path / name[2:]).unlink()
            elif " -> " in name:
                (tmp_path / name.split(" -> ")[0]).rename(tmp_path / name.split(" -> ")[1])
            else:
                (tmp_path / name).write_text("changed = 1\n" + FILES.get(name, ""))
        if add:
            subprocess.run([*git, "add", "."], cwd=tmp_path, check=True)
        return sorted(Path(name).stem for name in module.main(tmp_path, commit))

    return run


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ([], []),
        (["sdf/store.py"], sorted([*WHOLE, "test_child", "test_files", "test_run"])),
        (["sdf/run.py"], sorted([*WHOLE, "test_run"])),
        (["sdf/sinks/files.py"], sorted([*WHOLE, "test_files"])),
        (["sdf/model.py"], ALL),
        (["tests/support/fns.py"], ["test_run"]),
        (["tests/test_docs.py", "tests/test_new.py"], ["test_docs", "test_new"]),
        (["docs/page.md"], ["test_docs"]),
        (["examples/count.py"], ["test_examples"]),
        (["sdf/run.py", "setup.cfg"], ["tests"]),
        (["sdf/template.html"], ["tests"]),
        (["- sdf/store.py"], ["tests"]),
        (["sdf/store.py -> sdf/shop.py"], ["tests"]),
        (["- tests/support/fns.py"], ["tests"]),
        (["tests/conftest.py"], ["tests"]),
        (["tests/support/server.py"], ["tests"]),
        (["tests/support/daemon.py"], ["tests"]),
    ],
    ids=str,
)
def test_a_change_reaches_the_tests_that_import_it(reached, changed, tests):
    """At whatever remove, within functions, in other processes, or by its folder."""
    assert reached(*changed) == tests


def test_a_file_that_git_does_not_know_yet_is_a_change(reached):
    """A newcomer runs a test before the first commit."""
    assert reached("tests/test_new.py", add=False) == ["test_new"]


@pytest.mark.parametrize("commit", ["", "no-such-commit"])
def test_where_nobody_knows_what_has_changed_all_tests_are_reached(reached, commit):
    """CI gives no commit, or git does not have it."""
    assert reached("sdf/run.py", commit=commit) == ["tests"]


def test_a_server_of_the_tests_does_not_outlive_who_owns_it():
    """An owner that is killed stops no server."""
    owner = subprocess.Popen(["sleep", "60"])
    watch = subprocess.Popen([sys.executable, "-S", "-c", WATCH, str(owner.pid), "sleep", "60"], start_new_session=True)
    owner.kill()
    owner.wait()
    assert watch.wait(30) == -signal.SIGKILL

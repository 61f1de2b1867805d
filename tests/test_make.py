"""What make sets up: for the demo no more than it needs, and the oldest and newest versions that setup.cfg promises."""

import importlib.util
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.connect_server import WATCH

ROOT = Path(__file__).parent.parent
THIS_PYTHON = "{}.{}".format(*sys.version_info)


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
    spec = importlib.util.spec_from_file_location("versions", ROOT / ".ci" / "versions.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("requirement", "oldest"),
    [("attrs>=22.2", "attrs==22.2"), ("pyspark>=4.0,<5", "pyspark==4.0"), ("a-b.c>=1", "a-b.c==1")],
)
def test_the_oldest_of_a_requirement(versions, requirement, oldest):
    """Its lower bound, whatever else bounds it."""
    assert versions.oldest_of(requirement) == oldest


def test_every_requirement_has_an_oldest_version(versions):
    """Else nobody could say what is promised; and PySpark is among them."""
    _, requirements = versions.promised()
    assert any(versions.oldest_of(requirement).startswith("pyspark==") for requirement in requirements)


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
def run_without(versions, monkeypatch, capsys):
    """Return a function that runs the script where some versions of Python are missing, and no test takes its time."""

    def run(*missing):
        monkeypatch.setattr(versions, "interpreter", lambda version: None if version in missing else sys.executable)
        monkeypatch.setattr(versions, "environment", lambda name, python, requirements: Path(python))
        monkeypatch.setattr(versions, "tested", lambda python, arguments: (True, "7 passed in 1.00s"))
        return versions.main(), capsys.readouterr().out

    return run


def test_a_python_that_is_missing_is_named_and_the_other_end_is_tested(run_without):
    """It is no failure."""
    code, said = run_without("3.10")
    assert code == 0
    assert "oldest: NOT TESTED, there is no Python 3.10" in said
    assert "newest: Python" in said
    assert "core: 7 passed" in said


def test_with_no_python_at_all_it_fails(run_without, versions):
    """Nothing was shown then."""
    code, said = run_without("3.10", *versions.BETWEEN, versions.NEWEST_PYTHON)
    assert code == 1
    assert said.count("NOT TESTED") == 4


def test_the_versions_in_between_run_the_stress_test_of_claims_alone(run_without):
    """It depends on how Python iterates."""
    _, said = run_without("3.10", "3.13")
    assert said.count("claims(): 7 passed") == 2
    assert "core" not in said


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
    spec = importlib.util.spec_from_file_location("reached", ROOT / ".ci" / "reached.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
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

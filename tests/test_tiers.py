"""The tiers: make test shows in a smaller form what it leaves to make test-all, and leaves no capability out."""

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
COVERAGE = HERE.parent / "docs" / "coverage.md"


@cache
def trees():
    """Return the syntax tree of each test file; not before a test asks, as all workers import all files."""
    return {path: ast.parse(path.read_text()) for path in sorted(HERE.rglob("test_*.py"))}


def marks(nodes):
    """Return the marks slow and soak in some nodes of the syntax tree."""
    found = [one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Attribute)]
    return [one for one in found if one.attr in ("slow", "soak") and ast.unparse(one.value) == "pytest.mark"]


def in_make_test(tree, test):
    """Tell whether a test, or some of its cases, run in make test."""
    module = [one for one in tree.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"]
    whole = [one for one in test.decorator_list if not ast.unparse(one).startswith("pytest.mark.parametrize")]
    return not marks(module) and not marks(whole)


def all_tests():
    """Return whether each test runs in make test, by file and name."""
    return {
        (path.name, one.name): in_make_test(tree, one)
        for path, tree in trees().items()
        for one in tree.body
        if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
    }


def reasons():
    """Return why tests are slow, each with its place; some reasons are given by name, as the argument `instead`."""
    return [
        (path.relative_to(HERE).as_posix(), one.lineno, ast.unparse(reason))
        for path, tree in trees().items()
        if re.search(r"mark\.slow\(|instead=", path.read_text())  # most say neither, and a walk takes long
        for one in ast.walk(tree)
        if isinstance(one, ast.Call)
        for reason in [
            *(one.args if ast.unparse(one.func) == "pytest.mark.slow" else ()),
            *(each.value for each in one.keywords if each.arg == "instead"),
        ]
        if not isinstance(reason, ast.Name)
    ]


def test_every_capability_has_a_test_in_make_test():
    """Each test that docs/coverage.md names exists, and is not left to make test-all."""
    named = re.findall(r"`(test_\w+\.py)::(test_\w+)`", COVERAGE.read_text())
    assert len(named) > 20
    runs = all_tests()
    assert [f"{file}::{name}" for file, name in named if not runs.get((file, name))] == []


def test_a_slow_test_names_the_test_that_shows_the_same():
    """`the same test` where it is another case of it, else the name of a test that runs in make test."""
    ran = {name for (_, name), runs in all_tests().items() if runs}
    found = reasons()
    assert len(found) > 10
    assert [
        f"{file}:{line}: {reason}"
        for file, line, reason in found
        if "the same test" not in reason and not {*re.findall(r"test_\w+", reason)} & ran
    ] == []

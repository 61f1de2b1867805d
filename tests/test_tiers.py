"""The tiers: make test shows in a smaller form what it leaves to make test-all, and leaves no capability out."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
COVERAGE = HERE.parent / "docs" / "coverage.md"
TREES = {path: ast.parse(path.read_text()) for path in sorted(HERE.rglob("test_*.py"))}


def marks(nodes):
    """Return the marks slow and soak in some nodes of the syntax tree."""
    found = [one for node in nodes for one in ast.walk(node) if isinstance(one, ast.Attribute)]
    return [one for one in found if one.attr in ("slow", "soak") and ast.unparse(one.value) == "pytest.mark"]


def in_make_test(tree, test):
    """Tell whether a test, or some of its cases, run in make test."""
    module = [one for one in tree.body if isinstance(one, ast.Assign) and ast.unparse(one.targets[0]) == "pytestmark"]
    whole = [one for one in test.decorator_list if not ast.unparse(one).startswith("pytest.mark.parametrize")]
    return not marks(module) and not marks(whole)


TESTS = {  # by file and name: whether it runs in make test
    (path.name, one.name): in_make_test(tree, one)
    for path, tree in TREES.items()
    for one in ast.walk(tree)
    if isinstance(one, ast.FunctionDef) and one.name.startswith("test_")
}
REASONS = [  # why tests are slow; some are given by name, as the argument `instead`
    (path.relative_to(HERE).as_posix(), one.lineno, ast.unparse(reason))
    for path, tree in TREES.items()
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
    assert [f"{file}::{name}" for file, name in named if not TESTS.get((file, name))] == []


def test_a_slow_test_names_the_test_that_shows_the_same():
    """`the same test` where it is another case of it, else the name of a test that runs in make test."""
    ran = {name for (_, name), runs in TESTS.items() if runs}
    assert len(REASONS) > 10
    assert [
        f"{file}:{line}: {reason}"
        for file, line, reason in REASONS
        if "the same test" not in reason and not {*re.findall(r"test_\w+", reason)} & ran
    ] == []

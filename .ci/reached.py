"""Print the test files that a change can reach. They import a changed file, directly or through other files.

    python .ci/reached.py origin/main

The change is the difference from the given commit, with the files that git does not track yet. A test file reaches the
modules that it imports or names in a string. It also reaches the modules that those import or name. A test file that
says ``import sdf``, or runs programs, pages or notebooks, reaches all of sdf. A test file reaches a file outside of sdf
if it names the file or its folder. The script prints ``tests``, for all tests, if it gets no commit. It does so, too,
if a change could matter to any test, such as a change of a module that ``tests/conftest.py`` imports: tests use
fixtures without an import.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

FOLDERS = ("sdf", "tests", "benchmarks", "examples", "docs")  # of modules
SHARED = ("setup.cfg", "pyproject.toml", "Makefile", ".ci/")
CONFTEST = Path("tests/conftest.py")
PROGRAMS = re.compile(r"docs|examples|.*\b(import|from) sdf\b.*", re.DOTALL)  # a string of a test that runs programs
READ_BY_PEOPLE = ("LICENSE", "NOTICE", "CITATION.cff", ".gitignore")


class Tree:
    """The modules of a checkout, and which imports which.

    Args:
        root: of the checkout.
    """

    def __init__(self, root):
        self.root = root
        self.paths = {}  # by name of module
        for path in sorted(path for folder in FOLDERS for path in (root / folder).rglob("*.py")):
            for name in self.names_of(path.relative_to(root)):
                self.paths.setdefault(name, path.relative_to(root))
        self.parsed = {path: ast.parse((root / path).read_text()) for path in {*self.paths.values()}}
        self.lazy = {}  # by module: whence the names come that it imports for type checkers alone
        for path, tree in self.parsed.items():
            for found in ast.walk(tree):
                if isinstance(found, ast.If) and getattr(found.test, "id", "") == "TYPE_CHECKING":
                    for one in found.body:
                        if isinstance(one, ast.ImportFrom):
                            self.lazy.setdefault(path, {}).update({each.name: one.module for each in one.names})
                    found.body = []
        self.all_of_sdf = {name for name, path in self.paths.items() if path.parts[0] == "sdf"}
        self.imports = {path: self.imports_of(path) for path in self.parsed}

    def names_of(self, path):
        """Return the names by which a file may be imported: the tests' helpers also by their stem alone."""
        parts = path.with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        return {".".join(parts)} if parts[0] == "sdf" else {".".join(parts[1:]), parts[-1]} - {""}

    def imports_of(self, path):
        """Return the files that a file imports, or names in a string; with a module, its packages are imported."""
        found, is_test = set(), path.parts[0] == "tests"
        for one in ast.walk(self.parsed[path]):
            if isinstance(one, ast.Import):
                found.update(each.name for each in one.names)
                if is_test and any(each.name == "sdf" for each in one.names):
                    found.update(self.all_of_sdf)
            elif isinstance(one, ast.ImportFrom) and one.module:
                found.add(one.module)
                found.update(f"{one.module}.{each.name}" for each in one.names)
                lazy = self.lazy.get(self.paths.get(one.module), {})
                found.update(lazy[each.name] for each in one.names if each.name in lazy)
            elif isinstance(one, ast.Constant) and isinstance(one.value, str):
                if "." in one.value and (is_test or path.stem != "__init__"):
                    found.add(one.value)
                if is_test and PROGRAMS.fullmatch(one.value):
                    found.update(self.all_of_sdf)
        parents = {
            ".".join(name.split(".")[:at]) for name in found & {*self.paths} for at in range(1, name.count(".") + 1)
        }
        return {self.paths[name] for name in found | parents if name in self.paths} - {path}

    def reached_from(self, path):
        """Return all files that a file imports, at whatever remove, and itself."""
        reached, todo = set(), [path]
        while todo:
            one = todo.pop()
            if one not in reached:
                reached.add(one)
                todo += self.imports[one]
        return reached

    def tests_that_reach(self, changed):
        """Return the test files that reach a changed file; None if any test may.

        Args:
            changed: their paths from the root of the checkout.
        """
        fixtures = {CONFTEST, *(one for one in self.reached_from(CONFTEST) if one.parts[0] == "tests")}
        for one in changed:
            within = one.startswith(("sdf/", "tests/")) and not Path(one).name.startswith("test_")
            unknown = within and Path(one) not in self.parsed  # deleted, or no module: a template, or data of tests
            if unknown or one.startswith(SHARED) or Path(one) in fixtures:
                return None
        modules = {Path(one) for one in changed} & {*self.parsed}
        others = [Path(one) for one in changed if not one.startswith("sdf/") and one not in READ_BY_PEOPLE]
        words = {word for one in others for word in (one.name, one.parts[0]) if word != "tests"}
        reached = []
        for test in sorted(path for path in self.parsed if path.parts[0] == "tests" and path.name.startswith("test_")):
            files = self.reached_from(test)
            if files & modules or any(word in (self.root / test).read_text() for word in words):
                reached.append(test.as_posix())
        return reached


def changed_since(commit, root):
    """Return the paths that differ from a commit; None if git does not know it."""
    known = ["git", "diff", "--name-only", "--no-renames", commit]
    new = ["git", "ls-files", "--others", "--exclude-standard"]
    told = [subprocess.run(command, cwd=root, capture_output=True, text=True) for command in (known, new)]
    if any(git.returncode for git in told):
        return None
    return [path for git in told for path in git.stdout.splitlines()]


def main(root, commit):
    """Return the arguments for pytest."""
    changed = changed_since(commit, root) if commit else None
    reached = None if changed is None else Tree(root).tests_that_reach(changed)
    return ["tests"] if reached is None else reached


if __name__ == "__main__":
    print(*main(Path(__file__).parent.parent, *sys.argv[1:2] or [""]))

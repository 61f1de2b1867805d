"""The layers: who may import whom, and that pyspark stays behind one door."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import sdf

ROOT = Path(sdf.__file__).parent
CORE = sorted(ROOT.glob("*.py"))
SPARK = sorted(ROOT.glob("spark/*.py"))
IO = sorted(ROOT.glob("io/*.py"))

# From the bottom up: each module imports from this package what its line names, and each name stands above it.
ALLOWED = {
    "errors": set(),
    "restrictions": {"errors"},
    "trackers": {"errors"},
    "watermarks": {"errors"},
    "pieces": set(),
    "progress": set(),
    "drawing": set(),
    "page": {"drawing", "errors", "pieces"},
    "report": {"drawing", "errors", "page", "pieces"},
    "streampage": {"drawing", "errors", "progress"},
    "pickling": {"errors"},
    "offsets": {"errors", "restrictions", "trackers"},
    "bytekeys": {"errors", "restrictions", "trackers"},
    "dofn": {"errors", "restrictions", "trackers", "watermarks", "offsets", "bytekeys"},
    "expansion": {"errors", "restrictions", "trackers", "dofn"},
    "views": {"errors", "trackers", "offsets", "bytekeys"},
    "invoker": {"errors", "restrictions", "trackers", "dofn", "views"},
    "items": {"invoker"},
    "ledger": {"errors", "restrictions", "invoker", "items"},
    "costs": {"items"},
    "backlog": {"costs", "items"},
    "planner": {"backlog", "costs", "items"},
    "values": {"errors", "restrictions"},
    "deferrals": {"errors", "items"},
    "work": {
        "backlog",
        "costs",
        "deferrals",
        "dofn",
        "expansion",
        "invoker",
        "items",
        "ledger",
        "pieces",
        "restrictions",
    },
    "stages": {"backlog", "planner", "work"},
    "running": {"dofn", "errors", "expansion", "invoker", "items"},
    "bundle": {"dofn", "items", "running"},
    "pending": {"errors", "pickling", "values"},
    "dealing": {"backlog", "dofn", "expansion", "items", "pending", "planner", "work"},
    "disk": set(),
    "chain": {"disk", "errors"},
    "journaltool": {"chain", "disk", "errors"},
    "journal": {"chain", "disk", "errors", "journaltool"},
    "direct": {"errors", "restrictions", "dofn", "expansion", "invoker", "items", "ledger"},
    "testing": {"errors", "restrictions", "pickling", "dofn", "expansion", "invoker"},
    "beamtrackers": {"errors", "restrictions", "trackers"},
    "beam": {"errors", "trackers", "watermarks", "dofn", "beamtrackers"},
}
DOORS = {"__init__", "__main__"}  # through which people come in
NO_OUTSIDE_WORLD = {"time", "os", "datetime", "socket", "tempfile", "logging", "uuid", "secrets", "pathlib"}


def imports_of(path):
    """Give the dotted name of all that a module imports, wherever in it, but for the type checker alone."""
    tree = ast.parse(path.read_text())
    checks = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    unseen = {each for check in checks for each in ast.walk(check)}
    for node in ast.walk(tree):
        if node in unseen:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            if node.module == "sdf":
                yield from (f"sdf.{alias.name}" for alias in node.names)
            else:
                yield node.module


def own_imports_of(path):
    return {name.split(".")[1] for name in imports_of(path) if name.startswith("sdf.")}


def label(path):
    return str(path.relative_to(ROOT))


def test_every_module_of_the_core_has_a_line():
    """A new module must take its place in the layers."""
    assert sorted(path.stem for path in CORE if path.stem not in DOORS) == sorted(ALLOWED)


def test_layers_have_no_cycle():
    """Each module stands above all that it imports."""
    names = list(ALLOWED)
    upwards = {(name, low) for name in names for low in ALLOWED[name] if names.index(low) >= names.index(name)}
    assert upwards == set()


@pytest.mark.parametrize("path", [path for path in CORE if path.stem in ALLOWED], ids=label)
def test_module_imports_downwards_only(path):
    """No module imports what its line does not name."""
    assert own_imports_of(path) - ALLOWED[path.stem] == set()


@pytest.mark.parametrize("path", [path for path in CORE if path.stem in ALLOWED], ids=label)
def test_line_names_no_more_than_is_imported(path):
    """The table stays the truth."""
    assert ALLOWED[path.stem] - own_imports_of(path) == set()


@pytest.mark.parametrize("path", [*CORE, *IO], ids=label)
def test_only_spark_names_pyspark(path):
    """Nothing outside sdf/spark/ imports pyspark or py4j."""
    assert [name for name in imports_of(path) if name.split(".")[0] in ("pyspark", "py4j")] == []


@pytest.mark.parametrize("path", [path for path in CORE if path.stem in ALLOWED], ids=label)
def test_core_does_not_touch_the_outside_world(path):
    """Clocks, files and the environment are passed in; `disk` is the door to files, and `values` knows dates."""
    doors = {"disk": {"os", "pathlib", "uuid"}, "values": {"datetime", "uuid"}}
    assert sorted(set(imports_of(path)) & NO_OUTSIDE_WORLD - doors.get(path.stem, set())) == []


@pytest.mark.parametrize("path", [path for path in CORE if path.stem in ALLOWED], ids=label)
def test_core_needs_no_pytest(path):
    """check_dofn works under any test runner."""
    assert [name for name in imports_of(path) if name.split(".")[0] == "pytest"] == []


@pytest.mark.parametrize("path", SPARK, ids=label)
def test_spark_does_not_import_direct_or_testing(path):
    """Both runners call the invoker, neither calls the other."""
    assert own_imports_of(path) & {"direct", "testing"} == set()


@pytest.mark.parametrize("path", [path for path in CORE if path.stem not in DOORS], ids=label)
def test_core_does_not_import_spark(path):
    """The core does not know its runners."""
    assert own_imports_of(path) & {"spark", "io"} == set()


@pytest.mark.parametrize("path", IO, ids=label)
def test_connectors_use_the_public_surface_only(path):
    """So that they are examples of how to write one."""
    names = [name for name in imports_of(path) if name.split(".")[0] == "sdf"]
    public = {"sdf", "sdf.errors", *(f"sdf.{name}" for name in sdf.__all__)}
    assert [name for name in names if name not in public and not name.startswith("sdf.io")] == []


def test_import_of_the_connectors_imports_no_library():
    """Each is imported when it is needed, so that one extra is enough."""
    code = "import sys, sdf.io; print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv)))"
    libraries = ["fsspec", "fastavro", "pyarrow", "bitarray", "rapidgzip", "zstandard", "sqlalchemy", "lmdb", "pyspark"]
    run = subprocess.run(
        [sys.executable, "-c", code, *libraries, "confluent_kafka"],
        capture_output=True, text=True, cwd=ROOT.parent, check=True,
    )  # fmt: skip
    assert run.stdout == "[]\n"


def test_import_sdf_does_not_import_pyspark():
    """Core tests start in milliseconds, and workers without Spark can use the trackers."""
    code = (
        "import sys, sdf, sdf.testing; print(sorted(m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j')))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT.parent, check=True)
    assert run.stdout == "[]\n"


def test_all_is_sorted():
    """Constants, then classes, then functions, each in order."""
    assert sdf.__all__ == sorted(sdf.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))


def test_all_has_no_name_twice():
    """Each public name once."""
    assert len(sdf.__all__) == len(set(sdf.__all__))


@pytest.mark.parametrize("name", sdf.__all__)
def test_public_name_can_be_imported(name):
    """``from sdf import name`` works, for what needs Spark too."""
    assert getattr(importlib.import_module("sdf"), name) is not None


@pytest.mark.parametrize("name", [name for name in sdf.__all__ if name != "UNBOUNDED"])
def test_public_name_has_a_docstring(name):
    """Private is _underscore; public is documented."""
    assert getattr(sdf, name).__doc__


@pytest.mark.parametrize("path", [path for path in CORE if path.stem in ALLOWED], ids=label)
def test_module_exports_exist(path):
    """Every name in a module's __all__ is there."""
    module = importlib.import_module(f"sdf.{path.stem}")
    assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_unknown_name_raises():
    """The lazy names do not hide a typo."""
    with pytest.raises(AttributeError, match="module 'sdf' has no attribute 'run_spf'"):
        _ = sdf.run_spf


@pytest.mark.parametrize("path", [*CORE, *SPARK, *IO], ids=label)
def test_module_has_a_docstring(path):
    """Each module says what its one idea is."""
    assert ast.get_docstring(ast.parse(path.read_text()))

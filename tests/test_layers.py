"""The layers: who may import whom, and that pyspark stays behind one door."""

import ast
import functools
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

import sdf

ROOT = Path(sdf.__file__).parent
MODULES = sorted(ROOT.rglob("*.py"))

# From the bottom up: a group of modules imports from itself and from what its line names, all of which stands above it.
# A group is a package of sdf, or a module beside them; of spark and io also each package in them.
LAYERS = {
    "errors": set(),
    "numbers": set(),
    "options": {"errors", "numbers"},
    "extras": {"errors"},
    "storage": {"errors", "extras"},
    "grouping": {"errors", "extras"},
    "sinks": {"errors", "extras", "numbers", "storage"},
    "limits": {"errors", "numbers"},
    "model": {"errors", "limits", "numbers"},
    "serialization": {"errors", "model"},
    "journal": {"errors", "model", "serialization", "storage"},
    "reporting": {"errors"},
    "execution": {"errors", "model"},
    "scheduling": {"errors", "execution", "model", "reporting"},
    "quarantine": {"errors", "execution", "model", "options", "reporting", "scheduling"},
    "saving": {"errors", "execution", "journal", "model", "quarantine", "scheduling", "sinks", "storage"},
    "journal.__main__": {"saving"},
    "lanes": {"errors", "execution", "limits", "model", "reporting", "scheduling", "serialization"},
    "direct": {"errors", "execution", "model", "numbers", "scheduling"},
    "checking": {"errors", "execution", "model", "numbers", "reporting", "serialization"},
    "testing": {"checking", "errors", "model", "reporting"},
    "beam": {"errors", "model"},
    "spark.door": {"errors", "storage"},
    "spark": {"errors", "execution", "model", "quarantine", "reporting", "serialization", "spark.door"},
    "spark.grouping": {"errors", "extras", "grouping", "numbers", "spark"},
    "spark.staged": {
        "errors",
        "execution",
        "limits",
        "model",
        "options",
        "quarantine",
        "reporting",
        "saving",
        "scheduling",
        "spark",
        "spark.door",
    },
    "spark.live": {
        "errors",
        "execution",
        "lanes",
        "limits",
        "model",
        "numbers",
        "options",
        "quarantine",
        "reporting",
        "saving",
        "scheduling",
        "spark",
        "spark.door",
    },
    "spark.stream": {
        "errors",
        "execution",
        "journal",
        "limits",
        "model",
        "options",
        "quarantine",
        "reporting",
        "saving",
        "scheduling",
        "sinks",
        "spark",
        "spark.door",
        "spark.staged",
        "storage",
    },
    "spark.source": {
        "errors",
        "execution",
        "journal",
        "model",
        "numbers",
        "scheduling",
        "sinks",
        "spark",
        "spark.door",
    },
    "spark.connect": {
        "errors",
        "execution",
        "limits",
        "quarantine",
        "reporting",
        "saving",
        "spark",
        "spark.door",
        "spark.staged",
    },
    "spark.runners": {"errors", "quarantine", "spark", "spark.live", "spark.staged"},
    "spark.identity": {"journal", "limits", "model", "saving", "sinks", "spark"},
    "spark.saved_run": {
        "errors",
        "journal",
        "model",
        "numbers",
        "quarantine",
        "reporting",
        "saving",
        "sinks",
        "spark",
        "spark.connect",
        "spark.door",
        "spark.identity",
        "spark.live",
        "spark.runners",
        "spark.staged",
    },
    "spark.save": {
        "errors",
        "journal",
        "model",
        "quarantine",
        "reporting",
        "saving",
        "sinks",
        "spark",
        "spark.door",
        "spark.live",
        "spark.saved_run",
        "spark.staged",
    },
    "spark.retry": {
        "errors",
        "model",
        "quarantine",
        "reporting",
        "saving",
        "sinks",
        "spark",
        "spark.saved_run",
        "spark.staged",
    },
    "spark.frames": {"errors", "quarantine", "sinks", "spark.door", "spark.saved_run"},
    "spark.run": {
        "errors",
        "model",
        "quarantine",
        "reporting",
        "spark",
        "spark.frames",
        "spark.live",
        "spark.runners",
        "spark.save",
        "spark.staged",
    },
    "spark.shipping": {"errors", "spark.door"},
    "spark.__init__": {"spark.shipping"},
    "spark.doctor": {
        "errors",
        "model",
        "spark",
        "spark.connect",
        "spark.door",
        "spark.live",
        "spark.shipping",
        "storage",
    },
    "spark.command": {"errors", "model", "spark.doctor", "spark.door", "spark.live", "spark.run", "spark.staged"},
    "__init__": {
        "direct",
        "errors",
        "limits",
        "model",
        "quarantine",
        "reporting",
        "spark.doctor",
        "spark.grouping",
        "spark.live",
        "spark.retry",
        "spark.run",
        "spark.save",
        "spark.saved_run",
        "spark.staged",
        "spark.stream",
    },
    "__main__": {"saving", "spark.command"},
    "io": {"__init__", "errors", "numbers"},
    "io.files": {"__init__", "errors", "extras", "io", "numbers"},
    "io.compressed": {"errors", "extras", "io.files"},
    "io.text": {"__init__", "errors", "extras", "io", "io.compressed", "io.files"},
    "io.follow": {"__init__", "errors", "io", "io.compressed", "io.files", "io.text"},
    "io.kafka": {"__init__", "errors", "extras", "io", "io.follow", "numbers"},
    "io.tables": {"__init__", "errors", "extras", "io", "numbers"},
    "io.warc": {"errors", "io", "io.compressed", "io.files"},
    "io.avro": {"__init__", "errors", "extras", "io.files", "io.text"},
    "io.groups": {"__init__", "errors", "grouping", "io"},
    "io.parquet": {"errors", "extras", "io.files"},
    "io.lmdb": {"__init__", "errors", "extras", "io"},
    "io.tar": {"errors", "io", "io.files"},
    "io.objects": {"__init__", "errors", "extras", "io", "io.files"},
    "io.pages": {"__init__", "errors", "io", "numbers"},
    "io.__init__": {
        "errors",
        "io.avro",
        "io.compressed",
        "io.files",
        "io.follow",
        "io.groups",
        "io.kafka",
        "io.lmdb",
        "io.objects",
        "io.pages",
        "io.parquet",
        "io.tables",
        "io.tar",
        "io.text",
        "io.warc",
    },
}
IMPURE = {"grouping", "spark", "io", "sinks", "storage", "testing", "beam", "__main__", "__init__"}
DOORS = {
    "checking.budget": {"time"},
    "journal.clock": {"time"},
    "lanes.assignment": {"logging"},
    "lanes.coordinator": {"logging"},
    "lanes.lane": {"logging"},
    "lanes.replayed": {"logging"},
    "lanes.segmented": {"logging"},
    "lanes.wire": {"secrets"},
    "limits.rate_limit": {"time"},
    "limits.refusals": {"time"},
    "model.forks": {"os"},
    "reporting.html": {"os"},
    "reporting.run_report": {"os"},
    "saving.outputs": {"os"},
    "saving.saving": {"logging"},
    "saving.tool": {"uuid"},
    "saving.segments": {"tempfile", "uuid"},
    "serialization.values": {"datetime", "uuid"},
}
OUTSIDE_WORLD = {"time", "os", "datetime", "socket", "selectors", "tempfile", "logging", "uuid", "secrets", "pathlib"}


def name_of(path):
    """Give the name of a module without ``sdf.``."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


NAMES = {name_of(path): path for path in MODULES}


@functools.cache
def imports_of(path):
    """Return the dotted names of all that a module imports, wherever in it, for the type checker too."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name} has a relative import"
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                names.append(full if full.removeprefix("sdf.") in NAMES else node.module)
    return names


def own_imports_of(path):
    """Give the names of the modules of sdf that a module imports."""
    names = [name.split(".", 1)[1] if "." in name else "" for name in imports_of(path) if name.split(".")[0] == "sdf"]
    return {name if name in NAMES else f"{name}.__init__".removeprefix(".") for name in names}


def group_of(name):
    """Give the longest line of the table that names a module or a package around it, None if none does."""
    parts = name.split(".")
    return next((".".join(parts[:n]) for n in range(len(parts), 0, -1) if ".".join(parts[:n]) in LAYERS), None)


def found(look, paths=MODULES):
    """Return what a look at each module finds, by its name, where it finds something."""
    return {name_of(path): what for path in paths if (what := look(path))}


def names_in(path, libraries):
    """Return what a module imports of these libraries."""
    return [name for name in imports_of(path) if name.split(".")[0] in libraries]


def test_every_module_has_a_line():
    """A new package must take its place in the layers."""
    assert [name for name in NAMES if group_of(name) is None] == []


def test_layers_have_no_cycle():
    """Each group stands above all that it imports."""
    names = list(LAYERS)
    upwards = {(name, low) for name in names for low in LAYERS[name] if names.index(low) >= names.index(name)}
    assert upwards == set()


def test_modules_import_downwards_only():
    """No module imports what the line of its group does not name."""

    def upwards(path):
        group = group_of(name_of(path))
        return {group_of(name) for name in own_imports_of(path)} - LAYERS[group] - {group}

    assert found(upwards) == {}


def test_lines_name_no_more_than_is_imported():
    """The table stays the truth."""
    imported = {group: set() for group in LAYERS}
    for path in MODULES:
        group = group_of(name_of(path))
        imported[group] |= {group_of(name) for name in own_imports_of(path)} - {group}
    assert {group: names for group, names in LAYERS.items() if names != imported[group]} == {}


def test_no_modules_import_one_another():
    """Neither two nor more of them in a circle, within a package too."""
    waiting = {name: own_imports_of(path) for name, path in NAMES.items()}
    while ready := {name for name, imports in waiting.items() if not imports & waiting.keys()}:
        waiting = {name: imports for name, imports in waiting.items() if name not in ready}
    assert waiting == {}


def test_only_spark_names_pyspark():
    """Nothing outside sdf/spark/ imports pyspark or py4j."""
    outside = [path for path in MODULES if "spark" not in path.parts]
    assert found(lambda path: names_in(path, ("pyspark", "py4j")), outside) == {}


def test_core_does_not_touch_the_outside_world():
    """Clocks, sockets, files and the environment are passed in, but for the doors to them."""
    core = [path for path in MODULES if name_of(path).split(".")[0] not in IMPURE]
    assert len(core) > 50
    assert found(lambda path: set(imports_of(path)) & OUTSIDE_WORLD - DOORS.get(name_of(path), set()), core) == {}


def test_sdf_needs_no_pytest():
    """check_dofn works under any test runner."""
    assert found(lambda path: names_in(path, ("pytest",))) == {}


def test_import_of_the_sinks_imports_no_library():
    """Nor does it import what the connectors need."""
    code = "import sys, sdf.sinks; print(sorted({m.split('.')[0] for m in sys.modules} & set(sys.argv)))"
    run = subprocess.run(
        [sys.executable, "-c", code, "fsspec", "pyarrow", "zstandard", "numpy", "pyspark"],
        capture_output=True, text=True, cwd=ROOT.parent, check=True,
    )  # fmt: skip
    assert run.stdout == "[]\n"


def test_connectors_use_the_public_surface_only():
    """So that they are examples of how to write one; but ReadGroups reads what group_by_key() has written."""

    def others(path):
        names = own_imports_of(path) - ({"grouping.sorted_pairs"} if path.name == "groups.py" else set())
        return [name for name in names if name.split(".")[0] not in ("__init__", "errors", "extras", "io", "numbers")]

    assert found(others, sorted(ROOT.glob("io/**/*.py"))) == {}


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


def test_public_names_can_be_imported():
    """``from sdf import name`` works, for what needs Spark too."""
    assert [name for name in sdf.__all__ if getattr(importlib.import_module("sdf"), name, None) is None] == []


def test_public_names_have_a_docstring():
    """Private is _underscore; public is documented."""
    assert [name for name in sdf.__all__ if name != "UNBOUNDED" and not getattr(sdf, name).__doc__] == []


def exports_that_are_missing(path):
    module = importlib.import_module(f"sdf.{name_of(path)}".removesuffix(".__init__"))
    return [name for name in getattr(module, "__all__", ()) if not hasattr(module, name)]


SOURCE = [path for path in MODULES if name_of(path).startswith("spark.source")]


def test_exports_of_modules_exist():
    """Every name in a module's __all__ is there."""
    runs = [path for path in MODULES if path.stem == "__main__"]  # when it is imported
    assert found(exports_that_are_missing, [path for path in MODULES if path not in (*SOURCE, *runs)]) == {}


def test_exports_of_the_data_source_exist():
    """It needs pyarrow when it is imported."""
    pytest.importorskip("pyarrow")
    assert SOURCE
    assert found(exports_that_are_missing, SOURCE) == {}


def test_unknown_name_raises():
    """The lazy names do not hide a typo."""
    with pytest.raises(
        AttributeError, match="module 'sdf', of the distribution pyspark-sdf, has no attribute 'run_spf'"
    ):
        _ = sdf.run_spf


def test_modules_have_a_docstring():
    """Each module says what its one idea is."""
    assert found(lambda path: not ast.get_docstring(ast.parse(path.read_text()))) == {}


MAP = Path(__file__).parents[1] / "docs" / "contributing.md"


def test_the_map_names_modules_that_are_there():
    """Each path in the tables of docs/contributing.md is a module of sdf."""
    named = re.findall(r"`([a-z_/]+\.py)`", "".join(line for line in MAP.read_text().splitlines() if line[:1] == "|"))
    assert len(named) > 40
    assert [each for each in named if not (ROOT / each).is_file()] == []


def test_a_question_is_answered_in_two_modules():
    """No answer of the table in docs/contributing.md names a third."""
    answers = re.findall(r"^\| [^|]+\? \| (.+) \|$", MAP.read_text(), re.MULTILINE)
    assert len(answers) >= 10
    assert [each for each in answers if each.count(".py`") > 2] == []

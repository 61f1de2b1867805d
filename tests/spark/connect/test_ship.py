"""ship: a client with sdf, a Spark Connect server without it. All jobs run there, in environments of their own."""

import ast
import configparser
import glob
import importlib.util
import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import attrs
import pyarrow.parquet
import pytest
from support.connect_server import ConnectServer, need_server
from support.environments import environment
from sybil import Sybil
from sybil.parsers.myst import PythonCodeBlockParser

import sdf
from sdf import DoFn, OffsetRange, run_direct, run_sdf, save_sdf
from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, StageError
from sdf.io import ReadLines, ReadTable
from sdf.sinks import ParquetFiles
from sdf.spark import ship
from sdf.spark.shipping import libraries as shipping_libraries
from sdf.spark.shipping import workers
from sdf.spark.shipping.libraries import CORE, libraries, packed

ROOT = Path(sdf.__file__).parents[1]
PAGE = ROOT / "docs" / "connect.md"
INTERPRETER = "spark.sql.execution.pyspark.python"  # of the workers of a session


def counting():
    """Return a DoFn whose class has no name to import it by, like one of a notebook: it is sent with what it is."""

    class CountFn(DoFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, element[1])

        def process(self, element, tracker):
            for i in tracker.claims():
                yield element[0], i

    return CountFn()


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    need_server()
    python = environment(tmp_path_factory.mktemp("bare") / "environment")
    server = ConnectServer("local[2]", python=python, environment={"PYTHONPATH": None})  # runs nothing again
    yield server
    server.stop()


@pytest.fixture(scope="module")
def start(server):
    """Start a session with some settings; all are stopped before the server, which a client would else wait for."""
    started = []

    def session(**settings):
        started.append(server.session(**settings))
        return started[-1]

    yield session
    for one in started:
        one.stop()


@pytest.fixture
def spark(start):
    """A new session; its workers have no sdf and no attrs."""
    return start()


@attrs.frozen
class Calls:
    """A session after two calls of `ship`, what they returned, and the path of the client before and after them."""

    spark: Any
    first: Any
    second: Any
    paths: list


@pytest.fixture(scope="module")
def calls(start):
    spark, before = start(), list(sys.path)
    return Calls(spark, ship(spark), ship(spark), [before, list(sys.path)])


@pytest.fixture
def shipped(calls):
    """A session that has been sent sdf and what that needs; for all tests to which that does not matter."""
    return calls.spark


@pytest.fixture
def with_workers(start, tmp_path):
    """Start a session with workers whose environment has some files more."""
    return lambda files: start(**{INTERPRETER: environment(tmp_path / "environment", files)})


def counted(spark):
    """Run CountFn in two tasks of mapInArrow, over the numbers 0 to 3."""
    fn = counting()

    def run(batches):
        for batch in batches:
            outputs = run_direct([("n", n) for n in batch.column("id").to_pylist()], fn)
            yield pyarrow.RecordBatch.from_pydict({"i": [i for _, i in outputs]})

    return sorted(row.i for row in spark.range(0, 4, 1, 2).mapInArrow(run, "i long").collect())


COUNTED = sorted(i for _, i in run_direct([("n", n) for n in range(4)], counting()))


def imports(spark, name):
    """Import a module on a worker; return where it lies."""

    def run(batches):
        import importlib

        list(batches)
        yield pyarrow.RecordBatch.from_pydict({"origin": [importlib.import_module(name).__file__]})

    return spark.range(0, 1, 1, 1).mapInArrow(run, "origin string").collect()[0].origin


def test_workers_without_sdf_run_a_dofn_after_ship(calls):
    """It sends sdf and what sdf needs, and no more."""
    assert list(calls.first.sent) == list(CORE)
    assert list(calls.first.there) == ["pyarrow"]
    assert counted(calls.spark) == COUNTED


# Dear: a run needs workers that have imported sdf and pandas, and no other session's do.
@pytest.mark.slow("test_workers_without_sdf_run_a_dofn_after_ship, test_every_snippet_of_the_page_runs")
def test_runs_over_dataframes_work_after_ship(spark, tmp_path):
    """Before, the error names ship, and nothing is lost: the same call goes on."""
    elements = [("a", 3), ("b", 4)]
    frame = spark.createDataFrame(elements, "name string, count long")
    fn = counting()
    with pytest.raises(StageError, match=r"cannot import sdf\. .* sdf\.spark\.ship\(spark\) sends it"):
        save_sdf(frame, fn, ParquetFiles(tmp_path / "saved"))
    ship(spark)
    expected = run_direct(elements, fn)
    assert save_sdf(frame, fn, ParquetFiles(tmp_path / "saved")).records == len(expected)
    saved = pyarrow.parquet.read_table(tmp_path / "saved")
    assert sorted(zip(*saved.to_pydict().values(), strict=True)) == expected
    result = run_sdf(frame, fn, schema="name string, i long", staging=tmp_path)
    assert sorted(map(tuple, result.collect())) == expected


@pytest.mark.slow("test_readers_of_files_read_through_the_fsspec_that_was_sent")
def test_spark_plans_and_reads_a_data_source_with_what_was_sent(spark):
    """The process in which the server plans a read sees it too."""
    from sdf.spark.source import data_source

    source = data_source(counting(), "name string, i long", name="count", elements=[("a", 3), ("b", 4)])
    spark.dataSource.register(source)
    with pytest.raises(Exception, match="No module named 'sdf'"):
        spark.read.format("count").load().collect()
    ship(spark)
    spark.dataSource.register(source)  # again: a source sees what was sent before it was registered
    rows = spark.read.format("count").load().collect()
    assert sorted(map(tuple, rows)) == run_direct([("a", 3), ("b", 4)], counting())


def test_the_second_call_sends_nothing(calls):
    """It finds there what the first has sent."""
    first, second = calls.first, calls.second
    assert (second.sent, second.archive, second.size_bytes) == ({}, "", 0)
    assert list(second.there) == [*first.sent, *first.there]
    assert str(second).startswith("sent nothing; there already: sdf, attrs ")


def test_another_session_has_to_be_sent_it_again(calls, spark):
    """What is sent holds for one session."""
    assert list(calls.first.sent) == list(CORE)
    with pytest.raises(Exception, match="No module named 'sdf'"):
        counted(spark)
    assert list(ship(spark).sent) == list(CORE)


def test_the_path_of_the_client_stays_as_it_is(calls):
    """Spark puts the archive on it, which is gone when ship returns."""
    before, after = calls.paths
    assert after == before


# Dear: Spark plans a read in one more process, which imports all that was sent.
def test_readers_of_files_read_through_the_fsspec_that_was_sent(spark, tmp_path):
    """It is pure Python."""
    from sdf.spark.source import data_source

    (tmp_path / "a.txt").write_text("one\ntwo\n")
    shipped = ship(spark, "fsspec")
    assert list(shipped.sent) == [*CORE, "fsspec"]
    spark.dataSource.register(data_source(ReadLines(), "line string", name="lines"))
    lines = spark.read.format("lines").load(f"file://{tmp_path}/a.txt").collect()
    assert sorted(row.line for row in lines) == ["one", "two"]
    assert shipped.archive in imports(spark, "fsspec")


@pytest.mark.slow("test_compiled_parts_that_only_make_sqlalchemy_faster_are_left_out")
def test_sqlalchemy_is_sent_without_its_compiled_parts(spark, tmp_path):
    """They only make it faster; what else it imports comes along."""
    from sdf.spark.source import data_source

    sqlalchemy = pytest.importorskip("sqlalchemy")
    url = f"sqlite:///{tmp_path}/a.db"
    with sqlalchemy.create_engine(url).begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE t (id INTEGER PRIMARY KEY)"))
        connection.execute(sqlalchemy.text("INSERT INTO t VALUES (1), (2), (3)"))
    assert "sqlalchemy" in ship(spark, "sqlalchemy").sent
    spark.dataSource.register(data_source(ReadTable(url, key="id"), "id long", name="t", elements=["t"]))
    assert sorted(row.id for row in spark.read.format("t").load().collect()) == [1, 2, 3]


def test_a_module_of_ones_own_is_sent(shipped, tmp_path, monkeypatch):
    """A package or a file; a DoFn in it need not be sent by value."""
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "__init__.py").write_text("answer = 42\n")
    (tmp_path / "single.py").write_text("from mine import answer\n")
    monkeypatch.syspath_prepend(tmp_path)
    mine = ship(shipped, "mine", "single")
    assert list(mine.sent) == ["mine", "single"]
    assert mine.archive in imports(shipped, "single")
    assert ship(shipped, "mine", "single").sent == {}


def test_a_module_that_has_changed_since_is_refused(shipped, tmp_path, monkeypatch):
    """Workers keep what they have imported, so some would run the old one."""
    (tmp_path / "changing.py").write_text("version = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    ship(shipped, "changing")
    (tmp_path / "changing.py").write_text("version = 2\n")
    with pytest.raises(StageError, match="has sent changing to this session before, with other content"):
        ship(shipped, "changing")


def test_what_cannot_be_sent_is_named_and_nothing_is_sent(spark):
    """All of it at once, why, and how to install it."""
    pytest.importorskip("fastavro")
    pytest.importorskip("s3fs")
    with pytest.raises(MissingExtraError) as caught:
        ship(spark, "fsspec", "fastavro", "s3fs", "nowhere")
    assert "fastavro>=1.9 cannot be sent there: it has compiled parts (fastavro/" in str(caught.value)
    assert "s3fs>=2024.12 cannot be sent there: it needs libraries with compiled parts" in str(caught.value)
    assert "nowhere cannot be sent there: it is not installed here either" in str(caught.value)
    assert "On Databricks: %pip install 'fastavro>=1.9' 's3fs>=2024.12' 'nowhere' in the notebook" in str(caught.value)
    with pytest.raises(Exception, match="No module named 'sdf'"):
        imports(spark, "sdf")


def test_a_package_without_init_is_refused(shipped, tmp_path, monkeypatch):
    """An archive would hold nothing of it."""
    (tmp_path / "bare").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match="bare cannot be sent there: it has no source files here, or no __init"):
        ship(shipped, "bare")


def test_what_the_workers_have_is_not_sent(with_workers):
    """A library of any version that will do, compiled or not, installed here or not."""
    info = "fsspec-2030.1.dist-info/METADATA"
    files = {"fsspec.py": "", info: "Name: fsspec\nVersion: 2030.1\n", "fastavro.py": "", "elsewhere.py": ""}
    shipped = ship(with_workers(files), "fsspec", "fastavro", "elsewhere")
    assert list(shipped.sent) == list(CORE)
    assert list(shipped.there) == ["pyarrow", "fsspec", "fastavro", "elsewhere"]
    assert shipped.there["fsspec"] == "2030.1"


def test_what_is_too_old_on_the_workers_is_sent(with_workers):
    """What was sent comes before what is installed there."""
    spark = with_workers(
        {"fsspec/__init__.py": "", "fsspec-2020.1.dist-info/METADATA": "Name: fsspec\nVersion: 2020.1\n"}
    )
    shipped = ship(spark, "fsspec")
    assert "fsspec" in shipped.sent
    assert shipped.archive in imports(spark, "fsspec")


def test_what_is_too_old_and_cannot_be_sent_is_named_with_its_version(with_workers):
    """Else it would look as if it were not there."""
    pytest.importorskip("lmdb")
    spark = with_workers({"lmdb.py": "", "lmdb-0.9.dist-info/METADATA": "Name: lmdb\nVersion: 0.9\n"})
    with pytest.raises(MissingExtraError, match=r"lmdb>=1\.4 \(they have 0\.9\) cannot be sent there"):
        ship(spark, "lmdb")


def test_another_sdf_on_the_workers_gives_way_to_that_of_the_client(with_workers):
    """Also if it calls itself by the same version: what counts is the source. The same holds for cloudpickle."""
    theirs = version("cloudpickle")
    spark = with_workers(
        {
            "sdf/__init__.py": "",
            "pyspark_sdf-0.1.0.dist-info/METADATA": "Name: pyspark-sdf\nVersion: 0.1.0\n",
            "cloudpickle.py": "",
            f"cloudpickle-{theirs}.dist-info/METADATA": f"Name: cloudpickle\nVersion: {theirs}\n",
        }
    )
    assert list(ship(spark).sent) == list(CORE)
    assert counted(spark) == COUNTED


def test_another_sdf_that_a_worker_has_imported_is_seen(with_workers):
    """It would stay."""
    spark = with_workers({"sdf/__init__.py": ""})
    imports(spark, "sdf")
    with pytest.raises(StageError, match=r"has sent sdf in sdf-\w+\.zip, but the Python workers import '.*' instead"):
        ship(spark)


BLIND = """
import sys

class Blind:
    def __init__(self, path):
        if "/sdf-" not in path:
            raise ImportError

    def find_spec(self, name, target=None):
        return None

sys.path_hooks.insert(0, Blind)
"""


def test_workers_that_do_not_see_what_is_sent_are_noticed(with_workers):
    """As on platforms that hand no Python files to them; here their Python finds nothing in these archives."""
    with pytest.raises(StageError, match=r"but the Python workers do not see it.*%pip install"):
        ship(with_workers({"sitecustomize.py": BLIND}))


def test_what_a_library_lacks_on_the_workers_is_named(shipped, tmp_path, monkeypatch):
    """When it was sent it is imported there."""
    (tmp_path / "needy.py").write_text("import another\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(MissingExtraError, match=r"cannot import it: ModuleNotFoundError: No module named 'another'"):
        ship(shipped, "needy")


def test_an_error_of_the_job_is_told(with_workers, tmp_path, monkeypatch):
    """The last line of its traceback; the whole is the cause."""
    (tmp_path / "broken.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    spark = with_workers(
        {"sitecustomize.py": "import sys, types\nsys.modules['broken'] = types.ModuleType('broken')\n"}
    )
    with pytest.raises(StageError, match=r"not run a job on the Python workers: ValueError: broken.__spec__ is None$"):
        ship(spark, "broken")


def another_python():
    """Return a Python of another minor version, None if there is none on this machine."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    ours = f"3.{sys.version_info.minor}."
    kept = [path for path in glob.glob(f"{pyenv}/versions/3.1?.*/bin/python") if f"/{ours}" not in path]
    return kept[0] if kept else None


def test_another_minor_version_of_python_is_refused(start):
    """Before anything is sent: it could not read a function of this client."""
    python = another_python()
    if python is None:
        pytest.skip("there is no other Python here")
    ours = ".".join(map(str, sys.version_info[:2]))
    with pytest.raises(StageError, match=rf"the Python workers run Python 3\.\d+, but this client runs Python {ours}"):
        ship(start(**{INTERPRETER: python}))


def test_a_session_without_a_server_is_told(server):
    """The cause is Spark's error."""
    spark = server.session()
    spark.stop()
    with pytest.raises(StageError, match=r"ship\(\) could not run a job on the Python workers: ") as caught:
        ship(spark)
    assert caught.value.__cause__ is not None


@pytest.mark.parametrize("session", [None, "sc://localhost", object()])
def test_what_is_no_session_is_refused(session):
    """Nor is a SparkContext one."""
    with pytest.raises(InvalidTypeError, match=r"ship\(\) needs a SparkSession \(got "):
        ship(session)


@pytest.mark.parametrize("name", ["fsspec>=2023", "sdf.io", "confluent-kafka", "", "json"])
def test_a_name_that_no_library_is_imported_by_is_refused(shipped, name):
    """Requirements, modules in a package, and what is part of Python."""
    with pytest.raises(InvalidValueError, match=r"ship\(\) takes names as they are imported"):
        ship(shipped, name)


def test_a_name_is_a_string(shipped):
    """Not the module itself."""
    with pytest.raises(InvalidTypeError, match=r"ship\(\) takes names of modules, such as 'fsspec' \(got <module"):
        ship(shipped, json)


def test_the_name_of_an_archive_names_its_bytes(tmp_path, monkeypatch):
    """Equal files make an equal archive, whenever and in whatever order they were written; others another one."""
    (tmp_path / "packed_here").mkdir()
    monkeypatch.syspath_prepend(tmp_path)

    def pack(*names, text=""):
        for name in names:
            (tmp_path / "packed_here" / name).unlink(missing_ok=True)
            (tmp_path / "packed_here" / name).write_text(text)
            os.utime(tmp_path / "packed_here" / name, (0, len(names[0])))
        return packed(libraries(["packed_here"]).values())

    first = pack("__init__.py", "b.py", "a.py")
    assert pack("a.py", "b.py", "__init__.py") == first
    both = libraries(["packed_here", "attrs"])
    assert packed(both.values()) == packed(reversed(both.values()))
    other = pack("a.py", text="x = 1\n")
    assert other[0] != first[0]
    assert other[1] != first[1]


def test_the_source_of_sdf_has_one_fingerprint_in_a_folder_and_in_an_archive(tmp_path):
    """So that what was sent is recognized."""
    name, content = packed(libraries(["sdf"]).values())
    (tmp_path / name).write_bytes(content)
    code = f"import sys; sys.path.insert(0, {str(tmp_path / name)!r}); from sdf.spark.shipping import workers; "
    code += "import importlib.util; print(workers.fingerprint(importlib.util.find_spec('sdf')))"
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=True, env={**os.environ}
    )
    assert run.stdout.strip() == workers.fingerprint(importlib.util.find_spec("sdf"))


def test_two_modules_are_the_same_if_their_source_is(tmp_path, monkeypatch):
    """Other files are sent too, but what Python has compiled neither is sent nor counts."""
    (tmp_path / "sourced" / "__pycache__").mkdir(parents=True)
    (tmp_path / "sourced" / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    before = libraries(["sourced"])["sourced"].fingerprint
    (tmp_path / "sourced" / "__pycache__" / "old.py").write_text("")
    (tmp_path / "sourced" / "table.json").write_text("{}")
    after = libraries(["sourced"])["sourced"]
    assert after.fingerprint == before
    assert set(after.files) == {"sourced/__init__.py", "sourced/table.json"}


def test_a_library_that_is_installed_between_two_calls_is_sent_as_it_is_then(tmp_path, monkeypatch):
    """What is installed is looked up again only when a folder of the path has changed."""
    (tmp_path / "grown.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    assert libraries(["grown"])["grown"].version == ""
    (tmp_path / "grown-1.5.dist-info").mkdir()
    (tmp_path / "grown-1.5.dist-info" / "METADATA").write_text("Name: grown\nVersion: 1.5\n")
    (tmp_path / "grown-1.5.dist-info" / "RECORD").write_text("grown.py,,\n")
    assert libraries(["grown"])["grown"].version == "1.5"


def files_where(name, installed, tmp_path, files=None):
    """Return the files of a library that would be sent from an environment with some packages of ours, and files."""
    python = environment(tmp_path / "environment", files)
    packages = next((tmp_path / "environment").glob("lib/python*/site-packages"))
    for one in installed:
        (packages / one).symlink_to(Path(importlib.util.find_spec(one).origin).parent)
    code = (
        "import sys; from sdf.spark.shipping.libraries import libraries; one = libraries(sys.argv[1:])[sys.argv[1]]; "
    )
    code += "print(one.version, *one.files, sep='\\n')"
    run = subprocess.run([python, "-c", code, name], capture_output=True, text=True, check=True, env={}, cwd=tmp_path)
    version, *files = run.stdout.splitlines()
    return version, set(files)


def test_attrs_is_whole_where_nothing_lists_its_files(tmp_path):
    """As installed by some systems: it is imported by two names."""
    _, files = files_where("attrs", ["sdf", "attr", "attrs"], tmp_path)
    assert {"attr/__init__.py", "attrs/__init__.py"} <= files


def test_what_pip_has_installed_is_sent_with_what_says_its_version(tmp_path):
    """Not with what says how it came there, nor with its commands."""
    info = "pyspark_sdf-7.8.dist-info"
    record = ["sdf/__init__.py", "sdf/errors.py", "sdf/__pycache__/errors.pyc", f"{info}/RECORD", "../../../bin/sdf"]
    record += [f"{info}/METADATA", f"{info}/entry_points.txt"]
    written = {
        f"{info}/METADATA": "Name: pyspark-sdf\nVersion: 7.8\n",
        f"{info}/entry_points.txt": "",
        f"{info}/RECORD": "".join(f"{path},,\n" for path in record),
    }
    version, files = files_where("sdf", ["sdf", "attr", "attrs"], tmp_path, written)
    assert version == "7.8"
    assert files == {"sdf/__init__.py", "sdf/errors.py", f"{info}/METADATA", f"{info}/entry_points.txt"}


def test_what_runs_on_workers_needs_python_alone():
    """They may have no sdf."""
    nodes = ast.walk(ast.parse(Path(workers.__file__).read_text()))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    nodes = ast.walk(ast.parse(Path(workers.__file__).read_text()))
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) == set()


def test_what_sdf_needs_is_what_it_is_installed_with():
    """But for Spark."""
    options = configparser.ConfigParser()
    options.read(ROOT / "setup.cfg")
    needed = {line.split(">=")[0]: line for line in options["options"]["install_requires"].split()}
    assert {"sdf", *needed} - {"pyspark"} == set(CORE)
    assert [shipping_libraries.requirement_of(name) for name in CORE[1:]] == [needed[name] for name in CORE[1:]]


PROGRAM = """
import json, os, sys
sys.path.insert(0, sys.argv[1])
from pyspark.sql import SparkSession
from sdf import DoFn, OffsetRange, StagedRunner, run_sdf
from sdf.errors import StageError
from sdf.spark import ship

class CountFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])
    def process(self, element, tracker):
        for i in tracker.claims():
            yield element[0], i

settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
spark = SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()
sc = spark.sparkContext
path = list(sys.path)
said = {}
try:
    run_sdf(sc.parallelize([("a", 3)], 1), CountFn())
except StageError as error:
    said["before"] = str(error)
said["sent"] = list(ship(spark).sent)
said["records"] = sorted(run_sdf(sc.parallelize([("a", 3)], 1), CountFn()).collect())
said["again"] = list(ship(spark).sent)
said["path"] = sys.path == path
print(json.dumps(said))
"""


# Dear: a Spark of its own, as one whose workers find sdf would find it for all of its contexts.
def test_classic_spark_takes_it_too(tmp_path):
    """For the whole application; the message of a run without it names ship."""
    python = environment(tmp_path / "environment")
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(ROOT)],
        capture_output=True, text=True, cwd=tmp_path, check=False, timeout=300,
        env={**own, "PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout.splitlines()[-1])
    assert "the Python workers cannot import sdf. " in said.pop("before")
    assert said == {
        "sent": list(CORE),
        "records": [list(record) for record in run_direct([("a", 3)], counting())],
        "again": [],
        "path": True,
    }


# Dear: nothing else runs the page, in a session of its own.
def test_every_snippet_of_the_page_runs(spark, tmp_path, monkeypatch):
    """In an empty folder, on a server without sdf; `spark` is the session of a notebook."""
    monkeypatch.chdir(tmp_path)
    for snippet in Sybil([PythonCodeBlockParser()]).parse(PAGE).examples():
        snippet.namespace.update(__name__="__main__", spark=spark)
        snippet.evaluate()


def test_compiled_parts_that_only_make_sqlalchemy_faster_are_left_out():
    """What else it imports comes along."""
    pytest.importorskip("sqlalchemy")
    found = libraries(["sqlalchemy"])
    assert list(found) == ["sqlalchemy", "typing_extensions"]
    assert {library.hindrance for library in found.values()} == {""}
    files = [path for library in found.values() for path in library.files]
    assert {"sqlalchemy/__init__.py", "sqlalchemy/engine/base.py", "typing_extensions.py"} <= set(files)
    assert [path for path in files if path.endswith((".so", ".pyd", ".dylib"))] == []


def test_every_module_of_sdf_is_sent():
    """Of a checkout too, whose list of files is as old as its last build."""
    package = Path(sdf.__file__).parent
    modules = {str(path.relative_to(package.parent)) for path in package.rglob("*.py")}
    assert modules <= set(libraries(["sdf"])["sdf"].files)

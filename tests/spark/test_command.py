"""The command line: as people run it, and in this process, whose JVM has been started already."""

import json
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from py4j import java_gateway, protocol
from pyspark import SparkContext

from sdf.__main__ import main


@pytest.fixture
def run_here(tmp_path, monkeypatch, capsys):
    """Run a command in this process, in an empty directory, without the context of another test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds the directory
    monkeypatch.setattr(java_gateway, "get_return_value", protocol.get_return_value)  # a SparkSession replaced it
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()

    def run(*arguments):
        try:
            code = main(list(map(str, arguments)))
        except SystemExit as end:
            code = end.code
        printed = capsys.readouterr()
        return SimpleNamespace(returncode=code, stdout=printed.out, stderr=printed.err)

    yield run
    sys.modules.pop("mine", None)


def sdf(*arguments, cwd):
    command = [sys.executable, "-m", "sdf", *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=900, env=os.environ)


def test_run_counts_lines_and_saves_the_report(tmp_path, run_here):
    """A connector by its name, options as JSON, a page as the report."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    (tmp_path / "b.txt").write_text("three\n")
    done = run_here(
        "run", "sdf.io:ReadLines", "--input", tmp_path / "a.txt", tmp_path / "b.txt", "--option", "block_size=4",
        "--master", "local[2]", "--report", "run.html",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "ReadLines: 3 records of 2 elements" in done.stdout
    assert (tmp_path / "run.html").read_text().startswith("<!doctype html>")


# Dear: a program of its own, with a JVM, whose output, exit code and records are those of `sdf run`.
def test_run_finds_a_dofn_of_the_working_directory_and_writes_its_records(tmp_path):
    """With the live runner, and the report as JSON."""
    (tmp_path / "mine.py").write_text(
        "from sdf import DoFn, OffsetRange\n"
        "class SpellFn(DoFn):\n"
        "    def get_initial_restriction(self, element):\n"
        "        return OffsetRange(0, len(element))\n"
        "    def process(self, element, tracker):\n"
        "        for i in range(*tracker.current_restriction()):\n"
        "            if not tracker.try_claim(i):\n"
        "                return\n"
        "            yield element[i]\n"
    )
    done = sdf(
        "run", "mine:SpellFn", "--input", "abc", "de", "--runner", "live", "--master", "local[2]",
        "--output", tmp_path / "out", "--report", "run.json", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    written = "".join(file.read_text() for file in (tmp_path / "out").glob("part-*"))
    assert sorted(written.split()) == ["a", "b", "c", "d", "e"]
    assert json.loads((tmp_path / "run.json").read_text())["records"] == 5


@pytest.mark.parametrize("runner", ["staged", "live"])
def test_error_of_a_run_is_one_message(tmp_path, run_here, runner):
    """No traceback of this program; the exit code says that it failed."""
    (tmp_path / "bad.json").write_text('{"a": \n')
    done = run_here(
        "run", "sdf.io:ReadJsonLines", "--input", tmp_path / "bad.json", "--master", "local[1]", "--runner", runner
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ReadError: ")
    assert "bad.json" in done.stderr.splitlines()[-1]


def test_output_that_is_there_already_is_one_message(tmp_path, run_here):
    """As Spark says it."""
    (tmp_path / "a.txt").write_text("x\n")
    (tmp_path / "out").mkdir()
    done = run_here(
        "run", "sdf.io:ReadLines", "--input", tmp_path / "a.txt", "--master", "local[1]", "--output", tmp_path / "out"
    )
    assert done.returncode == 1
    assert "already exists" in done.stderr.splitlines()[-1]


def test_report_that_cannot_be_saved_is_found_out_before_the_run(tmp_path):
    """Its directory has to be there."""
    done = sdf("run", "sdf.io:ReadLines", "--input", "x", "--report", "absent/run.html", cwd=tmp_path)
    assert done.returncode == 2
    assert "there is no directory" in done.stderr


@pytest.mark.parametrize("fn", ["sdf.io", "sdf.io:Absent", "absent:Fn", "os:getcwd", "os:sep"])
def test_what_is_no_dofn_is_said_before_spark_starts(run_here, fn):
    """The program ends as for any wrong argument."""
    done = run_here("run", fn, "--input", "x")
    assert SparkContext._active_spark_context is None
    assert done.returncode == 2
    assert f"{fn!r} is no DoFn" in done.stderr


@pytest.mark.parametrize(
    ("fn", "given", "said"),
    [
        ("sdf.io:ReadCsv", ["sep=';'"], "ReadCsv has no option 'sep' (got sep=\"';'\"). Did you mean separator=? Its"),
        ("sdf.io:ReadLines", ["block_size=0"], "ReadLines block_size must be >= 1 (got 0)."),
        ("sdf.io:ReadRecords", [], "ReadRecords needs length=: see help(ReadRecords)."),
        ("sdf.io:ReadLines", ["block_size"], "--option 'block_size' is not NAME=VALUE"),
        ("mine:Fn", ["a=1"], "'mine:Fn' cannot be made: TypeError: "),
    ],
)
def test_a_wrong_option_is_said_alone(tmp_path, run_here, fn, given, said):
    """Before Spark starts; what was named is a DoFn."""
    (tmp_path / "mine.py").write_text("from sdf import DoFn\nclass Fn(DoFn):\n    def __init__(self):\n        pass\n")
    done = run_here("run", fn, "--input", "x", *(["--option", *given] if given else []))
    assert SparkContext._active_spark_context is None
    assert done.returncode == 2
    message = done.stderr.splitlines()[-1]
    assert message.startswith(f"sdf: error: {said}")
    assert "no DoFn" not in message


def test_journal_is_passed_on(tmp_path):
    """As python -m sdf.journal."""
    done = sdf("journal", "verify", tmp_path, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "there is no journal here\n")


def test_help_names_all_commands(tmp_path):
    """And needs no Spark."""
    done = sdf("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert "run|doctor|journal" in done.stdout


def test_doctor_prints_a_table_and_ends_well(tmp_path, run_here):
    """With settings of Spark, and a place to try, which stays as it was."""
    done = run_here("doctor", tmp_path / "target", "--master", "local[2]", "--conf", "spark.python.worker.reuse=false")
    assert done.returncode == 0, done.stdout
    assert done.stdout.startswith("sdf doctor: 1 ! costs something\n")
    assert "Set spark.python.worker.reuse=true" in done.stdout
    assert not (tmp_path / "target").exists()


def test_doctor_fails_if_something_stops_a_run(tmp_path, run_here):
    """Exit code 1, for scripts."""
    (tmp_path / "file").write_text("")
    done = run_here("doctor", tmp_path / "file" / "target", "--master", "local[2]")
    assert (done.returncode, done.stdout.splitlines()[0]) == (1, "sdf doctor: 1 !! stops runs")

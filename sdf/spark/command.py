"""``sdf run``: runs a DoFn, given by its name, as a Spark application. ``sdf doctor``: prints a checkup."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from sdf.errors import InvalidValueError, SdfError
from sdf.model.dofn import DoFn
from sdf.spark.doctor.checkup import doctor
from sdf.spark.door.errors import JavaError
from sdf.spark.live.runner import LiveRunner
from sdf.spark.run import run_sdf
from sdf.spark.staged.runner import StagedRunner

__all__ = ["examine", "run"]


def run(options: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    """Run the DoFn, and print the report; wrong arguments end the program as `argparse` does."""
    fn, file = _made(options, given)
    if given.report is not None and not Path(given.report).absolute().parent.is_dir():
        options.error(f"--report {given.report!r}: there is no directory to put it in")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    with SparkContext(conf=_conf(f"sdf run {given.fn}", given)) as sc:
        if file is not None:
            sc.addPyFile(str(file))
        try:
            runner = LiveRunner() if given.runner == "live" else StagedRunner()
            result = run_sdf(sc.parallelize(given.input), fn, runner=runner)
            if given.output is not None:
                result.saveAsTextFile(given.output)
            else:
                result.count()
        except (SdfError, JavaError) as error:
            print(_said(error), file=sys.stderr)
            return 1
        report = result.report
    print(report)
    if given.report is not None and given.report.endswith(".json"):
        Path(given.report).write_text(report.to_json(), encoding="utf-8")
    elif given.report is not None:
        report.save(given.report)
    return 0


def examine(given: argparse.Namespace) -> int:
    """Print what `doctor` finds; return 1 if something stops runs. Workers run what they run in a user's program."""
    if given.remote is not None:
        spark: Any = SparkSession.builder.remote(given.remote).getOrCreate()
    else:
        conf = _conf("sdf doctor", given)
        for name, _, value in (one.partition("=") for one in given.conf):
            conf.set(name, value)
        spark = SparkContext(conf=conf)
        spark.setLogLevel("OFF")  # the table says what failed
    try:
        checkup = doctor(spark, given.path)
    finally:
        spark.stop()
    print(checkup)
    return 1 if checkup.problems else 0


def _conf(name: str, given: argparse.Namespace) -> SparkConf:
    conf = SparkConf().setAppName(name).setIfMissing("spark.master", "local[*]")
    conf.set("spark.ui.showConsoleProgress", "false")
    return conf if given.master is None else conf.setMaster(given.master)


def _said(error: SdfError | JavaError) -> str:
    """Return an error as one line; an error from an action is wrapped in one of Spark's."""
    if isinstance(error, SdfError):
        return f"{type(error).__name__}: {error}"
    found = re.search(r"^sdf\.errors\.(\w+: .*)$", str(error), re.MULTILINE)
    return found.group(1) if found is not None else str(error.java_exception).splitlines()[0]


def _made(options: argparse.ArgumentParser, given: argparse.Namespace) -> tuple[DoFn, Path | None]:
    """Return the named DoFn, and the file of its module if that is in this directory: executors elsewhere need it."""
    module, _, name = given.fn.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        made: Any = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        options.error(
            f"{given.fn!r} is no DoFn: {type(error).__name__}: {error}. Write MODULE:FN, as in sdf.io:ReadLines"
        )
    if callable(made) and not isinstance(made, DoFn):
        try:
            made = made(**dict(map(_option, given.option)))
        except SdfError as error:  # its text names the DoFn and the option
            options.error(str(error))
        except (ImportError, AttributeError, TypeError, ValueError) as error:
            options.error(f"{given.fn!r} cannot be made: {type(error).__name__}: {error}")
    if not isinstance(made, DoFn):
        options.error(f"{given.fn!r} is no DoFn but {made!r}")
    file = Path(f"{module}.py").absolute()
    return made, file if file.is_file() else None


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidValueError(f"--option {text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value

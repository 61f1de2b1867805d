"""``sdf run``: a DoFn, found by its name, as a Spark job of its own."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext

from sdf.dofn import DoFn
from sdf.errors import SdfError
from sdf.spark.live import LiveRunner
from sdf.spark.run import run_sdf
from sdf.spark.staged import StagedRunner

__all__ = ["run"]


def run(options: argparse.ArgumentParser, given: argparse.Namespace) -> int:
    """Run what was asked for, and print the report; wrong arguments end the program as `argparse` does."""
    fn = _made(options, given)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    conf = SparkConf().setAppName(f"sdf run {given.fn}").setIfMissing("spark.master", "local[*]")
    conf.set("spark.ui.showConsoleProgress", "false")
    if given.master is not None:
        conf.setMaster(given.master)
    with SparkContext(conf=conf) as sc:
        try:
            runner = LiveRunner() if given.runner == "live" else StagedRunner()
            result = run_sdf(sc.parallelize(given.input), fn, runner=runner)
            if given.output is not None:
                result.saveAsTextFile(given.output)
            else:
                result.count()
        except SdfError as error:
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            return 1
        report = result.report
    print(report)
    if given.report is not None and given.report.endswith(".json"):
        Path(given.report).write_text(report.to_json(), encoding="utf-8")
    elif given.report is not None:
        report.save(given.report)
    return 0


def _made(options: argparse.ArgumentParser, given: argparse.Namespace) -> DoFn:
    """Return the DoFn that was named."""
    module, _, name = given.fn.partition(":")
    sys.path.insert(0, os.getcwd())
    try:
        made: Any = getattr(importlib.import_module(module), name)
        values = dict(_option(each) for each in given.option)
        made = made if isinstance(made, DoFn) else made(**values)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        options.error(
            f"{given.fn!r} is no DoFn: {type(error).__name__}: {error}. Write MODULE:FN, as in sdf.io:ReadLines"
        )
    if not isinstance(made, DoFn):
        options.error(f"{given.fn!r} is no DoFn but {made!r}")
    return made


def _option(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value

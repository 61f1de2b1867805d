"""The command line: ``sdf run`` runs a DoFn, ``sdf doctor`` looks at a Spark, ``sdf journal`` at a checkpoint."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sdf.saving import command

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0 if it went well."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["journal"]:
        return command.main(given[1:], "sdf journal")
    options = argparse.ArgumentParser(
        prog="sdf", description=__doc__, epilog="sdf journal show|verify|clean CHECKPOINT: see sdf journal --help"
    )
    commands = options.add_subparsers(dest="command", required=True, metavar="run|doctor|journal")
    commands.add_parser("journal", help="show, verify or clean the checkpoint of a stream or a saved run")
    run = commands.add_parser(
        "run",
        help="run a DoFn on Spark",
        description="Run a DoFn on Spark, for one element per --input, and count its records or write them as text.",
    )
    run.add_argument("fn", metavar="MODULE:FN", help="a DoFn, or a callable that returns one: sdf.io:ReadLines")
    run.add_argument("--input", nargs="+", required=True, metavar="ELEMENT", help="the elements, as text")
    run.add_argument("--option", nargs="+", default=[], metavar="NAME=VALUE", help="arguments for FN; values as JSON")
    run.add_argument("--runner", choices=["staged", "live"], default="staged")
    run.add_argument("--master", metavar="URL", help="as of spark-submit; the default is local[*]")
    run.add_argument("--output", metavar="DIR", help="where to write the records, as Spark's saveAsTextFile")
    run.add_argument("--report", metavar="FILE", help="where to save the report: a page, or JSON if it ends in .json")
    doctor = commands.add_parser(
        "doctor",
        help="say what holds on a driver and its workers",
        description="Say what holds on this driver and its workers, what is amiss, and what works there.",
    )
    doctor.add_argument("path", nargs="?", metavar="PATH", help="a target or a checkpoint to try")
    where = doctor.add_mutually_exclusive_group()
    where.add_argument("--master", metavar="URL", help="as of spark-submit; the default is local[*]")
    where.add_argument("--remote", metavar="URL", help="of a Spark Connect server: sc://host")
    doctor.add_argument("--conf", action="append", default=[], metavar="NAME=VALUE", help="a setting of Spark")
    chosen = options.parse_args(given)
    from sdf.spark import command as on_spark  # the other command needs no Spark

    return on_spark.examine(chosen) if chosen.command == "doctor" else on_spark.run(options, chosen)


if __name__ == "__main__":
    sys.exit(main())

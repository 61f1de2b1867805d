"""What all benchmarks share: options, runs in turn, tables, claims, memory, and a JSON file of the results.

Ratios are of medians taken within one run: the ways to do a thing run A B A B, after each ran once to warm up; ways
that take minutes run only ``--rounds`` times, and say so. The name of a JSON file is that of the script, with the
options that differ from the usual ones. `results.py` makes the pages from these files.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import attrs

HERE = Path(__file__).parent
RESULTS = HERE / "results"
BY_HAND = HERE.parent / "build" / "bench"  # so that a run by hand changes no result that the pages are made of
QUICK = HERE.parent / "build" / "bench-quick"


_forgotten = 0.0  # megabytes at most before `forget_peak`


@attrs.frozen
class Timed:
    """What a run gives that has measured itself, such as one in a process of its own."""

    result: Any
    seconds: float


@attrs.frozen
class Taken:
    """The seconds that each round took."""

    seconds: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @property
    def spread(self) -> float | None:
        """The slowest less the fastest, as a share of the median; one alone has none."""
        return None if len(self.seconds) < 2 else (max(self.seconds) - min(self.seconds)) / self.median


def in_turn(runs: Mapping[str, Callable[[], Any]], rounds: int, *, warm_up: bool = True) -> dict[str, Taken]:
    """Run each in turn, ``rounds`` times, and check that all give the same."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    results: dict[str, Any] = {}
    for number in range(-1 if warm_up else 0, rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            result = run()
            seconds = time.perf_counter() - began
            if isinstance(result, Timed):
                result, seconds = result.result, result.seconds
            results[name] = result
            if number >= 0:
                taken[name].append(seconds)
        first = next(iter(results.values()))
        if any(result != first for result in results.values()):
            raise SystemExit(f"the ways give different results: {results!r}")
    return {name: Taken(tuple(seconds)) for name, seconds in taken.items()}


def in_processes(number: int, function: Callable[..., Any], *args: Any) -> list[Any]:
    """Run a function in so many Python processes of their own, at once; return what each gives."""
    with ProcessPoolExecutor(number, mp_context=multiprocessing.get_context("spawn")) as pool:
        return [run.result() for run in [pool.submit(function, *args) for _ in range(number)]]


class Table:
    """A table that is printed row by row as it is measured."""

    def __init__(self, title: str, formats: dict[str, str]) -> None:
        self.title = title
        self.formats = formats
        self.rows: list[list[Any]] = []

    def row(self, *values: Any) -> None:
        self.rows.append(list(values))
        if len(self.rows) == 1:
            print(f"\n{self.title}\n" + self._line(self.formats), flush=True)
        print(self._line(self.cells(values)), flush=True)

    def cells(self, values: Any) -> list[str]:
        return [
            "" if value is None else form.format(value)
            for form, value in zip(self.formats.values(), values, strict=True)
        ]

    @staticmethod
    def _line(cells: Any) -> str:
        first, *others = cells
        return f"{first:36}" + "".join(f"{cell:>{max(13, len(cell) + 2)}}" for cell in others)


class Bench:
    """One question, from its options to its results.

    Args:
        doc: the docstring of the script; its first line is the question.
        rounds: how often each way is run, unless the command line says otherwise.
    """

    def __init__(self, doc: str, *, rounds: int = 3) -> None:
        self.question = doc.strip().splitlines()[0]
        self.name = Path(sys.argv[0]).stem
        self._quick: dict[str, Any] = {}
        self._usual: dict[str, Any] = {}
        self._above: dict[str, float] = {}
        self._parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
        self._parser.add_argument("--quick", action="store_true", help="small: to see that it works")
        self._parser.add_argument(
            "--results", type=Path, help=f"directory for the JSON file ({BY_HAND}; quick: {QUICK})"
        )
        self.option("--rounds", rounds, quick=1)
        self._tables: list[Table] = []
        self._claims: list[tuple[str, float, str, bool]] = []
        self._notes: list[str] = []
        self._sc: Any = None
        self.machine = (
            f"{_processor()}, {os.cpu_count()} cores, {_gigabytes():.0f} GB, Python {platform.python_version()}"
        )

    def option(self, flag: str, usual: Any, *, quick: Any = None, above: float = 0, **kwargs: Any) -> None:
        """Add an option; ``quick`` is its value under ``--quick``, and numbers are above ``above``."""
        name = flag.lstrip("-").replace("-", "_")
        self._usual[name], self._quick[name] = usual, usual if quick is None else quick
        one = usual[0] if isinstance(usual, list) else usual
        if isinstance(usual, list):
            kwargs.setdefault("nargs", "+")
        self._above[name] = above
        kwargs["help"] = (kwargs.get("help", "") + f" ({usual}; quick: {self._quick[name]})").strip().replace("%", "%%")
        self._parser.add_argument(flag, type=type(one), **kwargs)

    def begin(self) -> argparse.Namespace:
        """Read the command line; from now on there are no results until there are new ones."""
        given = self._parser.parse_args()
        for name, value in (self._quick if given.quick else self._usual).items():
            told = getattr(given, name)
            if told is None:
                setattr(given, name, value)
                continue
            if isinstance(told, list):
                told = sorted(set(told), key=self._usual[name].index if isinstance(told[0], str) else None)
                setattr(given, name, told)
            for number in told if isinstance(told, list) else [told]:
                if not isinstance(number, str) and not number > self._above[name]:
                    self.refuse(f"--{name.replace('_', '-')} must be above {self._above[name]:g} (got {number!r})")
            if told != value and name not in ("rounds", "python"):
                self.name += f"-{name}-{'+'.join(map(str, told)) if isinstance(told, list) else told}"
        self.name = re.sub(r"[^\w.,+-]+", "_", self.name) + "-quick" * given.quick
        self._results = given.results or (QUICK if given.quick else BY_HAND)
        self._is_quick = given.quick
        self._results.mkdir(parents=True, exist_ok=True)
        self._file().unlink(missing_ok=True)
        return given

    def refuse(self, why: str) -> NoReturn:
        """End because of what the command line asks for, before anything runs."""
        self._parser.error(why)

    def _file(self) -> Path:
        return self._results / f"{self.name}.json"

    def spark(self, slots: int) -> Any:
        """Start Spark with so many slots on this machine."""
        from pyspark import SparkConf, SparkContext

        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        conf = SparkConf().setMaster(f"local[{slots}]").setAppName(self.name)
        conf.set("spark.ui.enabled", "false").set("spark.ui.showConsoleProgress", "false")
        self._sc = SparkContext(conf=conf)
        self._sc.setLogLevel("ERROR")
        self._sc.addPyFile(__file__)  # so that what runs in workers may use it
        self.machine += f", Spark {self._sc.version}"
        return self._sc

    def table(self, title: str, formats: dict[str, str]) -> Table:
        """Add a table; ``formats`` maps the names of the columns to format strings."""
        self._tables.append(Table(title, formats))
        return self._tables[-1]

    def claim(self, what: str, figure: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        """Hold a figure against what the project claims; small runs show nothing."""
        if self._is_quick:
            return
        if at_least is not None:
            self._claims.append((what, figure, f"at least {at_least:g}", figure >= at_least))
        if at_most is not None:
            self._claims.append((what, figure, f"at most {at_most:g}", figure <= at_most))

    def note(self, text: str) -> None:
        """Add a sentence."""
        self._notes.append(text)
        print(text, flush=True)

    def end(self) -> None:
        """Print the claims, and save everything."""
        if self._sc is not None:
            self.note(f"Memory at most: {memory()}.")
        if self._sc is not None:
            self._sc.stop()
        if self._claims:
            print()
        for what, figure, limit, holds in self._claims:
            print(f"{'holds' if holds else 'DOES NOT HOLD':15}{what}: {figure:.3g}, {limit}")
        found = {
            "question": self.question,
            "command": " ".join(["python", "benchmarks/" + Path(sys.argv[0]).name, *sys.argv[1:]]),
            "commit": _commit(),
            "machine": self.machine,
            "tables": [
                {
                    "title": table.title,
                    "columns": list(table.formats),
                    "rows": table.rows,
                    "cells": [table.cells(row) for row in table.rows],
                }
                for table in self._tables
            ],
            "claims": [
                {"what": what, "figure": figure, "limit": limit, "holds": holds}
                for what, figure, limit, holds in self._claims
            ],
            "notes": self._notes,
        }
        fresh = self._file().with_suffix(".new")
        fresh.write_text(json.dumps(found, indent=1, default=str) + "\n")
        fresh.replace(self._file())


def _processor() -> str:
    """Return what the processor calls itself."""
    told = [line.partition(": ")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return f"{platform.machine()} ({told[0]})" if told else platform.machine()


def _gigabytes() -> float:
    """Return the memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9


def _commit() -> str:
    """Return the commit that was measured, with a + where files differ from it."""
    told = subprocess.run(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"],
        cwd=Path(__file__).parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return told.stdout.strip() or "unknown"


def memory() -> str:
    """Return what this process, the JVM and the largest Python worker had resident at most, of those that live."""
    parents: dict[int, int] = {}
    most: dict[int, tuple[str, float]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(
                line.split(":\t", 1) for line in (folder / "status").read_text().splitlines() if ":\t" in line
            )
        except OSError:
            continue
        if "VmHWM" in status:
            parents[int(folder.name)] = int(status["PPid"])
            most[int(folder.name)] = status["Name"], int(status["VmHWM"].split()[0]) * 1024 / 1e6
    told = {"driver": max(most[os.getpid()][1], _forgotten)}
    for pid, (name, megabytes) in most.items():
        above = parents[pid]
        while above in parents and above != os.getpid():
            above = parents[above]
        if above == os.getpid():
            kind = "JVM" if name == "java" else "worker"
            told[kind] = max(told.get(kind, 0.0), megabytes)
    return ", ".join(f"{kind} {megabytes:,.0f} MB" for kind, megabytes in told.items())


def peak_megabytes() -> float:
    """Return what this process had resident at most, since it began or since `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e6


def forget_peak() -> None:
    """Let `peak_megabytes` begin anew from what is resident now."""
    global _forgotten
    _forgotten = max(_forgotten, peak_megabytes())
    Path("/proc/self/clear_refs").write_text("5")


def resident_megabytes() -> float:
    """Return what this process has resident now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def worker_seconds() -> float:
    """Return the CPU seconds of all Python workers of Spark below this process, so far."""
    below: dict[int, list[tuple[int, list[str]]]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended
            below.setdefault(int(fields[1]), []).append((int(entry.name), fields))
    ticks, parents = 0, [os.getpid()]
    while parents:
        for pid, fields in below.get(parents.pop(), []):
            parents.append(pid)
            if "pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_text():
                ticks += sum(map(int, fields[11:15]))  # its own and that of its ended children
    return ticks / os.sysconf("SC_CLK_TCK")


def write_lines(path: str | Path, size: int) -> None:
    """Write lines of 0 to 199 characters, about ``size`` bytes."""
    lines = b"".join(b"x" * (number * 7919 % 200) + b"\n" for number in range(10_000))
    with open(path, "wb") as file:
        for _ in range(-(-size // len(lines))):
            file.write(lines)

"""Is sdf ahead of what one would use instead, on the same machine and the same data, in the same run?

LiveRunner is measured beside plain PySpark, and beside the libraries that `make bench-peers` installs in a separate
environment: Beam's local runner, Dask bag, Ray Data, joblib and multiprocessing.Pool. "Cut by hand" is the same with 32
pieces per core that the program cuts itself. The times leave out the start of interpreters, imports and clusters.
Without that environment only PySpark's rows run. If a library cannot do a row, or takes too long, its row says why.

    python benchmarks/peers.py [--rows lines gzip] [--seconds 10] [--quick]

`peerprograms.py` has the programs. Beam reads a quarter of the lines and counts a quarter of the outputs: its figure is
the time of a tiny pipeline, plus four times the time beyond that, since its local runner starts processes for each
pipeline. A program that is not done in time counts as ending at the limit. Each result is compared with what the data
must give. Only sdf and Beam claim each output. Ray reads JSON with Arrow, the others with json.loads. With all
libraries --quick takes minutes, since each program starts its own.
"""

import json
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import peerprograms
from harness import Bench
from peerrows import SDF, Rows

HERE = Path(__file__).parent
PEERS = HERE.parent / "build" / "peers" / "bin" / "python"
ROWS = ["lines", "count", "skew", "files", "avro", "gzip", "parquet"]


class NoResultError(Exception):
    """A way that gave no result; the text says why.

    Attributes:
        after_seconds: when it was not done yet; None if it failed.
    """

    def __init__(self, why, after_seconds=None):
        super().__init__(why)
        self.after_seconds = after_seconds


def in_process(python, timeout, *arguments):
    """Run a program of a library, in a process group of its own that is ended with it; return what it told."""
    with tempfile.TemporaryFile("w+") as told, tempfile.TemporaryDirectory() as scratch:
        process = subprocess.Popen(
            [python, peerprograms.__file__, *arguments],
            stdout=told, stderr=subprocess.DEVNULL, start_new_session=True, env={**os.environ, "TMPDIR": scratch},
        )  # fmt: skip
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise NoResultError(f"not done after {timeout:g} s", timeout) from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        told.seek(0)
        last = (told.read().strip().splitlines() or [""])[-1]
    if not last.startswith("{"):
        raise NoResultError(f"ended with {process.returncode}, and told nothing")
    found = json.loads(last)
    if "failed" in found:
        raise NoResultError(found["failed"])
    return found


def measure(runs, rounds):
    """Run each in turn, ``rounds`` times; return the median seconds of each, or why there are none."""
    taken = {way: [] for way in runs}
    failed = {}
    for _ in range(rounds):
        for way, run in runs.items():
            if way in failed:
                continue
            try:
                taken[way].append(run())
            except NoResultError as error:
                failed[way] = error
    return {way: failed.get(way) or statistics.median(seconds) for way, seconds in taken.items()}


def ways_of(row, peers, given):
    """Return for each way a function that runs it, and returns the seconds that all of the row takes.

    Raises:
        NoResultError: by these, if there is no result, or not what the data must give.
    """
    runs = {}

    def here(run):
        def timed():
            run(*row.small)  # Spark ends Python workers that were idle for a minute, as while a library runs
            began = time.perf_counter()
            return held(run(*row.arguments), row.truth, time.perf_counter() - began)

        return timed

    def there(peer, program, arguments):
        def timed():
            texts = [json.dumps(each) for each in (row.small, arguments)]
            told, share = in_process(given.python, given.timeout, peer, program, *texts), row.share(peer)
            beyond = max(0.0, told["seconds"] - told["small_seconds"])
            seconds = told["seconds"] if share == 1.0 else told["small_seconds"] + beyond / share
            return held(told["result"], row.truth if share == 1.0 else row.truth_of_less, seconds)

        return timed

    for way, run in row.spark.items():
        runs[way] = here(run)
    for peer in peers:
        for way, (program, arguments) in row.variants(peer).items():
            runs[way] = there(peer, program, arguments)
    return runs


def held(result, truth, seconds):
    if result != truth:
        raise NoResultError(f"gives {result}, not {truth}")
    return seconds


def show(bench, row, taken):
    """Print the row's table, and claim that sdf is ahead."""
    table = bench.table(
        row.title, {"": "{}", "seconds": "{:.2f}", row.unit: "{:.2f}", "sdf over it": "{:.2f}", "why not": "{}"}
    )
    if isinstance(taken[SDF], NoResultError):
        raise SystemExit(f"{row.title}: sdf {taken[SDF]}")
    for way, seconds in taken.items():
        why = None
        if isinstance(seconds, NoResultError):
            why, seconds = str(seconds), seconds.after_seconds
        if seconds is None:
            table.row(way, None, None, None, why)
            continue
        ratio = seconds / taken[SDF]
        figure = seconds / taken["ideal"] if "ideal" in taken else row.amount / seconds
        table.row(way, seconds, figure, ratio, why)
        if not way.startswith(SDF) and way != "ideal":
            least = row.ahead.get(way, 1.0)
            bench.claim(f"{row.label}: sdf over {way}{f', {why}' if why else ''}", ratio, at_least=least)


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--rows", ROWS, choices=ROWS)
    bench.option("--megabytes", 1000.0, quick=5.0, help="of lines")
    bench.option("--count", 5_000_000, quick=20_000, help="outputs of each of 2 elements")
    bench.option("--seconds", 3.0, quick=0.2, help="of skewed work per core")
    bench.option("--elements", 10_000, quick=100, help="small ones")
    bench.option("--files", 2000, quick=20)
    bench.option("--records", 800_000, quick=5000, help="of the Avro, gzip and Parquet files")
    bench.option("--timeout", 300.0, help="seconds that a library has for a row")
    bench.option("--python", str(PEERS), help="the one that has the libraries")
    given = bench.begin()
    if given.python != str(PEERS) and not os.path.exists(given.python):
        bench.refuse(f"--python must be a Python that has the libraries (got {given.python!r})")
    peers = []
    if os.path.exists(given.python):
        found = in_process(given.python, given.timeout)
        peers = [peer for peer in peerprograms.NAMES if peer in found]
        bench.note("; ".join(f"{peerprograms.NAMES[peer]}: {found[peer]}" for peer in peers) + ".")
    else:
        bench.note("The libraries to compare with are not here: make bench-peers installs them in build/peers.")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])  # for Spark's workers
    sc = bench.spark(peerprograms.CORES)
    with tempfile.TemporaryDirectory() as folder:
        rows = Rows(sc, given, folder)
        for name in given.rows:
            for row in getattr(rows, name)():
                show(bench, row, measure(ways_of(row, peers, given), given.rounds))
    bench.end()


if __name__ == "__main__":
    main()

"""Is sdf ahead of what one would use instead, on the same machine and the same data, in the same run?

Beside LiveRunner stand plain PySpark, and what `make bench-peers` installs in an environment of its own: Beam's local
runner, Dask bag, Ray Data, joblib and multiprocessing.Pool. "Cut by hand" is the same with 32 pieces per core that the
program cuts itself. All are warm: without the start of interpreters, imports and clusters. Without that environment
only PySpark's rows run. Where a library cannot do a row, or takes too long, its row says why.

    python benchmarks/peers.py [--rows lines gzip] [--seconds 10] [--quick]

`peerprograms.py` has the programs, one beneath the other. Beam reads a quarter of the lines and counts a quarter of the
outputs; its rates are compared. Its local runner starts its processes for each pipeline, which is in its seconds. Of
the outputs only sdf and Beam claim each. Ray reads JSON with Arrow, the others with json.loads. Quick with all
libraries takes minutes, since each program starts its own.
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
from harness import Bench, Timed
from peerrows import SDF, Rows

HERE = Path(__file__).parent
PEERS = HERE.parent / "build" / "peers" / "bin" / "python"
ROWS = ["lines", "count", "skew", "files", "avro", "gzip", "parquet"]


class NoResultError(Exception):
    """A way that gave no result; the text says why."""


def in_process(python, timeout, *arguments):
    """Run a program of a library, in a process group of its own that is ended with it; return what it told."""
    with tempfile.TemporaryFile("w+") as told:
        process = subprocess.Popen(
            [python, peerprograms.__file__, *arguments],
            stdout=told, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            raise NoResultError(f"not done after {timeout:g} s") from None
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


def measure(runs, expected, rounds):
    """Run each in turn; return the median seconds of each, or why there are none. The first is sdf, which runs here.

    ``expected`` has the result of the ways that do less; the others must give what sdf gave.
    """
    taken = {way: [] for way in runs}
    failed = {}
    for _ in range(rounds):
        for way, run in runs.items():
            if way in failed:
                continue
            try:
                timed = run()
            except NoResultError as error:
                failed[way] = str(error)
                continue
            taken[way].append(timed.seconds)
            if timed.result != expected.setdefault(way, expected.setdefault(SDF, timed.result)):
                failed[way] = f"gives {timed.result}, not {expected[way]}"
    return {way: failed.get(way) or statistics.median(seconds) for way, seconds in taken.items()}


def ways_of(row, peers, given):
    """Return for each way a function that runs it, the results that ways with a share must have, and their shares."""
    runs, expected, shares = {}, {}, {}
    for run in row.spark.values():
        run(*row.small)
    part = row.spark[SDF](*row.less) if row.less else None

    def here(run):
        def timed():
            began = time.perf_counter()
            result = run(*row.arguments)
            return Timed(result, time.perf_counter() - began)

        return timed

    def there(peer, program, arguments):
        def timed():
            texts = [json.dumps(each) for each in (row.small, arguments)]
            told = in_process(given.python, given.timeout, peer, program, *texts)
            return Timed(told["result"], told["seconds"])

        return timed

    for way, run in row.spark.items():
        runs[way], shares[way] = here(run), 1.0
    for peer in peers:
        for way, (program, arguments) in row.variants(peer).items():
            runs[way], shares[way] = there(peer, program, arguments), row.share(peer)
            if shares[way] < 1.0:
                expected[way] = part
    return runs, expected, shares


def show(bench, row, taken, shares):
    """Print the row's table, and claim that sdf is ahead."""
    table = bench.table(
        row.title, {"": "{}", "seconds": "{:.2f}", row.unit: "{:.2f}", "sdf over it": "{:.2f}", "why not": "{}"}
    )
    for way, seconds in taken.items():
        if isinstance(seconds, str):
            table.row(way, None, None, None, seconds)
            continue
        ratio = seconds / shares[way] / taken[SDF]
        figure = seconds / taken["ideal"] if "ideal" in taken else row.amount * shares[way] / seconds
        table.row(way, seconds, figure, ratio, None)
        if not way.startswith(SDF) and way != "ideal":
            bench.claim(f"{row.label}: sdf over {way}", ratio, at_least=1.0)


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
                runs, expected, shares = ways_of(row, peers, given)
                show(bench, row, measure(runs, expected, given.rounds), shares)
    bench.end()


if __name__ == "__main__":
    main()

"""What does a stream that follows many quiet files cost, and how late is a new line in one of them?

First the stream reads the line of each file. Then nothing happens. Then a file gets a line now and then. For more:

    python benchmarks/many_files.py --files 5000 50000
"""

import random
import statistics
import tempfile
import threading
import time
from pathlib import Path

from harness import Bench, forget_peak, peak_megabytes

from sdf import Pace, Until, stream_sdf
from sdf.io import TailLines, WatchFiles
from sdf.spark.stream.micro_batches import Stream

BATCH_SECONDS = 1.0
PATIENCE_SECONDS = 900.0


def timed_rounds():
    """Return the seconds of the rounds that ran nothing since the last one that ran something; the list goes on."""
    seconds, one_round = [], Stream._batch

    def timed(stream):
        began = time.perf_counter()
        advanced = one_round(stream)
        if stream._has_run:
            seconds.clear()
        else:
            seconds.append(time.perf_counter() - began)
        return advanced

    Stream._batch = timed
    return seconds


def await_that(condition, stream):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline or not stream.is_alive():
            raise SystemExit("the stream did not get so far")
        time.sleep(0.01)


def journal_files(folder):
    """Return what tells whether a file of the journal was written, and its bytes."""
    found = {path: path.stat() for path in folder.rglob("*") if path.is_file()}
    return {(path, there.st_ino, there.st_mtime_ns): there.st_size for path, there in found.items()}


def follow(sc, home, rounds, files, given):
    """Follow so many files; return the figures of a row."""
    logs, journal = home / "logs", home / "journal"
    logs.mkdir(parents=True)
    for number in range(files):
        (logs / f"{number}.log").write_text(f"{number} {'x' * 1200}\n")
    arrived, stop = {}, threading.Event()

    def sink(batch):
        lines = batch.rdd.map(lambda line: line.split()[0]).collect()
        arrived.update(dict.fromkeys(lines, time.perf_counter()))

    chain = [WatchFiles(modified="ignore"), TailLines()]
    options = {
        "checkpoint": journal,
        "foreach_batch": sink,
        "pace": Pace(batch_seconds=BATCH_SECONDS),
        "progress": False,
    }
    stream = threading.Thread(
        target=stream_sdf,
        args=(sc.parallelize([str(logs)], 1), chain),
        kwargs={**options, "until": Until(stop=stop)},
        daemon=True,
    )
    forget_peak()
    began = time.perf_counter()
    stream.start()
    await_that(lambda: len(arrived) >= files, stream)
    first_seconds = time.perf_counter() - began
    await_that(lambda: len(rounds) >= 3, stream)
    rounds.clear()
    before, busy = journal_files(journal), time.process_time()
    time.sleep(given.idle_seconds)
    idle, busy = list(rounds), time.process_time() - busy
    written = sum(size for file, size in journal_files(journal).items() if file not in before)
    chance, late = random.Random(1), []
    for number in range(files, files + given.lines):
        time.sleep(chance.random() * BATCH_SECONDS)
        began = time.perf_counter()
        with open(logs / f"{chance.randrange(files)}.log", "a") as file:
            file.write(f"{number}\n")
        await_that(lambda number=str(number): number in arrived, stream)
        late.append(arrived[str(number)] - began)
    stop.set()
    stream.join()
    return first_seconds, idle, busy / given.idle_seconds, written * 60 / given.idle_seconds, late, peak_megabytes()


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--files", [5000], quick=[200])
    bench.option("--idle-seconds", 60.0, quick=5.0, help="that nothing happens")
    bench.option("--lines", 20, quick=3, help="that are appended")
    given = bench.begin()
    formats = {"files": "{:,}", "s to read them": "{:.1f}", "idle round ms": "{:.1f}", "longest ms": "{:.1f}"}
    formats |= {"busy share, idle": "{:.3f}", "journal bytes an idle minute": "{:,.0f}"}
    formats |= {"line late s": "{:.2f}", "latest s": "{:.2f}", "driver MB at most": "{:,.0f}"}
    table = bench.table(f"quiet files that are followed, batch_seconds={BATCH_SECONDS:g}", formats)
    sc, rounds = bench.spark(2), timed_rounds()
    for files in given.files * given.rounds:
        with tempfile.TemporaryDirectory() as folder:
            first, idle, share, written, late, megabytes = follow(sc, Path(folder), rounds, files, given)
        idle_ms, late_s = ((statistics.median(each), max(each)) for each in ([one * 1000 for one in idle], late))
        table.row(files, first, *idle_ms, share, written, *late_s, megabytes)
        bench.claim(f"journal bytes in an idle minute, {files:,} files", written, at_most=0)
        bench.claim(f"s until a new line is in the sink, at most, {files:,} files", late_s[1], at_most=2)
    bench.end()


if __name__ == "__main__":
    main()

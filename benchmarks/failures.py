"""How much longer does a run with quarantine take if one block fails, for each way to fail?

The blocks wait, and half of them are one element, in whose middle is the bad one. Each run is held against the run of
the same way in which nothing fails. LiveRunner, which sets nothing aside, has a row for comparison. A run of work that
failed is one that ran the bad block and gave nothing; where the sink cannot write a record, each is followed by another
one, which finds out whose record it is.
"""

import json
import os
import shutil
import signal
import statistics
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from harness import Bench

from sdf import DoFn, LiveRunner, OffsetRange, Quarantine, StagedRunner, run_sdf, save_sdf
from sdf.sinks import JsonLinesFiles

SLOTS = 2
BLOCK_SECONDS = 0.005
HANG_SECONDS = 2.0  # block_seconds of all runs
COMMIT_SECONDS = 1.0
AHEAD = 10  # blocks that are claimed together, where the hint is wrong
NOTHING = "nothing fails"
UNPICKLABLE = "a record does not pickle"
FAULTS = [
    "process() raises",
    f"process() raises, claims {AHEAD} ahead",
    "os._exit()",
    "SIGSEGV",
    "SIGKILL each time",
    "SIGKILL once, as memory is short",
    f"hangs, block_seconds={HANG_SECONDS:g}",
    "the sink cannot write a record",
]


class FaultyFn(DoFn):
    """Element: its name and a number of blocks. The bad block does what ``fault`` says, and notes that in a file."""

    def __init__(self, noted, fault, bad):
        self.noted, self.fault, self.bad = noted, fault, bad

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        together, held = AHEAD if "ahead" in self.fault else 1, []
        for i in tracker.claims():
            held.append(i)
            if len(held) == together:
                yield from (self.read(element, one) for one in held)
                held = []
        yield from (self.read(element, one) for one in held)

    def read(self, element, i):
        time.sleep(BLOCK_SECONDS)
        record = {"element": element[0], "block": i}
        if (element[0], i) != self.bad or self.fault == NOTHING:
            return record
        if "once" in self.fault and os.path.exists(self.noted):
            return record
        with open(self.noted, "a") as file:
            file.write("ran\n")
        if "raises" in self.fault:
            raise ValueError(f"cannot read {i}")
        if "exit" in self.fault:
            os._exit(7)
        if "SIG" in self.fault:
            os.kill(os.getpid(), signal.SIGSEGV if "SEGV" in self.fault else signal.SIGKILL)
        if "hangs" in self.fault:
            time.sleep(600)
        return {**record, "more": threading.Lock()}


def run_once(sc, runner, elements, fault, bad, kept):
    """Run it once, and check its result.

    Args:
        kept: whether Spark keeps the records (`run_sdf`), instead of a sink (`save_sdf`).

    Returns:
        The seconds, how many runs of work failed, how many blocks were set aside.
    """
    folder = tempfile.mkdtemp(prefix="failures")
    options = {"runner": runner}
    if isinstance(runner, StagedRunner):
        options |= {"on_failure": Quarantine(block_seconds=HANG_SECONDS)}
    try:
        noted = Path(folder, "noted")
        fn, rdd = FaultyFn(str(noted), fault, bad), sc.parallelize(elements, SLOTS)
        began = time.perf_counter()
        if kept:
            outputs = run_sdf(rdd, fn, **options)
            records = outputs["main"].collect()
            seconds = time.perf_counter() - began
            failures = outputs["failed"].collect()
        else:
            sink = JsonLinesFiles(f"{folder}/out")
            failures = save_sdf(rdd, fn, sink, commit_seconds=COMMIT_SECONDS, **options).failures
            seconds = time.perf_counter() - began
            files = Path(folder, "out").rglob("*.jsonl")
            records = [json.loads(line) for path in files for line in path.open()]
        failed = len(noted.read_text().splitlines()) if noted.exists() else 0
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    aside = [] if fault == NOTHING or "once" in fault else [bad]
    assert [(block.element[0], block.restriction.start) for block in failures] == aside, f"set aside: {failures}"
    found = Counter((record["element"], record["block"]) for record in records)
    wanted = {(name, i): 1 for name, blocks in elements for i in range(blocks) if (name, i) not in aside}
    assert found == wanted, "not exactly once"
    assert failed or fault == NOTHING, f"{fault}: it did not fail"
    return seconds, failed, len(aside)


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--seconds", 3, quick=1)
    given = bench.begin()
    sc = bench.spark(SLOTS)
    blocks = round(SLOTS * given.seconds / BLOCK_SECONDS)
    elements = [("giant", blocks // 2), *((str(number), blocks // 40) for number in range(20))]
    bad = "giant", blocks // 4
    table = bench.table(
        f"{blocks:,} blocks, {given.seconds} s of waiting in each of {SLOTS} slots",
        {
            "one block": "{}",
            "runner": "{}",
            "s": "{:.2f}",
            "more s": "{:+.2f}",
            "over no fault": "{:.2f}",
            "runs failed": "{:d}",
            "set aside": "{:d}",
        },
    )
    ways = [
        ("Staged, saved", StagedRunner(), False, FAULTS),
        ("Live, saved, no quarantine", LiveRunner(), False, []),
        ("Staged, kept", StagedRunner(), True, [UNPICKLABLE]),
    ]
    for way, runner, kept, faults in ways:
        run_once(sc, runner, [*elements[1:], ("giant", 4)], NOTHING, bad, kept)  # starts the workers
        taken = {fault: [] for fault in (NOTHING, *faults)}
        for _ in range(given.rounds):
            for fault, runs in taken.items():
                runs.append(run_once(sc, runner, elements, fault, bad, kept))
        usual = statistics.median(seconds for seconds, _, _ in taken[NOTHING])
        for fault, runs in taken.items():
            seconds = statistics.median(seconds for seconds, _, _ in runs)
            table.row(fault, way, seconds, seconds - usual, seconds / usual, *runs[-1][1:])
    bench.end()


if __name__ == "__main__":
    main()

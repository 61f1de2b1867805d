"""Quarantine: whatever a block does, it is set aside, and all others are there once."""

import ctypes
import json
import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest

from sdf import DoFn, FailedBlock, LiveRunner, Quarantine, RateLimit, StagedRunner, retry_failed, run_sdf, save_sdf
from sdf.errors import (
    InvalidTypeError,
    InvalidValueError,
    ProcessError,
    SourceAwayError,
    StageError,
    TooManyFailuresError,
)
from sdf.sinks import JsonLinesFiles, ParquetFiles, TextFiles

BLOCKS = 120


class BadFn(DoFn):
    """Element: a number; gives (element, block) for 120 blocks. Some blocks do what ``bad`` says."""

    def __init__(self, bad):
        self.bad = bad

    def get_initial_restriction(self, element):
        return (0, BLOCKS)

    def process(self, element, tracker):
        for block in tracker.claims():
            yield self.read(element, block)

    def read(self, element, block):
        what = self.bad.get((element, block))
        if what == "raises":
            raise ValueError(f"cannot read {block}")
        if what == "exits":
            os._exit(7)
        if what == "is killed":
            os.kill(os.getpid(), signal.SIGKILL)
        if what == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        if what == "hangs":
            time.sleep(600)
        if what == "hangs in C":
            ctypes.PyDLL(None).sleep(600)  # holds the interpreter's lock
        if what == "does not pickle":
            return (element, block, threading.Lock())
        if what == "is away":
            raise ConnectionResetError("the store is away")
        if what == "has gone":
            raise SourceAwayError("the broker is away")
        return (element, block)


EVERY = ["raises", "exits", "is killed", "crashes", "hangs", "hangs in C", "does not pickle"]


def of_all_but(bad, elements=3):
    return sorted(
        (element, block) for element in range(elements) for block in range(BLOCKS) if (element, block) not in bad
    )


def set_aside(failed):
    assert all(isinstance(block, FailedBlock) for block in failed)
    return sorted((block.element, *block.restriction) for block in failed)


def kinds(of, *some, instead):
    """Parametrize with what blocks do, a few of it in `make test`."""
    return pytest.mark.parametrize(
        "what", [pytest.param(what, marks=() if what in some else pytest.mark.slow(instead)) for what in of]
    )


# Dear: each attempt at a block is a process.
@kinds(EVERY, "raises", "exits", "hangs in C", instead="test_the_error_says_what_happened")
def test_a_bad_block_is_set_aside_and_all_others_are_there_once(sc, what):
    """Alone in its part; also the first and the last one, and two in a row."""
    bad = dict.fromkeys([(0, 0), (0, 1), (1, BLOCKS - 1), (2, 50)], what)
    outputs = run_sdf(sc.parallelize(range(3), 3), BadFn(bad), on_failure=Quarantine(block_seconds=3.0))
    assert sorted(outputs["main"].collect()) == of_all_but(bad)
    assert set_aside(outputs["failed"].collect()) == [(element, block, block + 1) for element, block in sorted(bad)]
    report = outputs["main"].report
    assert set_aside(report.failures) == set_aside(outputs["failed"].collect())
    assert "4 blocks failed; everything but these is here exactly once" in str(report)


# Dear: each attempt at a block is a process.
def test_the_error_says_what_happened(sc):
    """Type and message of an exception, or how the process ended; all other blocks are there once."""
    bad = {(0, at * 10): what for at, what in enumerate(EVERY)}
    outputs = run_sdf(sc.parallelize([0]), BadFn(bad), on_failure=Quarantine(block_seconds=3.0))
    assert sorted(outputs["main"].collect()) == of_all_but(bad, elements=1)
    errors = [block.error for block in sorted(outputs["failed"].collect(), key=lambda block: block.restriction.start)]
    patterns = [
        r"BadFn.process\(\).*ValueError: cannot read 0",
        "ended: exit code 7",
        "ended: SIGKILL, as when memory runs out",
        "ended: SIGSEGV",
        "neither a claim nor a record in block_seconds=3",
        "neither a claim nor a record in block_seconds=3",
        "does not pickle",
    ]
    for error, pattern in zip(errors, patterns, strict=True):
        assert re.search(pattern, error), error


def test_the_result_can_be_read_twice_and_computed_again(sc):
    """A lost block is replayed; the blocks of attempts that failed hold nothing."""
    bad = {(0, 7): "raises", (1, 3): "exits"}
    outputs = run_sdf(sc.parallelize(range(3), 3), BadFn(bad), on_failure=Quarantine())
    first = sorted(outputs["main"].collect())
    outputs["main"].unpersist(blocking=True)
    assert sorted(outputs["main"].collect()) == first == of_all_but(bad)


def test_without_a_bad_block_nothing_fails(sc):
    """The output is there, and empty."""
    outputs = run_sdf(sc.parallelize(range(3)), BadFn({}), on_failure=Quarantine(), tags=["other"])
    assert set(outputs) == {"main", "other", "failed"}
    assert outputs["failed"].collect() == []
    assert sorted(outputs["main"].collect()) == of_all_but({})


@pytest.mark.parametrize(("what", "told"), [("is away", ProcessError), ("has gone", SourceAwayError)])
def test_a_store_that_is_away_convicts_no_block(sc, what, told):
    """The run fails, as it does without quarantine."""
    with pytest.raises(told, match="is away"):
        run_sdf(sc.parallelize([0]), BadFn({(0, 5): what}), on_failure=Quarantine())


def test_a_setup_that_dies_convicts_no_block(sc):
    """There is no block yet; and so with one that raises."""

    class DeadFn(BadFn):
        def setup(self):
            if self.bad:
                os._exit(3)
            raise OSError("no license")

    class DeadLaterFn(DeadFn):
        expanded = False

        def setup(self):
            import multiprocessing

            if multiprocessing.parent_process() is not None:
                super().setup()

    with pytest.raises(StageError, match="before any work began: exit code 3"):
        run_sdf(sc.parallelize([0]), DeadLaterFn({1: 1}), on_failure=Quarantine())
    with pytest.raises(ProcessError, match="no license"):
        run_sdf(sc.parallelize([0]), DeadLaterFn({}), on_failure=Quarantine())


def test_more_failures_than_allowed_end_the_run(sc):
    """With the first errors."""
    bad = dict.fromkeys([(0, block) for block in range(0, BLOCKS, 2)], "raises")
    with pytest.raises(TooManyFailuresError, match=r"max_failures is 5.*cannot read"):
        run_sdf(sc.parallelize([0]), BadFn(bad), on_failure=Quarantine(max_failures=5))


class BufferingFn(BadFn):
    """Gives the records of ten blocks together, after it has claimed them."""

    def process(self, element, tracker):
        held = []
        for block in tracker.claims():
            held.append(block)
            if len(held) == 10:
                yield from [self.read(element, one) for one in held]
                held = []
        yield from [self.read(element, one) for one in held]


class SetsUpFn(BadFn):
    """Notes the process of each `setup`, and of each task."""

    def __init__(self, bad, folder):
        super().__init__(bad)
        self.folder = folder

    def setup(self):
        self.note("setups")

    def start_bundle(self):
        self.note("tasks")

    def note(self, name):
        with open(self.folder / name, "a") as file:
            file.write(f"{os.getpid()}\n")


def test_setup_runs_once_in_each_process_and_not_for_each_task(sc, tmp_path):
    """Nor for each bad block."""
    fn = SetsUpFn(dict.fromkeys([(0, 5), (1, 7), (1, 9)], "raises"), tmp_path)
    outputs = run_sdf(sc.parallelize(range(3), 3), fn, on_failure=Quarantine())
    assert outputs["main"].count() == 3 * BLOCKS - 3
    setups, tasks = [(tmp_path / name).read_text().split() for name in ("setups", "tasks")]
    assert len(setups) == len(set(setups))
    assert len(set(tasks)) < len(tasks)


class SixteenFn(BadFn):
    """Blocks of sixteen, each claimed once."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for block in range(-(-start // 16) * 16, stop, 16):
            if not tracker.try_claim(block):
                return
            element, block = self.read(element, block)
            yield f"{element} {block}"
        tracker.try_claim(stop)


def test_a_block_is_named_from_its_claim_to_the_next_one(sc, tmp_path):
    """In the output, in the report and in the summary; the last one up to the end."""
    fn = SixteenFn(dict.fromkeys([(0, 32), (0, 48), (1, 112), (2, 0)], "raises"))
    wanted = [(0, 32, 48), (0, 48, 64), (1, 112, BLOCKS), (2, 0, 16)]
    outputs = run_sdf(sc.parallelize(range(3), 3), fn, on_failure=Quarantine())
    assert outputs["main"].count() == 3 * 8 - 4
    assert set_aside(outputs["failed"].collect()) == wanted
    assert "OffsetRange(start=112, stop=120) of 1: " in str(outputs["main"].report)
    summary = save_sdf(sc.parallelize(range(3), 3), fn, TextFiles(str(tmp_path / "out")), on_failure=Quarantine())
    assert set_aside(summary.failures) == set_aside(summary.report.failures) == wanted


@kinds(["raises", "exits"], "exits", instead="test_a_dofn_that_buffers_loses_only_the_bad_block[exits]")
def test_a_dofn_that_buffers_loses_only_the_bad_block(sc, what):
    """The position claimed last is another block then."""
    bad = {(0, 33): what, (2, 118): what}
    outputs = run_sdf(sc.parallelize(range(3)), BufferingFn(bad), on_failure=Quarantine())
    assert sorted(outputs["main"].collect()) == of_all_but(bad)
    assert set_aside(outputs["failed"].collect()) == [(0, 33, 34), (2, 118, 119)]


def test_wrong_options_are_refused_before_any_job(sc):
    """Each with what was given."""
    rdd, fn = sc.parallelize([0]), BadFn({})
    for options, kind, pattern in [
        (
            {"on_failure": "quarantine"},
            InvalidTypeError,
            r"a Quarantine, or None to raise .got 'quarantine'.. Pass sdf.",
        ),
        ({"on_failure": Quarantine}, InvalidTypeError, "must be a Quarantine"),
        ({"on_failure": Quarantine(), "tags": ["failed"]}, InvalidValueError, "name your tag differently"),
        ({"on_failure": Quarantine(), "runner": LiveRunner()}, InvalidTypeError, "cannot set blocks aside"),
    ]:
        with pytest.raises(kind, match=pattern):
            run_sdf(rdd, fn, **options)
    with pytest.raises(InvalidTypeError, match=r"save_sdf\(\) cannot set blocks aside with a LiveRunner"):
        save_sdf(rdd, fn, TextFiles("never"), on_failure=Quarantine(), runner=LiveRunner())
    with pytest.raises(InvalidTypeError, match=r"retry_failed\(\) cannot set blocks aside with a LiveRunner"):
        retry_failed(sc, fn, TextFiles("never"), runner=LiveRunner())
    for option, value, message in [
        ("max_failures", -1, "an integer >= 0 .got -1"),
        ("max_failures", 1.5, "an integer >= 0 .got 1.5"),
        ("block_seconds", 0, "a positive number, or None .got 0"),
    ]:
        with pytest.raises(InvalidValueError, match=f"Quarantine {option} must be {message}"):
            Quarantine(**{option: value})


# A block that takes its worker or its executor along: nobody is left to tell what happened.


class TakesItsWorkerAlongFn(BadFn):
    """A bad block kills its worker and the child in which it runs, whenever it runs."""

    def read(self, element, block):
        if (element, block) in self.bad:
            for pid in (os.getppid(), os.getpid()):
                os.kill(pid, signal.SIGKILL)
        return {"element": element, "block": block}


def test_a_block_that_takes_its_worker_along_is_set_aside(sc):
    """Spark gives up its stage; all other records are there once, those of the other tasks of the stage, too."""
    fn = TakesItsWorkerAlongFn({(1, 50)})
    outputs = run_sdf(sc.parallelize(range(3), 3), fn, on_failure=Quarantine())
    assert sorted(tuple(row.values()) for row in outputs["main"].collect()) == of_all_but(fn.bad)
    (block,) = outputs["failed"].collect()
    assert set_aside([block]) == [(1, 50, 51)]
    assert "its executor or worker was lost" in block.error


def test_one_in_a_saved_run(sc, tmp_path):
    """Among small elements, too: those run alone then, one after the other."""
    fn = TakesItsWorkerAlongFn({(7, 0)})
    fn.get_initial_restriction = lambda element: (0, 1)
    summary = save_sdf(sc.parallelize(range(20), 2), fn, JsonLinesFiles(tmp_path / "out"), on_failure=Quarantine())
    assert rows(tmp_path / "out") == [(element, 0) for element in range(20) if element != 7]
    assert set_aside(summary.failures) == [(7, 0, 1)]
    assert summary.failures[0].attempts > 2  # beside others, and twice while nothing else ran


# Saved runs.


class RowFn(BadFn):
    """Gives dicts."""

    def process(self, element, tracker):
        for block in tracker.claims():
            element, block, *_ = self.read(element, block)
            yield {"element": element, "block": block if self.bad.get((element, block)) != "is no number" else "x"}


def rows(path):
    if found := list(path.glob("*.jsonl")):
        return sorted(tuple(json.loads(line).values()) for file in found for line in file.read_text().splitlines())
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return sorted(zip(table["element"].to_pylist(), table["block"].to_pylist(), strict=True))


@kinds(
    ["raises", "exits", "is killed", "hangs", "is no number"], "exits", "is no number",
    instead="test_a_saved_run_sets_bad_blocks_aside[exits]",
)  # fmt: skip
def test_a_saved_run_sets_bad_blocks_aside(sc, tmp_path, what):
    """The summary and the log name them; the same call again does not run them."""
    bad = dict.fromkeys([(0, 0), (1, BLOCKS - 1), (2, 50)], what)
    import pyarrow as pa

    schema = pa.schema([("element", pa.int64()), ("block", pa.int64())])  # the first record may be a bad one
    sink = ParquetFiles(str(tmp_path / "out"), schema=schema)
    if what == "exits":  # of its many processes none has to import pyarrow
        sink = JsonLinesFiles(str(tmp_path / "out"))
    summary = save_sdf(sc.parallelize(range(3), 3), RowFn(bad), sink, on_failure=Quarantine(block_seconds=3.0))
    wanted = [(element, block, block + 1) for element, block in sorted(bad)]
    assert rows(tmp_path / "out") == of_all_but(bad)
    assert set_aside(summary.failures) == wanted
    assert "3 blocks failed and set aside" in str(summary)
    again = save_sdf(sc.parallelize(range(3), 3), RowFn(bad), sink, on_failure=Quarantine())
    assert again.report is None
    assert set_aside(again.failures) == wanted


def test_what_was_set_aside_before_a_crash_stays_so(sc, tmp_path):
    """And counts for max_failures; without quarantine the run does not go on, and lose them silently."""
    bad = dict.fromkeys([(0, 5), (1, 7)], "raises")
    target = str(tmp_path / "out")
    elements = sc.parallelize(range(3), 3)
    one = StagedRunner(max_tasks=1)
    with pytest.raises(TooManyFailuresError):
        save_sdf(elements, RowFn(bad), JsonLinesFiles(target), on_failure=Quarantine(max_failures=1), runner=one)
    with pytest.raises(TooManyFailuresError, match=r"max_failures is 1\. .* retry_failed\(\) runs them again"):
        save_sdf(elements, RowFn(bad), JsonLinesFiles(target), on_failure=Quarantine(max_failures=1), runner=one)
    with pytest.raises(InvalidValueError, match=r"has set 2 blocks aside, the first is FailedBlock\(element=0, .*"):
        save_sdf(elements, RowFn(bad), JsonLinesFiles(target), runner=one)
    summary = save_sdf(elements, RowFn(bad), JsonLinesFiles(target), on_failure=Quarantine(max_failures=2))
    assert summary.resumed
    assert set_aside(summary.failures) == [(0, 5, 6), (1, 7, 8)]
    assert summary.records == 3 * BLOCKS - 2


class Panic(BaseException):
    """As libraries in Rust raise: no Exception."""


class OddFn(DoFn):
    """Element: what happens at block 5 of 10. Notes the processes that it leaves behind."""

    def __init__(self, noted):
        self.noted = str(noted)

    def get_initial_restriction(self, element):
        return (0, 10)

    def process(self, element, tracker):
        for block in tracker.claims():
            if block == 5:
                self.fail(element)
            yield f"{element} {block}"

    def fail(self, what):
        if what == "long":
            raise ValueError("x" * 5_000_000)
        if what == "panics":
            raise Panic("unreachable")
        if os.fork() == 0:  # it holds what its parent had open
            if what == "escapes":
                os.setsid()
            open(f"{self.noted}/{os.getpid()}", "x").close()
            time.sleep(600)
            os._exit(0)
        while not os.listdir(self.noted):
            time.sleep(0.01)
        if what in ("exits", "escapes"):
            os._exit(7)
        time.sleep(600)


ODD = {
    "long": r"ValueError: x+\.\.\.x+$",
    "panics": "Panic: unreachable",
    "exits": "ended: exit code 7",
    "hangs": "block_seconds=3",
    "escapes": "ended: exit code 7",
}


@pytest.mark.parametrize("what", ODD)
def test_odd_failures_are_set_aside_in_a_saved_run(sc, tmp_path, what):
    """A very long message, what is no Exception, and a process that leaves another behind.

    That one ends with it, and if it has left its group of processes, nothing waits for it.
    """
    noted = tmp_path / "noted"
    noted.mkdir()
    sink = TextFiles(str(tmp_path / "out"))
    options = {"on_failure": Quarantine(block_seconds=3.0)}
    summary = save_sdf(sc.parallelize([what]), OddFn(noted), sink, **options)
    assert summary.records == summary.report.records == 9
    (failed,) = summary.failures
    assert set_aside([failed]) == [(what, 5, 6)]
    assert re.search(ODD[what], failed.error)
    assert len(failed.error) < 5_000
    left = [int(path.name) for path in noted.iterdir()]
    assert bool(left) == (what in ("exits", "hangs", "escapes"))
    if what == "escapes":
        assert all(map(lives, left))
    else:
        wait_until(lambda: not any(map(lives, left)))  # it is killed, and ends a moment later
    for pid in left if what == "escapes" else ():
        os.kill(pid, signal.SIGKILL)


def wait_until(holds):
    """Wait for what must happen."""
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until
        time.sleep(0.01)


def lives(pid):
    """Return whether a process is there, and does more than wait for its parent to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


class CallsFn(DoFn):
    """Element: anything. Four blocks, each a call."""

    def get_initial_restriction(self, element):
        return (0, 4)

    def process(self, element, tracker, api):
        for block in tracker.claims():
            api.acquire()
            yield f"{element} {block}"


def test_a_block_that_waits_for_its_rate_limit_does_not_hang(sc, tmp_path):
    """For longer than block_seconds."""
    options = {"on_failure": Quarantine(block_seconds=1.2), "runner": StagedRunner(max_tasks=1)}
    limits = {"api": RateLimit("api", per_second=0.5)}
    sink = TextFiles(str(tmp_path / "out"))
    summary = save_sdf(sc.parallelize(["a"]), CallsFn(), sink, side_inputs=limits, **options)
    assert (summary.records, summary.failures) == (4, ())


class FooterFn(DoFn):
    """Element: anything. A block at each seventh position; raises once it is past them, if it has read ``bad``."""

    def __init__(self, bad):
        self.bad = bad

    def get_initial_restriction(self, element):
        return (0, BLOCKS)

    def process(self, element, tracker):
        read, block = [], -(-tracker.current_restriction().start // 7) * 7
        while tracker.try_claim(block):
            read.append(block)
            yield {"element": element, "block": block}
            block += 7
        if self.bad in read:
            raise ValueError("what was read does not add up")


def test_what_raises_after_its_refused_claim_is_found(sc, tmp_path):
    """The position claimed last lies behind the part, so it is no hint."""
    sink = ParquetFiles(str(tmp_path / "out"))
    summary = save_sdf(sc.parallelize([0]), FooterFn(49), sink, on_failure=Quarantine())
    assert rows(tmp_path / "out") == [(0, block) for block in range(0, BLOCKS, 7) if block != 49]
    assert set_aside(summary.failures) == [(0, 49, 56)]


class ClosingFn(DoFn):
    """Gives ten lines; ``finish_bundle`` takes a while, or raises."""

    def __init__(self, seconds, error=None):
        self.seconds, self.error = seconds, error

    def get_initial_restriction(self, element):
        return (0, 10)

    def process(self, element, tracker):
        for block in tracker.claims():
            yield f"{element} {block}"

    def finish_bundle(self):
        time.sleep(self.seconds)
        if self.error is not None:
            raise self.error


class ClosingFiles(TextFiles):
    """Takes a while to close a file."""

    def write(self, records, place):
        message = super().write(records, place)
        time.sleep(1.5)
        return message


def test_no_block_is_blamed_for_what_comes_after_the_last_one(sc, tmp_path):
    """Neither `finish_bundle` nor a sink that closes its file is a block that hangs; an error there fails the run."""
    elements = sc.parallelize(["a"])
    files = ClosingFiles(str(tmp_path / "out"))
    summary = save_sdf(elements, ClosingFn(1.5), files, on_failure=Quarantine(block_seconds=1.0))
    assert (summary.records, summary.failures) == (10, ())
    fn, files = ClosingFn(0, ValueError("no license")), TextFiles(str(tmp_path / "other"))
    with pytest.raises(ProcessError, match=r"ClosingFn.finish_bundle\(\) raised ValueError: no license"):
        save_sdf(elements, fn, files, on_failure=Quarantine())


def test_a_run_that_stores_its_records_blames_no_block_for_finish_bundle(sc):
    """As a saved run."""
    elements, options = sc.parallelize(["a"]), {"on_failure": Quarantine(block_seconds=1.0)}
    outputs = run_sdf(elements, ClosingFn(1.5), **options)
    assert (outputs["main"].count(), outputs["failed"].collect()) == (10, [])
    with pytest.raises(ProcessError, match=r"ClosingFn.finish_bundle\(\) raised ValueError: no license"):
        run_sdf(elements, ClosingFn(0, ValueError("no license")), **options)

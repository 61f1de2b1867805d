"""Every error of the tree, brought about by a real misuse: what a user reads says who, which rule, what was given."""

import os
import re
import socket
import sys
import threading
import time
from pathlib import Path

import pytest
from support.fns import CountFn, SlowCountFn

from sdf import (
    UNBOUNDED,
    LiveRunner,
    ManualWatermark,
    OffsetRange,
    Pace,
    Quarantine,
    StagedRunner,
    errors,
    run_direct,
    run_sdf,
    save_sdf,
    stream_sdf,
)
from sdf.io import FileInfo, ReadAvro, ReadJsonLines, ReadKafka, ReadLines
from sdf.journal.journal import Journal
from sdf.scheduling.ledger import Ledger
from sdf.sinks import JsonLinesFiles
from sdf.storage.disk import Disk
from sdf.testing import check_dofn

MISUSES = {}


def produces(error, says):
    """Enter a function that takes a SparkContext and a folder, and makes the misuse."""

    def enter(function):
        MISUSES[error] = function, says
        return function

    return enter


class Fn(CountFn):
    """CountFn with a process() of its own; element: a number."""

    def __init__(self, process):
        self._process = process

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        return self._process(element, tracker)


@produces("InvalidTypeError", "run_sdf() needs an RDD of elements (got [1, 2]). Use sc.parallelize(elements)")
def no_rdd(sc, folder):
    run_sdf([1, 2], CountFn())


@produces("InvalidValueError", "StagedRunner min_tasks must be <= max_tasks (got 5 and 2)")
def bounds_that_cross(sc, folder):
    StagedRunner(min_tasks=5, max_tasks=2)


@produces("UnboundedError", "stream_sdf")
def work_without_an_end(sc, folder):
    class EndlessFn(CountFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, UNBOUNDED)

    run_sdf(sc.parallelize([("a", 1)]), EndlessFn())


@produces("UnpicklableError", "KeepsLockFn")
def a_lock_in_a_dofn(sc, folder):
    class KeepsLockFn(CountFn):
        def __init__(self):
            self.lock = threading.Lock()

    run_sdf(sc.parallelize([("a", 1)]), KeepsLockFn())


@produces("ClaimError", "positions must increase: got 0 after 1")
def a_claim_that_goes_back(sc, folder):
    def process(element, tracker):
        yield tracker.try_claim(1)
        yield tracker.try_claim(0)

    run_direct([3], Fn(process))


@produces("UnclaimedWorkError", "that work would be lost")
def a_return_before_the_end(sc, folder):
    def process(element, tracker):
        yield tracker.try_claim(0)

    run_sdf(sc.parallelize([3]), Fn(process), runner=StagedRunner(max_tasks=1))


@produces("OutputError", "before its first claim")
def an_output_without_a_claim(sc, folder):
    run_direct([3], Fn(lambda element, tracker: iter([1])))


@produces("DeferError", "without a claim")
def deferring_for_ever(sc, folder):
    run_direct([3], Fn(lambda element, tracker: tracker.defer_remainder()))


@produces("SplitError", "do not add up to the restriction")
def parts_with_a_gap(sc, folder):
    class GapFn(CountFn):
        def split_restriction(self, element, restriction):
            return [OffsetRange(0, 1), OffsetRange(2, restriction.stop)]

    run_sdf(sc.parallelize([("a", 9)]), GapFn())


@produces("WatermarkError", "must not go back: got 3 after 5")
def a_watermark_that_goes_back(sc, folder):
    mark = ManualWatermark(0)
    mark.advance(5)
    mark.advance(3)


@produces("CheckError", "breaks the contract on element 6")
def records_that_depend_on_the_split(sc, folder):
    def process(element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, stop):
            if not tracker.try_claim(i):
                return
            yield i - start

    check_dofn(Fn(process), 6)


@produces("ProcessError", "ZeroDivisionError")
def code_that_raises(sc, folder):
    run_sdf(sc.parallelize([3]), Fn(lambda element, tracker: 1 // 0))


@produces("MissingExtraError", "pip install 'fastavro>=1.9'")
def a_library_that_is_not_there(sc, folder):
    kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] == "fastavro"}
    sys.meta_path.insert(0, blind := Blind("fastavro"))
    try:
        check_dofn(ReadAvro(), str(folder / "a.avro"))
    finally:
        sys.meta_path.remove(blind)
        sys.modules.update(kept)


class Blind:
    """Finds no module of one name."""

    def __init__(self, name):
        self._name = name

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == self._name:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


@produces("SourceError", "absent.txt")
def a_file_that_is_not_there(sc, folder):
    run_sdf(sc.parallelize([str(folder / "absent.txt")]), ReadLines())


@produces("SourceChangedError", "a.txt")
def a_file_that_has_shrunk(sc, folder):
    path = folder / "a.txt"
    path.write_text("abc\n")
    run_direct([FileInfo(str(path), 100, path.stat().st_mtime)], ReadLines())


@produces("SourceAwayError", "no answer within")
def brokers_that_do_not_answer(sc, folder):
    pytest.importorskip("confluent_kafka")
    with socket.socket() as taken:  # nobody listens there
        taken.bind(("127.0.0.1", 0))
        servers = f"127.0.0.1:{taken.getsockname()[1]}"
        run_direct(["topic"], ReadKafka({"bootstrap.servers": servers, "log_level": 0}, timeout_seconds=0.3))


@produces("ReadError", "a.json")
def a_line_that_is_no_json(sc, folder):
    (folder / "a.json").write_text('{"a": 1}\n{"a": \n')
    run_direct([str(folder / "a.json")], ReadJsonLines())


def stream(sc, folder, fn=None):
    return stream_sdf(
        sc.parallelize([("a", 3)]), fn or CountFn(), checkpoint=folder / "journal", foreach_batch=lambda batch: None
    )


@produces("JournalError", "Use the release that wrote it")
def a_journal_of_another_version(sc, folder):
    stream(sc, folder)
    for path in (folder / "journal").rglob("*.json"):
        path.write_text(re.sub(r'"v": ?1\b', '"v": 99', path.read_text()))
    stream(sc, folder)


@produces("JournalCorruptError", "journal")
def a_block_that_was_written_over(sc, folder):
    stream(sc, folder)
    (last,) = sorted((folder / "journal" / "blocks").iterdir())[-1:]
    last.write_text(last.read_text()[:-20])
    stream(sc, folder)


@produces("JournalDiskError", "cannot be used")
def a_checkpoint_that_is_a_file(sc, folder):
    (folder / "journal").write_text("")
    stream(sc, folder)


@produces("JournalFencedError", "Run one driver for each checkpoint.")
def two_drivers(sc, folder):
    outcomes = []

    def drive():
        try:
            stream_sdf(
                sc.parallelize([("a", 60)]),
                SlowCountFn(),
                checkpoint=folder / "journal",
                pace=Pace(batch_seconds=0.1),
                foreach_batch=lambda batch: None,
            )
        except errors.JournalFencedError as error:
            outcomes.append(error)

    drivers = [threading.Thread(target=drive) for _ in range(2)]
    for driver in drivers:
        driver.start()
    for driver in drivers:
        driver.join()
    raise outcomes[0]


@produces("JournalRuleError", "the watermark is neither dropped nor lowered")
def a_block_that_takes_the_watermark_back(sc, folder):
    journal = Journal(Disk(folder), config={}, inputs=["one"], clock=lambda: 1)
    for mark in (5, 3):
        journal.advance([1], 1, checkpoint=journal.put(b"work"), watermark=mark, status="running")


@produces("StageError", "a job")
def a_worker_that_dies(sc, folder):
    def process(element, tracker):
        os._exit(3)

    run_sdf(sc.parallelize([3]), Fn(process))


@produces("CoordinatorError", "LiveRunner cannot listen on '192.0.2.1'")
def an_address_of_another_machine(sc, folder):
    run_sdf(sc.parallelize([("a", 3)]), CountFn(), runner=LiveRunner(host="192.0.2.1"))


@produces("LedgerError", "does not belong to None (it belongs to 'one')")
def work_that_is_given_out_twice(sc, folder):
    ledger, items = a_ledger()
    ledger.assign("one", items)
    ledger.assign("two", items)


@produces("TilingError", "not committed")
def a_run_that_ends_too_early(sc, folder):
    ledger, items = a_ledger()
    ledger.assign("one", items)
    ledger.prove()


def a_ledger():
    ledger = Ledger(lambda element, restriction: restriction.stop - restriction.start)
    return ledger, ledger.add_element("a", OffsetRange(0, 9), [(OffsetRange(0, 9), 9.0)])


@produces("ReplayError", "is not deterministic")
def a_process_that_is_not_deterministic(sc, folder):
    def process(element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield from range(1 + Path(element[1]).exists())

    class MoodyFn(Fn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, element[0])

    result = run_sdf(sc.parallelize([(3, str(folder / "now"))]), MoodyFn(process))
    result.unpersist(True)
    (folder / "now").touch()
    time.sleep(0.01)
    try:
        result.count()
    except Exception as error:  # Spark's own, from the user's action
        found = re.search(r"sdf\.errors\.(\w+): ([^\n]*)", str(error))
        raise getattr(errors, found[1])(found[2]) from error


@produces("SinkError", "has 'notes.txt', which is not of this run")
def target_that_is_not_empty(sc, folder):
    (folder / "out").mkdir()
    (folder / "out/notes.txt").touch()
    save_sdf(sc.parallelize([("a", 1)]), CountFn(), JsonLinesFiles(folder / "out"))


@produces("BadRecordError", "process() of element 1, OffsetRange(start=0, stop=1) at position 0 gave a bad record")
def record_that_is_no_json(sc, folder):
    def process(element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield {i}

    save_sdf(sc.parallelize([1]), Fn(process), JsonLinesFiles(folder / "out"))


@produces("TooManyFailuresError", "Fn: 2 blocks failed, and max_failures is 1. The first are: ")
def blocks_that_fail_again_and_again(sc, folder):
    def process(element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            raise ValueError("no number")
        yield

    run_sdf(sc.parallelize([9]), Fn(process), on_failure=Quarantine(max_failures=1))


def concrete():
    """The classes that are raised, not only caught."""
    classes = {name for name in vars(errors) if name.endswith("Error")}
    return sorted(classes - {"SdfError", "ContractError"})


def test_every_error_has_a_misuse():
    """A new class takes its place here."""
    assert sorted(MISUSES) == concrete()


@pytest.mark.parametrize("name", concrete())
def test_misuse_is_told(sc, tmp_path, name):
    """By the class that its docstring promises, in words that name what was done."""
    misuse, says = MISUSES[name]
    with pytest.raises(getattr(errors, name)) as caught:
        misuse(sc, tmp_path)
    assert type(caught.value).__name__ == name
    assert says in str(caught.value)

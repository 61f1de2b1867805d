"""stream_sdf: batches, chains, deferral, watermarks, stopping, draining, and what a sink and a source may rely on."""

import contextlib
import fractions
import math
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import ClassVar

import attrs
import pytest
from pyspark import accumulators
from support.fns import CountFn, OnlyDefersFn, SlowCountFn
from support.integers import KINDS
from support.streaming import grouped

from sdf import UNBOUNDED, DoFn, GrowableOffsetRangeTracker, ManualWatermark, OffsetRange, stream_sdf
from sdf.errors import (
    DeferError,
    InvalidTypeError,
    InvalidValueError,
    JournalError,
    JournalFencedError,
    ProcessError,
    UnpicklableError,
)
from sdf.journal.chain import find_head, verify
from sdf.journal.clock import Clock
from sdf.journal.journal import Journal
from sdf.journal.pending import from_data, to_data
from sdf.journal.remaining import Remaining
from sdf.spark.stream import micro_batches as batches
from sdf.spark.stream.checkpoint import Checkpoint
from sdf.spark.stream.pins import Pin
from sdf.storage.disk import Disk


class Sink:
    """Keeps the records of each batch under its number."""

    def __init__(self):
        self.batches, self.watermarks = {}, []

    def __call__(self, batch):
        records = batch.rdd.collect()
        assert records, "a sink gets batches with records only"
        assert self.batches.setdefault(batch.id, records) == records
        self.watermarks.append(batch.watermark)

    def records(self):
        return sorted(record for records in self.batches.values() for record in records)


class EndsAfter(Sink):
    """Does something that ends the stream once it has had so many batches."""

    def __init__(self, batches, end):
        super().__init__()
        self.after, self.end = batches, end

    def __call__(self, batch):
        super().__call__(batch)
        if len(self.batches) == self.after:
            self.end()


class EndlessFn(DoFn):
    """Element: a name. Gives numbers without an end, some at a time, then defers for a second."""

    def __init__(self, at_a_time=5, delay_seconds=0.2):
        self.at_a_time, self.delay_seconds = at_a_time, delay_seconds

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def create_tracker(self, element, restriction):
        return GrowableOffsetRangeTracker(restriction)

    def create_watermark_estimator(self, element, restriction):
        return ManualWatermark(-1)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, start + self.at_a_time if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            tracker.watermark.advance_if_greater(i)
            yield element, i
        tracker.defer_remainder(self.delay_seconds)


class AcknowledgedFn(CountFn):
    """Notes on the driver what was committed of it."""

    heard: ClassVar[list] = []

    def on_commit(self, element, restriction):
        self.heard.append((element, restriction.start, restriction.stop))


def expected(elements):
    return sorted((name, i) for name, count in elements for i in range(count))


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that runs a stream with a sink on one checkpoint."""

    def run(elements, fns, sink, checkpoint_name="journal", **options):
        options = {"batch_seconds": 0.2, "checkpoint": tmp_path / checkpoint_name, **options}
        return stream_sdf(sc.parallelize(elements), fns, foreach_batch=sink, **grouped(**options))

    return run


def test_finite_work_comes_to_its_end(stream, tmp_path):
    """In several batches, each record in one of them; then the journal is closed, and says so when asked again."""
    elements, sink = [("a", 30), ("b", 100)], Sink()
    summary = stream(elements, SlowCountFn(), sink)
    assert (sink.records(), summary.records, summary.done) == (expected(elements), 130, True)
    assert 1 < summary.batches == len(sink.batches)
    blocks = list(verify(Disk(tmp_path / "journal")))
    assert (blocks[-1].data["status"], blocks[-1].data["output"]["stop"]) == ("done", 130)
    again = stream([("other", 5)], SlowCountFn(), sink)
    assert (again.batches, again.done) == (0, True)


@KINDS
def test_numbers_may_be_of_any_kind(stream, kind):
    """Of NumPy say: each stands for the int that it is."""
    bounds = dict.fromkeys(["batch_seconds", "max_batches", "max_items", "min_tasks", "max_tasks"], kind(1))
    assert stream([("a", 3)], CountFn(), Sink(), **bounds).batches == 1


def test_a_stream_goes_on_where_it_stopped(stream):
    """With the work that it was begun with; the elements of the call are not asked for again."""
    elements, sink = [("a", 100)], Sink()
    assert stream(elements, SlowCountFn(), sink, max_batches=2).batches == 2
    assert stream([("ignored", 1)], SlowCountFn(), sink).done
    assert sink.records() == expected(elements)
    assert sorted(sink.batches) == list(range(1, len(sink.batches) + 1))


def test_work_without_an_end_is_deferred_and_goes_on(stream):
    """Not before its delay, and in order."""
    sink = Sink()
    began = time.monotonic()
    summary = stream(["x"], EndlessFn(delay_seconds=0.5), sink, max_batches=3, batch_seconds=0.1)
    assert (summary.batches, summary.done) == (3, False)
    assert sink.records() == [("x", i) for i in range(15)]
    assert time.monotonic() - began >= 1.0


class BackOffFn(EndlessFn):
    """Claims, is told after half a second to come back in one, and notes when it was asked and told."""

    def __init__(self, folder):
        super().__init__(delay_seconds=1)
        self.folder = folder

    def process(self, element, tracker):
        start, _ = tracker.current_restriction()
        Path(self.folder, f"asked {start}").write_text(str(time.time()))
        if tracker.try_claim(start):
            yield start
            time.sleep(0.5)
            Path(self.folder, f"told {start}").write_text(str(time.time()))
            tracker.defer_remainder(self.delay_seconds)


@pytest.mark.parametrize("batch_seconds", [0.1, 1.2])
def test_a_delay_counts_from_when_it_was_asked_for(stream, tmp_path, batch_seconds):
    """Also where the batch's time was over before, and the rest had been cut off."""
    assert stream(["x"], BackOffFn(tmp_path), Sink(), max_batches=3, batch_seconds=batch_seconds).batches == 3
    for number in (0, 1):
        told, asked = (float((tmp_path / name).read_text()) for name in (f"told {number}", f"asked {number + 1}"))
        assert asked - told >= 1


def test_where_nothing_was_due_a_stream_waits_for_what_is(stream, monkeypatch):
    """And not for the time of a batch; after the last one it waits for nothing."""
    pauses, times = [], Clock()

    def pause(stream, seconds, *events):
        pauses.append(seconds)
        if len(pauses) > 1:
            times.reach(times() + math.ceil(1000 * seconds))  # the wait for what is due takes no time

    monkeypatch.setattr(batches.Stream, "_pause", pause)
    monkeypatch.setattr(batches, "Clock", lambda: times)
    stream(["x"], EndlessFn(delay_seconds=9), Sink(), max_batches=2, batch_seconds=1000)
    assert pauses[0] > 500
    assert pauses[1:]
    assert max(pauses[1:]) <= 9


def test_a_stream_stops_when_it_is_idle(stream):
    """That is when nothing is due and nothing came; deferred work stays in the journal."""
    sink = Sink()
    summary = stream(["x"], EndlessFn(delay_seconds=3600), sink, idle=True)
    assert (summary.batches, sink.records()) == (1, [("x", i) for i in range(5)])


def test_a_stream_that_stops_when_it_is_idle_looks_at_all_there_is_first(stream):
    """So that it can be started now and then, to do what has come."""
    sink = Sink()
    for calls in (1, 2, 3):
        assert stream(["x"], EndlessFn(delay_seconds=3600), sink, idle=True).batches == 1
        assert sink.records() == [("x", i) for i in range(5 * calls)]


def test_a_stream_is_idle_though_work_is_due_again_before_its_batch_has_ended(stream):
    """Polling faster than batches take must not keep it going for ever."""

    class PollFn(EndlessFn):
        def process(self, element, tracker):
            time.sleep(0.02)
            if tracker.current_restriction().start == 0:
                yield from super().process(element, tracker)
            else:
                tracker.defer_remainder(0.001)

    sink = Sink()
    summary = stream(["x", "y"], PollFn(delay_seconds=0), sink, idle=True, batch_seconds=0.01)
    assert (summary.done, len(sink.records())) == (False, 10)


class LaterFn(CountFn):
    """Defers by an hour after each position."""

    def process(self, element, tracker):
        for position in tracker.claims():
            yield element[0], position
            tracker.defer_remainder(3600)
            return


class OneByOneFn(DoFn):
    """Element: a name and how many records; gives one at a time, and can be asked again at once."""

    def __init__(self, seconds):
        self.seconds = seconds

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def process(self, element, tracker):
        name, count = element
        start, stop = tracker.current_restriction()
        if stop is UNBOUNDED:
            time.sleep(self.seconds)
        if start < count and tracker.try_claim(start):
            yield name, start
        if stop is UNBOUNDED:
            tracker.defer_remainder(0)


@pytest.mark.parametrize(("seconds", "options"), [(0, {"max_items": 1}), (0.3, {"max_tasks": 1})])
def test_a_stream_is_idle_when_all_was_tried_since_anything_came(stream, seconds, options):
    """Where a batch has no room for all, or no time, and whatever is due again before the others had their turn."""
    elements, sink, stop = [("a", 1), ("b", 3), ("c", 1)], Sink(), threading.Event()
    guard = threading.Timer(900, stop.set)
    guard.start()
    stream(elements, OneByOneFn(seconds), sink, idle=True, batch_seconds=0.1, stop=stop, **options)
    guard.cancel()
    assert sink.records() == expected(elements)
    assert not stop.is_set()


def test_the_watermark_is_the_lowest_of_all_work(stream):
    """It is in each batch and in the journal, and never goes back."""
    sink = Sink()
    summary = stream(["x", "y"], EndlessFn(), sink, max_batches=4, max_items=1, min_tasks=1, max_tasks=1)
    assert sink.watermarks == sorted(sink.watermarks)
    assert sink.watermarks[0] == -1  # of the one that has not run yet
    assert summary.watermark == sink.watermarks[-1] == 9


class TimesFn(DoFn):
    """Element: N. Gives the times from 0 to N, each an element of the next step, five at a time."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def create_watermark_estimator(self, element, restriction):
        return ManualWatermark(-1)

    def process(self, element, tracker):
        for claims, time_ in enumerate(range(*tracker.current_restriction())):
            if claims == 5:
                tracker.defer_remainder()
                return
            if not tracker.try_claim(time_):
                return
            tracker.watermark.advance_if_greater(time_)
            yield time_, 1


def test_what_waits_for_a_step_without_an_estimator_holds_the_watermark(stream):
    """No record is older than the watermark of a batch before, whoever drove that."""
    sink, options = Sink(), {"max_items": 2, "batch_seconds": 0.05, "max_tasks": 1}
    stream([20], [TimesFn(), CountFn()], sink, max_batches=2, **options)
    stream([20], [TimesFn(), CountFn()], sink, **options)
    oldest = [min(time_ for time_, _ in records) for records in sink.batches.values()]
    assert all(mark <= time_ for mark, time_ in zip(sink.watermarks, oldest[1:], strict=False))
    assert sink.watermarks[-1] > sink.watermarks[0]


def test_outputs_of_a_step_are_elements_of_the_next_in_the_same_batch(stream, tmp_path):
    """Each with work of its own, which may go on when the step before has ended."""

    class NamesFn(CountFn):
        def process(self, element, tracker):
            for name, i in super().process(element, tracker):
                yield f"{name}{i}", 3

    sink = Sink()
    summary = stream([("n", 4)], [NamesFn(), CountFn()], sink)
    assert (summary.batches, summary.done) == (1, True)
    assert sink.records() == expected([(f"n{i}", 3) for i in range(4)])
    assert find_head(Disk(tmp_path / "journal")).data["inputs"] == [
        {"id": "0 NamesFn", "start": 0, "stop": 1}, {"id": "1 CountFn", "start": 0, "stop": 4},
    ]  # fmt: skip


def test_a_batch_takes_on_no_more_than_it_may(stream):
    """What is left waits its turn, in order."""
    elements, sink = [(f"{number:02}", 2) for number in range(10)], Sink()
    assert stream(elements, CountFn(), sink, max_items=4).batches == 3
    assert [len(records) for records in sink.batches.values()] == [8, 8, 4]


def test_what_waits_is_served_before_what_was_deferred_later(stream):
    """Each has its turn, though the first is due again before the last was looked at."""
    wake, given = threading.Event(), []

    def sink(batch):
        given.append(batch.rdd.first()[0])
        if given == ["x", "y"]:
            wake.set()  # so that all is due

    stream(["x", "y", "z"], EndlessFn(delay_seconds=3600), sink, max_batches=3, max_items=1, wake=wake)
    assert given == ["x", "y", "z"]


class HogFn(EndlessFn):
    """Takes all the time there is, but for one element."""

    def process(self, element, tracker):
        for i in range(tracker.current_restriction().start, 1 if element == "modest" else 1_000_000):
            if not tracker.try_claim(i):
                return
            time.sleep(0.01)
            yield element, i
        tracker.defer_remainder(3600)


def test_what_a_task_had_no_time_to_start_is_the_first_in_the_next_batch(stream):
    """Else two that take all the time would shut it out for ever, in turns."""
    sink = Sink()
    stream(["x", "modest", "y"], HogFn(), sink, max_batches=2, max_items=2, min_tasks=1, max_tasks=1)
    assert {element for element, _ in sink.batches[1]} == {"x"}
    assert ("modest", 0) in sink.batches[2]


def test_sources_hear_what_is_committed(stream):
    """Once for each part, after the commit; again when a stream is resumed, since a crash may have come between."""
    AcknowledgedFn.heard = []
    stream([("a", 3), ("b", 4)], AcknowledgedFn(), Sink(), max_items=1, max_tasks=1)
    assert AcknowledgedFn.heard == [(("a", 3), 0, 3), (("b", 4), 0, 4)]
    stream([("a", 3)], AcknowledgedFn(), Sink())
    assert AcknowledgedFn.heard[2:] == [(("b", 4), 0, 4)]


class StuckNamesFn(CountFn):
    """Gives elements for the next step, and cannot be taken down."""

    def process(self, element, tracker):
        for name, number in super().process(element, tracker):
            yield name, number + 1

    def on_commit(self, element, restriction):
        pass

    def teardown(self):
        raise OSError("no way down")


class TakenDownFn(AcknowledgedFn):
    """Notes on the driver that it was taken down."""

    def teardown(self):
        self.heard.append("down")


def test_a_teardown_that_raises_leaves_the_next_step_its_own(sc, stream):
    """And nothing stored; and whoever watches is told that the stream has ended."""
    TakenDownFn.heard, shown = [], []
    before = set(sc._jsc.getPersistentRDDs().keySet())  # those of other tests may be stored
    with pytest.raises(ProcessError, match="no way down"):
        stream([("a", 2)], [StuckNamesFn(), TakenDownFn()], Sink(), progress=shown.append)
    assert TakenDownFn.heard[-1] == "down"
    assert set(sc._jsc.getPersistentRDDs().keySet()) - before == set()
    assert shown[-1].ended
    assert not [one for one in threading.enumerate() if one.name == "sdf-progress"]


def test_a_stream_that_cannot_begin_leaves_nothing_behind(stream, tmp_path):
    """Neither what its first steps had sent, nor a journal."""
    known, last = set(accumulators._accumulatorRegistry), CountFn()
    last.lock = threading.Lock()
    with pytest.raises(UnpicklableError):
        stream([("a", 2)], [CountFn(), last], Sink())
    assert set(accumulators._accumulatorRegistry) <= known
    assert not (tmp_path / "journal").exists()


def test_an_event_stops_a_stream_after_its_batch(stream):
    """From another thread; the journal is whole and can be gone on with."""
    stop = threading.Event()
    sink = EndsAfter(3, threading.Thread(target=stop.set).start)
    summary = stream(["x"], EndlessFn(delay_seconds=0.05), sink, stop=stop)
    assert summary.batches == len(sink.batches) >= 3
    stream(["x"], EndlessFn(delay_seconds=0.05), sink, max_batches=2)
    assert sink.records() == [("x", i) for i in range(len(sink.records()))]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_a_stream_after_its_batch(stream, number):
    """And what was done with signals before is done again."""
    before = signal.getsignal(number)
    sink = EndsAfter(3, lambda: os.kill(os.getpid(), number))
    assert stream(["x"], EndlessFn(delay_seconds=0.05), sink).batches == len(sink.batches) >= 3
    assert signal.getsignal(number) is before


def test_draining_does_what_is_finite_and_drops_the_rest(stream, tmp_path):
    """The journal is closed after it."""
    sink = Sink()
    summary = stream([("a", 60)], SlowCountFn(), sink, max_batches=1, drain=True)
    assert (summary.done, sink.records()) == (True, expected([("a", 60)]))


def test_draining_drops_work_without_an_end(stream, tmp_path):
    """Nothing more of it is read."""
    sink = Sink()
    summary = stream(["x"], EndlessFn(), sink, max_batches=2, drain=True)
    assert (summary.done, len(sink.records())) == (True, 10)
    assert find_head(Disk(tmp_path / "journal")).data["status"] == "done"


def test_an_idle_stream_writes_no_blocks(stream, tmp_path):
    """Only what advances is worth one; the first says with what elements it began."""

    class NothingFn(EndlessFn):
        def process(self, element, tracker):
            tracker.defer_remainder(0.01)
            return ()

    stop = threading.Event()

    def stops_it_when_it_has_been_idle():
        while not (head := find_head(Disk(tmp_path / "journal"))) or head.seq == 0:
            time.sleep(0.05)
        time.sleep(1)
        stop.set()

    threading.Thread(target=stops_it_when_it_has_been_idle, daemon=True).start()
    assert stream(["x"], NothingFn(), Sink(), stop=stop, batch_seconds=0.05).batches == 1
    assert find_head(Disk(tmp_path / "journal")).seq == 1


def test_a_sink_that_raises_gets_the_same_batch_again(stream):
    """Its error is raised as it is; the next call begins with that batch."""
    calls = []

    def sink(batch):
        calls.append((batch.id, batch.rdd.collect()))
        if len(calls) == 1:
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        stream([("a", 10)], CountFn(), sink)
    assert stream([("a", 10)], CountFn(), sink).done
    assert calls[0] == calls[1]


def test_an_error_of_the_dofn_leaves_a_journal_to_go_on_with(stream):
    """Mended, the stream goes on without loss."""

    class BrokenFn(CountFn):
        broken = True

        def process(self, element, tracker):
            if self.broken:
                raise ValueError("broken")
            yield from super().process(element, tracker)

    fn, sink = BrokenFn(), Sink()
    with pytest.raises(ProcessError, match="broken"):
        stream([("a", 10)], fn, sink)
    fn.broken = False
    assert stream([("a", 10)], fn, sink).done
    assert sink.records() == expected([("a", 10)])


def test_the_journal_of_other_dofns_is_refused(stream):
    """Before any job runs."""
    stream([("a", 3)], CountFn(), Sink(), max_batches=1)
    with pytest.raises(JournalError, match="belongs to another stream"):
        stream([("a", 3)], SlowCountFn(), Sink())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"batch_seconds": 0}, InvalidValueError, "Pace batch_seconds must be a positive number below 1e"),
        ({"batch_seconds": True}, InvalidValueError, "Pace batch_seconds must be a positive number below 1e"),
        ({"max_batches": 0}, InvalidValueError, "Until max_batches must be an integer >= 1, or None"),
        ({"max_items": 1.5}, InvalidValueError, "Pace max_items must be an integer >= 1, or None"),
        ({"min_tasks": 3, "max_tasks": 2}, InvalidValueError, "Pace min_tasks must be <= max_tasks"),
        ({"stop": True}, InvalidTypeError, "Until stop must be a threading.Event, or None"),
        ({"max_records_per_batch": 3}, TypeError, "unexpected keyword"),
        ({"checkpoint": None}, InvalidTypeError, "checkpoint must be a path, or a URL"),
        ({"checkpoint": ""}, InvalidValueError, "checkpoint must not be empty"),
        ({"checkpoint": "hdfs:/journal"}, InvalidValueError, "checkpoint cannot be there"),
        ({"foreach_batch": None}, InvalidTypeError, "needs foreach_batch="),
        ({"fns": []}, InvalidTypeError, "needs a DoFn or a sequence of them"),
        ({"fns": CountFn}, InvalidTypeError, "needs a DoFn or a sequence"),
        ({"fns": [CountFn]}, InvalidTypeError, "instance of a DoFn"),
        ({"elements": [1]}, InvalidTypeError, "needs an RDD"),
    ],
    ids=str,
)
def test_wrong_arguments_are_named(sc, tmp_path, options, error, message):
    """Before anything is written."""
    call = {"elements": sc.parallelize([1]), "fns": CountFn(), "foreach_batch": print, "checkpoint": tmp_path / "j"}
    with pytest.raises(error, match=message):
        stream_sdf(**grouped(**{**call, **options}))
    assert not (tmp_path / "j").exists()


def test_nothing_stays_stored(sc, stream):
    """The records of a batch are freed when its sink has returned, and PySpark keeps no accumulator."""
    before, known = set(sc._jsc.getPersistentRDDs().keySet()), set(accumulators._accumulatorRegistry)
    stream([("a", 50)], SlowCountFn(), Sink())
    assert set(sc._jsc.getPersistentRDDs().keySet()) - before == set()
    assert set(accumulators._accumulatorRegistry) <= known


# What a crash must not lose, where steps were not all at work


class NamesFn(DoFn):
    """Gives the lines of a file that are new, as elements of the next step; looks again after a while."""

    def __init__(self, delay_seconds):
        self.delay_seconds = delay_seconds

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        there = Path(element).read_text().split()
        for i in range(start, len(there) if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            yield there[i]
        if stop is UNBOUNDED:
            tracker.defer_remainder(self.delay_seconds)


class Failing(Sink):
    """Raises at some of its calls, after it has kept the records."""

    def __init__(self, *at):
        super().__init__()
        self.at, self.calls = set(at), 0

    def __call__(self, batch):
        super().__call__(batch)
        self.calls += 1
        if self.calls in self.at:
            raise RuntimeError("down")


def test_what_comes_while_a_stream_is_down_is_not_lost_to_a_step_that_had_nothing_due(stream, tmp_path):
    """The batch that comes again is the same; what is new belongs to the next."""
    names, other = tmp_path / "names", tmp_path / "a"
    names.write_text(str(other))
    other.write_text("1 ")
    sink = Failing(2)
    chain = [NamesFn(3600), NamesFn(0)]
    stream([str(names)], chain, sink, max_batches=1)
    other.write_text("1 2 ")
    with pytest.raises(RuntimeError, match="down"):
        stream([str(names)], chain, sink, max_batches=1)  # the first step is not due in it
    late = tmp_path / "b"
    late.write_text("3 4")
    names.write_text(f"{other} {late}")
    stream([str(names)], chain, sink, idle=True)
    assert sink.records() == ["1", "2", "3", "4"]


def test_a_batch_that_comes_again_after_an_idle_one_is_the_same(stream, tmp_path):
    """Whatever order the work was in when it was planned."""
    paths = [tmp_path / name for name in ("a", "b", "c")]
    for path in paths:
        path.write_text(f"{path.name}1 ")
    sink = Failing(4, 5, 6)
    options = {"max_items": 1, "idle": True, "batch_seconds": 0.05}
    stream([str(path) for path in paths], NamesFn(0), sink, **options)
    for number in (2, 3):
        for path in paths:
            path.write_text(path.read_text() + f"{path.name}{number} ")
        for _ in range(3):
            with contextlib.suppress(RuntimeError):
                stream([], NamesFn(0), sink, **options)
    assert sink.calls > 6
    assert sink.records() == [f"{path.name}{number}" for path in paths for number in (1, 2, 3)]


def test_a_stream_that_stops_when_it_is_idle_has_tried_each(stream, tmp_path):
    """Not as often as there are work items, but every one of them."""
    paths = [tmp_path / name for name in ("a", "b", "c", "d")]
    for path in paths:
        path.write_text("1 ")
    sink, elements = Sink(), [str(path) for path in paths]
    options = {"max_items": 1, "idle": True}
    stream(elements, NamesFn(0.5), sink, **options)
    for calls in (1, 2):
        for path in paths[2:]:
            path.write_text(path.read_text() + "1 ")
        stream(elements, NamesFn(0.5), sink, **options)
        assert len(sink.records()) == 4 + 2 * calls


def test_a_stream_that_follows_what_was_planned_looks_at_the_rest_before_it_is_idle(stream, tmp_path):
    """What a driver that has died planned knows nothing of what has come since."""
    paths, sink = [tmp_path / name for name in ("a", "b")], Sink()
    for path in paths:
        path.write_text(f"{path.name}1 ")
    stream([str(path) for path in paths], NamesFn(3600), sink, idle=True)
    journal = Journal(Disk(tmp_path / "journal"), config={"fns": ["NamesFn"]}, inputs=["0 NamesFn"], clock=Clock())
    first, second = Remaining.load(journal.get, journal.head.data["checkpoint"], 0)[0]
    Path(first.part.element).write_text("a1 a2 ")
    read = attrs.evolve(first.part, id=None, restriction=OffsetRange(1, 2))
    left = attrs.evolve(first.part, id=None, restriction=OffsetRange(2, UNBOUNDED))
    pin = Pin(((read,),), ((1,),), (first.id,), (left,), None, "a driver that died")
    journal.write_ahead("pin-0", {**pin.to_json(), "given": {"tags": [], "side_inputs": {}}})
    Path(second.part.element).write_text(Path(second.part.element).read_text() + "new ")
    stream([], NamesFn(3600), sink, idle=True)
    assert sink.records() == ["a1", "a2", "b1", "new"]


def test_a_stream_of_nothing_is_done(stream, tmp_path):
    """No elements, or none with any work."""
    sink = Sink()
    assert stream([], CountFn(), sink).done
    assert stream([("a", 0)], CountFn(), sink, checkpoint_name="other").done
    assert sink.batches == {}


class OddWatermarkFn(EndlessFn):
    """Its estimator has seen nothing yet."""

    def create_watermark_estimator(self, element, restriction):
        return ManualWatermark(float("-inf") if element == "x" else fractions.Fraction(1, 2))

    def process(self, element, tracker):
        for i in range(tracker.current_restriction().start, 3):
            if not tracker.try_claim(i):
                return
            yield element, i
        tracker.defer_remainder(3600)


def test_watermarks_that_are_no_plain_numbers(stream):
    """Minus infinity says nothing; a fraction is a number."""
    sink = Sink()
    assert stream(["x"], OddWatermarkFn(), sink, idle=True).watermark is None
    assert stream(["y"], OddWatermarkFn(), Sink(), idle=True, checkpoint_name="other").watermark == 0.5


def test_a_name_that_is_not_utf8(stream):
    """As file systems have them."""
    sink = Sink()
    assert stream([("caf\udce9", 3)], CountFn(), sink).done
    assert sink.records() == [("caf\udce9", i) for i in range(3)]


def test_elements_of_classes_without_a_name_of_their_own(stream):
    """They are pickled where their description would not give them back."""

    class Local:
        def __init__(self, count):
            self.count = count

    class LocalFn(DoFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, element.count)

        def process(self, element, tracker):
            for i in range(*tracker.current_restriction()):
                if not tracker.try_claim(i):
                    return
                yield i

    sink = Sink()
    assert stream([Local(4)], LocalFn(), sink).done
    assert sink.records() == [0, 1, 2, 3]


def test_a_class_of_the_main_program_is_the_one_that_is_there_on_resume(monkeypatch):
    """Also where its values have no description as data."""
    this, next_process = (type("Names", (list,), {"__module__": "__main__"}) for _ in range(2))
    monkeypatch.setattr(sys.modules["__main__"], "Names", this, raising=False)
    written = to_data(this("ab"))
    monkeypatch.setattr(sys.modules["__main__"], "Names", next_process)
    assert type(from_data(written)) is next_process
    assert from_data(written) == ["a", "b"]


def test_draining_follows_what_was_written_ahead_first(stream, tmp_path):
    """And then ends, though that holds work without an end."""
    path, sink, stop = tmp_path / "a", Failing(1), threading.Event()
    path.write_text("1 2 ")
    with pytest.raises(RuntimeError, match="down"):
        stream([str(path)], NamesFn(0), sink)
    path.write_text("1 2 3 ")
    stop.set()
    assert stream([str(path)], NamesFn(0), sink, stop=stop, drain=True).done
    assert sink.records() == ["1", "2"]


class OvertakenFn(EndlessFn):
    """While it is drained, another driver does something with the journal."""

    def __init__(self, folder, overtake):
        super().__init__()
        self.folder, self.overtake = folder, overtake

    def truncate(self, element, restriction):
        self.overtake(Journal(Disk(self.folder), config={"fns": ["OvertakenFn"]}, inputs=["0 OvertakenFn"], clock=int))
        return super().truncate(element, restriction)


def begins(journal):
    journal.write_ahead("pin-0", Pin().to_json())


def test_a_drain_commits_nothing_where_another_driver_has_begun(stream, tmp_path):
    """That may have given its sink the records that this one would give under the next number."""
    sink, fn = Sink(), OvertakenFn(tmp_path / "journal", begins)
    with pytest.raises(JournalFencedError, match="another driver is ahead of this one"):
        stream(["x"], fn, sink, max_batches=1, drain=True)
    assert list(sink.batches) == [1]
    assert find_head(Disk(tmp_path / "journal")).seq == 1


def test_a_drain_that_died_before_its_commit_is_gone_on_with(stream, monkeypatch):
    """As it was planned: the endless work has an end."""
    elements, sink, commit = ["x"], Sink(), Checkpoint.commit

    def die(at, pins=(), *more):
        if not pins:
            raise KeyboardInterrupt
        commit(at, pins, *more)

    monkeypatch.setattr(Checkpoint, "commit", die)
    with pytest.raises(KeyboardInterrupt):
        stream(elements, EndlessFn(), sink, max_batches=1, drain=True)
    monkeypatch.undo()
    assert stream(elements, EndlessFn(), sink).done
    assert len(sink.records()) == 5


def test_a_drain_that_died_is_gone_on_with(stream):
    """By whoever comes next: what was to be done is in the journal."""
    elements, sink, stop = [("a", 30), ("b", 30)], Failing(1), threading.Event()
    stop.set()
    with pytest.raises(RuntimeError, match="down"):
        stream(elements, SlowCountFn(), sink, stop=stop, drain=True)
    assert stream(elements, SlowCountFn(), sink).done
    assert sink.records() == expected(elements)


def test_a_drain_is_woken_from_a_deferral(stream):
    """Not only a stream that runs on."""
    wake, stop = threading.Event(), threading.Event()
    stop.set()
    sink = Sink()

    def give(batch):
        sink(batch)
        wake.set()

    assert stream([("a", 2)], LaterFn(), give, stop=stop, wake=wake, drain=True).done
    assert sink.records() == expected([("a", 2)])


def test_the_last_progress_says_how_things_are_in_the_end(stream):
    """Also when no batch was committed."""
    shown, stop = [], threading.Event()
    stop.set()
    stream(["x"], EndlessFn(delay_seconds=0), Sink(), max_batches=1, drain=True, progress=shown.append)
    assert (shown[-1].backlog, shown[-1].batches, shown[-1].records, shown[-1].ended) == (0, 1, 5, True)
    del shown[:]
    stream(["x"], EndlessFn(), Sink(), checkpoint_name="other", stop=stop, progress=shown.append)
    assert [(one.backlog, one.batches, one.ended) for one in shown] == [(1, 0, True)]


def test_draining_what_only_defers_is_an_error(stream, monkeypatch):
    """It would never end."""
    monkeypatch.setattr(batches, "_MOST_IDLE", 5)
    stop = threading.Event()
    stop.set()
    with pytest.raises(DeferError, match="the stream cannot be drained: finite work was deferred 6 times in a row"):
        stream([("a", 3)], OnlyDefersFn(), Sink(), stop=stop, drain=True)

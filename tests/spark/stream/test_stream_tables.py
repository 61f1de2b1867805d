"""Small elements of a stream are rows of tables: few parts in its tasks and its journal, the same records."""

import os
import signal
import threading
import time

import pytest
from support.streaming import grouped

from sdf import DoFn, OffsetRange, Quarantine, stream_sdf
from sdf.spark.stream.steps import Step

ELEMENTS = range(300)


class ThriceFn(DoFn):
    """Element: a number. Gives it with each of three positions; some elements do something else first."""

    def __init__(self, seconds=0.0, defers=(), bad=()):
        self.seconds, self.defers, self.bad = seconds, set(defers), dict(bad)

    def get_initial_restriction(self, element):
        return OffsetRange(0, 3)

    def process(self, element, tracker):
        time.sleep(self.seconds)
        for position in tracker.claims():
            if position == 1 and element in self.bad:
                if self.bad[element] == "is killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError("no number")
            yield element, position
            if position == 0 and element in self.defers:
                tracker.defer_remainder(0)
                return


class CommittedFn(ThriceFn):
    """Writes down what was committed."""

    def __init__(self, path):
        super().__init__()
        self.path = path

    def on_commit(self, element, restriction):
        with open(self.path, "a") as file:
            print(element, restriction.start, restriction.stop, file=file)


class Kept:
    """Keeps the records of each batch; ``dies``: raises after the first one."""

    def __init__(self, *, dies=False):
        self.batches, self.failures, self.dies = {}, [], dies

    def __call__(self, batch):
        records = sorted(batch.rdd.collect())
        assert self.batches.setdefault(batch.id, records) == records
        self.failures += batch.failures
        if self.dies:
            self.dies = False
            raise RuntimeError("down")

    def records(self):
        return sorted(record for records in self.batches.values() for record in records)


@pytest.fixture
def parts(monkeypatch):
    """List the number of parts in each stage."""
    run, counts = Step.run, []

    def counted(step, number, plan, *more):
        counts.append(sum(map(len, plan.tasks)))
        return run(step, number, plan, *more)

    monkeypatch.setattr(Step, "run", counted)
    return counts


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that runs a stream over the elements."""

    def run(fn, keep, elements=ELEMENTS, **options):
        rdd = sc.parallelize(elements, 2)
        return stream_sdf(
            rdd, fn, foreach_batch=keep, checkpoint=tmp_path / "journal", **grouped(batch_seconds=0.2, **options)
        )

    return run


def expected(*without):
    return sorted({(number, position) for number in ELEMENTS for position in range(3)} - set(without))


def test_many_elements_are_few_parts(stream, parts):
    """So a stage and the journal hold some tables instead of each element."""
    kept = Kept()
    assert stream(ThriceFn(), kept).done
    assert kept.records() == expected()
    assert max(parts) <= 16


def test_elements_that_a_step_gives_are_rows_too(stream, parts):
    """As the files that a scan has found."""
    kept = Kept()
    assert stream([ThriceFn(), Second()], kept).done
    assert kept.records() == sorted([(record, 0) for record in expected()])
    assert max(parts) <= 100


class Second(DoFn):
    """Gives its element at its one position."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for position in tracker.claims():
            yield element, position


def test_a_batch_without_time_for_all_is_cut_between_rows_or_inside_one(stream, parts):
    """What is left of a table is rows of it; a row that defers goes on by itself."""
    kept = Kept()
    assert stream(ThriceFn(seconds=0.01, defers=(0, 7, 150, 299)), kept).done
    assert kept.records() == expected()
    assert len(kept.batches) > 2


class LateFn(ThriceFn):
    """Some of its elements are not there yet, and defer before they claim anything."""

    def process(self, element, tracker):
        if element in self.defers:
            tracker.defer_remainder(3600)
            return
        yield from super().process(element, tracker)


def test_rows_behind_one_that_is_not_there_yet_do_not_wait_for_it(stream):
    """It is cut off from its table, and waits alone."""
    kept = Kept()
    summary = stream(LateFn(defers=(0, 1, 200)), kept, idle=True, min_tasks=1, max_tasks=1)
    assert kept.records() == expected(*((number, at) for number in (0, 1, 200) for at in range(3)))
    assert not summary.done


def test_an_element_that_is_no_row_stays_in_one_piece_while_it_waits(stream, monkeypatch):
    """Several tasks try parts of it, and the journal keeps the one that it has."""
    run, ids = Step.run, []

    def noted(step, number, plan, *more):
        ids.append({part.id for parts in plan.tasks for part in parts})
        return run(step, number, plan, *more)

    monkeypatch.setattr(Step, "run", noted)
    for _ in range(3):
        assert not stream(LateFn(defers=(0,)), Kept(), [0], idle=True).done
    assert [len(each) for each in ids] == [1, 1, 1]


def test_a_driver_that_dies_after_a_batch_was_given_leaves_the_same_batch_to_the_next(stream):
    """From the parts that were written down, which are rows."""
    kept = Kept(dies=True)
    with pytest.raises(RuntimeError, match="down"):
        stream(ThriceFn(seconds=0.01), kept)
    assert kept.batches
    assert stream(ThriceFn(seconds=0.01), kept).done
    assert kept.records() == expected()


@pytest.mark.parametrize("what", ["raises", "is killed"])
def test_a_bad_row_is_set_aside_alone(stream, what):
    """By its element and its own position."""
    kept = Kept()
    stream(ThriceFn(bad={5: what, 170: what}), kept, on_failure=Quarantine(block_seconds=30))
    assert kept.records() == expected((5, 1), (170, 1))
    blocks = sorted((block.element, block.restriction) for block in kept.failures)
    assert blocks == [(5, OffsetRange(1, 2)), (170, OffsetRange(1, 2))]


def test_a_drain_keeps_rows_that_nobody_has_run(stream):
    """They have an end."""
    stop, kept = threading.Event(), Kept()
    stop.set()
    assert stream(ThriceFn(), kept, stop=stop, drain=True).done
    assert kept.records() == expected()


def test_a_limit_of_items_counts_elements(stream, parts):
    """So each is a part of its own."""
    kept = Kept()
    assert stream(ThriceFn(), kept, range(40), max_items=25).done
    assert parts == [25, 15]


def test_a_dofn_that_hears_of_commits_hears_of_each_element(stream, tmp_path):
    """Rows of a table are nothing that it knows."""
    stream(CommittedFn(tmp_path / "committed"), Kept())
    lines = sorted(tuple(map(int, line.split())) for line in (tmp_path / "committed").read_text().splitlines())
    assert lines == [(number, 0, 3) for number in ELEMENTS]

"""Catching up: a backlog that all slots read together, and that is given in order, whatever its tasks have time for."""

import itertools
import time

import pytest
from support.streaming import grouped

from sdf import UNBOUNDED, DoFn, MonotonicWatermark, OffsetRange, stream_sdf
from sdf.errors import SplitError
from sdf.execution.work_items import Outcome
from sdf.io import TailLines
from sdf.io.follow import tail as tail_module
from sdf.journal.pending import Pending
from sdf.spark.staged.stored_blocks import Receipt, Stamp
from sdf.spark.stream.catch_up import CatchUp, Plan

INFINITE = (float("inf"), float("inf"))


class EndlessFn(DoFn):
    """Element: how many positions are there."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, UNBOUNDED)

    def split_backlog(self, element, restriction, parts, length):
        start = restriction.start
        step = length or -(-(element - start) // parts)
        cuts = [*range(start, min(element, start + step * parts), step)] or [start]
        return [OffsetRange(*ends) for ends in itertools.pairwise((*cuts, UNBOUNDED))]

    def process(self, element, tracker):
        return ()


def a_receipt(task, seconds=1.0, records=0, size=0):
    return Receipt(Stamp("run", 0, task, 0), Outcome((), ()), (records,), size, "worker", 0.0, seconds)


def stops(parts):
    return [(part.restriction.start, part.restriction.stop) for part in parts]


@pytest.mark.parametrize("tasks", [2, 3, 4])
def test_what_counts_is_read_without_a_gap(tasks):
    """For all that tasks may have read of their parts: what counts ends where what is left begins."""
    per, whole_chains = 2, 0
    for read in itertools.product(range(per + 1), repeat=tasks):
        catch_up = CatchUp(1.0)
        (chain,) = catch_up.divide(EndlessFn(), [Pending(0, per * tasks, OffsetRange(0, UNBOUNDED))], tasks, INFINITE)
        rest, reached = [], []
        for part, count in zip(chain, read, strict=True):
            at, stop = part.restriction.start + count, part.restriction.stop
            reached.append(at)
            left = [] if at == stop else [(Pending(0, per * tasks, OffsetRange(at, stop)), 0)]
            rest.append(left)
        plan = Plan([(part,) for part in chain], [range(tasks)])
        dropped = catch_up.settle(plan, [a_receipt(task) for task in range(tasks)], rest)
        counted = [task for task in range(tasks) if task not in dropped]
        assert counted == list(range(len(counted)))
        assert all(read[task] == per for task in counted[:-1])
        ((left, _),) = itertools.chain.from_iterable(rest)
        assert left.restriction == OffsetRange(reached[counted[-1]], UNBOUNDED)
        assert left.restriction.start == sum(read[task] for task in counted)
        whole_chains += not dropped
    assert whole_chains == per + 1  # of the last part any number


def settled(*reads, most=INFINITE):
    """Return how long parts are when 4 tasks have read some positions of 10, in some seconds, with some records."""
    catch_up = CatchUp(2.0)
    parts = [Pending(0, 100, OffsetRange(10 * task, UNBOUNDED if task == 3 else 10 * task + 10)) for task in range(4)]
    rest, receipts = [], []
    for task, (length, seconds, *given) in enumerate(reads):
        left = OffsetRange(10 * task + length, UNBOUNDED)
        rest.append([] if task < 3 and length == 10 else [(Pending(0, 100, left), 0)])
        receipts.append(a_receipt(task, seconds, *given))
    catch_up.settle(Plan([(part,) for part in parts], [range(4)]), receipts, rest)
    (chain,) = catch_up.divide(EndlessFn(), [Pending(0, 1000, OffsetRange(0, UNBOUNDED))], 4, most)
    return stops(chain)[0][1]


def test_a_part_is_as_long_as_tasks_have_shown_to_read_in_a_batch():
    """Here 20 positions in 2 s, as 10 took 1 s; by the slowest part if one was not read whole."""
    assert settled((10, 1.0), (10, 1.0), (10, 1.0), (10, 1.0)) == 20
    assert settled((10, 0.5), (10, 0.5), (10, 1.5), (10, 1.5)) == 20
    assert settled((10, 0.5), (10, 0.5), (10, 0.5), (40, 2.0)) == 40
    assert settled((10, 1.0), (10, 1.0), (4, 2.0), (5, 2.0)) == 4


def test_a_part_is_as_long_as_the_limits_of_a_batch_let_it_be():
    """A bit less, as a task that reaches a limit leaves its part unread."""
    reads = [(10, 1.0, 100, 5000)] * 4
    assert settled(*reads, most=(100, float("inf"))) == 9
    assert settled(*reads, most=(float("inf"), 2500)) == 4


def test_slots_are_shared_by_all_that_is_behind():
    """What there is to divide of the first leaves more tasks for the next ones."""
    behind = [Pending(0, count, OffsetRange(0, UNBOUNDED)) for count in (1, 128, 128)]
    assert [len(chain) for chain in CatchUp(1.0).divide(EndlessFn(), behind, 64, INFINITE)] == [32, 32]
    assert CatchUp(1.0).divide(EndlessFn(), behind[1:], 3, INFINITE)[0][0].element == 128
    assert CatchUp(1.0).divide(EndlessFn(), behind, 1, INFINITE) == []


@pytest.mark.parametrize(
    ("parts", "rule"),
    [
        ([], "must return 1 to 4 parts in order"),
        ([(0, 5), (5, 10)], "its last part must have no end"),
        ([(0, 5), (6, UNBOUNDED)], "must end where the next one begins"),
        ([(0, 5), (4, UNBOUNDED)], "must end where the next one begins"),
        ([(1, 5), (5, UNBOUNDED)], "the first with the start of the restriction"),
        ([(0, 5), (5, 6), (5, UNBOUNDED)], "parts in order"),
        ([(number, number + 1) for number in range(4)] + [(4, UNBOUNDED)], "1 to 4 parts"),
    ],
)
def test_parts_that_do_not_follow_each_other_are_an_error(parts, rule):
    """It names method, element and restriction."""

    class WrongFn(EndlessFn):
        def split_backlog(self, element, restriction, count, length):
            return [OffsetRange(*part) for part in parts]

    with pytest.raises(SplitError, match=rule) as caught:
        CatchUp(1.0).divide(WrongFn(), [Pending(0, "it", OffsetRange(0, UNBOUNDED))], 4, INFINITE)
    assert "WrongFn.split_backlog()" in str(caught.value)
    assert "'it'" in str(caught.value)


class SleepyFn(EndlessFn):
    """Gives the positions that are there, some of them slowly."""

    def __init__(self, slow=(), log=None):
        self.slow, self.log = slow, log

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, element if stop is UNBOUNDED else stop):
            if not tracker.try_claim(i):
                return
            time.sleep(0.1 if i in self.slow else 0.002)
            yield i
        if stop is UNBOUNDED:
            tracker.defer_remainder(0.05)

    def on_commit(self, element, restriction):
        if self.log is not None:
            with open(self.log, "a") as file:
                file.write(f"{restriction.start} {restriction.stop}\n")


class Sink:
    """Keeps what each task of each batch has given; the first call for some batches fails."""

    def __init__(self, fails=()):
        self.given, self.fails = {}, set(fails)

    def __call__(self, batch):
        records = [part for part in batch.rdd.glom().collect() if part]
        assert self.given.setdefault(batch.key, records) == records
        if batch.id in self.fails:
            self.fails.remove(batch.id)
            raise KeyError(batch.id)

    def records(self):
        return [record for batch in self.given.values() for part in batch for record in part]


@pytest.fixture
def dropped(monkeypatch):
    """How many tasks of each batch were dropped."""
    counts, settle = [], CatchUp.settle

    def counting(self, plan, receipts, rest):
        found = settle(self, plan, receipts, rest)
        counts.append(len(found))
        return found

    monkeypatch.setattr(CatchUp, "settle", counting)
    return counts


def run(sc, tmp_path, elements, fn, sink, **options):
    return stream_sdf(
        sc.parallelize(elements),
        fn,
        checkpoint=tmp_path / "journal",
        foreach_batch=sink,
        **grouped(**{"idle": True, "batch_seconds": 0.3, **options}),
    )


def test_a_backlog_is_read_by_all_slots_in_order(sc, tmp_path, dropped):
    """What tasks have read of it after a part that was too slow is dropped, and read again: each record comes once."""
    sink, log = Sink(), tmp_path / "log"
    run(sc, tmp_path, [1500], SleepyFn(range(300, 306), str(log)), sink)
    assert sink.records() == list(range(1500))
    assert max(map(len, sink.given.values())) == sc.defaultParallelism
    assert sum(dropped) > 0
    committed = [tuple(map(int, line.split())) for line in log.read_text().splitlines()]
    assert all(before[1] == after[0] for before, after in itertools.pairwise(committed))
    assert (committed[0][0], committed[-1][1]) == (0, 1500)


def test_a_batch_that_comes_again_is_the_same(sc, tmp_path, dropped):
    """Its parts are pinned, and the tasks that were dropped are not among them."""
    sink = Sink(fails={2, 4})
    while sink.fails:
        with pytest.raises(KeyError):
            run(sc, tmp_path, [1500], SleepyFn(range(300, 306)), sink)
    run(sc, tmp_path, [1500], SleepyFn(range(300, 306)), sink)
    assert sink.records() == list(range(1500))
    assert sum(dropped) > 0


class LateFn(SleepyFn):
    """All positions but the first are late, from the second batch on."""

    def create_watermark_estimator(self, element, restriction):
        return MonotonicWatermark(0)

    def process(self, element, tracker):
        for i in super().process(element, tracker):
            tracker.watermark.observe(i or element)
            yield i


def test_late_records_that_are_dropped_and_read_again_are_counted_once(sc, tmp_path, dropped):
    """Only the tasks that count have counted them."""
    sink = Sink()
    summary = run(sc, tmp_path, [1500], LateFn(range(300, 306)), sink)
    first = next(iter(sink.given.values()))
    assert summary.late == 1500 - sum(map(len, first))
    assert sum(dropped[1:]) > 0


def test_what_is_new_elsewhere_does_not_wait_for_a_backlog(sc, tmp_path):
    """It is in the batch that divides the backlog."""
    sink = Sink()
    run(sc, tmp_path, [1500, 1], SleepyFn(), sink)
    first, *others = sink.given.values()
    assert [0] in first
    assert sorted(sink.records()) == sorted([0, *range(1500)])
    assert len(others) > 1


def test_limits_of_a_batch_hold_for_a_backlog(sc, tmp_path, dropped):
    """Once it is known how many records a part gives, no task is dropped."""
    sink = Sink()
    run(sc, tmp_path, [3000], SleepyFn(), sink, batch_seconds=2.0, max_records=400)
    sizes = [sum(map(len, batch)) for batch in sink.given.values()]
    assert sink.records() == list(range(3000))
    assert max(sizes) <= 440
    assert max(map(len, sink.given.values())) == sc.defaultParallelism
    assert sum(map(bool, dropped)) <= 2


def test_a_long_file_is_read_by_all_slots(sc, tmp_path, monkeypatch):
    """It is cut on the driver; its lines come in order, and those that are added then."""
    monkeypatch.setattr(tail_module, "_LEAST_PART_BYTES", 1000)
    path, sink = tmp_path / "a.log", Sink()
    path.write_text("".join(f"{number}\n" for number in range(5000)))

    def again(batch):
        sink(batch)
        if len(sink.given) == 1:
            with path.open("a") as file:
                file.write("5000\n")

    run(sc, tmp_path, [str(path)], TailLines(poll_seconds=0.1), again, batch_seconds=1.0)
    assert sink.records() == [str(number) for number in range(5001)]
    assert len(next(iter(sink.given.values()))) == sc.defaultParallelism

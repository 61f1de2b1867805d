"""Exactly once, whatever Spark loses, repeats or recomputes. Each test counts the faults that it really provoked."""

import itertools
import os
import random
import signal
import time
from collections import Counter
from itertools import chain

import pytest
from support.fns import CountFn, NotesRuns, OddFn, SlowCountFn, expected
from support.killing import lose_blocks

from sdf import MonotonicWatermark, StagedRunner, TaggedOutput, run_sdf
from sdf.errors import LedgerError
from sdf.execution.bundle import Bundle
from sdf.execution.expansion import checked_size, expand
from sdf.execution.work_items import Outcome, WorkItem
from sdf.scheduling.ledger import Ledger
from sdf.spark import serde
from sdf.spark.as_tasks_end import AsTasksEnd
from sdf.spark.staged.stored_blocks import Receipt, Stamp, batches, read_blocks, receipt_of

ELEMENTS = [("big", 200), ("a", 3), ("b", 0), ("c", 9)]
MANY_STAGES = StagedRunner(budget_seconds=0.1)


@pytest.fixture(scope="module")
def sc(start_spark):
    """Four slots in this process, and three more tries for a task that fails."""
    return start_spark("local[4,4]")


def test_blocks_lost_before_the_first_action_and_again_later(sc, tmp_path):
    """A lost block is replayed from the pinned parts: the same records, at the first action and at any later one."""
    fn = NotesRuns(tmp_path)
    result = run_sdf(sc.parallelize(ELEMENTS), fn, runner=MANY_STAGES)
    assert result.report.splits >= 3
    for _ in range(2):
        before = fn.runs()
        assert lose_blocks(sc) >= len(result.report.tasks)
        assert Counter(result.collect()) == expected(ELEMENTS)
        assert fn.runs() - before == sum(task.work_items for task in result.report.tasks)
    result.unpersist()


def test_blocks_lost_while_stages_still_run(sc, tmp_path):
    """What is lost while later stages run is replayed too."""
    import threading

    lost, ended = [], threading.Event()

    def lose():
        while not ended.wait(0.3):
            lost.append(lose_blocks(sc))

    thread = threading.Thread(target=lose)
    thread.start()
    result = run_sdf(sc.parallelize(ELEMENTS), SlowCountFn(0.02), runner=MANY_STAGES)
    ended.set()
    thread.join()
    assert sum(lost) > 0
    assert Counter(result.collect()) == expected(ELEMENTS)
    result.unpersist()


def test_tagged_outputs_survive_lost_blocks(sc):
    """Each output of a replayed part gets its own records."""
    outputs = run_sdf(sc.parallelize([("a", 40)]), OddFn(), tags=("odd",))
    assert lose_blocks(sc) > 0
    assert sorted(outputs["main"].values().collect()) == list(range(0, 40, 2))
    assert sorted(outputs["odd"].values().collect()) == list(range(1, 40, 2))
    outputs["main"].unpersist()


@pytest.mark.parametrize("change", ["lost", "doubled"])
def test_receipts_that_are_lost_or_doubled(sc, monkeypatch, change):
    """Accumulators only hint: a missing receipt is read from its block, a double one changes nothing."""
    changed = []
    add = AsTasksEnd.addInPlace

    def unreliable(self, value1, value2):
        if value2 and len(changed) % 2 == 0:
            changed.append(value2)
            return value1 if change == "lost" else add(self, add(self, value1, value2), value2)
        changed.append(None)
        return add(self, value1, value2)

    monkeypatch.setattr(AsTasksEnd, "addInPlace", unreliable)
    result = run_sdf(sc.parallelize(ELEMENTS), SlowCountFn(), runner=MANY_STAGES)
    assert sum(one is not None for one in changed) >= 3
    assert Counter(result.collect()) == expected(ELEMENTS)
    result.unpersist()


class DiesOnce(SlowCountFn):
    """The first attempt at some tasks raises, or its Python worker is killed, after it has given records."""

    def __init__(self, folder, how):
        super().__init__()
        self.folder = folder
        self.how = how

    def process(self, element, tracker):
        from pyspark import TaskContext

        context = TaskContext.get()
        for name, i in super().process(element, tracker):
            if i in (20, 150) and context.attemptNumber() == 0:
                with open(os.path.join(self.folder, f"{context.taskAttemptId()}"), "w"):
                    pass
                if self.how == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError("the disk hiccups")
            yield name, i


@pytest.mark.parametrize("how", ["raised", "killed"])
def test_tasks_that_die_half_way_are_run_again_by_spark(sc, tmp_path, how):
    """What a failed attempt gave is not in the result; the retry counts."""
    result = run_sdf(sc.parallelize(ELEMENTS), DiesOnce(tmp_path, how), runner=MANY_STAGES)
    assert len(list(tmp_path.iterdir())) >= 2
    assert Counter(result.collect()) == expected(ELEMENTS)
    result.unpersist()


def test_a_block_computed_again_by_the_clock_is_never_trusted(sc):
    """Spark may recompute a lost block and store it again: later actions still read only the pinned parts."""
    result = run_sdf(sc.parallelize(ELEMENTS), SlowCountFn(), runner=MANY_STAGES)
    assert lose_blocks(sc) > 0
    assert Counter(result.collect()) == expected(ELEMENTS)
    assert lose_blocks(sc) > 0  # the first action stored blocks again
    assert Counter(result.collect()) == Counter(result.collect()) == expected(ELEMENTS)
    result.unpersist()


class WatermarkFn(SlowCountFn):
    """Each record carries the watermark, which goes on from part to part."""

    def create_watermark_estimator(self, element, restriction):
        return MonotonicWatermark(-1)

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            before = tracker.watermark.current()
            tracker.watermark.observe(i)
            yield name, i, before


class RateLimitedFn(CountFn):
    """Defers the rest now and then, as a server asks for it. Its records depend on element and restriction only."""

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if random.random() < 0.05:
                tracker.defer_remainder(0.01)
                return
            if not tracker.try_claim(i):
                return
            yield TaggedOutput("odd", (element[0], i)) if i % 2 else (element[0], i)


def test_a_replay_goes_on_after_what_process_defers(sc):
    """Where it defers may be another place than before: what was committed is run to its end in any case."""
    elements = [("a", 100), ("b", 30)]
    outputs = run_sdf(sc.parallelize(elements), RateLimitedFn(), tags=("odd",))
    for _ in range(2):
        assert lose_blocks(sc) > 0
        records = Counter(chain.from_iterable(rdd.collect() for rdd in outputs.values()))
        assert records == expected(elements)
    outputs["main"].unpersist()


def test_a_replay_starts_from_the_watermark_that_the_attempt_had(sc):
    """The state that a residual carried is pinned with it."""
    result = run_sdf(sc.parallelize([("a", 100)]), WatermarkFn(), runner=StagedRunner(budget_seconds=0.1, max_tasks=1))
    assert result.report.splits >= 2
    before = sorted(result.collect())
    assert lose_blocks(sc) > 0
    assert sorted(result.collect()) == before
    result.unpersist()


def test_a_process_that_is_not_deterministic_is_found_out(sc, tmp_path):
    """A replay that gives another number of records is an error, never a wrong result."""
    again = tmp_path / "again"

    class Fewer(CountFn):
        def process(self, element, tracker):
            for record in super().process(element, tracker):
                if record[1] % 3 or not again.exists():
                    yield record

    result = run_sdf(sc.parallelize([("a", 5000)]), Fewer(), runner=StagedRunner(max_tasks=1))  # one that fails
    assert lose_blocks(sc) > 0
    again.touch()
    with pytest.raises(Exception, match=r"ReplayError: Fewer.process\(\) is not deterministic"):
        result.count()
    result.unpersist()


# Two attempts at one task, with different split points: no Spark needed, and every pair of them is tried.


def attempt(number, stop_after, items):
    """Run the items until ``stop_after`` records, checkpoint, and return the block that this leaves."""
    stamp = Stamp("run", 0, 0, number)
    bundle = Bundle(CountFn(), items, clock=time.monotonic)

    def outputs():
        for count, output in enumerate(bundle.outputs(), start=1):
            yield output
            if count == stop_after:
                bundle.hand_back(0.0)

    counts = [0]
    records = list(batches(outputs(), (), counts, "CountFn"))
    return [stamp, *records, Receipt(stamp, bundle.outcome(), tuple(counts), 0, "here", 0.0, 0.0)]


def read(block, committed, contents):
    """Read a block as the result does; return the records, and whether they had to be replayed."""
    replayed = []

    def replay(stamp):
        replayed.append(stamp)
        return Bundle(CountFn(), contents, clock=time.monotonic).outputs()

    return list(chain.from_iterable(read_blocks(block, {committed}, 0, replay))), bool(replayed)


def test_only_one_of_two_attempts_counts():
    """Whichever of two attempts is committed first, the result is the multiset of one uninterrupted run.

    Both blocks are offered to the reader, since Spark may keep either under the same name (SPARK-58107).
    """
    elements = [("a", 4), ("b", 3)]
    replays = doubles = 0
    for first in range(1, 8):
        for second in range(1, 8):
            for stored in (0, 1):
                ledger = Ledger(lambda element, restriction: checked_size(CountFn(), element, restriction))
                items = []
                for element in elements:
                    one = expand(CountFn(), element)
                    items += ledger.add_element(one.element, one.restriction, one.pieces)
                ledger.assign((0, 0), items)
                blocks = [attempt(1, first, items), attempt(2, second, items)]
                given = [receipt_of(block) for block in blocks]
                todo = ledger.commit((0, 0), 1, given[0].outcome)
                assert ledger.commit((0, 0), 2, given[1].outcome) is None
                doubles += 1
                found, replayed = read(blocks[stored], given[0].stamp, ledger.content((0, 0)))
                replays += replayed
                for number, (item, _) in enumerate(todo, start=1):
                    ledger.assign((1, number), [item])
                    block = attempt(10 + number, -1, [item])
                    ledger.commit((1, number), 10 + number, receipt_of(block).outcome)
                    found += read(block, receipt_of(block).stamp, [])[0]
                ledger.prove()
                assert Counter(found) == expected(elements)
    assert replays == doubles / 2 > 0


def test_a_block_without_its_receipt_is_refused():
    """A block that was cut short is an error at its end, not a shorter result."""
    block = attempt(1, -1, [WorkItem(0, 0, ("a", 3), CountFn().get_initial_restriction(("a", 3)))])
    with pytest.raises(LedgerError, match="ends without its receipt"):
        read(block[:-1], block[0], [])
    assert serde.loads(block[1][1]) == [("a", 0)]


def block_of(task, number, *, attempt=0, tag=0, ends=True):
    """Return a block of one record."""
    stamp = Stamp("run", 0, task, attempt)
    receipt = Receipt(stamp, Outcome(0), (1,), 0, "here", 0.0, 0.0)
    return [stamp, (tag, serde.dumps([number], "it")), *([receipt] if ends else [])]


@pytest.mark.parametrize("given", list(itertools.product(["ours", "another's", "lost"], repeat=3)), ids="-".join)
def test_several_blocks_in_a_partition(given):
    """Each is believed or replayed for itself, whatever lies before and behind it; in order."""
    made = {
        "ours": lambda task: block_of(task, task),
        "another's": lambda task: block_of(task, -1, attempt=1),
        "lost": lambda task: block_of(task, -1, attempt=2)[:1],
    }
    messages = [message for task, kind in enumerate(given) for message in made[kind](task)]
    committed = {Stamp("run", 0, task, 0) for task in range(3)}
    replayed = []

    def replay(stamp):
        replayed.append(stamp.task)
        return [stamp.task]

    assert list(chain.from_iterable(read_blocks(messages, committed, 0, replay))) == [0, 1, 2]
    assert replayed == [task for task, kind in enumerate(given) if kind != "ours"]


def test_a_block_without_its_receipt_is_refused_wherever_it_lies():
    """Not only at the end of a partition."""
    messages = [*block_of(0, 0, ends=False), *block_of(1, 1)]
    committed = {Stamp("run", 0, task, 0) for task in range(2)}
    with pytest.raises(
        LedgerError, match=r"Stamp\(run_id='run', stage=0, task=0, attempt=0\) ends without its receipt"
    ):
        list(read_blocks(messages, committed, 0, None))

"""run_sdf with the staged runner: what a user may rely on."""

import multiprocessing
import os
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from typing import ClassVar

import pytest
from support.fns import EVERY_FN, CountFn, OddFn, OnlyDefersFn, SlowCountFn, expected
from support.hooks import Counted, HookedFn, Ranged, Tiled, hooks

from sdf import UNBOUNDED, DoFn, LiveRunner, OffsetRange, StagedRunner, TaggedOutput, run_direct, run_sdf
from sdf.errors import (
    DeferError,
    InvalidTypeError,
    InvalidValueError,
    OutputError,
    ProcessError,
    SdfError,
    SplitError,
    StageError,
    UnboundedError,
    UnclaimedWorkError,
    UnpicklableError,
)
from sdf.execution import deferrals
from sdf.spark.payload import Carried, Payload, _loaded, pickled_payload
from sdf.spark.staged import result as staged

ONE_TASK = StagedRunner(max_tasks=1)  # nothing is cut before it runs
ELEMENTS = [("a", 0), ("b", 1), ("c", 200), ("d", 7), ("c", 3)]


def no_job_is_active(sc):
    """Wait for Spark's status to catch up with what has ended, then tell whether nothing runs."""
    for _ in range(1200):
        if not sc.statusTracker().getActiveJobsIds():
            return True
        time.sleep(0.05)
    return False


def stored_rdds(sc):
    """Return the ids of all stored RDDs; old ones may go at any time, when the JVM collects garbage."""
    return set(dict(sc._jsc.getPersistentRDDs()))


@pytest.mark.parametrize("fn", EVERY_FN, ids=lambda fn: type(fn).__name__)
def test_same_records_as_run_direct_and_the_plain_generator(sc, fn):
    """Whatever the restriction, the records are those of the generator, each once."""
    result = Counter(run_sdf(sc.parallelize(ELEMENTS, 3), fn).collect())
    assert result == Counter(run_direct(ELEMENTS, fn)) == expected(ELEMENTS)


def test_a_straggler_is_split_while_the_rest_is_done(sc):
    """One element with nearly all the work runs in many pieces, on all slots."""
    elements = [("big", 300), *((str(i), 2) for i in range(20))]
    result = run_sdf(sc.parallelize(elements), SlowCountFn())
    assert Counter(result.collect()) == expected(elements)
    assert result.report.split_elements == (("big", 300),)
    assert result.report.splits >= 4
    assert result.report.stages >= 2
    assert len({task.worker for task in result.report.tasks}) >= 3


def test_a_budget_makes_running_work_checkpoint(sc):
    """A task that outlives its budget hands back the rest of what it is running and what it did not start."""
    elements = [("a", 200), ("b", 200)]  # two seconds each: the thread that looks at the clock may be late
    result = run_sdf(sc.parallelize(elements), SlowCountFn(), runner=StagedRunner(budget_seconds=0.1, max_tasks=1))
    assert Counter(result.collect()) == expected(elements)
    assert sum(task.handed_back for task in result.report.tasks) >= 2


def test_the_result_is_an_rdd_like_any_other(sc):
    """Actions repeat, take() takes, narrow and wide transformations follow."""
    result = run_sdf(sc.parallelize([("a", 50)]), CountFn())
    assert result.count() == result.count() == 50
    assert len(result.take(3)) == 3
    assert result.map(lambda record: record[1]).sum() == sum(range(50))
    assert result.reduceByKey(lambda one, other: one + other).collect() == [("a", sum(range(50)))]
    assert sorted(number for _, number in result.zipWithIndex().collect()) == list(range(50))


def test_the_result_has_a_few_partitions_per_slot_or_more_where_they_would_be_large(sc, monkeypatch):
    """However many tasks it took: to read each stored block in a task of its own would cost 10 ms a block."""
    elements, one_by_one = [(f"e{number}", 50) for number in range(20)], StagedRunner(max_items_per_stage=1)
    monkeypatch.setattr(staged, "_SHORT_SECONDS", 0.0)  # of a short run there is one per slot
    result = run_sdf(sc.parallelize(elements), CountFn(), runner=one_by_one)
    assert (len(result.report.tasks), result.getNumPartitions()) == (20, 12)
    assert Counter(result.collect()) == expected(elements)
    monkeypatch.setattr(staged, "_SHORT_SECONDS", 1e9)
    assert run_sdf(sc.parallelize(elements), CountFn(), runner=one_by_one).getNumPartitions() == 4
    monkeypatch.setattr(staged, "_PARTITION_BYTES", 500)
    assert 12 < run_sdf(sc.parallelize(elements), CountFn(), runner=one_by_one).getNumPartitions() < 20


def test_the_output_of_one_is_the_input_of_the_next(sc):
    """run_sdf() takes the result of run_sdf()."""
    first = run_sdf(sc.parallelize([("a", 5)]), CountFn())
    assert Counter(run_sdf(first, CountFn()).collect()) == expected([("a", n) for n in range(5)])


def test_no_elements_give_no_records(sc):
    """An empty RDD gives an empty RDD, with a report."""
    for rdd in (sc.emptyRDD(), sc.parallelize([], 3)):
        result = run_sdf(rdd, CountFn())
        assert result.isEmpty()
        assert result.report.elements == 0
    assert run_sdf(sc.emptyRDD(), OddFn(), tags=("odd",))["odd"].collect() == []


def test_tagged_outputs_have_an_rdd_each(sc):
    """With tags the result maps "main" and each tag to an RDD."""
    outputs = run_sdf(sc.parallelize([("a", 9)]), OddFn(), tags=("odd", "unused"))
    assert sorted(outputs) == ["main", "odd", "unused"]
    assert sorted(outputs["main"].values().collect()) == [0, 2, 4, 6, 8]
    assert sorted(outputs["odd"].values().collect()) == [1, 3, 5, 7]
    assert outputs["unused"].collect() == []
    assert outputs["odd"].report is outputs["main"].report


@pytest.mark.parametrize("tags", [(), ("other",)])
def test_an_undeclared_tag_is_an_error(sc, tags):
    """An output for a tag that is not declared is neither lost nor mixed into the main output."""
    with pytest.raises(OutputError, match=re.escape("TaggedOutput('odd', ('a', 1))")):
        run_sdf(sc.parallelize([("a", 9)]), OddFn(), tags=tags, runner=ONE_TASK)


def test_side_inputs_are_values_or_collected_rdds(sc):
    """A value arrives as it is, an RDD as the list of its elements."""

    class ScaleFn(CountFn):
        def process(self, element, tracker, factor, names):
            return ((names.index(name), i * factor) for name, i in super().process(element, tracker))

    inputs = {"factor": 10, "names": sc.parallelize(["x", "a"], 1)}
    assert sorted(run_sdf(sc.parallelize([("a", 3)]), ScaleFn(), side_inputs=inputs).collect()) == [
        (1, 0),
        (1, 10),
        (1, 20),
    ]


def test_setup_runs_once_per_worker(sc, tmp_path):
    """However many tasks a Python worker runs, setup() ran there once."""

    class NoteSetup(SlowCountFn):
        def setup(self):
            with open(tmp_path / "setups", "a") as file:
                file.write(f"{os.getpid()}\n")

    result = run_sdf(sc.parallelize([("a", 200)]), NoteSetup(), runner=StagedRunner(budget_seconds=0.1))
    assert result.count() == 200
    setups = (tmp_path / "setups").read_text().split()
    assert len(result.report.tasks) > len(setups)
    assert len(set(setups)) == len(setups)


class TearsDownFn(CountFn):
    """Notes in which process it is torn down; then fails, if asked for."""

    def __init__(self, folder, *, fails):
        self.folder, self.fails = folder, fails

    def teardown(self):
        (self.folder / str(os.getpid())).touch()
        if self.fails:
            raise RuntimeError("boom")


@pytest.fixture(scope="module")
def old_and_new_runs(module_sc, tmp_path_factory):
    """Run two DoFns with a teardown, the first of which fails, and many others; return the records of each, by name."""
    folder = tmp_path_factory.mktemp("torn down")
    fns = {name: TearsDownFn(folder / name, fails=name == "fails") for name in ("fails", "works")}
    for fn in fns.values():
        fn.folder.mkdir()
    counts = [
        run_sdf(module_sc.parallelize([("a", 8)], 8), fn, runner=StagedRunner(min_tasks=8)).count()
        for fn in (*fns.values(), *[CountFn()] * 12)
    ]
    return counts, {name: list(fn.folder.iterdir()) for name, fn in fns.items()}


def test_teardown_runs_when_a_worker_has_seen_newer_runs(old_and_new_runs):
    """A worker keeps the DoFns of its last eight runs; an older one is torn down there."""
    _, torn_down = old_and_new_runs
    assert torn_down["works"]


def test_a_failing_teardown_fails_no_other_run(old_and_new_runs):
    """It is logged on the worker; the run that pushed the old DoFn out goes on."""
    counts, torn_down = old_and_new_runs
    assert torn_down["fails"]
    assert counts == [8] * 14


class ForksFn(CountFn):
    """Has a file from setup() to teardown(); gives whether it is there when a forked process has ended."""

    def __init__(self, fork, folder):
        self.fork, self.folder = fork, folder

    def setup(self):
        self.path = self.folder / str(os.getpid())
        self.path.touch()

    def teardown(self):
        self.path.unlink()

    def process(self, element, tracker):
        for _ in super().process(element, tracker):
            status = self.fork()
            yield status, self.path.exists()


def fork_with_multiprocessing():
    child = multiprocessing.get_context("fork").Process(target=os.getpid)
    child.start()
    child.join()
    return child.exitcode


def fork_by_hand():
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    return os.waitpid(pid, 0)[1]


@pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=lambda runner: type(runner).__name__)
@pytest.mark.parametrize("fork", [fork_with_multiprocessing, fork_by_hand])
def test_teardown_does_not_run_in_a_process_that_process_forks(sc, tmp_path, fork, runner):
    """What setup() made is still there when the forked process has ended."""
    result = run_sdf(sc.parallelize([("a", 3)]), ForksFn(fork, tmp_path), runner=runner)
    assert result.collect() == [(0, True)] * 3


def test_a_forked_process_that_loads_a_dofn_tears_down_its_own(sc, tmp_path):
    """It sets the DoFn up for itself, and tears that down when it leaves; the worker's is left alone."""
    sent = Payload.send(sc, "forks", ForksFn(None, tmp_path), {})

    def loads_in_both(partition):
        list(partition)
        mine, _ = sent.load()
        pid = os.fork()
        if pid == 0:
            theirs, _ = sent.load()
            os._exit(0 if theirs is not mine and theirs.path.exists() else 1)
        status = os.waitpid(pid, 0)[1]
        yield status, [path.name for path in tmp_path.iterdir()] == [mine.path.name]

    try:
        assert sc.parallelize([0], 1).mapPartitions(loads_in_both).collect() == [(0, True)]
    finally:
        sent.broadcast.destroy()


class SetsUpFn(CountFn):
    """Counts how often it was set up."""

    setups: ClassVar = []

    def setup(self):
        self.setups.append(self)


def test_each_dofn_of_a_long_stream_is_set_up_once_in_a_worker():
    """However many steps it has; a setup may load a model."""
    sent = [Payload(f"stream-{step}", Carried(pickled_payload(SetsUpFn(), {}))) for step in range(12)]
    try:
        for _ in range(3):
            for one in sent:
                one.load()
        assert len(SetsUpFn.setups) == 12
    finally:
        for one in sent:
            _loaded[os.getpid()].pop(one.run_id, None)
        SetsUpFn.setups.clear()


def test_bundle_hooks_run_around_each_task(sc, tmp_path):
    """start_bundle() and finish_bundle() run once per task, around its work items."""

    class NoteBundles(CountFn):
        def note(self, what):
            with open(tmp_path / str(os.getpid()), "a") as file:
                file.write(what)

        def start_bundle(self):
            self.note("<")

        def process(self, element, tracker):
            self.note(".")
            yield from super().process(element, tracker)

        def finish_bundle(self):
            self.note(">")

    run_sdf(sc.parallelize([("a", 3)] * 9), NoteBundles())
    notes = "".join(path.read_text() for path in tmp_path.iterdir())
    assert re.fullmatch(r"(<\.+>)+", notes)


class FailsFn(SlowCountFn):
    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            if name == "bad" and i == 3:
                raise KeyError("the third")
            yield name, i


def test_a_users_exception_says_where_it_was_raised(sc):
    """The driver's error names DoFn, element and restriction; its cause is the worker's traceback."""
    with pytest.raises(ProcessError) as caught:
        run_sdf(sc.parallelize([("good", 3), ("bad", 5)]), FailsFn(), runner=ONE_TASK)
    message = str(caught.value)
    assert (
        "FailsFn.process() on OffsetRange(start=0, stop=5) of element ('bad', 5) raised KeyError: 'the third'"
        in message
    )
    assert 'raise KeyError("the third")' in str(caught.value.__cause__)


class SticksFn(SlowCountFn):
    """In a stage after the first one, one task of "stuck" sleeps; "bad" raises in another stage than that one."""

    def __init__(self, marker):
        super().__init__(0.01)
        self.marker = marker

    def process(self, element, tracker):
        from pyspark import TaskContext

        stage = TaskContext.get().getLocalProperty("sdf.stage").split("/")[1]
        for name, i in super().process(element, tracker):
            if name == "stuck" and stage != "0":
                with suppress(FileExistsError), self.marker.open("x") as marker:
                    marker.write(stage)
                    marker.flush()
                    time.sleep(60)
            if name == "bad" and self.marker.exists() and self.marker.read_text() not in ("", stage):
                raise KeyError("the other stage is stuck")
            yield name, i


def test_a_failure_leaves_no_job_and_no_stored_block(sc, tmp_path):
    """When a task fails, the stages that still run are cancelled, and what was stored is freed."""
    before = stored_rdds(sc)
    fn = SticksFn(tmp_path / "stuck in stage")
    with pytest.raises(ProcessError, match="the other stage is stuck"):
        run_sdf(sc.parallelize([("stuck", 100_000), ("bad", 100_000)]), fn)
    assert no_job_is_active(sc)
    assert stored_rdds(sc) <= before


@pytest.mark.parametrize("kind", [Ranged, Tiled, Counted])
def test_what_raises_on_the_driver_reaches_the_caller_with_its_name_and_leaves_no_job(sc, kind):
    """Whichever of the DoFn's methods it is: while work is cut, when receipts come, and at the proof.

    How often a run calls them depends on where it was split. A run that ended before the call that was to raise is
    repeated with an earlier one.
    """

    def run(raises_at):
        hooks.entry, hooks.calls, hooks.raises_at, hooks.raised = "run_sdf", 0, raises_at, None
        try:
            return run_sdf(sc.parallelize([("a", 40), ("b defers", 9)], 2), HookedFn(kind)).count()
        finally:
            hooks.entry = hooks.raises_at = None

    def run_to_failure(raises_at):
        while run(raises_at) == 49:
            raises_at = hooks.calls - 1
            succeeded.append(raises_at)

    before = stored_rdds(sc)
    assert run(None) == 49
    calls, succeeded = hooks.calls, [None]
    for raises_at in (1, calls // 3, calls * 2 // 3, calls - 1):
        with pytest.raises(SdfError, match=r"HookedFn.* of element \('.*raised ZeroDivisionError: boom in "):
            run_to_failure(raises_at)
        assert hooks.raised is not None
        assert no_job_is_active(sc)
    assert len(stored_rdds(sc) - before) <= 4 * len(succeeded)


def test_unpersist_frees_the_records_and_the_result_stays_right(sc):
    """unpersist() frees the blocks of all stages; used again, the pinned parts run again."""
    before = stored_rdds(sc)
    result = run_sdf(sc.parallelize([("a", 50)]), CountFn(), runner=StagedRunner(min_tasks=7))
    assert result.count() == 50
    assert stored_rdds(sc) - before
    assert result.unpersist() is result
    assert stored_rdds(sc) <= before
    assert Counter(result.collect()) == expected([("a", 50)])


def test_several_threads_run_at_once(sc):
    """Runs in several threads do not disturb each other."""
    results = {}

    def run(number):
        elements = [(f"{number}-{i}", 20 + i) for i in range(6)]
        results[number] = Counter(run_sdf(sc.parallelize(elements), SlowCountFn(0.002)).collect()) == expected(elements)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == dict.fromkeys(range(4), True)


class PropertiesFn(CountFn):
    def process(self, element, tracker):
        from pyspark import TaskContext

        context = TaskContext.get()
        for _ in super().process(element, tracker):
            yield context.getLocalProperty("spark.jobGroup.id"), context.getLocalProperty("spark.scheduler.pool")


def test_jobs_run_in_the_callers_group_and_pool(sc):
    """The caller's job group and scheduler pool hold for the jobs of a run, and stay the caller's."""
    seen = []

    def run():
        sc.setJobGroup("mine", "a group")
        sc.setLocalProperty("spark.scheduler.pool", "fast")
        seen.extend(run_sdf(sc.parallelize([("a", 3)]), PropertiesFn()).collect())
        seen.append(sc.getLocalProperty("spark.jobGroup.id"))

    from pyspark import InheritableThread

    thread = InheritableThread(target=run)
    thread.start()
    thread.join()
    assert seen == [("mine", "fast")] * 3 + ["mine"]


def test_cancelling_the_callers_group_ends_the_run(sc):
    """sc.cancelJobGroup() ends a run with an error that says so, and leaves no job."""
    from pyspark import InheritableThread

    caught = []

    def run():
        sc.setJobGroup("doomed", "")
        try:
            run_sdf(sc.parallelize([("a", 1_000_000)]), SlowCountFn())
        except StageError as error:
            caught.append(str(error))

    thread = InheritableThread(target=run)
    thread.start()
    while thread.is_alive():
        sc.cancelJobGroup("doomed")
        thread.join(0.2)
    assert len(caught) == 1
    assert "cancelled" in caught[0]
    assert no_job_is_active(sc)


def test_options_bound_tasks_and_items(sc):
    """max_tasks bounds what runs at once, max_items_per_stage what a stage admits."""
    runner = StagedRunner(max_tasks=2, max_items_per_stage=3)
    elements = [(str(i), 10) for i in range(12)]
    result = run_sdf(sc.parallelize(elements), SlowCountFn(0.002), runner=runner)
    assert Counter(result.collect()) == expected(elements)
    per_stage = Counter()
    for task in result.report.tasks:
        per_stage[task.stage] += task.work_items
    assert max(per_stage.values()) <= 3
    spans = [(task.began, task.began + task.seconds) for task in result.report.tasks]
    assert max(sum(begin <= at < end for begin, end in spans) for at, _ in spans) <= 2


def most_in_flight(sc, caplog, runner):
    """Run a straggler on 4 slots; return how many tasks were in flight at once, as the log has it."""
    caplog.clear()
    with caplog.at_level("DEBUG", logger="sdf.staged"):
        result = run_sdf(sc.parallelize([("a", 6000)]), SlowCountFn(0.005), runner=runner)
    assert result.count() == 6000
    in_flight, most = 0, 0
    for message in caplog.messages:
        if started := re.search(r"stage \d+, (\d+) tasks$", message):
            in_flight += int(started[1])
        elif re.search(r"stage \d+ task \d+ gave back", message):
            in_flight -= 1
        most = max(most, in_flight)
    assert in_flight == 0
    assert most >= 4
    return most


def test_the_next_stage_is_in_sparks_queue_before_slots_fall_idle(sc, caplog):
    """A busy machine may start stages so slowly that a run has only two, the second when all slots are idle."""
    assert any(most_in_flight(sc, caplog, StagedRunner()) > 4 for _ in range(4))


def test_no_task_waits_in_sparks_queue_beyond_max_tasks(sc, caplog):
    """No more tasks may be in flight than max_tasks."""
    assert most_in_flight(sc, caplog, StagedRunner(max_tasks=4)) == 4


def test_min_tasks_cuts_for_more_tasks_than_slots(sc):
    """min_tasks keeps tasks in Spark's queue, as dynamic allocation wants it."""
    result = run_sdf(sc.parallelize([("a", 100)]), CountFn(), runner=StagedRunner(min_tasks=9))
    assert result.count() == 100
    assert sum(task.stage == 0 for task in result.report.tasks) == 9


def test_a_deferred_residual_waits_and_then_runs(sc):
    """defer_remainder() in finite work: the rest runs in a later stage, not before its delay."""

    class DeferFn(CountFn):
        def process(self, element, tracker):
            start, stop = tracker.current_restriction()
            for i in range(start, min(stop, start + 2)):
                if not tracker.try_claim(i):
                    return
                yield element[0], i, time.time()
            if stop > start + 2:
                tracker.defer_remainder(0.3)

    records = run_sdf(sc.parallelize([("a", 5)]), DeferFn(), runner=StagedRunner(max_tasks=1)).collect()
    assert sorted(i for _, i, _ in records) == [0, 1, 2, 3, 4]
    at = {i: when for _, i, when in records}
    deferred = [(i, j) for i in range(5) for j in range(5) if at[j] - at[i] >= 0.3]
    assert deferred


BAD_CALLS = [
    (lambda sc: run_sdf([1], CountFn()), InvalidTypeError, "run_sdf() needs an RDD of elements (got [1])"),
    (lambda sc: run_sdf(sc.parallelize([1]), CountFn), InvalidTypeError, "pass CountFn()"),
    (lambda sc: run_sdf(sc.parallelize([1]), len), InvalidTypeError, "needs a DoFn (got <built-in function len>)"),
    (
        lambda sc: run_sdf(sc.parallelize([1]), CountFn(), side_inputs={"x": 1}),
        InvalidTypeError,
        "CountFn.process() cannot be called as process(element, tracker, x=)",
    ),
    (lambda sc: run_sdf(sc.parallelize([1]), CountFn(), tags="bad"), InvalidTypeError, "tags must be a tuple"),
    (lambda sc: run_sdf(sc.parallelize([1]), CountFn(), tags=("main",)), InvalidValueError, "none of them 'main'"),
    (lambda sc: run_sdf(sc.parallelize([1]), CountFn(), runner="fast"), InvalidTypeError, "runner must be"),
    (
        lambda sc: StagedRunner(budget_seconds=0),
        InvalidValueError,
        "must be a positive number, or None (got 0)",
    ),
    (lambda sc: StagedRunner(max_tasks=1.5), InvalidValueError, "max_tasks must be an integer >= 1, or None (got 1.5)"),
    (lambda sc: StagedRunner(min_tasks=3, max_tasks=2), InvalidValueError, "min_tasks must be <= max_tasks"),
    (lambda sc: StagedRunner(storage_level=3), InvalidTypeError, "storage_level must be a StorageLevel"),
]


@pytest.mark.parametrize(("call", "error", "message"), BAD_CALLS, ids=[message for _, _, message in BAD_CALLS])
def test_wrong_arguments_are_refused_before_any_job(sc, call, error, message):
    """What can be known on the driver is said before Spark is asked for anything."""
    jobs = len(sc.statusTracker().getJobIdsForGroup(None))
    with pytest.raises(error, match=re.escape(message)):
        call(sc)
    assert len(sc.statusTracker().getJobIdsForGroup(None)) == jobs


def test_a_dofn_that_does_not_pickle_names_the_attribute(sc):
    """The message says which attribute it is, before any job."""
    fn = CountFn()
    fn.lock = threading.Lock()
    with pytest.raises(
        UnpicklableError, match=re.escape("CountFn cannot be sent to the workers: attribute 'lock' (lock")
    ):
        run_sdf(sc.parallelize([("a", 1)]), fn)


class Restricts(CountFn):
    """Gives whatever it is told as the initial restriction."""

    def __init__(self, restriction, parts=None):
        self.restriction = restriction
        self.parts = parts

    def get_initial_restriction(self, element):
        return self.restriction

    def split_restriction(self, element, restriction):
        return [restriction] if self.parts is None else self.parts


class NeverClaims(CountFn):
    def process(self, element, tracker):
        return []


class ClaimsBackwards(CountFn):
    def process(self, element, tracker):
        tracker.try_claim(3)
        yield tracker.try_claim(2)


class RaisesInSetup(CountFn):
    def setup(self):
        raise OSError("no such host")


BAD_FNS = [
    (Restricts(OffsetRange(0, UNBOUNDED)), UnboundedError, "Run it with stream_sdf()"),
    (Restricts(None), InvalidTypeError, "it returned None, which is not a restriction"),
    (Restricts((0, 9), [OffsetRange(0, 4), OffsetRange(5, 9)]), SplitError, "leaves a gap after 4"),
    (
        NeverClaims(),
        UnclaimedWorkError,
        "NeverClaims.process() on OffsetRange(start=0, stop=9) of element ('a', 9): [0, 9)",
    ),
    (ClaimsBackwards(), ValueError, "got 2 after 3 in OffsetRange(start=0, stop=9)"),
    (RaisesInSetup(), ProcessError, "RaisesInSetup.setup() raised OSError: no such host"),
]
BAD_RESTRICTIONS = [  # the tests of the model and of execution have these and more
    (Restricts(7), InvalidTypeError, "it returned 7, which is not a restriction"),
    (Restricts([0, 7]), InvalidTypeError, "has no tracker for a restriction of type list"),
    (Restricts((5, 3)), InvalidValueError, "OffsetRange start must be <= stop (got start=5, stop=3)"),
    (Restricts((0, 2.5)), InvalidTypeError, "OffsetRange stop must be an integer (got stop=2.5)"),
    (Restricts((0, 9), [OffsetRange(0, 6), OffsetRange(5, 9)]), SplitError, "overlaps or repeats 6"),
    (Restricts((0, 9), [OffsetRange(0, 6)]), SplitError, "stop at 6"),
    (Restricts((0, 9), []), SplitError, "stop at 0"),
    (Restricts((0, 9), 5), InvalidTypeError, "it must yield restrictions"),
]
BROKEN = [pytest.param(*one, id=one[-1]) for one in BAD_FNS]
BROKEN += [
    pytest.param(*one, id=one[-1], marks=pytest.mark.slow("the same test with another restriction"))
    for one in BAD_RESTRICTIONS
]


@pytest.mark.parametrize(("fn", "error", "message"), BROKEN)
def test_a_broken_dofn_is_an_error_that_names_it(sc, fn, error, message):
    """Each broken rule is a clear error, and nothing is left behind."""
    before = stored_rdds(sc)
    with pytest.raises(error, match=re.escape(message)):
        run_sdf(sc.parallelize([("a", 9)]), fn, runner=ONE_TASK)
    assert no_job_is_active(sc)
    assert stored_rdds(sc) <= before


def test_a_missing_method_is_said_by_python_itself():
    """DoFn is abstract: both required methods are named when an instance is made."""

    class Half(DoFn):
        def get_initial_restriction(self, element):
            return (0, 1)

    with pytest.raises(TypeError, match="process"):
        Half()


def test_a_record_that_does_not_pickle_is_named(sc):
    """The error says which DoFn gave it."""

    class Locks(CountFn):
        def process(self, element, tracker):
            tracker.try_claim(0)
            yield threading.Lock()

    with pytest.raises(
        UnpicklableError, match=r"Locks.process\(\) gave a record that .* does not pickle: <unlocked _thread"
    ):
        run_sdf(sc.parallelize([("a", 1)]), Locks())


def test_an_element_that_does_not_pickle_is_named(sc):
    """It is made by a function of the user's that ran in the same worker, so nobody had to pickle it before."""
    elements = sc.parallelize([("a", 1)]).map(lambda element: (*element, threading.Lock()))
    with pytest.raises(
        UnpicklableError, match=r"element \('a', 1, .*lock.* of CountFn, or its restriction, cannot be sent"
    ):
        run_sdf(elements, CountFn())


class OnlyThere:
    """Pickles, but does not unpickle."""

    def __reduce__(self):
        return int, ("no number",)


@pytest.mark.parametrize("count", [1, 40])
def test_an_element_that_does_not_unpickle_is_told_as_such(sc, count):
    """On the driver, to which one element goes by itself; or on a worker, to which 40 go together."""
    elements = sc.parallelize(range(count), 1).map(lambda number: (number, OnlyThere()))
    with pytest.raises(UnpicklableError, match=r"elements .*do not unpickle .*invalid literal.*Mend the __reduce__"):
        run_sdf(elements, EmptyFn()).count()


class EmptyFn(CountFn):
    """Elements without work to speak of."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)


class Says(CountFn):
    def __init__(self, error):
        self.error = error

    def process(self, element, tracker):
        tracker.try_claim(0)
        raise self.error
        yield


LOOKALIKES = [
    ValueError("java.sql.SQLException: bad\n\tat org.apache.spark.Bar(Bar.java:1)"),
    ValueError("db failed\n SQLSTATE: 38000 syntax error"),
    ValueError("child failed:\nTraceback (most recent call last)\nsdf.errors.TilingError: foo bar"),
    ImportError("ModuleNotFoundError: No module named 'sdf'"),
    SystemExit(3),
]


@pytest.mark.parametrize("error", LOOKALIKES, ids=lambda error: str(error).splitlines()[-1].strip()[:30])
def test_a_users_message_is_never_taken_for_anothers(sc, error):
    """Whatever an exception's text looks like, the error names DoFn, restriction and element, and carries the text."""
    with pytest.raises(ProcessError) as caught:
        run_sdf(sc.parallelize([("a", 1)]), Says(error))
    where = "Says.process() on OffsetRange(start=0, stop=1) of element ('a', 1) raised "
    assert str(caught.value) == f"{where}{type(error).__name__}: {error}"


class Unshowable:
    def __repr__(self):
        raise RuntimeError("no repr")


def test_an_element_that_cannot_be_shown_hides_nothing(sc):
    """The real error is told, with a stand-in for the element."""

    class Raises(CountFn):
        def get_initial_restriction(self, element):
            raise KeyError("the real one")

    with pytest.raises(
        ProcessError, match=r"Unshowable whose repr\(\) raises RuntimeError> raised KeyError: 'the real one'"
    ):
        run_sdf(sc.parallelize([0]).map(lambda _: Unshowable()), Raises())


def test_work_that_only_defers_comes_to_an_end(sc):
    """Finite work that defers again and again without a claim is an error; meanwhile the runner does not spin."""

    deferrals._MOST_IDLE, most = 5, deferrals._MOST_IDLE
    try:
        with pytest.raises(DeferError, match="6 times in a row without a claim"):
            run_sdf(sc.parallelize([("a", 1)]), OnlyDefersFn())
    finally:
        deferrals._MOST_IDLE = most


class SparseFn(DoFn):
    """Element: (name, size, blocks). The blocks lie evenly in [0, size)."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        name, size, blocks = element
        step = size // blocks
        block = -(-tracker.current_restriction().start // step)
        while block < blocks:
            if not tracker.try_claim(block * step):
                return
            time.sleep(0.01)
            yield name, block
            block += 1
        tracker.try_claim(tracker.current_restriction().stop)


def test_the_units_of_one_element_say_nothing_of_anothers(sc):
    """A sparse element with huge units does not make all the others look free: they still run on all slots."""
    elements = [("sparse", 10**9, 5), *((str(i), 20, 20) for i in range(20))]
    result = run_sdf(sc.parallelize(elements), SparseFn())
    assert Counter(result.collect()) == Counter((name, i) for name, _, blocks in elements for i in range(blocks))
    busy = Counter()
    for task in result.report.tasks:
        busy[task.worker] += task.seconds
    assert max(busy.values()) <= 0.6 * sum(busy.values())


def test_integers_of_any_size(sc):
    """A range far beyond what a float can hold runs, and is split."""
    elements = [("a", 10**400, 60)]
    result = run_sdf(sc.parallelize(elements), SparseFn(), runner=StagedRunner(budget_seconds=0.1))
    assert Counter(result.collect()) == Counter(("a", i) for i in range(60))
    assert result.report.splits >= 1


def test_a_failing_upstream_is_not_blamed_on_the_dofn(sc):
    """An error in computing the elements is a StageError with the worker's traceback as its cause."""
    with pytest.raises(StageError, match="ZeroDivisionError") as caught:
        run_sdf(sc.parallelize([1]).map(lambda x: x / 0), CountFn())
    assert "ZeroDivisionError" in str(caught.value.__cause__)


def test_tagged_output_is_exported():
    """TaggedOutput is a message to the runner: it shows itself, and does not pickle."""
    assert repr(TaggedOutput("bad", 1)) == "TaggedOutput('bad', 1)"


def test_errors_are_the_same_beside_a_spark_session(sc):
    """A SparkSession makes PySpark raise other exceptions for what happens on the workers."""
    from pyspark.sql import SparkSession

    class Boom(CountFn):
        def process(self, element, tracker):
            raise ZeroDivisionError("boom")

    SparkSession(sc)
    with pytest.raises(ProcessError, match=r"Boom.process\(\) on .* raised ZeroDivisionError: boom") as raised:
        run_sdf(sc.parallelize([("b", 1)]), Boom())
    assert "ZeroDivisionError: boom" in str(raised.value.__cause__)
    assert "Traceback (most recent call last)" in str(raised.value.__cause__)

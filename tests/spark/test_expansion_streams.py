"""Work begins before the last element is expanded."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark import accumulators

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf
from sdf.errors import SdfError, StageError, UnpicklableError
from sdf.lanes.assignment import Assignment
from sdf.spark import expansion_job
from sdf.spark.as_tasks_end import AsTasksEnd
from sdf.spark.live import runner as runner_module

MOST_SECONDS = 300  # of a machine that does much else


class WaitsFn(DoFn):
    """Element: a name. "last" is expanded when "first" has been processed, and that fails if it is told to.

    Args:
        folder: where it notes what was expanded and processed.
        fails: whether "last" has no restriction.
    """

    def __init__(self, folder, *, fails=False):
        self.folder = Path(folder)
        self.fails = fails

    def get_initial_restriction(self, element):
        with (self.folder / "expanded").open("a") as file:
            file.write(f"{element}\n")
        if element == "last":
            wait_for(self.folder / "processed")
            if self.fails:
                raise KeyError(element)
        return OffsetRange(0, 3)

    def process(self, element, tracker):
        for position in tracker.claims():
            if element == "first":
                (self.folder / "processed").touch()
            yield element, position


def wait_for(path):
    until = time.monotonic() + MOST_SECONDS
    while not path.exists():
        assert time.monotonic() < until, f"no {path.name}"
        time.sleep(0.05)


RECORDS = [(element, position) for element in ("first", "last") for position in range(3)]


RUNNERS = pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner(), LiveRunner(lanes=3)])


@RUNNERS
def test_work_begins_before_the_last_element_is_expanded(sc, tmp_path, runner):
    """The expansion of one waits for the work of another. Another action gives the same."""
    result = run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path), runner=runner)
    assert sorted(result.collect()) == RECORDS
    assert result.report.elements == 2
    assert sorted(result.collect()) == RECORDS
    result.unpersist()


def test_an_element_that_cannot_be_expanded_when_work_has_begun(sc, tmp_path):
    """It ends the run, with the same error, and nothing is left of what has run."""
    stored = sc._jsc.getPersistentRDDs().size()
    with pytest.raises(SdfError, match=r"WaitsFn\.get_initial_restriction.*'last'"):
        run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path, fails=True))
    assert (tmp_path / "processed").exists(), "nothing had run"
    assert sc._jsc.getPersistentRDDs().size() == stored
    await_no_job(sc)


def await_no_job(sc):
    """Wait until no job runs: Spark's tracker hears of an end later than whoever waits for the job."""
    until = time.monotonic() + MOST_SECONDS
    while sc.statusTracker().getActiveJobsIds():
        assert time.monotonic() < until, "a job does not end"
        time.sleep(0.05)


@pytest.mark.parametrize("order", ["before", "after"])
def test_an_element_that_cannot_be_expanded_when_lanes_run(sc, tmp_path, order):
    """The action fails with the same error, and so does each later one; no job is left."""
    result = run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path, fails=True), runner=LiveRunner(lanes=2))
    if order == "before":  # no lane runs yet
        (tmp_path / "processed").touch()
        await_no_job(sc)
    for _ in range(2):
        with pytest.raises(Exception, match=r"WaitsFn\.get_initial_restriction.*'last'(.|\n)*KeyError"):
            result.collect()
    await_no_job(sc)


@pytest.mark.parametrize("change", ["lost", "doubled"])
@RUNNERS
def test_expanded_elements_that_are_lost_or_doubled(sc, monkeypatch, tmp_path, change, runner):
    """A partition that has not arrived is expanded by a second job; one that comes again later changes nothing."""
    changed = []
    add = AsTasksEnd.addInPlace

    def unreliable(self, value1, value2):
        if value2 and isinstance(value2[0], expansion_job.ExpandedPartition):
            changed.append(value2)
            for each in changed if change == "doubled" else ():
                add(self, value1, each)
            return value1
        return add(self, value1, value2)

    monkeypatch.setattr(AsTasksEnd, "addInPlace", unreliable)
    if change == "lost":
        (tmp_path / "processed").touch()
    result = run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path), runner=runner)
    assert sorted(result.collect()) == RECORDS
    assert len(changed) == 2
    assert result.report.elements == 2
    expanded = sorted((tmp_path / "expanded").read_text().split())
    assert expanded == sorted(["first", "last"] * (2 if change == "lost" else 1))
    result.unpersist()


class LengthFn(DoFn):
    """Element: a text. Its record is the length."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        if tracker.try_claim(0):
            yield len(element)


def test_a_partition_that_is_large_comes_with_the_end_of_the_job(sc):
    """Its elements, and those of a small one, are there once."""
    lengths = [5000] * 1000 + [7]
    texts = sc.parallelize(["x" * length for length in lengths[:-1]], 1).union(sc.parallelize(["x" * 7], 1))
    result = run_sdf(texts, LengthFn())
    assert sorted(result.collect()) == sorted(lengths)
    assert result.report.elements == len(lengths)
    result.unpersist()


def test_no_partitions(sc):
    """An RDD without partitions has nothing to expand."""
    assert run_sdf(sc.emptyRDD(), WaitsFn(".")).collect() == []


def test_take_ends_before_the_last_element_is_expanded(sc, tmp_path):
    """An action that has read enough needs no more elements; the next one gives all."""
    result = run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path), runner=LiveRunner())
    assert result.first()[0] == "first"
    assert sorted(result.collect()) == RECORDS


class DiesFn(WaitsFn):
    """The worker that expands "last" dies some seconds after "first" was expanded, so many times.

    Args:
        folder: where it notes that.
        deaths: how many times.
    """

    def __init__(self, folder, deaths):
        super().__init__(folder)
        self.deaths = deaths

    def get_initial_restriction(self, element):
        died = len(list(self.folder.glob("died*")))
        if element == "last" and died < self.deaths:
            time.sleep(3.0)  # the call waits a second for it
            (self.folder / f"died {died}").touch()
            os._exit(1)
        return OffsetRange(0, 3)


class HeldFn(WaitsFn):
    """ "last" is expanded when there is a file.

    Args:
        folder: where it notes what was expanded and processed.
        go: the file.
    """

    def __init__(self, folder, go):
        super().__init__(folder)
        self.go = go

    def get_initial_restriction(self, element):
        if element == "last":
            wait_for(self.go)
        return OffsetRange(0, 3)


by_group = pytest.mark.slow("the same test when all jobs are cancelled")


@pytest.mark.parametrize(
    "cancel",
    [
        pytest.param(lambda sc: sc.cancelAllJobs(), id="all jobs"),
        pytest.param(lambda sc: sc.cancelJobGroup("ours"), id="a group", marks=by_group),
    ],
)
def test_an_action_that_is_cancelled_can_be_run_again(sc, tmp_path, cancel):
    """Though the job that expands elements was cancelled with it."""
    go = tmp_path / "go"
    with ThreadPoolExecutor() as threads:

        def run():
            sc.setJobGroup("ours", "", interruptOnCancel=False)
            result = run_sdf(sc.parallelize(["first", "last"], 2), HeldFn(tmp_path, go), runner=LiveRunner())
            with pytest.raises(Exception, match="cancelled"):
                result.collect()
            return result

        running = threads.submit(run)
        wait_for(tmp_path / "processed")
        cancel(sc)
        result = running.result()
    go.touch()
    assert sorted(result.collect()) == RECORDS


once = pytest.mark.slow("the same test with two deaths, of which the first one is such a case")


@pytest.mark.parametrize(("slots", "deaths"), [pytest.param(2, 1, marks=once), pytest.param(1, 1, marks=once), (1, 2)])
def test_elements_that_are_expanded_again_get_a_slot(start_spark, tmp_path, monkeypatch, slots, deaths):
    """Lanes have all slots by then. One without work ends; the last one that has not ended is run again."""
    sc = start_spark(f"local[{slots},4]")
    monkeypatch.setattr(runner_module, "slot_counter", lambda sc: lambda: 2)  # as if an executor was lost since
    freed = []
    free = Assignment.frees_slot
    monkeypatch.setattr(
        Assignment, "frees_slot", lambda self, now: freed.append(self._policy.unsealed) or free(self, now)
    )
    for attempt in range(20):  # the new try of the last element may get the slot before a lane does
        folder = tmp_path / f"{attempt}"
        folder.mkdir()
        result = run_sdf(sc.parallelize(["first", "last"], 2), DiesFn(folder, deaths), runner=LiveRunner(lanes=2))
        assert sorted(result.collect()) == RECORDS
        assert len(list(folder.glob("died*"))) == deaths
        if freed and (deaths == 1 or 1 in freed):
            break
    assert freed, "no lane was in the way"
    assert (1 in freed) == (deaths == 2)
    assert result.report.retries == (deaths == 2)


def test_lanes_and_expansion_in_two_pools(start_spark):
    """Lanes get half of the slots while elements are expanded in the others; nobody is in anybody's way."""
    sc = start_spark("local[2]", spark_scheduler_mode="FAIR")
    sc.setLocalProperty("spark.scheduler.pool", "one")
    result = run_sdf(sc.parallelize(range(12), 12), SlowlyFn(), runner=LiveRunner())
    sc.setLocalProperty("spark.scheduler.pool", "other")
    assert sorted(result.collect()) == [(element, 0) for element in range(12)]
    sc.setLocalProperty("spark.scheduler.pool", None)


class SlowlyFn(DoFn):
    """Each element takes half a second to be expanded."""

    def get_initial_restriction(self, element):
        time.sleep(0.5)
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for position in tracker.claims():
            yield element, position


class OnlyOnWorkers:
    """An element that the driver cannot read."""

    def __init__(self, driver):
        self.driver = driver

    def __reduce__(self):
        return made_on_a_worker, (self.driver,)


def made_on_a_worker(driver):
    if os.getpid() == driver:
        raise ValueError("not on the driver")
    return OnlyOnWorkers(driver)


@RUNNERS
def test_an_element_that_the_driver_cannot_read(sc, tmp_path, runner):
    """The call fails, though others are still expanded; nothing is left."""
    driver, kept = os.getpid(), len(accumulators._accumulatorRegistry)
    elements = sc.parallelize(["first", "last"], 2).map(lambda one: OnlyOnWorkers(driver) if one == "first" else one)
    with pytest.raises(UnpicklableError, match=r"do not unpickle on the driver \(ValueError: not on the driver\)"):
        run_sdf(elements, HeldFn(tmp_path, tmp_path / "go"), runner=runner)
    await_no_job(sc)
    assert len(accumulators._accumulatorRegistry) == kept


@RUNNERS
def test_elements_that_spark_cannot_find(sc, runner):
    """The error is Spark's message, and names the DoFn."""
    with pytest.raises(StageError, match=r"WaitsFn: expand elements.*Input path does not exist: file:/no/such"):
        run_sdf(sc.textFile("/no/such"), WaitsFn("."), runner=runner)

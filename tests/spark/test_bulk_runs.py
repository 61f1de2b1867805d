"""Runs of many small elements, which go in tables, on both runners: as if each element went by itself."""

import os
import time
from collections import Counter

import pytest
from support.fns import CountFn, NotesRuns, expected
from support.killing import lose_blocks
from support.saving import FolderSink, rows

from sdf import (
    LiveRunner,
    OffsetRange,
    OffsetRangeTracker,
    Quarantine,
    StagedRunner,
    TaggedOutput,
    retry_failed,
    run_sdf,
    save_sdf,
)
from sdf.errors import BadRecordError, JournalError, ProcessError
from sdf.execution.bulk.table import Table
from sdf.execution.expansion import Expanded
from sdf.io import ReadLines
from sdf.sinks import JsonLinesFiles
from sdf.spark.expansion_job import Expand, expanded
from sdf.spark.payload import sending

RUNNERS = [StagedRunner(), LiveRunner()]
every_runner = pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: type(runner).__name__)
SMALL = [(f"{number}", number % 4) for number in range(3000)]


@pytest.fixture(scope="module")
def sc(start_spark):
    """Four slots in this process, and three more tries for a task that fails."""
    return start_spark("local[4,4]")


class OwnFn(CountFn):
    """With a tracker of its own."""

    def create_tracker(self, element, restriction):
        return Own(restriction)


class Own(OffsetRangeTracker):
    pass


@every_runner
@pytest.mark.parametrize("kind", [CountFn, OwnFn])
def test_many_small_elements(sc, runner, kind):
    """Each record once, at each action, from a few work items; the report counts elements."""
    result = run_sdf(sc.parallelize(SMALL, 3), kind(), runner=runner)
    for _ in range(2):
        assert Counter(result.collect()) == expected(SMALL)
    report = result.report
    assert (report.elements, report.records) == (3000, 4500)
    assert len(report.pieces) < 100
    assert sum(piece.elements for piece in report.pieces) >= 3000
    assert "3,000 elements" in str(report)
    assert report.straggler is None
    assert '"elements": 3000' in report.to_json()


def test_the_driver_gets_tables_as_they_are(sc):
    """Had it got them pickled, it would hold all elements twice for a while."""
    with sending(sc, CountFn(), {}) as payload:
        given = sc.parallelize([*SMALL, ("large", 10_000)], 2).mapPartitions(Expand(payload)).collect()
    assert sum(len(one.element) for one in given if isinstance(one, Expanded)) == 3000
    found = list(expanded(given, None))
    assert [one.element for one in found if type(one.element) is not Table] == [("large", 10_000)]
    assert sum(len(one.element) for one in found if type(one.element) is Table) == 3000


@every_runner
def test_elements_of_a_class_that_is_pickled_by_value(sc, runner):
    """A table holds them as any other, and the workers know one class of this name."""

    class Named:
        def __init__(self, name):
            self.name = name

    class NamedFn(CountFn):
        def get_initial_restriction(self, element):
            return (0, 1)

        def process(self, element, tracker):
            assert isinstance(element, Named)
            return super().process((element.name, 1), tracker)

    result = run_sdf(sc.parallelize([Named(number) for number in range(500)], 2), NamedFn(), runner=runner)
    assert Counter(result.collect()) == Counter((number, 0) for number in range(500))


class DearFn(CountFn):
    """One element takes five seconds, and nothing tells so before."""

    def process(self, element, tracker):
        for output in super().process(element, tracker):
            if element[0] == "dear":
                time.sleep(0.25)
            yield output


@every_runner
def test_an_element_that_turns_out_dear_is_split(sc, runner):
    """It is an element among many of a table; the report names it, though it does not name the others."""
    elements = [*[(f"{number}", 20) for number in range(700)], ("dear", 20), *SMALL[:700]]
    result = run_sdf(sc.parallelize(elements, 1), DearFn(), runner=runner)
    assert Counter(result.collect()) == expected(elements)
    report = result.report
    assert ("dear", 20) in report.split_elements
    assert report.straggler.element == ("dear", 20)
    assert report.straggler.parts > 1
    assert {element for element, _, _ in report.slow_blocks} == {("dear", 20)}


class DefersFn(CountFn):
    """Each tenth element defers before its first claim, the first time it runs."""

    def __init__(self, folder):
        self.folder = folder

    def process(self, element, tracker):
        flag = os.path.join(self.folder, element[0])
        if int(element[0]) % 10 == 1 and not os.path.exists(flag):
            with open(flag, "w"):
                tracker.defer_remainder(0.01)
            return
        yield from super().process(element, tracker)


def test_deferred_elements_wait_by_themselves(sc, tmp_path):
    """Those behind them do not wait for them, and are not run one stage after the other."""
    elements = SMALL[:400]
    result = run_sdf(sc.parallelize(elements, 2), DefersFn(str(tmp_path)))
    assert Counter(result.collect()) == expected(elements)
    assert result.report.stages < 20


@every_runner
def test_an_error_names_the_element(sc, runner):
    """Not the table."""

    class BadFn(CountFn):
        def process(self, element, tracker):
            if element[0] == "1234":
                raise ValueError("bad")
            return super().process(element, tracker)

    with pytest.raises(Exception, match=r"of element \('1234', 2\) raised ValueError: bad") as caught:
        run_sdf(sc.parallelize(SMALL, 2), BadFn(), runner=runner).count()
    assert runner != StagedRunner() or isinstance(caught.value, ProcessError)


def test_lost_blocks_are_replayed(sc, tmp_path):
    """From the rows that the task has committed, cut where they were cut."""
    fn, few = NotesRuns(tmp_path, 0.001), SMALL[:1000]
    result = run_sdf(sc.parallelize(few, 2), fn, runner=StagedRunner(budget_seconds=0.1))
    assert len(result.report.tasks) > 8
    before = fn.runs()
    assert lose_blocks(sc) > 8
    assert Counter(result.collect()) == expected(few)
    assert fn.runs() - before == sum(task.work_items for task in result.report.tasks)
    result.unpersist()


class DiesFn(CountFn):
    """The first worker that comes to one of the elements is killed."""

    def __init__(self, folder):
        self.folder = folder

    def process(self, element, tracker):
        if element[0] == "700":
            try:
                os.close(os.open(os.path.join(self.folder, "died"), os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                pass
            else:
                os._exit(1)
        return super().process(element, tracker)


@every_runner
def test_a_lost_worker_loses_nothing(sc, runner, tmp_path):
    """Its rows run again, as they had been cut."""
    result = run_sdf(sc.parallelize(SMALL, 2), DiesFn(str(tmp_path)), runner=runner)
    assert Counter(result.collect()) == expected(SMALL)
    assert os.path.exists(tmp_path / "died")


def test_tags(sc):
    """A row gives to all outputs."""

    class OddFn(CountFn):
        def process(self, element, tracker):
            for name, at in super().process(element, tracker):
                yield TaggedOutput("odd", (name, at)) if at % 2 else (name, at)

    for runner in RUNNERS:
        outputs = run_sdf(sc.parallelize(SMALL, 2), OddFn(), runner=runner, tags=("odd",))
        found = Counter(outputs["main"].collect()) + Counter(outputs["odd"].collect())
        assert found == expected(SMALL)


@every_runner
def test_small_elements_of_a_saved_run(sc, runner, tmp_path):
    """In tables as well, which the log holds; the same call afterwards finds the same elements."""
    sink = FolderSink(tmp_path / "out")
    summary = save_sdf(sc.parallelize(SMALL, 3), CountFn(), sink, runner=runner)
    assert rows(tmp_path / "out") == sorted(expected(SMALL).elements())
    assert (summary.report.elements, summary.records) == (3000, 4500)
    assert len(summary.report.pieces) < 100
    assert save_sdf(sc.parallelize(SMALL[::-1], 2), CountFn(), sink, runner=runner).resumed
    with pytest.raises(JournalError, match=r"it had element \('\d+', \d\), this call has 'odd' in its place"):
        save_sdf(sc.parallelize([*SMALL[1:], "odd"], 2), CountFn(), sink, runner=runner)


class OddRecordFn(CountFn):
    """Gives one record that is no JSON."""

    def process(self, element, tracker):
        for i in tracker.claims():
            yield {1} if (element[0], i) == ("1003", 2) else [element[0], i]


@every_runner
def test_a_bad_record_of_a_small_element_is_named(sc, runner, tmp_path):
    """By element and position, as without tables."""
    where = r"OddRecordFn.process\(\) of element \('1003', 3\), OffsetRange\(start=0, stop=3\) at position 2"
    with pytest.raises(BadRecordError, match=where):
        save_sdf(sc.parallelize(SMALL, 3), OddRecordFn(), JsonLinesFiles(tmp_path / "out"), runner=runner)


class FailsOnceFn(CountFn):
    """Raises at one element, as long as a file is not there."""

    def __init__(self, mended):
        self.mended = str(mended)

    def process(self, element, tracker):
        if element[0] == "2999" and not os.path.exists(self.mended):
            time.sleep(0.5)  # what is written before is committed
            raise ValueError("not yet")
        for i in tracker.claims():
            yield element[0], i


@every_runner
def test_a_saved_run_of_small_elements_goes_on_after_an_error(sc, runner, tmp_path):
    """With what the log holds of its tables: some rows of them are committed."""
    mended, sink = tmp_path / "mended", FolderSink(tmp_path / "out")

    def save(elements):
        return save_sdf(elements, FailsOnceFn(mended), sink, runner=runner, commit_seconds=0.1)

    with pytest.raises(ProcessError, match=r"FailsOnceFn.process\(\).* of element \('2999', 3\)"):
        save(sc.parallelize(SMALL, 3))
    mended.touch()
    summary = save(sc.parallelize(SMALL, 3))
    assert summary.resumed
    assert rows(tmp_path / "out") == sorted(expected(SMALL).elements())


class BadFn(CountFn):
    """Of two elements a block raises, of another the process dies; unless it is mended."""

    mended = False

    def process(self, element, tracker):
        for i in tracker.claims():
            if self.mended:
                yield element[0], i
                continue
            if (element[0], i) in {("1003", 1), ("2003", 2)}:
                raise ValueError(f"no {i}")
            if element[0] == "501":
                os._exit(1)
            yield element[0], i


BAD = {("1003", 3): OffsetRange(1, 2), ("2003", 3): OffsetRange(2, 3), ("501", 1): OffsetRange(0, 1)}
LOST = {("1003", 1), ("2003", 2), ("501", 0)}


@pytest.mark.parametrize("saved", [False, True], ids=["run_sdf", "save_sdf"])
def test_a_bad_block_of_a_small_element_is_set_aside_alone(sc, saved, tmp_path):
    """By its element, as if there were no table; all other records of the table are there."""
    elements = sc.parallelize(SMALL, 3)
    if not saved:
        outputs = run_sdf(elements, BadFn(), on_failure=Quarantine())
        found, failed = sorted(outputs["main"].collect()), outputs["failed"].collect()
    else:
        sink = FolderSink(tmp_path / "out")
        failed = save_sdf(elements, BadFn(), sink, on_failure=Quarantine()).failures
        found = rows(tmp_path / "out")
        again = save_sdf(elements, BadFn(), sink, on_failure=Quarantine()).failures
        assert {block.element: block.restriction for block in again} == BAD
    assert {block.element: block.restriction for block in failed} == BAD
    assert found == sorted(row for row in expected(SMALL).elements() if row not in LOST)


def test_what_was_mended_of_small_elements_is_added_once(sc, tmp_path):
    """retry_failed() finds the rows again."""
    sink, fn = JsonLinesFiles(tmp_path / "out"), BadFn()
    save_sdf(sc.parallelize(SMALL, 3), fn, sink, on_failure=Quarantine())
    fn.mended = True
    retry_failed(sc, fn, sink)
    assert rows(tmp_path / "out") == sorted(expected(SMALL).elements())


@every_runner
def test_many_small_files(sc, runner, tmp_path):
    """They go in tables, with the state in which each was found; one that changes meanwhile is an error."""
    for number in range(300):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(number % 4)))
    paths = [str(tmp_path / f"{number}.txt") for number in range(300)]
    result = run_sdf(sc.parallelize(paths, 2), ReadLines(), runner=runner)
    assert sorted(result.collect()) == sorted(f"{number} {line}" for number in range(300) for line in range(number % 4))
    assert (result.report.elements, len(result.report.pieces) < 60) == (300, True)
    names = sorted(sdf_names(sc.parallelize(paths, 2)))
    assert names == sorted(path for path in paths if os.path.getsize(path))


def sdf_names(paths):
    """Return the paths that the positions of the lines name."""
    return {path for (path, _), _ in run_sdf(paths, ReadLines(with_position=True)).collect()}

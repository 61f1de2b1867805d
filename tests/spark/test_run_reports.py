"""The report of a run and its progress: what both runners tell while and after they run."""

import io
import json
import os
import re
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from support.fns import CountFn, SlowCountFn

from sdf import DoFn, LiveRunner, OffsetRange, RunProgress, StagedRunner, run_sdf
from sdf.errors import InvalidTypeError, MissingExtraError
from sdf.spark.display import Display

ELEMENTS = [("big", 250), *((str(i), 2) for i in range(10))]
RUNNERS_BY_NAME = {"staged": StagedRunner(), "live": LiveRunner()}
RUNNERS = pytest.mark.parametrize("runner", RUNNERS_BY_NAME.values(), ids=RUNNERS_BY_NAME)
OTHER = pytest.mark.slow("the same test with the other runner")


def report_of(sc, fn, runner, elements=ELEMENTS, **options):
    result = run_sdf(sc.parallelize(elements, 4), fn, runner=runner, **options)
    assert result.count() == sum(count for _, count in elements)
    return result.report


@RUNNERS
def test_pieces_add_up_to_the_run(sc, runner):
    """Each work item once, with its records; the pieces of an element tile it."""
    report = report_of(sc, SlowCountFn(), runner)
    assert sum(piece.records for piece in report.pieces) == report.records == 270
    assert len({piece.id for piece in report.pieces}) == len(report.pieces)
    records = Counter()
    for piece in report.pieces:
        records[piece.element] += piece.records
        assert report.tasks[piece.task].began <= piece.began + 1e-3
    assert records == Counter(dict(zip(ELEMENTS, (count for _, count in ELEMENTS), strict=True)))
    big = sorted(tuple(piece.restriction) for piece in report.pieces if piece.element[0] == "big" and piece.records)
    assert [start for start, _ in big] == [0, *(stop for _, stop in big[:-1])]
    assert sum(piece.units for piece in report.pieces) == pytest.approx(270)


@RUNNERS
def test_every_split_has_a_piece_that_says_whence_it_came(sc, runner):
    """The parent is another piece of the same element."""
    report = report_of(sc, SlowCountFn(), runner)
    by_id = {piece.id: piece for piece in report.pieces}
    cut = [piece for piece in report.pieces if piece.parent is not None]
    assert len(cut) == report.splits > 0
    assert all(by_id[piece.parent].element == piece.element for piece in cut)
    assert {piece.origin for piece in cut} <= {"cut before it ran", "cut while it ran"}
    assert {piece.origin for piece in report.pieces if piece.parent is None} == {"initial"}


class DefersFn(CountFn):
    """Defers what is left after three."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, stop):
            if not tracker.try_claim(i):
                return
            yield element[0], i
            if i == start + 2 and i + 1 < stop:
                tracker.defer_remainder()
                return


@RUNNERS
def test_deferred_work_is_called_so(sc, runner):
    """process() deferred it, nobody cut it."""
    report = report_of(sc, DefersFn(), runner, [("a", 40)])
    assert "deferred" in {piece.origin for piece in report.pieces}


class StuckFn(DoFn):
    """Each element is ten blocks, of which one is slow."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 10)

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            time.sleep(1.0 if (element, i) == ("a", 5) else 0.001)
            yield i


@pytest.mark.parametrize(
    "runner", [StagedRunner(), StagedRunner(budget_seconds=0.1), LiveRunner()], ids=["staged", "split in it", "live"]
)
def test_the_slowest_block_is_named(sc, runner):
    """With its element and its position; that its task has given back the rest meanwhile makes it no shorter."""
    result = run_sdf(sc.parallelize(["a", "b", "c"], 3), StuckFn(), runner=runner)
    assert result.count() == 30
    element, position, seconds = result.report.slow_blocks[0]
    assert (element, position) == ("a", "5")
    assert seconds > 0.3


class SlowStartFn(DoFn):
    """Element: a number of positions. Takes long to open, wherever it begins."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        time.sleep(0.4)
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            time.sleep(0.01)
            yield i


@RUNNERS
def test_a_slow_start_is_told_of_each_piece_and_is_no_slow_block(sc, runner):
    """The clock saw it, and opening again is left out of what one piece would take."""
    result = run_sdf(sc.parallelize([200], 1), SlowStartFn(), runner=runner)
    assert result.count() == 200
    report = result.report
    openings = [piece.opening_seconds for piece in report.pieces if piece.records]
    assert len(openings) > 1
    assert min(openings) > 0
    slow = [seconds for seconds in openings if seconds >= 0.1]  # a busy machine looks at the clock seldom
    assert len(slow) > 1
    assert f"before the first claim of 200, {len(slow):,} times" in str(report)
    assert not [position for _, position, _ in report.slow_blocks if position in ("", "0.0")]
    again = sum(openings) - next(piece.opening_seconds for piece in report.pieces if piece.id == 0)
    assert report.unsplit_seconds == pytest.approx(sum(piece.seconds for piece in report.pieces) - again)


@RUNNERS
def test_report_names_the_straggler_and_its_runner(sc, runner):
    """The one giant element."""
    report = report_of(sc, SlowCountFn(), runner)
    assert report.straggler.element == ("big", 250)
    assert report.straggler.parts == len([piece for piece in report.pieces if piece.element == ("big", 250)]) > 1
    assert "straggler: ('big', 250) took" in str(report)
    assert report.runner == type(runner).__name__


class UnevenFn(CountFn):
    """Waits before its first claim, and at each position, for what a function of element and position says.

    Where that is nothing it does not sleep: a busy machine wakes it late, and then all positions would take as long.
    """

    def __init__(self, seconds_at):
        self.seconds_at = seconds_at

    def process(self, element, tracker):
        self._wait(element[0], None)
        for position in tracker.claims():
            self._wait(element[0], position)
            yield element[0], position

    def _wait(self, name, position):
        seconds = self.seconds_at(name, position)
        if seconds:
            time.sleep(seconds)


CAUSES = {
    "much work": lambda name, at: 0.0 if at is None else 0.02,
    "hot blocks": lambda name, at: 0.0 if at is None else 0.2 if name == "big" and at < 20 else 0.0,
    "long opening": lambda name, at: 2.0 if (name, at) == ("big", None) else 0.0,
    "one block that cannot be cut": lambda name, at: 0.0 if at is None else 3.0 if (name, at) == ("big", 7) else 0.0,
}


@pytest.mark.parametrize(
    ("cause", "runner"),
    [
        pytest.param(cause, RUNNERS_BY_NAME[name], id=f"{cause}-{name}", marks=() if runs else OTHER)
        for number, cause in enumerate(CAUSES)
        for name, runs in (("staged", number % 2 == 0), ("live", number % 2 == 1))
    ],
)
def test_report_names_the_cause_of_a_straggler(sc, runner, cause):
    """Each that a DoFn can have."""
    report = report_of(sc, UnevenFn(CAUSES[cause]), runner)
    assert report.straggler.element == ("big", 250)
    assert report.straggler.cause == cause
    assert f"; cause: {cause}" in str(report)


class SlowOnOneFn(CountFn):
    """The process that works first takes ten times as long as the others."""

    def __init__(self, path):
        self.path = path

    def process(self, element, tracker):
        # Not in setup(): Spark may have more workers than slots, so that one which expands elements runs no more.
        with suppress(FileExistsError), open(self.path, "x") as file:
            file.write(str(os.getpid()))
        slow = Path(self.path).read_text() == str(os.getpid())
        for position in tracker.claims():
            time.sleep(0.2 if slow else 0.02)
            yield element[0], position


ONE, MANY = [("big", 800)], [(str(number), 4) for number in range(150)]
# Spark may have more workers than slots: the first task alone tells enough. A busy machine may stop a worker for a
# second, and each piece counts without the longest block: no piece may be as short as that.
LONG = StagedRunner(budget_seconds=4, min_piece_seconds=2)


@pytest.mark.parametrize(
    ("elements", "runner"),
    [
        pytest.param(ONE, LONG, id="one-staged"),
        pytest.param(MANY, LiveRunner(), id="many-live"),
        pytest.param(ONE, LiveRunner(), id="one-live", marks=OTHER),
        pytest.param(MANY, LONG, id="many-staged", marks=OTHER),
    ],
)
def test_report_names_a_slow_worker(sc, runner, elements, tmp_path):
    """Whether all run the same element, or each its own."""
    path = tmp_path / "slow"
    report = report_of(sc, SlowOnOneFn(str(path)), runner, elements)
    assert [host.name.rpartition("/")[2] for host in report.slow_hosts] == [path.read_text()]
    assert f"slow host: {report.slow_hosts[0].name} took " in str(report)


def test_what_goes_by_before_the_first_piece_is_known(sc):
    """From the call on: elements are expanded, and a job starts."""
    before = time.time()
    report = report_of(sc, SlowCountFn(), StagedRunner())
    assert before <= report.began <= min(piece.began for piece in report.pieces)
    assert report.idle.before > 0


@RUNNERS
def test_idle_time_is_part_of_the_run(sc, runner):
    """No more than all of it."""
    report = report_of(sc, SlowCountFn(), runner)
    assert 0 <= report.idle.seconds <= report.seconds


@RUNNERS
def test_a_second_action_does_not_change_the_report(sc, runner):
    """What is run again is not what the run did."""
    result = run_sdf(sc.parallelize(ELEMENTS, 4), CountFn(), runner=runner)
    result.count()
    pieces = result.report.pieces
    result.count()
    assert result.report.pieces == pieces


@RUNNERS
def test_report_as_json_and_as_a_page(sc, runner, tmp_path):
    """JSON has every piece; the page is one file."""
    report = report_of(sc, SlowCountFn(), runner)
    data = json.loads(report.to_json())
    assert data["version"] == 1
    assert len(data["pieces"]) == len(report.pieces)
    assert data["elements_by_id"] == {str(piece.element_id): repr(piece.element) for piece in report.pieces}
    assert "('big', 250)" in data["elements_by_id"].values()
    report.save(tmp_path / "run.html")
    text = (tmp_path / "run.html").read_text()
    assert "SlowCountFn" in text
    assert text.count("<rect") >= len(report.tasks)
    assert "s without splitting" in str(report)


@RUNNERS
def test_progress_comes_while_it_runs_and_ends_complete(sc, runner):
    """Work done never falls, the last one has all of it, and only that one is marked as the last."""
    seen = []
    report_of(sc, SlowCountFn(), runner, [("big", 400), ("small", 3)], progress=seen.append)
    for _ in range(1200):
        if seen and seen[-1].ended:
            break
        time.sleep(0.05)
    assert len(seen) >= 2
    assert all(isinstance(one, RunProgress) for one in seen)
    assert [one.ended for one in seen] == [False] * (len(seen) - 1) + [True]
    assert [one.done for one in seen] == sorted(one.done for one in seen)
    assert (seen[-1].done, seen[-1].known) == (403, 403)
    assert any(one.tasks_busy > 0 for one in seen)


@RUNNERS
def test_progress_that_fails_does_not_fail_the_run(sc, runner, caplog):
    """It is logged once."""

    def fail(progress):
        raise RuntimeError("no screen")

    report_of(sc, SlowCountFn(0.005), runner, progress=fail)
    for _ in range(1200):
        if caplog.records:
            break
        time.sleep(0.05)
    assert len([record for record in caplog.records if record.name == "sdf.progress"]) == 1


def test_progress_that_has_failed_is_not_shown_again():
    """Also if something newer has come meanwhile; its thread ends."""
    shown, newer = [], threading.Event()

    def fail(progress):
        shown.append(progress)
        newer.wait(10)
        raise RuntimeError("no screen")

    display = Display(fail)
    for done in (1.0, 2.0):
        display.show(RunProgress("Fn", 1.0, done, 3.0, 1, 1, 0))
        while not shown:
            time.sleep(0.01)
    newer.set()
    display._thread.join(10)
    assert len(shown) == 1
    assert display._thread is None


def test_progress_of_take_ends_though_the_run_does_not(sc):
    """take() runs some lanes only; the display is not left open."""
    seen = []
    result = run_sdf(sc.parallelize(ELEMENTS, 4), SlowCountFn(), runner=LiveRunner(), progress=seen.append)
    assert len(result.take(1)) == 1
    for _ in range(1200):
        if seen and seen[-1].ended:
            break
        time.sleep(0.05)
    assert seen[-1].ended


def test_no_thread_shows_progress_when_the_run_has_ended(sc):
    """Its thread lives as long as there is something to show."""
    report_of(sc, SlowCountFn(0.005), StagedRunner(), progress=lambda progress: None)
    assert not [thread for thread in threading.enumerate() if thread.name == "sdf-progress"]


def test_progress_must_be_something_that_can_be_shown(sc):
    """Before any job runs."""
    with pytest.raises(InvalidTypeError, match="progress must be True, False, None or a function"):
        run_sdf(sc.parallelize([]), CountFn(), progress="yes")


def test_bar(sc, capsys):
    """progress=True draws one though this is no terminal."""
    report_of(sc, SlowCountFn(), StagedRunner(), progress=True)
    said = capsys.readouterr().err
    assert "SlowCountFn" in said
    assert "270/270" in said


def test_a_bar_without_tqdm_is_an_error_that_says_how_to_install_it(sc, monkeypatch):
    """Before any job runs, as a bar was asked for."""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(MissingExtraError, match=re.escape("progress=True needs tqdm") + ".*pip install 'tqdm>=4.65'"):
        run_sdf(sc.parallelize([]), CountFn(), progress=True)


def test_a_bar_of_a_program_that_runs_notebooks_is_one_of_text(sc, capsys, monkeypatch):
    """tqdm.auto would draw a widget, which nobody sees."""
    import ipykernel.kernelapp  # noqa: F401, which imports zmqshell

    for name in ("tqdm.auto", "tqdm.autonotebook"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    report_of(sc, SlowCountFn(0.002), StagedRunner(), progress=True)
    assert "270/270" in capsys.readouterr().err


def test_nothing_is_drawn_where_there_is_no_terminal(sc, capsys):
    """The default."""
    report_of(sc, SlowCountFn(0.002), StagedRunner())
    assert capsys.readouterr().err == ""


def test_a_program_that_runs_notebooks_is_none(sc, capsys):
    """It imports ipykernel, to find out how to start a kernel."""
    import ipykernel.kernelapp  # noqa: F401

    report_of(sc, SlowCountFn(0.002), StagedRunner())
    assert capsys.readouterr().err == ""


class Closed(io.StringIO):
    """A stream that a program has closed."""

    def isatty(self):
        raise ValueError("I/O operation on closed file")


@pytest.mark.parametrize("stream", [None, object(), Closed()], ids=["none", "something", "closed"])
def test_nothing_is_drawn_where_nothing_can_be(sc, monkeypatch, stream):
    """And the run does not mind."""
    monkeypatch.setattr(sys, "stderr", stream)
    assert run_sdf(sc.parallelize([("a", 3)]), CountFn()).count() == 3


class UnknownFn(SlowCountFn):
    """Its sizes are unknown."""

    def restriction_size(self, element, restriction):
        return None


@RUNNERS
def test_work_of_unknown_size_is_not_done_before_its_end(sc, runner):
    """Each split makes more of it, so that all is known and done only when the run ends."""
    seen = []
    report = report_of(sc, UnknownFn(), runner, [("a", 300)], progress=seen.append)
    assert report.splits > 0
    for _ in range(1200):
        if seen and seen[-1].ended:
            break
        time.sleep(0.05)
    assert all(one.done < one.known for one in seen[:-1])
    assert seen[-1].done == pytest.approx(seen[-1].known)
    assert sum(piece.units for piece in report.pieces) == pytest.approx(seen[-1].known)


def test_between_two_actions_a_live_run_stands_still(sc):
    """Its seconds are those in which it was run; so is the time of its slots."""
    seen = []
    result = run_sdf(sc.parallelize([("a", 200)], 1), SlowCountFn(), runner=LiveRunner(lanes=3), progress=seen.append)
    began = time.time()
    result.take(1)
    time.sleep(3)
    result.count()
    report = result.report
    assert report.seconds < time.time() - began - 2.5
    assert report.slots_over_time[-1][0] <= report.seconds


def test_a_run_that_has_not_begun_says_so(sc):
    """Not that all was busy."""
    result = run_sdf(sc.parallelize([("a", 200)], 1), CountFn(), runner=LiveRunner())
    assert str(result.report) == "CountFn: nothing of 1 element has run yet"
    assert json.loads(result.report.to_json())["efficiency"] == 0.0


def test_a_run_that_failed_does_not_say_that_nothing_has_run(sc):
    """Lanes ran, and none has ended."""

    class FailsFn(CountFn):
        def process(self, element, tracker):
            yield from super().process(element, tracker)
            raise ValueError("boom")

    result = run_sdf(sc.parallelize([("a", 20)], 1), FailsFn(), runner=LiveRunner(lanes=1))
    with pytest.raises(Exception, match="boom"):
        result.count()
    assert str(result.report) == "FailsFn: no lane has ended yet, of 1; a report tells of those that have"


def test_more_lanes_than_slots_are_no_slots(sc):
    """Four run at a time."""
    result = run_sdf(sc.parallelize(ELEMENTS, 4), SlowCountFn(), runner=LiveRunner(lanes=12))
    result.count()
    assert (result.report.lanes, len(result.report.tasks)) == (12, 12)
    assert 0 < result.report.slots <= 5  # one may be seen to come before another is seen to go


class RendezvousFn(DoFn):
    """Element: a file of its own. Its one block ends when the files of two elements are there, as two tasks make it."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        if tracker.try_claim(0):
            path, until = Path(element), time.monotonic() + 60
            path.touch()
            while len(list(path.parent.iterdir())) < 2:
                if time.monotonic() > until:
                    raise TimeoutError("nobody else came")
                time.sleep(0.05)
            yield path.name


def test_new_slots_are_used_while_a_task_runs(sc, monkeypatch, tmp_path):
    """An executor came after the only slot had got its task, which ends only once there is another beside it."""
    counted = iter([1, 1])
    monkeypatch.setattr("sdf.spark.staged.stage_jobs.slot_counter", lambda sc: lambda: next(counted, 2))
    result = run_sdf(sc.parallelize([str(tmp_path / "a"), str(tmp_path / "b")], 1), RendezvousFn())
    assert sorted(result.collect()) == ["a", "b"]
    assert [slots for _, slots in result.report.slots_over_time] == [1, 2]

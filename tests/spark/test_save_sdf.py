"""save_sdf: what a user may rely on, with both runners."""

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.fns import EVERY_FN, CountFn, SlowCountFn, expected
from support.saving import ELEMENTS, FolderSink, rows

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, TaggedOutput, run_direct, save_sdf
from sdf.errors import (
    BadRecordError,
    InvalidTypeError,
    InvalidValueError,
    JournalError,
    JournalFencedError,
    OutputError,
    ProcessError,
)
from sdf.sinks import JsonLinesFiles, ParquetFiles, Sink
from sdf.spark.staged.stages import StageBook

WAYS = {
    "StagedRunner": StagedRunner(),
    "LiveRunner": LiveRunner(),
    "DataFrame": LiveRunner(),
    "Connect": StagedRunner(),
}


def ways(*some):
    """Parametrize with the ways to save a run, a few of them in `make test`."""
    rest = pytest.mark.slow(f"the same test with {some[0]}")
    return pytest.mark.parametrize(
        "runner", [pytest.param(way, marks=() if way in some else rest) for way in WAYS], indirect=True
    )


RUNNERS = ways("StagedRunner", "LiveRunner")
EVERY_WAY = ways(*WAYS)


@pytest.fixture
def runner(request):
    return WAYS[request.param]


@pytest.fixture
def given(request):
    """Makes what the run gets of a list: an RDD, a DataFrame of classic Spark, or one of Spark Connect."""
    from pyspark.sql import SparkSession

    way = request.node.callspec.params["runner"]
    if way not in ("DataFrame", "Connect"):
        return lambda elements: request.getfixturevalue("sc").parallelize(elements, 2)
    spark = request.getfixturevalue("connect") if way == "Connect" else SparkSession(request.getfixturevalue("sc"))

    def frame(elements):
        if elements and isinstance(elements[0], tuple):
            return spark.createDataFrame(elements)
        return spark.createDataFrame([(one,) for one in elements], "value long")

    return frame


def saved(path):
    return Counter(rows(path))


@EVERY_WAY
def test_the_records_are_those_of_run_direct(given, tmp_path, runner):
    """Whatever the elements come from, and however often segments end."""
    assert_as_run_direct(given, tmp_path, runner, CountFn())


@ways("StagedRunner")
@pytest.mark.parametrize("fn", EVERY_FN[1:], ids=lambda fn: type(fn).__name__)
def test_the_records_of_every_kind_of_work_are_those_of_run_direct(given, tmp_path, runner, fn):
    """Whatever the restriction."""
    assert_as_run_direct(given, tmp_path, runner, fn)


def assert_as_run_direct(given, tmp_path, runner, fn):
    summary = save_sdf(given(ELEMENTS), fn, FolderSink(tmp_path / "out"), runner=runner, commit_seconds=0.05)
    assert saved(tmp_path / "out") == Counter(run_direct(ELEMENTS, fn)) == expected(ELEMENTS)
    assert summary.records == sum(expected(ELEMENTS).values())
    assert (summary.resumed, summary.repeated_seconds) == (False, 0.0)


class ListFn(CountFn):
    """Returns a list, so that all is claimed before the first record leaves process()."""

    def process(self, element, tracker):
        time.sleep(0.02)
        return list(super().process(element, tracker))


class AheadFn(CountFn):
    """Claims up to nine blocks ahead of what it yields."""

    def process(self, element, tracker):
        ahead = []
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                break
            time.sleep(0.005)
            ahead.append((element[0], i))
            if len(ahead) > 9:
                yield ahead.pop(0)
        yield from ahead


class BufferingFn(AheadFn):
    """Yields everything at its end."""

    def process(self, element, tracker):
        yield from list(super().process(element, tracker))


class DefersFn(CountFn):
    """Defers the rest now and then, before or after its claims."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for i in range(start, stop):
            if i - start == 5:
                tracker.defer_remainder(0.01)
                return
            if not tracker.try_claim(i):
                return
            yield element[0], i


@RUNNERS
@pytest.mark.parametrize("fn", [ListFn(), DefersFn()], ids=lambda fn: type(fn).__name__)
def test_no_record_is_lost_between_a_claim_and_its_output(given, tmp_path, runner, fn):
    """A segment ends a call of process(), and never cuts its outputs at a claim."""
    save_sdf(given(ELEMENTS), fn, FolderSink(tmp_path / "out"), runner=runner, commit_seconds=0.01)
    assert saved(tmp_path / "out") == expected(ELEMENTS)


@RUNNERS
@pytest.mark.parametrize("fn", [AheadFn(), BufferingFn()], ids=lambda fn: type(fn).__name__)
def test_outputs_that_lag_behind_claims_are_saved_or_an_error(given, tmp_path, runner, fn):
    """A generator must not yield after a refused claim: where a split makes it do so it fails, and loses nothing."""
    try:
        save_sdf(given(ELEMENTS), fn, FolderSink(tmp_path / "out"), runner=runner, commit_seconds=0.01)
    except OutputError as error:
        assert "after a refused claim" in str(error)  # noqa: PT017, it may go either way
        assert rows(tmp_path / "out") is None
    else:
        assert saved(tmp_path / "out") == expected(ELEMENTS)


class OddEvenFn(CountFn):
    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            yield TaggedOutput("odd", (name, i)) if i % 2 else (name, i)


@RUNNERS
def test_each_output_has_a_sink_of_its_own(given, tmp_path, runner):
    """And its own count in the summary."""
    sinks = {"main": FolderSink(tmp_path / "even"), "odd": FolderSink(tmp_path / "odd")}
    summary = save_sdf(given(ELEMENTS), OddEvenFn(), sinks, runner=runner)
    assert saved(tmp_path / "even") == Counter(row for row in expected(ELEMENTS).elements() if row[1] % 2 == 0)
    assert saved(tmp_path / "odd") == Counter(row for row in expected(ELEMENTS).elements() if row[1] % 2)
    assert summary.records_by_output == {"main": len(rows(tmp_path / "even")), "odd": len(rows(tmp_path / "odd"))}


@ways("StagedRunner")
def test_records_that_do_not_fit_can_go_to_an_output_of_their_own(given, tmp_path, runner):
    """With on_error="tag", into "bad"."""
    import pyarrow

    class MixedFn(CountFn):
        def process(self, element, tracker):
            for _, i in super().process(element, tracker):
                yield {"i": i if i % 10 else "ten"}

    sinks = {
        "main": ParquetFiles(tmp_path / "out", schema={"i": pyarrow.int64()}, on_error="tag"),
        "bad": JsonLinesFiles(tmp_path / "bad"),
    }
    summary = save_sdf(given([("a", 100)]), MixedFn(), sinks, runner=runner)
    assert summary.records_by_output == {"main": 90, "bad": 10}


@RUNNERS
def test_a_bad_record_is_found_with_its_element_and_position(given, tmp_path, runner):
    """The error says field and value, too; the run stays resumable, and goes on once process() is mended."""

    class BadFn(CountFn):
        def process(self, element, tracker):
            for name, i in super().process(element, tracker):
                yield {"name": name, "i": i if i != 77 else "seventy-seven"}

    import pyarrow

    sink = ParquetFiles(tmp_path / "out", schema={"name": pyarrow.string(), "i": pyarrow.int64()})
    with pytest.raises(
        BadRecordError, match=r"BadFn.process\(\) of element .*'a', .*100\), .* at position 77 gave .*'i'"
    ):
        save_sdf(given([("a", 100)]), BadFn(), sink, runner=runner)
    assert not (tmp_path / "out").exists()


def test_the_same_call_after_the_end_runs_nothing(sc, tmp_path):
    """It returns the summary again, without a report."""
    first, second = (save_sdf(sc.parallelize(ELEMENTS), CountFn(), FolderSink(tmp_path / "out")) for _ in range(2))
    assert (first.records, first.files, first.bytes) == (second.records, second.files, second.bytes)
    assert first.report is not None
    assert second.report is None
    assert second.resumed


class OptionFn(CountFn):
    def __init__(self, option):
        self.option = option


@pytest.mark.parametrize(
    ("elements", "fn", "name", "message"),
    [
        (ELEMENTS[1:], OptionFn(1), "out", "over other elements: it had 5 elements, this call has 4"),
        ([*ELEMENTS[1:], ("z", 3)], OptionFn(1), "out", r"over other elements: it had element \('a', 0\)"),
        (ELEMENTS, OptionFn(2), "out", r"begun with the DoFn's fields \{'option': 1\}, this call has \{'option': 2\}"),
        (ELEMENTS, CountFn(), "out", "begun with the DoFn"),
        (ELEMENTS, OptionFn(1), "other", "begun with the sinks"),
    ],
)
def test_another_run_on_the_same_checkpoint_is_an_error(sc, tmp_path, elements, fn, name, message):
    """Not the summary of the run that was there before, also when that is done."""
    checkpoint = tmp_path / "checkpoint"
    save_sdf(sc.parallelize(ELEMENTS), OptionFn(1), FolderSink(tmp_path / "out"), checkpoint=checkpoint)
    with pytest.raises(JournalError, match=message):
        save_sdf(sc.parallelize(elements), fn, FolderSink(tmp_path / name), checkpoint=checkpoint)


class FailsOnceFn(SlowCountFn):
    """Notes what it claims; fails in the middle of an element until a file is there."""

    def __init__(self, folder):
        super().__init__(0.01)
        self.folder = folder

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            with open(f"{self.folder}/claims", "a") as file:
                file.write(f"{name} {i}\n")
            if (name, i) == ("big", 590):
                with open(f"{self.folder}/mended"):
                    pass
            yield name, i


@ways("StagedRunner", "LiveRunner", "Connect")
def test_what_is_committed_does_not_run_again(given, tmp_path, runner):
    """A resume goes on inside the element; the elements are those of the log."""
    elements = [("big", 600), ("small", 5)]
    seen = []

    def save():
        sink = FolderSink(tmp_path / "out")
        rdd = given(elements)
        return save_sdf(rdd, FailsOnceFn(str(tmp_path)), sink, runner=runner, commit_seconds=0.1, progress=seen.append)

    with pytest.raises(ProcessError, match="mended"):
        save()
    assert rows(tmp_path / "out") is None
    before = Counter((tmp_path / "claims").read_text().splitlines())
    (tmp_path / "mended").touch()
    seen.clear()
    summary = save()
    assert 0 < seen[0].done < seen[-1].done == seen[-1].known  # the progress begins where the run had been
    assert saved(tmp_path / "out") == expected(elements)
    assert summary.resumed
    assert summary.records == 605
    claims = Counter((tmp_path / "claims").read_text().splitlines())
    again = sum(claims.values()) - sum(before.values())
    assert again < 605  # some of it was committed, and did not run again


@RUNNERS
def test_a_resume_with_other_elements_ends_what_was_begun_and_then_says_so(given, tmp_path, runner):
    """As when tonight's call finds last night's run; an RDD that changes does not stand in the way."""

    def save(elements):
        save_sdf(given(elements), FailsOnceFn(str(tmp_path)), FolderSink(tmp_path / "out"), runner=runner)

    elements = [("big", 600), ("small", 5)]
    with pytest.raises(ProcessError, match="mended"):
        save(elements)
    (tmp_path / "mended").touch()
    with pytest.raises(JournalError, match=r"it had 2 elements, this call has 3\. That run is done"):
        save([*elements, ("new", 1)])
    assert saved(tmp_path / "out") == expected(elements)


@ways("StagedRunner")
def test_side_inputs_reach_process(given, tmp_path, runner):
    """An RDD or a DataFrame is collected, as by run_sdf."""

    class PlusFn(DoFn):
        def get_initial_restriction(self, element):
            return OffsetRange(0, element)

        def process(self, element, tracker, more):
            for i in range(*tracker.current_restriction()):
                if not tracker.try_claim(i):
                    return
                yield i + sum(more)

    sink = FolderSink(tmp_path / "out")
    save_sdf(given([3]), PlusFn(), sink, side_inputs={"more": given([10, 20])}, runner=runner)
    assert rows(tmp_path / "out") == [30, 31, 32]


class AppendingSink(FolderSink):
    appends = True


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"sink": "out"}, InvalidTypeError, "sink must be a Sink of sdf.sinks"),
        ({"sink": {"main": "out"}}, InvalidTypeError, "'out' for 'main'"),
        ({"sink": {"bad": FolderSink("out")}}, InvalidValueError, r"a sink for each output, \('main', 'bad'\)"),
        ({"tags": ("bad",)}, InvalidValueError, r"a sink for each output, \('main', 'bad'\)"),
        ({"sink": {"main": FolderSink("o"), "bad": FolderSink("o")}}, InvalidValueError, "one sink for two outputs"),
        ({"sink": AppendingSink("out")}, InvalidValueError, "needs a checkpoint for AppendingSink"),
        ({"checkpoint": 7}, InvalidTypeError, "checkpoint must be a path"),
        ({"checkpoint": "hdfs:/state"}, InvalidValueError, "checkpoint cannot be there"),
        ({"commit_seconds": 0}, InvalidValueError, "commit_seconds must be a positive number"),
        ({"runner": StagedRunner}, InvalidTypeError, "runner must be a StagedRunner or a LiveRunner"),
        ({"fn": CountFn}, InvalidTypeError, "CountFn"),
        ({"elements": [1, 2]}, InvalidTypeError, "RDD"),
    ],
)
def test_wrong_arguments_are_named_before_any_job(sc, tmp_path, monkeypatch, options, error, message):
    """And nothing is made on the disk."""
    monkeypatch.chdir(tmp_path)
    given = {"elements": sc.parallelize([("a", 1)]), "fn": CountFn(), "sink": FolderSink("out"), **options}
    with pytest.raises(error, match=message):
        save_sdf(**given)
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_is_not_empty_is_refused_before_any_work(sc, tmp_path):
    """The checkpoint does not stand in the way of the next call, with another DoFn."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out/other").touch()
    with pytest.raises(OSError, match="is there already"):
        save_sdf(sc.parallelize(ELEMENTS), CountFn(), FolderSink(tmp_path / "out"))
    (tmp_path / "out/other").unlink()
    (tmp_path / "out").rmdir()
    save_sdf(sc.parallelize(ELEMENTS), OptionFn(1), FolderSink(tmp_path / "out"))
    assert saved(tmp_path / "out") == expected(ELEMENTS)


@ways("StagedRunner")
def test_no_element_and_no_record_are_saved_too(given, tmp_path, runner):
    """The target is there, and empty."""
    assert save_sdf(given([]), CountFn(), FolderSink(tmp_path / "none"), runner=runner).records == 0
    assert save_sdf(given([("a", 0)]), CountFn(), FolderSink(tmp_path / "zero"), runner=runner).records == 0
    assert (rows(tmp_path / "none"), rows(tmp_path / "zero")) == ([], [])


class FailingSink(FolderSink):
    def commit(self, messages, token):
        raise ConnectionError("the catalogue is away")


@ways("StagedRunner")
def test_a_sink_that_cannot_commit_is_named_and_the_next_call_only_commits(given, tmp_path, runner):
    """All work is kept."""
    with pytest.raises(OSError, match=r"FailingSink.commit\(\) .*the catalogue is away.*make the same call again"):
        save_sdf(given(ELEMENTS), CountFn(), FailingSink(tmp_path / "out"), runner=runner)
    summary = save_sdf(given(ELEMENTS), CountFn(), FolderSink(tmp_path / "out"), runner=runner)
    assert saved(tmp_path / "out") == expected(ELEMENTS)
    assert summary.report is None


class TwoTagsFn(CountFn):
    """Zeros go to "zero", other even numbers to "even"."""

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            yield (name, i) if i % 2 else TaggedOutput("even" if i else "zero", (name, i))


def test_the_order_in_which_outputs_are_named_means_nothing(sc, tmp_path):
    """A mapping that was made of a set has another one in each process: messages stay with their outputs."""

    def save(*tags, main=FolderSink):
        sinks = {name: FolderSink(tmp_path / name) for name in tags}
        return save_sdf(sc.parallelize(ELEMENTS), TwoTagsFn(), {**sinks, "main": main(tmp_path / "main")}, tags=tags)

    with pytest.raises(OSError, match="the catalogue is away"):
        save("zero", "even", main=FailingSink)
    counts = save("even", "zero").records_by_output
    assert counts == save("zero", "even").records_by_output == {"main": 34, "even": 33, "zero": 4}
    assert {name: len(rows(tmp_path / name)) for name in counts} == counts
    assert all(i == 0 for _, i in rows(tmp_path / "zero"))


class TupleSink(FolderSink):
    def identity(self):
        return ("folder", {"parts": (1, 2), 3: self.path})


def test_an_identity_is_compared_as_the_log_holds_it(sc, tmp_path):
    """Though JSON has neither tuples nor numbers as keys: the same call is known again."""
    first, second = (
        save_sdf(sc.parallelize(ELEMENTS), CountFn(), TupleSink(tmp_path / "out")).records for _ in range(2)
    )
    assert first == second


class PathSink(FolderSink):
    def identity(self):
        return {"path": Path(self.path)}


def test_an_identity_that_no_log_can_hold_is_told_at_once(sc, tmp_path):
    """With the name of the sink."""
    with pytest.raises(
        InvalidTypeError, match=r"PathSink.identity\(\) must return JSON data \(got \{'path': PosixPath"
    ):
        save_sdf(sc.parallelize(ELEMENTS), CountFn(), PathSink(tmp_path / "out"))
    assert list(tmp_path.iterdir()) == []


class ObjectSink(FolderSink):
    def write(self, records, place):
        return {"name": super().write(records, place), "place": place}


@RUNNERS
def test_a_message_that_no_log_can_hold_is_an_error_that_names_the_sink(given, tmp_path, runner):
    """The run stays resumable with a sink that is mended."""
    with pytest.raises(OSError, match=r"ObjectSink.write\(\) must return None or JSON data"):
        save_sdf(given([("a", 3)]), CountFn(), ObjectSink(tmp_path / "out"), runner=runner)
    save_sdf(given([("a", 3)]), CountFn(), FolderSink(tmp_path / "out"), runner=runner)
    assert saved(tmp_path / "out") == expected([("a", 3)])


class WaitsFn(CountFn):
    """Defers what is behind the third number, and fails there until a file is there."""

    def __init__(self, mended):
        self.mended = mended

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        if start == 3:
            with open(self.mended):
                pass
        for i in range(start, stop):
            if i == 3 and start < 3:
                tracker.defer_remainder(0.3)
                return
            if not tracker.try_claim(i):
                return
            yield element[0], i


@RUNNERS
def test_what_was_deferred_is_done_by_a_resume(given, tmp_path, runner):
    """Work that was not due when the driver ended is neither lost nor done twice."""

    def save():
        rdd, fn = given([("a", 9), ("b", 9)]), WaitsFn(str(tmp_path / "mended"))
        return save_sdf(rdd, fn, FolderSink(tmp_path / "out"), runner=runner, commit_seconds=0.05)

    with pytest.raises(ProcessError, match="mended"):
        save()
    (tmp_path / "mended").touch()
    assert save().resumed
    assert saved(tmp_path / "out") == expected([("a", 9), ("b", 9)])


class OvertakenSink(FolderSink):
    """Writes once another driver has ended the run, so that staging is gone."""

    def write(self, records, place):
        Path(f"{self.path}.writes").touch()
        while not Path(f"{self.path}.saved").exists():
            time.sleep(0.01)
        return super().write(records, place)


@pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner(lanes=1)], ids=lambda runner: type(runner).__name__)
def test_a_driver_whose_workers_fail_because_another_one_took_over_says_so(sc, tmp_path, runner):
    """The error of its sink would be a riddle."""

    def save(sink):
        return save_sdf(sc.parallelize([("a", 1)]), CountFn(), sink, runner=runner)

    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(save, OvertakenSink(tmp_path / "out"))
        while not (tmp_path / "out.writes").exists():
            assert not first.done()
            time.sleep(0.01)
        try:
            assert save(FolderSink(tmp_path / "out")).records == 1
        finally:
            (tmp_path / "out.saved").touch()
        with pytest.raises(JournalFencedError, match="another driver has taken over"):
            first.result()
    assert rows(tmp_path / "out") == [("a", 0)]


def test_work_that_is_not_committed_is_looked_for_in_the_stages_that_run(sc, tmp_path, monkeypatch):
    """It is asked for at each receipt: a long run would look at all its stages each time."""
    seen = []
    uncommitted = StageBook.uncommitted_seconds

    def watched(self, now, slots):
        seen.append((len(self._open), len(self)))
        return uncommitted(self, now, slots)

    monkeypatch.setattr(StageBook, "uncommitted_seconds", watched)
    runner = StagedRunner(budget_seconds=0.2)
    save_sdf(sc.parallelize([("a", 300)], 1), SlowCountFn(0.01), FolderSink(tmp_path / "out"), runner=runner)
    stages = max(stages for _, stages in seen)
    assert stages > 2
    assert max(running for running, _ in seen) < stages


def test_a_book_of_stages_keeps_no_message_of_a_sink(sc, tmp_path, monkeypatch):
    """The log has them, and a long run has a message for each segment."""
    kept = []
    counted = StageBook.counted

    def watched(self):
        receipts = counted(self)
        kept.extend(receipt.messages for receipt in receipts)
        return receipts

    monkeypatch.setattr(StageBook, "counted", watched)
    summary = save_sdf(sc.parallelize([("a", 3), ("b", 2)], 2), SlowCountFn(0.0), FolderSink(tmp_path / "out"))
    assert summary.records == 5
    assert kept
    assert set(kept) == {()}


def test_a_sink_is_an_abstract_class():
    """A sink of one's own has to have all six methods."""
    with pytest.raises(TypeError, match="abstract"):
        Sink()

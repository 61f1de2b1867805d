"""DoFns of Beam on Spark: by stages, in lanes, and as streams that stop and go on."""

import re
import time
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("apache_beam")

from apache_beam.coders import StrUtf8Coder
from apache_beam.io import textio
from apache_beam.io.watch import PollResult, _WatchGrowthDoFn, after_total_of
from apache_beam.transforms.periodicsequence import ImpulseSeqGenDoFn
from apache_beam.utils.timestamp import Duration
from support.beam_dofns import Asking, Count, EachDay, Endless, Letters, Odd, RangeSource, bounded_source_dofn
from support.streaming import grouped

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf, stream_sdf
from sdf.beam import from_beam
from sdf.errors import UnboundedError, UnclaimedWorkError

SLOW = 0.02
RUNNERS = [StagedRunner(budget_seconds=0.5, min_piece_seconds=0.05), LiveRunner(lanes=2, min_piece_seconds=0.02)]


@pytest.fixture(scope="module")
def sc(start_spark):
    """Two slots; each worker has imported Beam, which takes seconds."""
    sc = start_spark("local[2]")
    sc.parallelize(range(4), 4).map(lambda _: __import__("beam_dofns") and time.sleep(1)).count()
    return sc


@pytest.fixture(params=RUNNERS, ids=lambda runner: type(runner).__name__)
def runner(request):
    return request.param


@pytest.mark.parametrize(
    ("dofn", "elements", "expected"),
    [
        (Count(SLOW), [("a", 200), ("b", 3)], [(name, i) for name, n in (("a", 200), ("b", 3)) for i in range(n)]),
        (Letters(SLOW), ["ab" * 100], ["a", "b"] * 100),
        (bounded_source_dofn(), [RangeSource(0, 200, SLOW), RangeSource(200, 210)], list(range(210))),
    ],
    ids=["offsets", "a restriction that its tracker changes", "a bounded source"],
)
def test_stragglers_are_split_while_they_run(sc, runner, dofn, elements, expected):
    """Each record once, and the report shows the splits."""
    result = run_sdf(sc.parallelize(elements), from_beam(dofn), runner=runner)
    assert Counter(result.collect()) == Counter(expected)
    assert result.report.splits >= 1
    assert Counter(result.collect()) == Counter(expected)


@pytest.mark.parametrize(
    ("dofn", "elements", "expected"),
    [
        (ImpulseSeqGenDoFn(), [(0, 50, 0.25), (100, 103, 1)], [i / 4 for i in range(200)] + [100, 101, 102]),
        (EachDay(), [7, 3], [*range(7), *range(3)]),
    ],
    ids=["periodic impulses", "ends of its own"],
)
def test_same_records_as_in_this_process(sc, runner, dofn, elements, expected):
    """Whatever the restriction is."""
    assert Counter(run_sdf(sc.parallelize(elements), from_beam(dofn), runner=runner).collect()) == Counter(expected)


def test_files_by_beams_own_sources(sc, runner, tmp_path):
    """A pattern of text files."""
    for number in range(5):
        (tmp_path / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(500)))
    source = textio.ReadFromText(str(tmp_path / "*.txt"))._source
    result = run_sdf(sc.parallelize([source]), from_beam(bounded_source_dofn()), runner=runner)
    assert sorted(result.collect()) == sorted(f"{number} {line}" for number in range(5) for line in range(500))


def test_tags_and_side_inputs(sc, runner):
    """As for any DoFn."""
    outputs = run_sdf(sc.parallelize([("a", 5)]), from_beam(Odd()), runner=runner, tags=("odd",))
    assert sorted(outputs["main"].collect()) == [("a", 0), ("a", 2), ("a", 4)]
    assert sorted(outputs["odd"].collect()) == [("a", 1), ("a", 3)]
    (output,) = run_sdf(
        sc.parallelize([("k", 1)]), from_beam(Asking()), runner=runner, side_inputs={"side": 3}
    ).collect()
    assert (output[1], output[4], output[5]) == ("k", 3, 7)


def test_deferred_work_is_waited_for(sc, runner):
    """A PeriodicSequence gives each impulse when its time has come."""
    start = time.time() - 1
    records = run_sdf(sc.parallelize([(start, start + 4, 1)]), from_beam(ImpulseSeqGenDoFn()), runner=runner).collect()
    assert sorted(records) == [start + i for i in range(4)]
    assert time.time() >= start + 3


def test_work_without_an_end_is_refused(sc, runner):
    """With what to use instead."""
    with pytest.raises(UnboundedError, match="Run it with stream_sdf"):
        run_sdf(sc.parallelize(["x"]), from_beam(Endless()), runner=runner).collect()


class Sink:
    """Keeps the records of each batch under its number."""

    def __init__(self):
        self.batches, self.watermarks = {}, []

    def __call__(self, batch):
        self.batches[batch.id] = batch.rdd.collect()
        self.watermarks.append(batch.watermark)

    def records(self):
        return [record for number in sorted(self.batches) for record in self.batches[number]]


@pytest.fixture
def stream(sc, tmp_path):
    def run(elements, fns, sink, **options):
        options = {"batch_seconds": 0.2, **options}
        return stream_sdf(
            sc.parallelize(elements), fns, checkpoint=tmp_path / "journal", foreach_batch=sink, **grouped(**options)
        )

    return run


def test_a_stream_goes_on_where_it_stopped(stream):
    """Its watermark too, which is Beam's in seconds."""
    sink, fn = Sink(), from_beam(Endless())
    assert not stream(["x"], fn, sink, max_batches=2).done
    assert not stream([], fn, sink, max_batches=3).done
    assert sink.records() == [("x", i) for i in range(25)]
    assert sink.watermarks == [4.0, 9.0, 14.0, 19.0, 24.0]


def test_a_stream_is_drained(stream):
    """What truncate leaves is done, then it ends."""
    sink = Sink()
    summary = stream(["x"], from_beam(Endless()), sink, max_batches=1, drain=True)
    assert (sink.records(), summary.done) == ([("x", i) for i in range(8)], True)


def test_impulses_as_a_stream(stream):
    """Batch after batch, as their times come, to the end of the sequence."""
    sink, start = Sink(), time.time() - 1
    summary = stream([(start, start + 4, 1)], from_beam(ImpulseSeqGenDoFn()), sink)
    assert sink.records() == [start + i for i in range(4)]
    assert summary.done
    assert len(sink.batches) > 1
    assert sink.watermarks == sorted(sink.watermarks)


class Lengths(DoFn):
    """A DoFn of ours behind one of Beam's."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        if tracker.try_claim(0):
            yield element, len(element[1])


def test_watch_in_a_chain_with_ours(stream, tmp_path):
    """Beam's Watch polls a directory; each file that comes is one element of what follows."""
    folder = tmp_path / "in"
    folder.mkdir()

    def poll(path):
        import pathlib

        return PollResult.incomplete(sorted(file.name for file in pathlib.Path(path).iterdir()))

    watch = _WatchGrowthDoFn(
        poll, after_total_of(3600), Duration(0.1), StrUtf8Coder(), lambda name: name, StrUtf8Coder()
    )
    sink = Sink()
    for names in (["a"], ["bb", "ccc"], []):
        for name in names:
            (folder / name).touch()
        stream([str(folder)], [from_beam(watch), Lengths()], sink, max_batches=2)
    assert sorted(length for _, length in sink.records()) == [1, 2, 3]


def test_an_error_names_the_dofn(sc, runner):
    """As Beam's author calls it."""

    class Forgetful(Count):
        def process(self, element, tracker=Count.process.__defaults__[0]):
            if tracker.try_claim(tracker.current_restriction().start):
                yield 0

    with pytest.raises(Exception, match=r"Forgetful.process\(\) on OffsetRange") as raised:
        run_sdf(sc.parallelize([("a", 50)]), from_beam(Forgetful()), runner=runner).collect()
    assert UnclaimedWorkError.__name__ in f"{type(raised.value).__name__} {raised.value}"


def test_page_in_the_docs(sc):
    """Every snippet of it runs, in order."""
    page = (Path(__file__).parents[2] / "docs" / "coming-from-beam.md").read_text()
    snippets = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    assert len(snippets) == 5
    exec("\n".join(snippets), {"sc": sc, "__name__": "page"})

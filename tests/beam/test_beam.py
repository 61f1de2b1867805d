"""from_beam: DoFns of Beam itself, and those that its users write, in this process."""
# ruff: noqa: B008, E402, the imports need Beam, and a parameter's default is how a DoFn of Beam says what it wants

import pickle
import re
import subprocess
import sys
import threading
import time

import cloudpickle
import pytest

beam = pytest.importorskip("apache_beam")

from apache_beam.io import avroio, concat_source, iobase, textio
from apache_beam.io.restriction_trackers import OffsetRange as BeamRange
from apache_beam.io.restriction_trackers import OffsetRestrictionTracker, UnsplittableRestrictionTracker
from apache_beam.io.watch import PollResult, _WatchGrowthDoFn, after_total_of
from apache_beam.io.watermark_estimators import WalltimeWatermarkEstimator
from apache_beam.testing.synthetic_pipeline import SyntheticSDFAsSource, get_synthetic_sdf_step
from apache_beam.transforms.periodicsequence import ImpulseSeqGenDoFn
from apache_beam.utils.timestamp import MAX_TIMESTAMP, MIN_TIMESTAMP, Duration, Timestamp
from support.beam_dofns import (
    Asking,
    Count,
    CountAtOnce,
    CountProvider,
    EachDay,
    Endless,
    Letters,
    Odd,
    Own,
    RangeSource,
    Slices,
    SlicesProvider,
    bounded_source_dofn,
)

from sdf import OffsetRange, run_direct
from sdf.beam import from_beam
from sdf.beam.trackers import BeamRestriction
from sdf.errors import (
    ClaimError,
    DeferError,
    InvalidTypeError,
    OutputError,
    SplitError,
    UnboundedError,
    UnclaimedWorkError,
)
from sdf.execution.invoker import Invoker
from sdf.testing import check_dofn


def text_source(folder, files=3, lines=40):
    for number in range(files):
        (folder / f"{number}.txt").write_text("".join(f"{number} {line}\n" for line in range(lines)))
    return textio.ReadFromText(str(folder / "*.txt"))._source


@pytest.fixture
def avro_source(tmp_path):
    fastavro = pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "Row", "fields": [{"name": "id", "type": "long"}]}
    with open(tmp_path / "a.avro", "wb") as file:
        fastavro.writer(file, schema, [{"id": number} for number in range(300)], sync_interval=200)
    return avroio.ReadFromAvro(str(tmp_path / "a.avro"))._source


SPLITTABLE = {
    "offsets": (Count(), ("a", 12), [("a", i) for i in range(12)]),
    "a list, not a generator": (CountAtOnce(), ("a", 12), [("a", i) for i in range(12)]),
    "its own provider": (Own(), ("a", 50), [("a", i) for i in range(50)]),
    "a restriction that its tracker changes": (Letters(), "splittable", list("splittable")),
    "ends of its own": (EachDay(), 7, list(range(7))),
    "periodic impulses": (ImpulseSeqGenDoFn(), (0, 2, 0.25), [i / 4 for i in range(8)]),
    "periodic data": (ImpulseSeqGenDoFn(["x", "y"]), (0, 4, 1), ["x", "y", "x", "y"]),
    "a synthetic step": (get_synthetic_sdf_step(output_records_per_input_record=20), "e", ["e"] * 20),
    "a bounded source": (bounded_source_dofn(), RangeSource(3, 17), list(range(3, 17))),
}


@pytest.mark.parametrize(("dofn", "element", "expected"), SPLITTABLE.values(), ids=SPLITTABLE)
def test_same_outputs_however_often_it_is_split(dofn, element, expected):
    """Whole, and checkpointed at each claim."""
    assert run_direct([element], from_beam(dofn)) == expected
    assert run_direct([element], from_beam(dofn), split_every=1) == expected


@pytest.mark.parametrize(("dofn", "element", "expected"), SPLITTABLE.values(), ids=SPLITTABLE)
def test_contract_holds(dofn, element, expected):
    """It may be split anywhere, and was."""
    checked = check_dofn(from_beam(dofn), element)
    assert checked.records == len(expected)
    assert checked.splits > 10 or len(expected) < 10


def test_text_files_by_pattern(tmp_path):
    """A source of several files claims inside each at a tracker of its own; between them splits are seen."""
    source = text_source(tmp_path)
    expected = sorted(f"{number} {line}" for number in range(3) for line in range(40))
    fn = from_beam(bounded_source_dofn())
    assert sorted(run_direct([source], fn, split_every=1)) == expected
    assert check_dofn(fn, source).records == 120


def test_blocks_of_avro(avro_source):
    """Split at Avro's blocks, by Beam's own source."""
    fn = from_beam(bounded_source_dofn())
    assert run_direct([avro_source], fn, split_every=1) == [{"id": number} for number in range(300)]
    (bundle,) = avro_source.split(2**30)  # of one file, which claims in sight of the runner
    assert check_dofn(fn, bundle.source).splits > 10


def test_an_empty_source_gives_nothing():
    """Beam gives no bundle then, and a run keeps the element."""
    assert run_direct([RangeSource(5, 5)], from_beam(bounded_source_dofn())) == []


def test_records_of_a_synthetic_source():
    """As a test of Beam's describes them."""
    element = {"key_size": 1, "value_size": 1, "initial_splitting_num_bundles": 4, "num_records": 30,
               "initial_splitting_desired_bundle_size": 2, "sleep_per_input_record_sec": 0,
               "initial_splitting": "const"}  # fmt: skip
    assert check_dofn(from_beam(SyntheticSDFAsSource()), element).records == 30


def test_a_source_is_cut_before_it_is_read():
    """By its sizes, so that what a checkpoint left can be given to several."""
    fn = from_beam(bounded_source_dofn())
    source = RangeSource(0, 100)
    front, rest = fn.create_tracker(source, fn.get_initial_restriction(source)).try_split(0.5)
    read = [list(Invoker(fn, source, part).run()) for part in (rest, front)]
    assert read == [list(range(50, 100)), list(range(50))]
    assert [fn.restriction_size(source, part) for part in (front, rest)] == [50, 50]


def test_what_shows_no_work_is_not_cut_before_it_runs():
    """A size that is always 1 says nothing about two halves; the tracker stays as it was."""

    class Provider(SlicesProvider):
        def restriction_size(self, element, restriction):
            return 1

    class Unsized(Letters):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
            return Letters().process(element, tracker)

    fn = from_beam(Unsized())
    tracker = fn.create_tracker("abcd", fn.get_initial_restriction("abcd"))
    assert tracker.try_split(0.5) is None
    assert tracker.current_restriction().value.letters == "abcd"
    assert tracker.try_claim(0)
    assert tracker.try_split(0.5)[1].value.letters == "cd"


def test_restrictions():
    """Offsets become ours; others say which part they are, by their own ends or by their descent."""
    assert from_beam(Count()).get_initial_restriction(("a", 5)) == OffsetRange(0, 5)
    days = from_beam(EachDay()).get_initial_restriction(5)
    assert (days.start, days.stop, days.value.stop) == (0.0, 5.0, 5.0)
    fn = from_beam(Letters())
    tracker = fn.create_tracker("abcdefgh", fn.get_initial_restriction("abcdefgh"))
    assert tracker.try_claim(0)
    parts = [tracker.try_split(0.5)[1] for _ in range(3)]
    assert [part.value.letters for part in parts] == ["efgh", "cd", "b"]
    assert [str(part.start) for part in parts] == ["1/2", "1/3", "1/4"]
    assert tracker.current_restriction().value.letters == "a"


def test_descent_stays_short():
    """A stream that splits off the rest ten thousand times needs no longer numbers for it."""
    fn = from_beam(Letters())
    rest = BeamRestriction(Slices("abc"), *(type(fn.get_initial_restriction("").start)(n) for n in (0, 1)))
    for _ in range(1000):
        tracker = fn.create_tracker("abc", BeamRestriction(Slices("abc"), rest.start, rest.stop))
        tracker.try_claim(0)
        _, rest = tracker.try_split(0)
    assert len(str(rest.start)) < 12


def test_a_stored_restriction_is_not_changed():
    """Though Beam's tracker changes the one that it was given."""
    fn = from_beam(Letters())
    whole = fn.get_initial_restriction("abcd")
    tracker = fn.create_tracker("abcd", whole)
    tracker.try_claim(0)
    before = tracker.current_restriction()
    assert tracker.try_split(0) is not None
    assert (whole.value.letters, before.value.letters) == ("abcd", "abcd")


def test_a_tracker_that_does_not_split():
    """It says False where others say None."""

    class Provider(CountProvider):
        def create_tracker(self, restriction):
            return UnsplittableRestrictionTracker(OffsetRestrictionTracker(restriction))

    class Whole(Count):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
            return Count().process(element, tracker)

    assert check_dofn(from_beam(Whole()), ("a", 5)).splits == 0


def test_split_that_loses_work_is_found():
    """Beam would lose it."""

    class Provider(CountProvider):
        def split(self, element, restriction):
            yield BeamRange(0, 2)

    class Losing(Count):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
            return Count().process(element, tracker)

    with pytest.raises(SplitError, match=re.escape("Losing.split_restriction() on OffsetRange(start=0, stop=5)")):
        run_direct([("a", 5)], from_beam(Losing()))


def test_parameters():
    """Each that makes sense without Beam's runners is filled, and side inputs come by name."""
    fn = from_beam(Asking())
    (output,) = run_direct([("k", 1)], fn, side_inputs={"side": 3, "more": 4})
    assert output == (("k", 1), "k", MIN_TIMESTAMP, True, 3, 7, {"more": 4}, Timestamp(5))
    with pytest.raises(InvalidTypeError, match=re.escape("Asking.process() cannot be called as process(element,")):
        run_direct([("k", 1)], fn, side_inputs={"limit": 3})


def test_tags_timestamps_and_windows():
    """Values come without timestamp and window, under the tag of Beam's TaggedOutput."""
    outputs = run_direct([("a", 5)], from_beam(Odd()), tags=("odd",))
    assert outputs == {"main": [("a", 0), ("a", 2), ("a", 4)], "odd": [("a", 1), ("a", 3)]}


def refused(default):
    class Wants(Count):
        def process(self, element, wanted=default, tracker=beam.DoFn.RestrictionParam(CountProvider())):
            return ()

    return Wants()


STATE = beam.transforms.userstate.CombiningValueStateSpec("sum", sum)
TIMER = beam.transforms.userstate.TimerSpec("timer", beam.transforms.timeutil.TimeDomain.WATERMARK)


@pytest.mark.parametrize(
    "default",
    [
        beam.DoFn.StateParam(STATE),
        beam.DoFn.TimerParam(TIMER),
        beam.DoFn.BundleFinalizerParam,
        beam.DoFn.BundleFinalizerParam(),
        beam.DoFn.SetupContextParam(open, args=("x",)),
        beam.DoFn.BundleContextParam(open, args=("x",)),
    ],
    ids=lambda default: type(default).__name__,
)
def test_what_only_beams_runners_have_is_refused(default):
    """By name, before anything runs."""
    with pytest.raises(InvalidTypeError, match=re.escape("Wants.process() wants wanted=")):
        from_beam(refused(default))


def test_contexts_of_other_methods_are_refused():
    """They would be handed the parameter itself."""

    class Starting(Count):
        def start_bundle(self, context=beam.DoFn.BundleContextParam(open, args=("x",))):
            pass

    with pytest.raises(InvalidTypeError, match=re.escape("Starting.start_bundle() wants context=")):
        from_beam(Starting())


class Plain(beam.DoFn):
    def process(self, element):
        yield element


class NoProvider(beam.DoFn):
    def process(self, element, tracker=beam.DoFn.RestrictionParam()):
        yield element


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (Plain(), "from_beam() needs a splittable DoFn, one with a RestrictionParam (got Plain.process(element))."),
        (NoProvider(), "NoProvider.process() names no RestrictionProvider, and the DoFn is not one itself. Pass a"),
        (Count, "from_beam() needs an instance of an apache_beam.DoFn (got <class 'beam_dofns.Count'>)."),
        (3, "from_beam() needs an instance of an apache_beam.DoFn (got 3)."),
    ],
)
def test_what_is_no_splittable_dofn_is_refused(given, message):
    """With what it lacks."""
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        from_beam(given)


class Misbehaving(Count):
    """Does what it is told to."""

    def __init__(self, act):
        super().__init__()
        self.act = act

    def process(self, element, tracker=beam.DoFn.RestrictionParam(CountProvider())):
        return self.act(tracker)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (lambda tracker: [tracker.try_claim(3), tracker.try_claim(2)], ClaimError, "should strictly increase"),
        (lambda tracker: [tracker.try_claim(5), tracker.try_claim(6)], ClaimError, "after a refused claim"),
        (lambda tracker: [tracker.try_claim(0)], UnclaimedWorkError, "is not done since work in range [0, 5)"),
        (lambda tracker: (one for one in "a"), OutputError, "before its first claim"),
        (lambda tracker: "text", InvalidTypeError, "it must yield records or return an iterable of them (got 'text')"),
        (lambda tracker: tracker.defer_remainder(3), InvalidTypeError, "takes a Duration, a Timestamp or None (got 3)"),
        (lambda tracker: [tracker.try_claim(5), tracker.defer_remainder()], DeferError, "after a refused claim"),
    ],
)
def test_broken_rules_are_named(act, error, message):
    """As with a DoFn of one's own: who, on what, which rule."""
    with pytest.raises(error, match=re.escape(message)) as raised:
        run_direct([("a", 5)], from_beam(Misbehaving(act)))
    assert "Misbehaving.process() on OffsetRange(start=0, stop=5) of element ('a', 5)" in str(raised.value)


def test_a_tracker_that_says_false_is_believed():
    """Beam's runner looks only for an exception."""

    class Lazy(Letters):
        def process(
            self, element, tracker=beam.DoFn.RestrictionParam(Letters.process.__defaults__[0].restriction_provider)
        ):
            if tracker.try_claim(0):
                yield "a"

    with pytest.raises(UnclaimedWorkError, match=r"check_done.* is False. Claim"):
        run_direct(["abc"], from_beam(Lazy()))


def test_a_bounded_source_cannot_be_deferred():
    """It has no place to cut where it stands; Beam would lose the rest."""
    kind = type(bounded_source_dofn())

    class Deferring(kind):
        def process(self, element, tracker=kind.process.__defaults__[0]):
            tracker.defer_remainder()

    with pytest.raises(DeferError, match="a BoundedSource cannot be cut where it stands"):
        run_direct([RangeSource(0, 5)], from_beam(Deferring(None)))


@pytest.mark.parametrize(
    ("later", "least", "most"),
    [
        (None, 0, 0),
        (Duration(1.5), 1.5, 1.5),
        (Duration(-1), 0, 0),
        (Timestamp(0), 0, 0),
        (MAX_TIMESTAMP, 1e9, 1e13),
    ],
    ids=str,
)
def test_delays(later, least, most):
    """From now on, in seconds, and never negative."""
    invoker = Invoker(
        from_beam(Misbehaving(lambda tracker: tracker.defer_remainder(later))), ("a", 5), OffsetRange(0, 5)
    )
    list(invoker.run())
    (residual,) = invoker.residuals
    assert residual.restriction == OffsetRange(0, 5)
    assert least <= residual.delay_seconds <= most


def test_deferred_impulses_wait_for_their_time():
    """A PeriodicSequence ahead of the clock defers until its next impulse."""
    invoker = Invoker(from_beam(ImpulseSeqGenDoFn()), (time.time() - 1, time.time() + 90, 60), OffsetRange(0, 2))
    assert len(list(invoker.run())) == 1
    (residual,) = invoker.residuals
    assert (residual.restriction, 50 < residual.delay_seconds <= 59) == (OffsetRange(1, 2), True)


def test_work_without_an_end_needs_a_stream():
    """The tracker says so; only where it cannot does unbounded_per_element decide."""
    with pytest.raises(UnboundedError, match=re.escape("stream_sdf()")):
        run_direct(["x"], from_beam(Endless()))

    class Silent(OffsetRestrictionTracker):
        is_bounded = iobase.RestrictionTracker.is_bounded

    class Provider(CountProvider):
        def create_tracker(self, restriction):
            return Silent(restriction)

    class Decorated(Count):
        @beam.DoFn.unbounded_per_element()
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
            return Count().process(element, tracker)

    class Undecorated(Count):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
            return Count().process(element, tracker)

    assert len(run_direct([("a", 5)], from_beam(Undecorated()))) == 5
    assert from_beam(Undecorated()).create_tracker(("a", 5), OffsetRange(0, 5)).try_split(0.5) is not None
    assert from_beam(Decorated()).create_tracker(("a", 5), OffsetRange(0, 5)).try_split(0.5) is None
    with pytest.raises(UnboundedError):
        run_direct([("a", 5)], from_beam(Decorated()))


def test_truncate():
    """The provider decides; None drops it."""
    assert from_beam(Endless()).truncate("x", OffsetRange(5, 10**12)) == OffsetRange(5, 8)
    assert from_beam(ImpulseSeqGenDoFn()).truncate((0, 2, 1), OffsetRange(0, 2)) is None
    assert from_beam(Count()).truncate(("a", 5), OffsetRange(0, 2)) == OffsetRange(0, 2)
    fn = from_beam(Letters())
    assert fn.truncate("abc", fn.get_initial_restriction("abc")).value.letters == "abc"


def test_watermark_follows_the_outputs_and_survives_a_split():
    """In seconds; the residual goes on from what it was at the split."""
    fn = from_beam(Endless())
    estimator = fn.create_watermark_estimator("x", OffsetRange(0, 10))
    assert estimator.current() == float(MIN_TIMESTAMP)
    invoker = Invoker(fn, "x", OffsetRange(0, 10**12))
    list(invoker.run())
    (residual,) = invoker.residuals
    estimator.restore(residual.watermark)
    assert (estimator.current(), residual.delay_seconds) == (4.0, 0.2)


def test_watermark_by_the_clock():
    """Beam's own provider of it."""

    class Clocked(Count):
        def process(
            self,
            element,
            tracker=beam.DoFn.RestrictionParam(CountProvider()),
            watermark=beam.DoFn.WatermarkEstimatorParam(WalltimeWatermarkEstimator.default_provider()),
        ):
            while tracker.try_claim(0):
                yield watermark.current_watermark()
                return

    before = time.time()
    (watermark,) = run_direct([("a", 1)], from_beam(Clocked()))
    assert before - 1 <= float(watermark) <= time.time()


def test_watch_polls_then_replays_what_it_claimed():
    """The growing set of Watch: what a round gave is its primary, and reading that again gives the same."""
    rounds = iter([["a"], ["a", "b"]])
    dofn = _WatchGrowthDoFn(
        lambda element: PollResult.incomplete(next(rounds)), after_total_of(3600), Duration(1),
        beam.coders.StrUtf8Coder(), str, beam.coders.StrUtf8Coder(),
    )  # fmt: skip
    fn = from_beam(dofn)
    part, given = fn.get_initial_restriction("e"), []
    assert not fn.create_tracker("e", part).is_bounded()
    assert fn.create_tracker("e", part).try_split(0.5) is None
    watermark = None
    for _ in range(2):
        invoker = Invoker(fn, "e", part, watermark=watermark)
        given += invoker.run()
        assert list(Invoker(fn, "e", pickle.loads(pickle.dumps(invoker.primary))).run()) == given[-1:]
        ((part, delay, watermark),) = [
            (left.restriction, left.delay_seconds, left.watermark) for left in invoker.residuals
        ]
        assert delay == 1
    assert given == [("e", "a"), ("e", "b")]


class Hooked(Count):
    """Notes which of its methods were called, where."""

    def __init__(self):
        super().__init__()
        self.called = []

    def setup(self):
        self.called.append("setup")

    def start_bundle(self):
        self.called.append("start_bundle")

    def finish_bundle(self):
        self.called.append("finish_bundle")

    def teardown(self):
        self.called.append("teardown")


def test_hooks():
    """In this order, once each."""
    dofn = Hooked()
    run_direct([("a", 2), ("b", 2)], from_beam(dofn))
    assert dofn.called == ["setup", "start_bundle", "finish_bundle", "teardown"]


def test_finish_bundle_cannot_output():
    """Beam's may; here no part would own the record."""

    class Late(Count):
        def finish_bundle(self):
            yield beam.transforms.window.GlobalWindows.windowed_value("late")

    class Silent(Count):
        def finish_bundle(self):
            yield from ()

    assert run_direct([("a", 1)], from_beam(Silent())) == [("a", 0)]
    with pytest.raises(OutputError, match=re.escape("Late.finish_bundle(): it gave ")):
        run_direct([("a", 1)], from_beam(Late()))


def test_progress():
    """In Beam's units, and unknown where Beam's tracker does not tell."""
    tracker = from_beam(Letters()).create_tracker("abcd", from_beam(Letters()).get_initial_restriction("abcd"))
    tracker.try_claim(0)
    assert (tracker.progress().completed, tracker.progress().remaining) == (1, 3)

    class Silent(OffsetRestrictionTracker):
        current_progress = iobase.RestrictionTracker.current_progress

    class Provider(CountProvider):
        def create_tracker(self, restriction):
            return Silent(restriction)

    class Dark(Count):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):
            return Count().process(element, tracker)

    assert from_beam(Dark()).create_tracker(("a", 5), OffsetRange(0, 5)).progress().remaining is None


def test_it_is_called_and_pickled_as_the_beam_dofn():
    """Messages and reports name the author's class."""
    fn = from_beam(Count(0.5))
    copy = cloudpickle.loads(cloudpickle.dumps(fn))
    assert (type(fn).__name__, type(copy).__name__) == ("Count", "Count")
    assert type(fn).__doc__ == Count.__doc__


def test_beam_is_not_imported_before_it_is_used():
    """Nor needed, and then it is missed by the name of its extra."""
    code = (
        "import sys, sdf.beam.dofn; assert not [m for m in sys.modules if m.startswith('apache_beam')]\n"
        "sys.modules['apache_beam'] = None\n"
        "try: sdf.beam.dofn.from_beam(3)\n"
        "except ImportError as error: print(type(error).__name__, error)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == (
        "MissingExtraError from_beam() needs apache_beam, which is not installed here. Install it with: pip install "
        "'apache-beam>=2.60' (on the driver and on every executor). Run `sdf doctor` to see what does not fit here "
        "(docs/doctor.md).\n"
    )


def test_concat_source_of_ranges():
    """A source of sources, as Beam makes of a pattern of files."""
    bundles = [iobase.SourceBundle(10, RangeSource(n, n + 10), None, None) for n in (0, 10, 20)]
    source = concat_source.ConcatSource(bundles)
    fn = from_beam(bounded_source_dofn())
    assert run_direct([source], fn, split_every=1) == list(range(30))
    assert check_dofn(fn, source).records == 30


@pytest.mark.parametrize(
    ("dofn", "element", "expected"),
    [
        (Count(), ("a", 200), [("a", i) for i in range(200)]),
        (Letters(), "".join(map(chr, range(200))), list(map(chr, range(200)))),
        (bounded_source_dofn(), RangeSource(0, 200), list(range(200))),
    ],
    ids=["offsets", "a restriction that its tracker changes", "a bounded source"],
)
def test_splits_from_another_thread_lose_nothing(dofn, element, expected):
    """While process() runs; the parts that were cut off are run in their turn, and split too."""
    fn = from_beam(dofn)
    todo, records, splits = [fn.get_initial_restriction(element)], [], 0
    while todo:
        invoker = Invoker(fn, element, todo.pop())
        ended = threading.Event()

        def split(invoker=invoker, ended=ended):
            while not ended.is_set() and len(invoker.residuals) < 5:
                invoker.split(0.7)
                invoker.progress()

        splitter = threading.Thread(target=split)
        splitter.start()
        records += invoker.run()
        ended.set()
        splitter.join()
        todo += [residual.restriction for residual in invoker.residuals]
        splits += len(invoker.residuals)
    assert (sorted(records), splits > 5) == (expected, True)

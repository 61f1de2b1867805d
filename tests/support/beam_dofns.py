"""Splittable DoFns as users of Beam write them, for the tests in this process and on Spark."""
# ruff: noqa: B008, a parameter's default is how a DoFn of Beam says what it wants

import time

import apache_beam as beam
import attrs
from apache_beam.io import iobase
from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.io.watermark_estimators import ManualWatermarkEstimator, MonotonicWatermarkEstimator
from apache_beam.transforms.core import RestrictionProvider, WatermarkEstimatorProvider
from apache_beam.transforms.window import GlobalWindow, TimestampedValue
from apache_beam.utils.timestamp import Duration, Timestamp


class CountProvider(RestrictionProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def create_tracker(self, restriction):
        return OffsetRestrictionTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.size()


class Count(beam.DoFn):
    """Element: (name, N). Gives (name, 0) ... (name, N - 1)."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def process(self, element, tracker=beam.DoFn.RestrictionParam(CountProvider())):
        for i in range(tracker.current_restriction().start, tracker.current_restriction().stop):
            if not tracker.try_claim(i):
                return
            time.sleep(self.seconds)
            yield element[0], i


class CountAtOnce(beam.DoFn):
    """As Count, but process() returns a list."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(CountProvider())):
        outputs = []
        i = tracker.current_restriction().start
        while tracker.try_claim(i):
            outputs.append((element[0], i))
            i += 1
        return outputs


class SplitProvider(CountProvider):
    def split(self, element, restriction):
        return restriction.split(20)


class Own(beam.DoFn, RestrictionProvider):
    """As Count; it is its own provider, and splits at the start."""

    initial_restriction = CountProvider.initial_restriction
    create_tracker = CountProvider.create_tracker
    restriction_size = CountProvider.restriction_size
    split = SplitProvider.split

    def process(self, element, tracker=beam.DoFn.RestrictionParam()):
        return Count().process(element, tracker)


class Odd(Count):
    """As Count; odd numbers go to a tag, with a timestamp."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(CountProvider())):
        for name, i in super().process(element, tracker):
            value = beam.transforms.window.GlobalWindows.windowed_value((name, i), Timestamp(i))
            yield beam.pvalue.TaggedOutput("odd", TimestampedValue((name, i), i)) if i % 2 else value


class Slices:
    """A restriction without start and stop, which its tracker changes: the letters still to come."""

    def __init__(self, letters):
        self.letters = letters


class SlicesTracker(iobase.RestrictionTracker):
    def __init__(self, restriction):
        self.restriction = restriction
        self.done = 0

    def current_restriction(self):
        return self.restriction

    def try_claim(self, position):
        if position >= len(self.restriction.letters):
            return False
        self.done = position + 1
        return True

    def try_split(self, fraction):
        letters = self.restriction.letters
        at = self.done + int((len(letters) - self.done) * fraction)
        if at >= len(letters):
            return None
        self.restriction.letters = letters[:at]
        return self.restriction, Slices(letters[at:])

    def check_done(self):
        return self.done == len(self.restriction.letters)

    def current_progress(self):
        return iobase.RestrictionProgress(completed=self.done, remaining=len(self.restriction.letters) - self.done)

    def is_bounded(self):
        return True


class SlicesProvider(RestrictionProvider):
    def initial_restriction(self, element):
        return Slices(element)

    def create_tracker(self, restriction):
        return SlicesTracker(restriction)

    def restriction_size(self, element, restriction):
        return len(restriction.letters)


class Letters(beam.DoFn):
    """Element: a string. Gives its letters."""

    def __init__(self, seconds=0.0):
        self.seconds = seconds

    def process(self, element, tracker=beam.DoFn.RestrictionParam(SlicesProvider())):
        letters = tracker.current_restriction().letters
        for i, letter in enumerate(letters):
            if not tracker.try_claim(i):
                return
            time.sleep(self.seconds)
            yield letter


@attrs.frozen
class Days:
    """A restriction with ends of its own, which are no offsets."""

    start: float
    stop: float


class DaysTracker(OffsetRestrictionTracker):
    def __init__(self, days):
        super().__init__(OffsetRange(int(days.start), int(days.stop)))

    def current_restriction(self):
        return Days(float(self._range.start), float(self._range.stop))

    def try_split(self, fraction):
        pair = super().try_split(fraction)
        return pair and tuple(Days(float(part.start), float(part.stop)) for part in pair)


class DaysProvider(RestrictionProvider):
    def initial_restriction(self, element):
        return Days(0.0, float(element))

    def create_tracker(self, restriction):
        return DaysTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.stop - restriction.start


class EachDay(beam.DoFn):
    """Element: how many days."""

    def process(self, element, tracker=beam.DoFn.RestrictionParam(DaysProvider())):
        days = tracker.current_restriction()
        for day in range(int(days.start), int(days.stop)):
            if not tracker.try_claim(day):
                return
            yield day


class RangeSource(iobase.BoundedSource):
    """The numbers from start to stop."""

    def __init__(self, start, stop, seconds=0.0):
        self.start, self.stop, self.seconds = start, stop, seconds

    def estimate_size(self):
        return self.stop - self.start

    def get_range_tracker(self, start, stop):
        from apache_beam.io.range_trackers import OffsetRangeTracker

        return OffsetRangeTracker(self.start if start is None else start, self.stop if stop is None else stop)

    def split(self, desired_bundle_size, start_position=None, stop_position=None):
        for start in range(self.start, self.stop, 500):
            stop = min(start + 500, self.stop)
            yield iobase.SourceBundle(stop - start, self, start, stop)

    def read(self, range_tracker):
        for i in range(range_tracker.start_position(), range_tracker.stop_position()):
            if not range_tracker.try_claim(i):
                return
            time.sleep(self.seconds)
            yield i


def bounded_source_dofn():
    """Give the DoFn with which Beam reads any BoundedSource."""
    return iobase.SDFBoundedSourceReader()._create_sdf_bounded_source_dofn()


class EndlessProvider(CountProvider):
    def initial_restriction(self, element):
        return OffsetRange(0, 10**12)

    def create_tracker(self, restriction):
        return EndlessTracker(restriction)

    def truncate(self, element, restriction):
        return OffsetRange(restriction.start, restriction.start + 3)


class EndlessTracker(OffsetRestrictionTracker):
    def is_bounded(self):
        return self.current_restriction().stop < 10**12


class Endless(beam.DoFn):
    """Gives five numbers at a time, then puts the rest off."""

    def __init__(self, later=None):
        self.later = Duration(0.2) if later is None else later

    @beam.DoFn.unbounded_per_element()
    def process(
        self,
        element,
        tracker=beam.DoFn.RestrictionParam(EndlessProvider()),
        watermark=beam.DoFn.WatermarkEstimatorParam(MonotonicWatermarkEstimator.default_provider()),
    ):
        start = tracker.current_restriction().start
        for i in range(start, min(start + 5, tracker.current_restriction().stop)):
            if not tracker.try_claim(i):
                return
            yield TimestampedValue((element, i), i)
        tracker.defer_remainder(self.later)


class Asking(beam.DoFn, WatermarkEstimatorProvider):
    """Gives what it was given for each kind of parameter; element: (key, value)."""

    def initial_estimator_state(self, element, restriction):
        return Timestamp(restriction.start + 5)

    def create_watermark_estimator(self, state):
        return ManualWatermarkEstimator(state)

    def process(
        self,
        row=beam.DoFn.ElementParam,
        key=beam.DoFn.KeyParam,
        timestamp=beam.DoFn.TimestampParam,
        window=beam.DoFn.WindowParam,
        pane=beam.DoFn.PaneInfoParam,
        windowed=beam.DoFn.WindowedValueParam,
        side=beam.DoFn.SideInputParam,
        tracker=beam.DoFn.RestrictionParam(CountProvider()),
        watermark=beam.DoFn.WatermarkEstimatorParam(),
        limit=7,
        *args,
        **kwargs,
    ):
        assert tracker.try_claim(0)
        assert isinstance(window, GlobalWindow)
        assert (windowed.value, windowed.timestamp) == (row, timestamp)
        yield row, key, timestamp, pane.is_first, side, limit, kwargs, watermark.current_watermark()

"""DoFns that the Spark tests share, and what each gives when nothing splits it."""

import datetime
import os
import time
from collections import Counter

import attrs

from sdf import ByteKeyRange, DoFn, OffsetRange, RestrictionTracker, TaggedOutput, UnsplittableTracker

DAY = datetime.timedelta(days=1)


class CountFn(DoFn):
    """Element: (name, N). Gives (name, 0) ... (name, N - 1)."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield element[0], i


class SlowCountFn(CountFn):
    """As CountFn, waiting a little for each number: work enough to be split."""

    def __init__(self, seconds=0.01):
        self.seconds = seconds

    def process(self, element, tracker):
        for output in super().process(element, tracker):
            time.sleep(self.seconds)
            yield output


class NotesRuns(SlowCountFn):
    """Writes down each time that process() runs, so that a test can count what was run."""

    def __init__(self, folder, seconds=0.01):
        super().__init__(seconds)
        self.folder = folder

    def process(self, element, tracker):
        self.note()
        yield from super().process(element, tracker)

    def note(self):
        with open(os.path.join(self.folder, str(os.getpid())), "a") as file:
            file.write(".")

    def runs(self):
        return sum(entry.stat().st_size for entry in os.scandir(self.folder))


class UnplannedFn(SlowCountFn):
    """As SlowCountFn; it cannot be cut before it runs, so that all splitting happens while it does."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        split = tracker.try_split
        tracker.try_split = lambda fraction: split(fraction) if tracker.started else None
        return tracker


@attrs.frozen
class Scaled:
    """Numbers ``[start, stop)``, and what is made of each: a function without a name of its own."""

    start: int
    stop: int
    scale: object = attrs.field(eq=False)


class ScaledTracker(RestrictionTracker):
    """A user's own; it cannot be split before it has claimed something."""

    def __init__(self, scaled):
        self.scaled, self.next = scaled, scaled.start

    def current_restriction(self):
        return self.scaled

    def try_claim(self, position):
        self.next = position + 1
        return position < self.scaled.stop

    def try_split(self, fraction_of_remainder):
        cut = self.next + int((self.scaled.stop - self.next) * fraction_of_remainder)
        if self.next == self.scaled.start or cut >= self.scaled.stop:
            return None
        self.scaled, residual = attrs.evolve(self.scaled, stop=cut), attrs.evolve(self.scaled, start=cut)
        return self.scaled, residual

    def check_done(self):
        if self.next < self.scaled.stop:
            raise ValueError(f"{self.next} is not done")


class ScaledFn(DoFn):
    """Element: (factor, N). Gives (factor, number times factor)."""

    def get_initial_restriction(self, element):
        return Scaled(0, element[1], lambda number: number * element[0])

    def create_tracker(self, element, restriction):
        return ScaledTracker(restriction)

    def restriction_size(self, element, restriction):
        return restriction.stop - restriction.start

    def process(self, element, tracker):
        scaled = tracker.current_restriction()
        for number in range(scaled.start, scaled.stop):
            if not tracker.try_claim(number):
                return
            time.sleep(0.002)
            yield element[0], scaled.scale(number)


class Odd(int):
    """A number that is made of something else than what it is cut off from."""


class StrangeFn(UnplannedFn):
    """As UnplannedFn; what it cuts off cannot be told to the driver."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        split = tracker.try_split

        def try_split(fraction):
            pair = split(fraction)
            return pair and (pair[0], OffsetRange(Odd(pair[1].start), pair[1].stop))

        tracker.try_split = try_split
        return tracker


class StaysFn(CountFn):
    """Defers its rest after each number, which cannot be told to the driver."""

    def create_tracker(self, element, restriction):
        tracker = super().create_tracker(element, restriction)
        defer = tracker.defer_remainder

        def defer_odd(delay_seconds=0):
            rest = defer(delay_seconds)
            return rest and OffsetRange(Odd(rest.start), rest.stop)

        tracker.defer_remainder = defer_odd
        return tracker

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        if tracker.try_claim(start):
            yield element[0], int(start)
            tracker.defer_remainder()


class OnlyDefersFn(CountFn):
    """Gets nowhere."""

    def process(self, element, tracker):
        tracker.defer_remainder()
        return ()


class BlocksFn(DoFn):
    """Element: (name, N). Blocks start at the multiples of 3; claims the stop at the end."""

    def get_initial_restriction(self, element):
        return (0, element[1])

    def split_restriction(self, element, restriction):
        return restriction.split(20)

    def process(self, element, tracker):
        name, n = element
        block = -(-tracker.current_restriction().start // 3) * 3
        while block < n:
            if not tracker.try_claim(block):
                return
            yield from ((name, i) for i in range(block, min(block + 3, n)))
            block += 3
        tracker.try_claim(tracker.current_restriction().stop)


class KeysFn(DoFn):
    """Element: (name, N). Position: the number as a key of two bytes."""

    def get_initial_restriction(self, element):
        return ByteKeyRange()

    def process(self, element, tracker):
        name, n = element
        start = tracker.current_restriction().start
        for i in range(n):
            key = i.to_bytes(2, "big")
            if key < start:
                continue
            if not tracker.try_claim(key):
                return
            yield name, i
        tracker.try_claim(b"")


@attrs.frozen
class Period:
    start: datetime.date
    stop: datetime.date


class PeriodTracker(RestrictionTracker):
    """A user's own: no lock, no super().__init__()."""

    def __init__(self, period):
        self.period = period
        self.next_day = period.start

    def current_restriction(self):
        return self.period

    def try_claim(self, position):
        self.next_day = position + DAY
        return position < self.period.stop

    def try_split(self, fraction_of_remainder):
        days = (self.period.stop - self.next_day).days
        cut = self.next_day + int(days * fraction_of_remainder) * DAY
        if days < 1 or cut >= self.period.stop:
            return None
        self.period, residual = Period(self.period.start, cut), Period(cut, self.period.stop)
        return self.period, residual

    def check_done(self):
        if self.next_day < self.period.stop:
            raise ValueError(f"{self.next_day} is not done")


class DaysFn(DoFn):
    """Element: (name, N). Position: the N days from 2020-01-01."""

    first = datetime.date(2020, 1, 1)

    def get_initial_restriction(self, element):
        return Period(self.first, self.first + element[1] * DAY)

    def create_tracker(self, element, restriction):
        return PeriodTracker(restriction)

    def restriction_size(self, element, restriction):
        return (restriction.stop - restriction.start).days

    def process(self, element, tracker):
        day = tracker.current_restriction().start
        while tracker.try_claim(day):
            yield element[0], (day - self.first).days
            day += DAY


class WholeFn(CountFn):
    """As CountFn, never shared out."""

    def create_tracker(self, element, restriction):
        return UnsplittableTracker(restriction)


class ListFn(CountFn):
    """As CountFn, returning a list."""

    def process(self, element, tracker):
        return list(super().process(element, tracker))


class OddFn(CountFn):
    """As CountFn, odd numbers go to the tag "odd"."""

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            yield TaggedOutput("odd", (name, i)) if i % 2 else (name, i)


EVERY_FN = [CountFn(), BlocksFn(), KeysFn(), DaysFn(), WholeFn(), ListFn()]


def expected(elements):
    """The multiset that every one of these gives."""
    return Counter((name, i) for name, n in elements for i in range(n))

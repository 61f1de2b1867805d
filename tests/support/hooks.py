"""A DoFn whose hooks are counted while the coordinator calls them, and may raise."""

import attrs
from simulation.user import BlocksFn

from sdf import RestrictionTracker

BOOM = "boom in "


class Hooks:
    """Counts calls of the user's code while the coordinator runs, and lets one of them raise."""

    def __init__(self):
        self.entry = None  # of the coordinator, while it is called
        self.calls, self.raises_at = 0, None
        self.raised = None  # by which hook, and in which entry

    def __call__(self, hook):
        if self.entry is not None:
            self.calls += 1
            if self.calls == self.raises_at:
                self.raised = hook, self.entry
                raise ZeroDivisionError(BOOM + hook)


hooks = Hooks()


@attrs.frozen(eq=False)
class Place:
    """A position of a user's own."""

    number: int

    def __eq__(self, other):
        hooks("__eq__")
        return self.number == other.number

    def __lt__(self, other):
        hooks("__lt__")
        return self.number < other.number

    def __hash__(self):
        return hash(self.number)


@attrs.frozen
class Ranged:
    """Proven by comparing where parts start and stop."""

    start: Place
    stop: Place

    @classmethod
    def of(cls, first, after):
        return cls(Place(first), Place(after))

    def numbers(self):
        return self.start.number, self.stop.number


@attrs.frozen
class Tiled:
    """Proven by a method of its own."""

    first: int
    after: int

    of = classmethod(lambda cls, first, after: cls(first, after))

    def numbers(self):
        return self.first, self.after

    def is_tiled_by(self, parts):
        hooks("is_tiled_by")
        ends = [self.first, *(part.after for part in parts)]
        return ends[-1] == self.after and all(part.first == end for part, end in zip(parts, ends, strict=False))


@attrs.frozen
class Counted:
    """Proven by sizes."""

    first: int
    after: int

    of = classmethod(lambda cls, first, after: cls(first, after))

    def numbers(self):
        return self.first, self.after


class NumbersTracker(RestrictionTracker):
    def __init__(self, restriction):
        self.restriction = restriction
        self.first, self.after = restriction.numbers()
        self.next = self.first

    def current_restriction(self):
        return self.restriction

    def try_claim(self, position):
        self.next = position + 1
        return position < self.after

    def try_split(self, fraction_of_remainder):
        cut = self.next + int((self.after - self.next) * fraction_of_remainder)
        if not self.first < cut < self.after:
            return None
        kind, after = type(self.restriction), self.after
        self.restriction, self.after = kind.of(self.first, cut), cut
        return self.restriction, kind.of(cut, after)

    def check_done(self):
        if self.next < self.after:
            raise ValueError(f"{self.next} is not done")


class HookedFn(BlocksFn):
    """As BlocksFn, with a restriction of a user's own; its tracker's progress is its size."""

    def __init__(self, kind):
        self.kind = kind

    def get_initial_restriction(self, element):
        return self.kind.of(0, element[1])

    def split_restriction(self, element, restriction):
        return [restriction]

    def restriction_size(self, element, restriction):
        hooks("restriction_size")
        first, after = self.create_tracker(element, restriction).restriction.numbers()
        return after - first

    def create_tracker(self, element, restriction):
        hooks("create_tracker")
        return NumbersTracker(restriction)

    def process(self, element, tracker):
        first, after = tracker.current_restriction().numbers()
        for number in range(first, after):
            if "defers" in element[0] and number % 4 == 3 and number > first:
                tracker.defer_remainder(0.05)
                return
            if not tracker.try_claim(number):
                return
            yield element[0], number

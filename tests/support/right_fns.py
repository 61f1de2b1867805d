"""DoFns that keep the contract, each in another way, and what check_dofn says of those that do not."""

import attrs
import pytest

from sdf import ByteKeyRange, DoFn, OffsetRange, RestrictionTracker, TaggedOutput, UnsplittableTracker
from sdf.errors import CheckError
from sdf.testing import check_dofn


class RightFn(DoFn):
    """Claims an offset, yields it, and so on."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        for position in range(*tracker.current_restriction()):
            if not tracker.try_claim(position):
                return
            yield position


class BlocksFn(RightFn):
    """Blocks of four offsets; the last claim is the end of the input."""

    def process(self, element, tracker):
        position = -(-tracker.current_restriction().start // 4) * 4
        while tracker.try_claim(min(position, element)):
            yield from range(position, min(position + 4, element))
            position += 4


class DefersFn(RightFn):
    """Two at a time."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        for position in range(start, min(start + 2, stop)):
            if not tracker.try_claim(position):
                return
            yield position
        tracker.defer_remainder(60)


class ListFn(RightFn):
    """Returns a list of what cannot be hashed."""

    def process(self, element, tracker):
        return [[position] for position in super().process(element, tracker)]


class PiecesFn(RightFn):
    """Splits beforehand."""

    def split_restriction(self, element, restriction):
        return restriction.split(3)


class KeysFn(DoFn):
    """Byte keys without a stop."""

    def get_initial_restriction(self, element):
        return ByteKeyRange()

    def process(self, element, tracker):
        start = tracker.current_restriction().start
        for key in (b"a", b"ab", b"b", b"c\x00", b"d"):
            if key >= start:
                if not tracker.try_claim(key):
                    return
                yield key
        tracker.try_claim(b"")


class TagsFn(RightFn):
    """Odd ones are bad."""

    def process(self, element, tracker):
        for position in super().process(element, tracker):
            yield TaggedOutput("bad", [position]) if position % 2 else position


class SideFn(RightFn):
    def process(self, element, tracker, bonus):
        return (position + bonus for position in super().process(element, tracker))


class OrderedFn(RightFn):
    """Not to be shared out."""

    def create_tracker(self, element, restriction):
        return UnsplittableTracker(restriction)


@attrs.frozen
class Names:
    """A custom restriction with its own proof."""

    names: tuple

    def is_tiled_by(self, parts):
        return tuple(name for part in parts for name in part.names) == self.names


class NamesTracker(RestrictionTracker):
    def __init__(self, whole):
        self.whole, self.done = whole, 0

    def current_restriction(self):
        return self.whole

    def try_claim(self, position):
        if position >= len(self.whole.names):
            return False
        self.done = position + 1
        return True

    def try_split(self, fraction_of_remainder):
        names = self.whole.names
        cut = self.done + int((len(names) - self.done) * fraction_of_remainder)
        self.whole = Names(names[:cut])
        return self.whole, Names(names[cut:])

    def check_done(self):
        if self.done < len(self.whole.names):
            raise ValueError("not done")


class NamesFn(DoFn):
    restriction = Names
    tracker = NamesTracker

    def get_initial_restriction(self, element):
        return self.restriction(tuple(element))

    def create_tracker(self, element, restriction):
        return self.tracker(restriction)

    def process(self, element, tracker):
        for number, name in enumerate(tracker.current_restriction().names):
            if not tracker.try_claim(number):
                return
            yield name


def faults_of(fn, element=8, **options):
    """Return the text of the CheckError; fail if there is none."""
    with pytest.raises(CheckError) as caught:
        check_dofn(fn, element, **options)
    return str(caught.value)

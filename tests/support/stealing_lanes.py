"""Lanes that steal halves from each other, by a clock of our own: the pieces of a run of which all costs are known."""

from sdf.model.restrictions import OffsetRange
from sdf.reporting.pieces import PieceRun

_STEP = 0.02  # seconds
_WORTH = 0.2  # seconds left of a piece that is cut


class _Lane:
    """A piece that runs."""

    def __init__(self, number, element, start, stop, parent, now, cost):
        self.number, self.element, self.start, self.stop, self.parent = number, element, start, stop, parent
        self.at, self.began, self.cost = start, now, cost
        self.left, self.block = cost(element, start), 0.0

    def seconds_left(self, now):
        """Return an estimate from the mean so far; 0 if nothing can be cut off."""
        done = self.at - self.start
        return (now - self.began) / done * (self.stop - self.at) if done and self.stop - self.at > 2 else 0.0


def run(names, sizes, slots, cost, *, times=None, pace=lambda now: 1.0, splits=True):
    """Run elements of so many blocks, each element by the next free slot; return pieces, and longest blocks by element.

    Args:
        names: of the elements.
        sizes: the number of blocks of each element.
        slots: their number; a slot is a host, and a task of its own.
        cost: seconds of a block of an element.
        times: how many times as long slots take; 1 if not told.
        pace: how many times as long all of them take at a time.
        splits: whether idle slots steal.
    """
    times, todo, lanes, now = times or {}, list(enumerate(sizes)), [None] * slots, 0.0
    pieces, longest, numbers = [], {}, iter(range(10**6))
    while True:
        for slot in range(slots):
            if lanes[slot] is None and todo:
                element, size = todo.pop(0)
                lanes[slot] = _Lane(next(numbers), element, 0, size, None, now, cost)
            elif lanes[slot] is None and splits and any(lanes):
                victim = max(filter(None, lanes), key=lambda lane: lane.seconds_left(now))
                if victim.seconds_left(now) > _WORTH:
                    middle = (victim.at + 1 + victim.stop) // 2
                    lanes[slot] = _Lane(next(numbers), victim.element, middle, victim.stop, victim.number, now, cost)
                    victim.stop = middle
        if not any(lanes):
            return pieces, {element: seconds for element, seconds in longest.items() if seconds >= 0.1}
        now += _STEP
        for slot, lane in enumerate(lanes):
            credit = _STEP / times.get(slot, 1.0) / pace(now)
            while lane is not None and credit >= lane.left:
                credit -= lane.left
                longest[lane.element] = max(longest.get(lane.element, 0.0), lane.block)
                lane.at, lane.block = lane.at + 1, 0.0
                if lane.at >= lane.stop:
                    pieces.append(_piece(names[lane.element], lane, slot, now))
                    lanes[slot] = lane = None
                else:
                    lane.left = cost(lane.element, lane.at)
            if lane is not None:
                lane.left, lane.block = lane.left - credit, lane.block + _STEP


def _piece(name, lane, slot, now):
    part, units = OffsetRange(lane.start, lane.stop), float(lane.stop - lane.start)
    origin = "initial" if lane.parent is None else "cut while it ran"
    return PieceRun(
        lane.number, lane.element, name, part, origin, lane.parent, slot, lane.began,
        now - lane.began, units, int(units),
    )  # fmt: skip

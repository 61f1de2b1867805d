"""Why something held up a run: workers that are slow, and the cause of a straggler, from how its pieces ran.

*Like work* of a piece: the pieces of the same element, if two workers or more ran some; else all pieces of elements
that one worker ran alone. Its rate is its seconds per unit without those of its opening, which belong to no unit.

Three things make pieces dear: the data, the host, and a machine that others keep busy for a while. So a slow host must
have run dear pieces in more than one place. And blocks are hot only if they are dear beside other work at the same
time; if no host ran both, nobody knows whether it was the host.
"""

from __future__ import annotations

import itertools
import math
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Hashable, Iterator, Mapping, Sequence
from numbers import Real
from operator import attrgetter

import attrs

from sdf.reporting.pieces import PieceRun, pieces_by_element

__all__ = [
    "HOT_BLOCKS",
    "HOT_OR_SLOW",
    "LONG_OPENING",
    "MUCH_WORK",
    "ONE_BLOCK",
    "ONE_EACH",
    "SLOW_HOST",
    "SlowHost",
    "cause_of",
    "slow_hosts",
]

MUCH_WORK = "much work"
HOT_BLOCKS = "hot blocks"
HOT_OR_SLOW = "hot blocks, or a slow host"
SLOW_HOST = "slow host"
LONG_OPENING = "long opening"
ONE_BLOCK = "one block that cannot be cut"

ONE_EACH = range(sys.maxsize)  # hosts of tasks, if each ran on a host of its own

_SLOWER = 2.0  # times: less is what a busy machine does to a worker now and then
_FAR_SLOWER = 5.0  # times: more than a busy machine does to all workers for a while
_FEWEST = 4  # elements that nobody else ran a part of: fewer may all be dear
_FEWEST_PLACES = 2  # in all elements: at a single place the blocks may be hot
_LEAST_SECONDS = 1.0  # of a worker's pieces: a busy machine may stop a worker for a part of a shorter time
_HALF = 0.5  # of a straggler's seconds: what took so much of them is the cause
_BESIDE = 0.25  # of the time of a piece: so long other pieces must have run to compare it with them
_REGION = 0.2  # of an element's units: hot blocks are at most this share, and took half of the time; as in `strip`


@attrs.frozen
class SlowHost:
    """A host, or a worker if all are on one host, that took several times as long as others for like work.

    Attributes:
        name: the host, or the host and process id of the worker.
        times: how many times as long as the others' median, by its median; each piece counts by its seconds.
        places: in how many places of elements it did. At a single place the blocks may be hot instead.
    """

    name: str
    times: float
    places: int = _FEWEST_PLACES

    @property
    def certain(self) -> bool:
        """Whether it is the host that is slow, not the blocks in the only place where it was."""
        return self.places >= _FEWEST_PLACES

    def __str__(self) -> str:
        return f"{self.name} took {self.times:.1f} times as long as the others for like work"


def slow_hosts(
    pieces: Sequence[PieceRun], workers: Sequence[str], slow_blocks: Mapping[int, Sequence[float]]
) -> list[SlowHost]:
    """Return the hosts that were slow, the slowest first.

    A slow host ran three quarters of its pieces, and spent three quarters of its time, at rates at least twice as high
    as those at which the others spent three quarters of their time with like pieces. Hot blocks alone do not look like
    that: idle workers take what takes long, so that all spend about as much time with it. But nobody can take a part of
    a block. So its pieces of an element that others ran too count without the longest block of that element, wherever
    that ran. A host that took long in a single place is not `SlowHost.certain`. On work whose costs differ a lot, a
    slow host may not be found.

    Args:
        pieces: how work items ran.
        workers: by `PieceRun.task`, host and process id of the worker, with a slash between them.
        slow_blocks: by element, the seconds of each of its slowest blocks, where these are known.
    """
    hosts = hosts_of(workers)
    above: dict[str, list[_Above]] = {}
    for fewest, group in _like(pieces, hosts, slow_blocks):
        own: dict[str, list[int]] = {}
        for at, one in enumerate(group):
            own.setdefault(one.host, []).append(at)
        until = [0.0, *itertools.accumulate(one.seconds for one in group)]
        for host, places in own.items():
            if len(places) == len(group) or len({group[at].place for at in places}) < fewest:
                continue
            own_until = [0.0, *itertools.accumulate(group[at].seconds for at in places)]
            upper, median = (_others_rate(group, until, places, own_until, share) for share in (0.75, 0.5))
            above.setdefault(host, []).extend(
                _Above(group[at].least / upper, group[at].rate / median, group[at].seconds, group[at].place)
                for at in places
                if group[at].least
            )
    found = []
    for host, ratios in above.items():
        if not ratios:
            continue
        by_time = _weighted([(one.least, one.seconds) for one in ratios], 0.25)
        by_piece = _weighted([(one.least, 1.0) for one in ratios], 0.25)
        seconds = sum(one.seconds for one in ratios)
        if seconds >= _LEAST_SECONDS and min(by_time, by_piece) >= _SLOWER:
            slow = {one.place for one in ratios if one.least >= _SLOWER}
            found.append(SlowHost(host, _weighted([(one.times, one.seconds) for one in ratios], 0.5), len(slow)))
    return sorted(found, key=lambda host: -host.times)


def hosts_of(workers: Sequence[str]) -> list[str]:
    """Return the host of each worker; the worker itself if all are on one host."""
    hosts = [worker.rpartition("/")[0] for worker in workers]
    return hosts if len(set(hosts)) > 1 else list(workers)


@attrs.frozen
class _Like:
    """A piece in a group of like ones."""

    rate: float
    host: str
    seconds: float
    least: float  # its rate if the longest block of its element is in it, 0 if that block took longer
    place: tuple[int, int] = (0, 0)  # its element, and in that the number of the row of pieces of its host


@attrs.frozen
class _Above:
    """A piece of a host beside those of the others."""

    least: float  # `_Like.least` over the rate up to which the others spent three quarters of their time
    times: float  # its rate over that of half of their time
    seconds: float
    place: tuple[int, int]


_by_rate = attrgetter("rate")  # an order of the class itself would compare tuples of all its fields


def _like(
    pieces: Sequence[PieceRun], hosts: Sequence[str], slow_blocks: Mapping[int, Sequence[float]]
) -> Iterator[tuple[int, list[_Like]]]:
    """Yield groups of like pieces: in how many places a host must have run some, and the pieces by their rate."""
    alone: list[_Like] = []
    for element_id, own in pieces_by_element(piece for piece in pieces if _rate(piece) is not None).items():
        shared = len({hosts[piece.task] for piece in own}) > 1
        block = max(slow_blocks.get(element_id, ()), default=0.0) if shared else 0.0
        group = [
            _Like(rate, host, rate * piece.units, _rate(piece, without=block) or 0.0, (element_id, number))
            for number, (host, row) in enumerate(itertools.groupby(_in_order(own), lambda one: hosts[one.task]))
            for piece in row
            if (rate := _rate(piece)) is not None
        ]
        if shared:
            yield 1, sorted(group, key=_by_rate)
        else:
            alone += group
    yield _FEWEST, sorted(alone, key=_by_rate)


def _in_order(pieces: Sequence[PieceRun]) -> list[PieceRun]:
    """Return the pieces of an element in the order of their positions; by number if these are of an unknown kind."""
    starts = [getattr(piece.restriction, "start", None) for piece in pieces]
    known = all(isinstance(start, Real) for start in starts) or all(isinstance(start, bytes) for start in starts)
    return sorted(pieces, key=(lambda piece: piece.restriction.start) if known else attrgetter("id"))


def _rate(piece: PieceRun, *, without: float = 0.0) -> float | None:
    """Return the seconds per unit of a piece; None if that is unknown, or nothing is left without so many seconds."""
    seconds = piece.seconds - piece.opening_seconds - without
    return seconds / piece.units if piece.sized and piece.units > 0 and seconds > 0 else None


def _others_rate(
    group: Sequence[_Like], until: list[float], places: list[int], own_until: list[float], share: float
) -> float:
    """Return the rate up to which the others spent this share of their time.

    Args:
        group: like pieces, in order of their rate.
        until: the seconds of the first 0, 1, 2, ... of them.
        places: which of them the host has run, in order, not all.
        own_until: the seconds of the first 0, 1, 2, ... of these.
        share: from 0 to 1.
    """
    wanted = share * (until[-1] - own_until[-1])
    at = bisect_left(range(len(group)), wanted, key=lambda at: until[at + 1] - own_until[bisect_right(places, at)])
    return group[min(at, len(group) - 1)].rate


def _weighted(values: list[tuple[float, float]], share: float) -> float:
    """Return the value up to which this share of the weight lies, of pairs of value and weight."""
    values.sort()
    until = list(itertools.accumulate(weight for _, weight in values))
    return values[min(bisect_left(until, share * until[-1]), len(values) - 1)][0]


def cause_of(
    own: Sequence[PieceRun],
    others: Sequence[PieceRun],
    *,
    even_seconds: float,
    longest_block: float,
    slow_tasks: frozenset[int] = frozenset(),
    hosts: Sequence[Hashable] = ONE_EACH,
) -> str:
    """Return why an element is a straggler, in a few words. The first of these that holds:

    - one block that cannot be cut: its longest block took an even share of a slot, so no split could have helped;
    - long opening: its first piece took half of the time to its first claim;
    - slow host: half of its seconds were spent there;
    - hot blocks: half of its seconds were spent in a fifth of its units, or a unit took twice as long as in the other
      elements. At the same time other units took at most half as long, or a fifth at any time. If no host ran
      both, it may be a slow host as well;
    - else much work.

    Args:
        own: its pieces.
        others: the pieces of the other elements.
        even_seconds: (seconds of all elements) / slots.
        longest_block: the seconds of its longest block, 0 if that is not known.
        slow_tasks: the tasks that ran on slow hosts.
        hosts: the host of each task (`hosts_of`).
    """
    seconds = sum(piece.seconds for piece in own)
    opening = min(own, key=lambda piece: piece.id).opening_seconds
    if longest_block >= even_seconds:
        return ONE_BLOCK
    if opening >= _HALF * (opening + sum(piece.seconds - piece.opening_seconds for piece in own)):
        return LONG_OPENING
    if sum(piece.seconds for piece in own if piece.task in slow_tasks) >= _HALF * seconds:
        return SLOW_HOST
    dearer = [_dearer(dear, cheap, hosts) for dear, cheap in (_by_region(own), (own, others))]
    return HOT_BLOCKS if HOT_BLOCKS in dearer else next(filter(None, dearer), MUCH_WORK)


def _by_region(pieces: Sequence[PieceRun]) -> tuple[list[PieceRun], list[PieceRun]]:
    """Return the pieces where half of the seconds were spent, if these are a fifth of the units or less, and the rest.

    Within a piece nothing is known.
    """
    all_seconds = sum(piece.seconds - piece.opening_seconds for piece in pieces)
    all_units = sum(piece.units for piece in pieces)
    by_rate = sorted(pieces, key=lambda piece: -(_rate(piece) or 0.0))
    seconds = units = 0.0
    for number, piece in enumerate(by_rate, 1):
        seconds, units = seconds + piece.seconds - piece.opening_seconds, units + piece.units
        if units > _REGION * all_units:
            break
        if seconds >= _HALF * all_seconds:
            return by_rate[:number], by_rate[number:]
    return [], []


def _dearer(dear: Sequence[PieceRun], cheap: Sequence[PieceRun], hosts: Sequence[Hashable]) -> str | None:
    """Return whether the data make some pieces dearer than others, the data or the host, or None if nobody knows."""
    times = _times(dear, cheap)
    if times < _SLOWER or (times < _FAR_SLOWER and _times(_beside(dear, cheap), _beside(cheap, dear)) < _SLOWER):
        return None
    both = {hosts[piece.task] for piece in dear} & {hosts[piece.task] for piece in cheap}
    on_both = [[piece for piece in pieces if hosts[piece.task] in both] for pieces in (dear, cheap)]
    return HOT_BLOCKS if _times(*on_both) >= _SLOWER else HOT_OR_SLOW


def _times(dear: Sequence[PieceRun], cheap: Sequence[PieceRun]) -> float:
    """Return how many times as long as the others a unit of some pieces took; 0 if that is not known."""
    rate, other = _mean_rate(dear), _mean_rate(cheap)
    return 0.0 if rate is None or other is None else rate / other if other > 0 else math.inf


def _mean_rate(pieces: Sequence[PieceRun]) -> float | None:
    units = sum(piece.units for piece in pieces)
    known = units > 0 and all(piece.sized for piece in pieces)
    return sum(piece.seconds - piece.opening_seconds for piece in pieces) / units if known else None


def _beside(pieces: Sequence[PieceRun], others: Sequence[PieceRun]) -> list[PieceRun]:
    """Return those pieces during at least a quarter of whose time some of the others ran."""
    starts: list[float] = []  # of the time in which others ran
    ends: list[float] = []
    until = [0.0]  # its seconds up to each end
    for piece in sorted(others, key=attrgetter("began")):
        end = piece.began + piece.seconds
        if not ends or piece.began > ends[-1]:
            starts.append(piece.began)
            ends.append(end)
            until.append(until[-1] + piece.seconds)
        elif end > ends[-1]:
            until[-1] += end - ends[-1]
            ends[-1] = end

    def before(now: float) -> float:
        at = bisect_right(starts, now)
        return until[at] - max(0.0, ends[at - 1] - now) if at else 0.0

    return [
        piece for piece in pieces
        if before(piece.began + piece.seconds) - before(piece.began) >= _BESIDE * piece.seconds
    ]  # fmt: skip

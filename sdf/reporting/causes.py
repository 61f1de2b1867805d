"""Why something held up a run: workers that are slow, and the cause of a straggler, from how its pieces ran.

*Like work* of a piece: the pieces of the same element, if two workers or more ran some; else all pieces of elements
that one worker ran alone. Its rate is its seconds per unit without those of its opening, which belong to no unit.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter

import attrs

from sdf.reporting.pieces import PieceRun, pieces_by_element

__all__ = ["HOT_BLOCKS", "LONG_OPENING", "MUCH_WORK", "ONE_BLOCK", "SLOW_HOST", "SlowHost", "cause_of", "slow_hosts"]

MUCH_WORK = "much work"
HOT_BLOCKS = "hot blocks"
SLOW_HOST = "slow host"
LONG_OPENING = "long opening"
ONE_BLOCK = "one block that cannot be cut"

_SLOWER = 2.0  # times: less is what a busy machine does to a worker now and then
_FEWEST = 4  # pieces of other elements than those of the others: fewer may all be dear
_LEAST_SECONDS = 1.0  # of a worker's pieces: a busy machine may stop a worker for a part of a shorter time
_HALF = 0.5  # of a straggler's seconds: what took so much of them is the cause
_REGION = 0.2  # of an element's units: hot blocks are at most this share, and took half of the time; as in `strip`


@attrs.frozen
class SlowHost:
    """A host, or a worker if all are on one host, that took several times as long as others for like work.

    Attributes:
        name: the host, or the host and process id of the worker.
        times: how many times as long as the others' median, by its median; each piece counts by its seconds.
    """

    name: str
    times: float

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
    that ran. On work whose costs differ a lot, a slow host may not be found.

    Args:
        pieces: how work items ran.
        workers: by `PieceRun.task`, host and process id of the worker, with a slash between them.
        slow_blocks: by element, the seconds of each of its slowest blocks, where these are known.
    """
    hosts = hosts_of(workers)
    above: dict[str, list[tuple[float, float, float]]] = {}  # by host: for each piece its rate over two of the others'
    for fewest, group in _like(pieces, hosts, slow_blocks):
        own: dict[str, list[int]] = {}
        for at, one in enumerate(group):
            own.setdefault(one.host, []).append(at)
        until = [0.0, *itertools.accumulate(one.seconds for one in group)]
        for host, places in own.items():
            if len(places) == len(group) or len(places) < fewest:
                continue
            own_until = [0.0, *itertools.accumulate(group[at].seconds for at in places)]
            upper, median = (_others_rate(group, until, places, own_until, share) for share in (0.75, 0.5))
            above.setdefault(host, []).extend(
                (group[at].least / upper, group[at].rate / median, group[at].seconds)
                for at in places
                if group[at].least
            )
    found = []
    for host, ratios in above.items():
        if not ratios:
            continue
        by_time = _weighted([(ratio, seconds) for ratio, _, seconds in ratios], 0.25)
        by_piece = _weighted([(ratio, 1.0) for ratio, _, _ in ratios], 0.25)
        seconds = sum(seconds for _, _, seconds in ratios)
        if seconds >= _LEAST_SECONDS and min(by_time, by_piece) >= _SLOWER:
            found.append(SlowHost(host, _weighted([(ratio, seconds) for _, ratio, seconds in ratios], 0.5)))
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


_by_rate = attrgetter("rate")  # an order of the class itself would compare tuples of all its fields


def _like(
    pieces: Sequence[PieceRun], hosts: Sequence[str], slow_blocks: Mapping[int, Sequence[float]]
) -> Iterator[tuple[int, list[_Like]]]:
    """Yield groups of like pieces: how many a host must have run at least, and the pieces in order of their rate."""
    alone: list[_Like] = []
    for element_id, own in pieces_by_element(piece for piece in pieces if _rate(piece) is not None).items():
        shared = len({hosts[piece.task] for piece in own}) > 1
        block = max(slow_blocks.get(element_id, ()), default=0.0) if shared else 0.0
        group = [
            _Like(rate, hosts[piece.task], rate * piece.units, _rate(piece, without=block) or 0.0)
            for piece in own
            if (rate := _rate(piece)) is not None
        ]
        if shared:
            yield 1, sorted(group, key=_by_rate)
        else:
            alone += group
    yield _FEWEST, sorted(alone, key=_by_rate)


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
) -> str:
    """Return why an element is a straggler, in a few words. The first of these that holds:

    - one block that cannot be cut: its longest block took an even share of a slot, so no split could have helped;
    - long opening: its first piece took half of the time to its first claim;
    - slow host: half of its seconds were spent there;
    - hot blocks: half of its seconds were spent in a fifth of its units, or a unit took twice as long as in the other
      elements;
    - else much work.

    Args:
        own: its pieces.
        others: the pieces of the other elements.
        even_seconds: (seconds of all elements) / slots.
        longest_block: the seconds of its longest block, 0 if that is not known.
        slow_tasks: the tasks that ran on slow hosts.
    """
    seconds = sum(piece.seconds for piece in own)
    opening = min(own, key=lambda piece: piece.id).opening_seconds
    if longest_block >= even_seconds:
        return ONE_BLOCK
    if opening >= _HALF * (opening + sum(piece.seconds - piece.opening_seconds for piece in own)):
        return LONG_OPENING
    if sum(piece.seconds for piece in own if piece.task in slow_tasks) >= _HALF * seconds:
        return SLOW_HOST
    rate, other = _mean_rate(own), _mean_rate(others)
    if _has_hot_region(own) or (rate is not None and other is not None and rate >= _SLOWER * other):
        return HOT_BLOCKS
    return MUCH_WORK


def _mean_rate(pieces: Sequence[PieceRun]) -> float | None:
    units = sum(piece.units for piece in pieces)
    known = units > 0 and all(piece.sized for piece in pieces)
    return sum(piece.seconds - piece.opening_seconds for piece in pieces) / units if known else None


def _has_hot_region(pieces: Sequence[PieceRun]) -> bool:
    """Return whether half of the seconds were spent in a fifth of the units; within a piece nothing is known."""
    if not all(piece.sized for piece in pieces):
        return False
    all_seconds = sum(piece.seconds - piece.opening_seconds for piece in pieces)
    all_units = sum(piece.units for piece in pieces)
    seconds = units = 0.0
    for piece in sorted(pieces, key=lambda piece: -(_rate(piece) or 0.0)):
        seconds, units = seconds + piece.seconds - piece.opening_seconds, units + piece.units
        if units > _REGION * all_units:
            return False
        if seconds >= _HALF * all_seconds:
            return True
    return False

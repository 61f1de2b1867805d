"""Why something held up a run: workers that are slow, and the cause of a straggler, from how its pieces ran.

*Like work* of a piece: the pieces of the same element, if two workers or more ran some; else all pieces of elements
that one worker ran alone. Its rate is its seconds per unit without those of its opening, which belong to no unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import attrs

from sdf.reporting.pieces import PieceRun

__all__ = ["HOT_BLOCKS", "LONG_OPENING", "MUCH_WORK", "ONE_BLOCK", "SLOW_HOST", "SlowHost", "cause_of", "slow_hosts"]

MUCH_WORK = "much work"
HOT_BLOCKS = "hot blocks"
SLOW_HOST = "slow host"
LONG_OPENING = "long opening"
ONE_BLOCK = "one block that cannot be cut"

_SLOWER = 2.0  # times: less is what a busy machine does to a worker now and then
_FEWEST = 4  # pieces of other elements than those of the others: fewer may all be dear, and have no quarters
_LEAST_SECONDS = 1.0  # of a worker's pieces: a busy machine may stop a worker for a part of a shorter time
_HALF = 0.5  # of a straggler's seconds: what took so much of them is the cause
_REGION = 0.2  # of an element's units: hot blocks are at most this share, and took half of the time; as in `strip`


@attrs.frozen
class SlowHost:
    """A host, or a worker if all are on one host, that took several times as long as others for like work.

    Attributes:
        name: the host, or the host and process id of the worker.
        times: how many times as long as the others' median, by the median of its pieces.
    """

    name: str
    times: float

    def __str__(self) -> str:
        return f"{self.name} took {self.times:.1f} times as long as the others for like work"


def slow_hosts(
    pieces: Sequence[PieceRun], workers: Sequence[str], longest_blocks: Mapping[int, float]
) -> list[SlowHost]:
    """Return the hosts that were slow, the slowest first.

    Three quarters of the pieces of a slow host took at least twice as long a unit as three quarters of the like pieces
    of others did. Hot blocks alone do not look like that: idle workers take some of what is slow, which is then as slow
    with them. The longest block of an element that several hosts ran does not count, as nobody can take a part of it.

    Args:
        pieces: how work items ran.
        workers: by `PieceRun.task`, host and process id of the worker, with a slash between them.
        longest_blocks: by element, the seconds of its longest block, where that is known.
    """
    hosts = hosts_of(workers)
    stays: dict[str, float] = {}
    for piece in pieces:
        stays[hosts[piece.task]] = stays.get(hosts[piece.task], 0.0) + piece.seconds
    above: dict[str, list[tuple[float, float]]] = {}  # by host: for each piece its rate over those of the others
    for fewest, group in _like(pieces, hosts, longest_blocks):
        rates = [rate for rate, _ in group]
        own: dict[str, list[int]] = {}
        for at, (_, host) in enumerate(group):
            own.setdefault(host, []).append(at)
        for host, places in own.items():
            others = len(group) - len(places)
            if others and len(places) >= fewest:
                median = _without(rates, places, others // 2)
                upper = _without(rates, places, (3 * others - 1) // 4)
                above.setdefault(host, []).extend((rates[at] / upper, rates[at] / median) for at in places)
    found = []
    for host, ratios in above.items():
        lower = sorted(ratio for ratio, _ in ratios)[len(ratios) // 4]
        if stays[host] >= _LEAST_SECONDS and lower >= _SLOWER:
            found.append(SlowHost(host, sorted(ratio for _, ratio in ratios)[len(ratios) // 2]))
    return sorted(found, key=lambda host: -host.times)


def hosts_of(workers: Sequence[str]) -> list[str]:
    """Return the host of each worker; the worker itself if all are on one host."""
    hosts = [worker.rpartition("/")[0] for worker in workers]
    return hosts if len(set(hosts)) > 1 else list(workers)


def _like(
    pieces: Sequence[PieceRun], hosts: Sequence[str], longest_blocks: Mapping[int, float]
) -> Iterator[tuple[int, list[tuple[float, str]]]]:
    """Yield groups of like pieces: how many a host must have run at least, and in order the rate and host of each."""
    by_element: dict[int, list[PieceRun]] = {}
    for piece in pieces:
        if _rate(piece) is not None:
            by_element.setdefault(piece.element_id, []).append(piece)
    alone: list[tuple[float, str]] = []
    for element_id, own in by_element.items():
        if len({hosts[piece.task] for piece in own}) > 1:
            block = longest_blocks.get(element_id, 0.0)
            rates = ((_rate(piece, without=block), hosts[piece.task]) for piece in own)
            yield 1, sorted((rate, host) for rate, host in rates if rate is not None)
        else:
            alone += ((rate, hosts[piece.task]) for piece in own if (rate := _rate(piece)) is not None)
    yield _FEWEST, sorted(alone)


def _rate(piece: PieceRun, *, without: float = 0.0) -> float | None:
    """Return the seconds per unit of a piece; None if that is unknown, or nothing is left without so many seconds."""
    seconds = piece.seconds - piece.opening_seconds - without
    return seconds / piece.units if piece.sized and piece.units > 0 and seconds > 0 else None


def _without(values: list[float], places: list[int], number: int) -> float:
    """Return the value of this number, from 0, of those that are at none of the places; both lists are in order."""
    for place in places:
        if place > number:
            break
        number += 1
    return values[number]


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

"""The policy of work stealing: who gives how much to whom, as pure functions of plain values.

- An attempt that has run all it holds is a thief, the one idle longest first. The attempt with the most seconds left is
  the victim (`sdf.lanes.stealing` ranks them), if `can_give` and `is_worth_asking` say so.
- Work that nobody has started moves first: the thief takes about half of the victim's seconds left from the queue of
  its lane, the largest work items first (`takes`).
- If that queue is empty, the victim is asked. It gives back its unstarted work items; if it runs nothing, it keeps the
  first of them, which it starts next.
- Without such work the victim cuts what it runs, if `is_worth_cutting` says so. Both sides are then estimated to take
  equally long (`Running.halve` has that formula).

Rejected alternatives. Names in quotes are rows of benchmarks/ablate.py:

- A random victim, as in Cilk: the coordinator has an estimate for each attempt, and a declined request costs a round
  trip.
- Half of the units instead of half of the seconds: "a steal halves units instead of seconds".
- The mean cost of a unit alone as the estimate: "the mean alone tells what is left".
- A cut without regard to opening: "a lane splits what takes longer to open".
- A victim with less than two of the smallest pieces: it would be left without work.
"""

from __future__ import annotations

from sdf.lanes.messages import Heartbeat

__all__ = ["can_give", "is_worth_asking", "is_worth_cutting", "seconds_left", "takes"]


def seconds_left(told: Heartbeat | None, item_seconds: float, queued_seconds: float) -> float:
    """Return seconds left of what an attempt runs + unstarted work items * mean seconds of one + those of its queue."""
    running = 0.0 if told is None else told.seconds_left + told.unstarted * item_seconds
    return running + queued_seconds


def can_give(told: Heartbeat | None, queued: int) -> bool:
    """Return whether a lane has work to give: by its last heartbeat, unless it has declined since, and its queue."""
    return queued > 0 or (told is not None and (told.splittable or told.unstarted > 0))


def is_worth_asking(seconds_left: float, min_piece_seconds: float) -> bool:
    """Return whether a victim has at least two of the smallest pieces: one to give, and one to keep."""
    return seconds_left >= 2 * min_piece_seconds


def takes(moved_seconds: float, wanted_seconds: float, seconds: float = 0.0) -> bool:
    """Return whether a thief takes one more work item: always one, then while that brings it nearer to what it wants.

    With 3 of 10 wanted seconds it takes a work item of 14 seconds, since 17 is as near to 10, but none of 15.
    """
    return not moved_seconds or moved_seconds + seconds / 2 <= wanted_seconds


def is_worth_cutting(seconds_left: float, min_piece_seconds: float, opening_seconds: float | None) -> bool:
    """Return whether half of the seconds left is at least the smallest piece, and the seconds to open one if known."""
    return seconds_left / 2 >= max(min_piece_seconds, opening_seconds or 0.0)

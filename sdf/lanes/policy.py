"""Policy: how the work of lanes comes to count. A kept run replays a lane, a saved run commits segments.

Both decide for the coordinator what it means that an attempt connects, ends, leaves or commits. In a kept run
(`sdf.lanes.replayed`) Spark may run a lane again, and each attempt at it runs the same content. In a saved run
(`sdf.lanes.segmented`) each attempt has a lane of its own, and nobody runs again what it has committed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from sdf.lanes.attempts import Attempt, LaneState
from sdf.lanes.messages import Bye, Hello, SegmentDone

__all__ = ["Policy"]


class Policy(Protocol):
    """See the module's docstring. ``now`` is monotonic seconds.

    Attributes:
        unsealed: number of lanes that are not sealed in the ledger; a saved run seals none.
        departed: how many lanes have ended because they, or their processes, were told to; only in a saved run.
        lost_seconds: about how many seconds of work were lost with attempts; only in a saved run.
    """

    unsealed: int
    departed: int
    lost_seconds: float

    def lane_of(self, hello: Hello) -> LaneState:
        """Return the lane of a new attempt; raise LedgerError if it has none."""

    def connects(self, attempt: Attempt, now: float) -> None:
        """Decide what a new attempt at its lane runs."""

    def loses(self, attempt: Attempt, others: Collection[Attempt], now: float) -> None:
        """The connection of an attempt has ended: decide who runs what it had; ``others`` are still connected."""

    def is_due(self, lane: LaneState) -> None:
        """Deferred work of a lane is due."""

    def goes_on(self, attempt: Attempt) -> bool:
        """Return whether an attempt without work gets more."""

    def commits(self, attempt: Attempt, message: SegmentDone, now: float) -> None:
        """An attempt has written a segment."""

    def says_bye(self, attempt: Attempt, message: Bye, now: float) -> None:
        """An attempt ends of its own accord."""

    def first_to_end(self, leavers: list[Attempt]) -> list[Attempt]:
        """Return which of these idle attempts to end now."""

    def ends(self, attempt: Attempt, now: float) -> list[Attempt]:
        """Let an attempt without work end; return the other attempts that then need their next work."""

    def lanes(self) -> int:
        """Return the number of lanes for the report."""

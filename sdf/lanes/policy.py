"""Policy: how the work of lanes comes to count. A kept run replays a lane, a saved run commits segments.

Both decide for the coordinator what it means that an attempt connects, ends, leaves or commits. In a kept run
(`sdf.lanes.replayed`) Spark may run a lane again, and each attempt at it runs the same content. In a saved run
(`sdf.lanes.segmented`) each attempt has a lane of its own, and nobody runs again what it has committed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import attrs

from sdf.lanes.attempts import LaneState
from sdf.lanes.messages import ToLane
from sdf.lanes.statistics import Statistics
from sdf.lanes.stealing import Stealing
from sdf.scheduling.run_state import RunState

__all__ = ["Policy"]


@attrs.define(eq=False)
class Policy:
    """What both know of a run. The caller serialises the calls of their methods; ``now`` is monotonic seconds.

    Args:
        work: the work of the run.
        lanes: the lanes of the run.
        stealing: knows the idle attempts.
        statistics: the run's statistics.
        send: sends a message to an attempt.

    Attributes:
        unsealed: number of lanes that are not sealed in the ledger; a saved run seals none.
        departed: how many lanes have ended because they, or their processes, were told to; only in a saved run.
        lost_seconds: about how many seconds of work were lost with attempts; only in a saved run.
    """

    _work: RunState
    _lanes: list[LaneState]
    _stealing: Stealing
    _statistics: Statistics
    _send: Callable[[Hashable, ToLane], None]
    unsealed: int = attrs.field(default=attrs.Factory(lambda self: len(self._lanes), takes_self=True), init=False)
    departed: int = attrs.field(default=0, init=False)
    lost_seconds: float = attrs.field(default=0.0, init=False)

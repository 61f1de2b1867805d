"""When a lane sends a heartbeat.

From the last heartbeat the coordinator knows when the running work item is expected to end. A lane sends another at
once if that has changed by more than 5 %, and otherwise every tenth of the time that it has run. So a lane with even
work is quiet, which is what lets one driver follow ten thousand of them (benchmarks/simulate.py).
"""

from __future__ import annotations

from sdf.lanes.messages import Heartbeat

__all__ = ["LOOK_SECONDS", "HeartbeatSchedule"]

LOOK_SECONDS = 0.05
# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_SHARE = 0.05  # of the time so far, and of the time left; "losses and latecomers"
_NEWS_SECONDS = 1.0  # news may have to wait for so long; "Pareto, 128 slots", "narrow 0.5 %, 20 s"
_QUIET_SHARE = 0.1  # of the time so far: a heartbeat without news; half of all messages were such at a fifth of that
_QUIET_SECONDS = 10.0  # but one at least in so long, as progress is shown by what was sent; "asked of the driver"


class HeartbeatSchedule:
    """What a lane has sent.

    Args:
        now: when the lane began; monotonic seconds.

    Attributes:
        news_at: when news may be sent next.
        next_at: when the next heartbeat is sent in any case.
    """

    def __init__(self, now: float) -> None:
        self._began = self._sent_at = now
        self._sent: Heartbeat | None = None
        self.news_at = self.next_at = now + LOOK_SECONDS

    def due(self, beat: Heartbeat, now: float) -> bool:
        """Tell whether this is to be sent; to be asked every `LOOK_SECONDS`."""
        return now >= self.next_at or (now >= self.news_at and self._is_news(beat, now))

    def _is_news(self, beat: Heartbeat, now: float) -> bool:
        last = self._sent
        if last is None or (beat.item_id, beat.splittable) != (last.item_id, last.splittable):
            return True
        expected = max(0.0, last.seconds_left - (now - self._sent_at))
        return abs(beat.seconds_left - expected) > _SHARE * max(beat.seconds_left, expected) + LOOK_SECONDS

    def sent(self, beat: Heartbeat, now: float) -> None:
        """Note that this was sent."""
        self._sent, self._sent_at = beat, now
        so_far = now - self._began
        self.news_at = now + min(max(_SHARE * so_far, LOOK_SECONDS), _NEWS_SECONDS)
        self.next_at = now + min(max(_QUIET_SHARE * so_far, LOOK_SECONDS), _QUIET_SECONDS)

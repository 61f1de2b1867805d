"""When a lane sends a heartbeat.

From the last heartbeat the coordinator knows when the running work item is expected to end. If the seconds left differ
from that by more than 5 %, that is news, and the lane sends it within a second. Without news the lane waits a tenth of
the time that it has run, at most 10 s. So a lane with even work sends little, and one driver can serve ten thousand
lanes (benchmarks/simulate.py).
"""

from __future__ import annotations

from sdf.lanes.messages import Heartbeat

__all__ = ["LOOK_SECONDS", "HeartbeatSchedule"]

LOOK_SECONDS = 0.05
# Names in quotes are rows of benchmarks/ablate.py, which get worse with another value.
_SHARE = 0.05  # news waits for this share of the time so far; change of the seconds left; "losses and latecomers"
_NEWS_SECONDS = 1.0  # the longest that news waits; "Pareto, 128 slots", "narrow 0.5 %, 20 s"
_QUIET_SHARE = 0.1  # of the time so far, between heartbeats without news; at 0.02 half of all messages had none
_QUIET_SECONDS = 10.0  # the longest between heartbeats, as the progress display needs them; "asked of the driver"


class HeartbeatSchedule:
    """When the heartbeats of one attempt are due.

    Args:
        now: when the attempt began, monotonic seconds.

    Attributes:
        news_at: the earliest time for the next heartbeat with news.
        next_at: when the next heartbeat is due without news.
    """

    def __init__(self, now: float) -> None:
        self._began = self._sent_at = now
        self._sent: Heartbeat | None = None
        self.news_at = self.next_at = now + LOOK_SECONDS

    def due(self, heartbeat: Heartbeat, now: float) -> bool:
        """Return whether to send ``heartbeat`` now; call this every `LOOK_SECONDS`."""
        return now >= self.next_at or (now >= self.news_at and self._is_news(heartbeat, now))

    def _is_news(self, heartbeat: Heartbeat, now: float) -> bool:
        last = self._sent
        if last is None or (heartbeat.item_id, heartbeat.splittable) != (last.item_id, last.splittable):
            return True
        expected = max(0.0, last.seconds_left - (now - self._sent_at))
        return abs(heartbeat.seconds_left - expected) > _SHARE * max(heartbeat.seconds_left, expected) + LOOK_SECONDS

    def sent(self, heartbeat: Heartbeat, now: float) -> None:
        """Note that ``heartbeat`` was sent."""
        self._sent, self._sent_at = heartbeat, now
        so_far = now - self._began
        self.news_at = now + min(max(_SHARE * so_far, LOOK_SECONDS), _NEWS_SECONDS)
        self.next_at = now + min(max(_QUIET_SHARE * so_far, LOOK_SECONDS), _QUIET_SECONDS)

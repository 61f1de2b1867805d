"""When a lane says how far it is: often while there is much to learn, later only what the coordinator cannot work out.

From the last beat the coordinator knows when what runs will have ended. As long as that stays true a lane says no more
than that it goes on. So an even lane is quiet, which is what lets one driver follow ten thousand of them
(benchmarks/simulate.py), and one whose work turns dear is heard at once.
"""

from __future__ import annotations

from sdf.spark.messages import Beat

__all__ = ["LOOK_SECONDS", "Beats"]

LOOK_SECONDS = 0.05
_SHARE = 0.05  # of the time so far, and of the time left
_NEWS_SECONDS = 1.0  # news may have to wait for so long
_QUIET_SHARE, _QUIET_SECONDS = 0.1, 10.0  # of the time so far; progress is shown by what was said


class Beats:
    """What a lane has said.

    Args:
        now: when the lane began; monotonic seconds.

    Attributes:
        news_at: when news may be said next.
        next_at: when the next beat is said in any case.
    """

    def __init__(self, now: float) -> None:
        self._began = self._said_at = now
        self._said: Beat | None = None
        self.news_at = self.next_at = now + LOOK_SECONDS

    def due(self, beat: Beat, now: float) -> bool:
        """Tell whether this is to be said; to be asked every `LOOK_SECONDS`."""
        return now >= self.next_at or (now >= self.news_at and self._is_news(beat, now))

    def _is_news(self, beat: Beat, now: float) -> bool:
        said = self._said
        if said is None or (beat.item_id, beat.splittable) != (said.item_id, said.splittable):
            return True
        expected = max(0.0, said.seconds_left - (now - self._said_at))
        return abs(beat.seconds_left - expected) > _SHARE * max(beat.seconds_left, expected) + LOOK_SECONDS

    def said(self, beat: Beat, now: float) -> None:
        """Note that this was said."""
        self._said, self._said_at = beat, now
        so_far = now - self._began
        self.news_at = now + min(max(_SHARE * so_far, LOOK_SECONDS), _NEWS_SECONDS)
        self.next_at = now + min(max(_QUIET_SHARE * so_far, LOOK_SECONDS), _QUIET_SECONDS)

"""Pacer: the start times of calls to a server with a rate limit. No clock and no waiting; the caller passes ``now``.

Start times are evenly spaced, and none is given twice or made up for. So in no window of a second do more calls start
than the limit allows, wherever the server's windows begin. A call reaches the server a little after it starts, and the
delay varies: the spacing has `_JITTER_SECONDS` to spare in each second, or as much as callers were late of late, as
they are on a busy machine.

A server that refuses a call gets no more calls for as long as it says, and then three quarters of the rate. The rate
grows back to the limit by equal amounts per second.
"""

from __future__ import annotations

import math

import attrs

__all__ = ["Pacer"]

_JITTER_SECONDS, _MOST_JITTER_SECONDS = 0.02, 0.25
_FORGOTTEN_SECONDS = 10.0  # half of a lateness
_CUT = 0.75
_RECOVERY_SECONDS = 25.0  # from nothing to the whole rate
_LEAST_SHARE = 1 / 64  # of the rate, however often the server refuses


@attrs.define
class Pacer:
    """See the module's docstring.

    Args:
        calls: how many calls may start in each window.
        window_seconds: the length of a window.
        next_start: the earliest start time that was not given yet.

    Attributes:
        paused_until: no call starts before this, as the server has said.
        refused_calls: how often the server has refused a call.
    """

    calls: float
    window_seconds: float = 1.0
    next_start: float = -math.inf
    paused_until: float = attrs.field(default=-math.inf, init=False)
    refused_calls: int = attrs.field(default=0, init=False)
    _share: float = attrs.field(default=1.0, init=False)  # of the rate, when the pause ends
    _cut_at: float = attrs.field(default=-math.inf, init=False)
    _late_seconds: float = attrs.field(default=0.0, init=False)
    _late_at: float = attrs.field(default=0.0, init=False)

    def start(self, now: float) -> float:
        """Return when the next call may start; at ``now`` or later."""
        start = max(now, self.next_start, self.paused_until)
        spacing_seconds = (self.window_seconds + self._jitter_seconds(start)) / self.calls
        self.next_start = start + spacing_seconds / self._share_at(start)
        return start

    def late(self, now: float, seconds: float) -> None:
        """A caller has started so many seconds after its start time."""
        seconds = min(seconds, _MOST_JITTER_SECONDS)
        if seconds > self._jitter_seconds(now):
            self._late_seconds, self._late_at = seconds, now

    def _jitter_seconds(self, at: float) -> float:
        late_seconds = self._late_seconds * math.pow(0.5, (at - self._late_at) / _FORGOTTEN_SECONDS)
        return max(_JITTER_SECONDS, late_seconds)

    def _share_at(self, at: float) -> float:
        return min(1.0, self._share + max(0.0, at - self.paused_until) / _RECOVERY_SECONDS)

    def refused(self, now: float, called_at: float, retry_after_seconds: float) -> None:
        """The server has refused a call that started at ``called_at``.

        Start times after ``now`` that were given before are void, and the caller asks for new ones. Calls that were on
        their way when the first of them was refused count as one refusal.
        """
        self.refused_calls += 1
        resumed_at = max(self.paused_until, now + retry_after_seconds)
        if called_at > self._cut_at:
            self._share = max(_LEAST_SHARE, self._share_at(now) * _CUT)
            self._cut_at = now
        self.paused_until = self.next_start = resumed_at

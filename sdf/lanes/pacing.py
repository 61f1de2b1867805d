"""The rate limits of a run (`sdf.limits`): the coordinator's pacers, and the lane that waits for its start times.

A lane asks for one start time for each call, when it wants to call. So a lane that does something else holds none, and
a lane that is lost wastes at most one. The answer says in how many seconds, by which clocks need not agree.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from threading import Condition, Lock

import attrs

from sdf.lanes.messages import AskStart, FromLane, ProtocolError, Refused, StartIn, ToLane
from sdf.limits.pacer import Pacer
from sdf.limits.rate_limit import RateLimit

__all__ = ["LaneStartTimes", "Pacing"]

_LONGEST_WAIT_SECONDS = 3600.0  # a condition takes no wait for centuries


class Pacing:
    """The coordinator's part: gives start times to attempts. The caller passes ``now``, in monotonic seconds.

    Args:
        limits: the rate limits of the run.
        send: sends a message to an attempt.
    """

    def __init__(self, limits: Iterable[RateLimit], send: Callable[[Hashable, ToLane], None]) -> None:
        self._limits = list(limits)
        self._pacers: dict[str, Pacer] = {limit.name: limit.pace() for limit in self._limits}
        self._given: dict[str, dict[Hashable, float]] = {name: {} for name in self._pacers}  # by attempt, in order
        self._calls: Counter[str] = Counter()
        self._send = send

    def received(self, name: Hashable, message: AskStart | Refused, now: float) -> None:
        """An attempt wants to call, or tells that the server has refused its call.

        Raises:
            ProtocolError: if the run has no such limit.
        """
        pacer = self._pacers.get(message.limit)
        if pacer is None:
            raise ProtocolError(f"this run has no rate limit {message.limit!r}.")
        if isinstance(message, AskStart):
            self._calls[message.limit] += 1
            pacer.late(now, message.late_seconds)
            self._give(name, message.limit, pacer, now)
            return
        pacer.refused(now, now - message.called_seconds_ago, message.retry_after_seconds)
        for other, start in list(self._given[message.limit].items()):
            if start > now:  # it is void
                self._give(other, message.limit, pacer, now)

    def _give(self, name: Hashable, limit: str, pacer: Pacer, now: float) -> None:
        start = pacer.start(now)
        self._given[limit].pop(name, None)
        self._given[limit][name] = start
        self._send(name, StartIn(limit, start - now))

    def lost(self, name: Hashable) -> None:
        """The connection of an attempt has ended."""
        for given in self._given.values():
            given.pop(name, None)

    def used(self) -> tuple[tuple[str, float, int, int], ...]:
        """Return for each limit its name, its calls per second, and how many there were and were refused."""
        return tuple(
            (limit.name, limit.per_second, self._calls[limit.name], self._pacers[limit.name].refused_calls)
            for limit in self._limits
        )


@attrs.define(eq=False)
class _Call:
    """The next call of a limit: when it starts, whether its start was asked for, how late the call before it was."""

    one_thread: Lock = attrs.field(factory=Lock)  # the coordinator gives an attempt one start time of a limit at a time
    start: float = math.inf
    asked: bool = False
    late_seconds: float = 0.0


@attrs.frozen(eq=False)
class LaneStartTimes:
    """The lane's part: waits for a start time. Implements `sdf.limits.rate_limit.StartTimes`.

    Args:
        send: sends a message to the coordinator.
        clock: monotonic seconds.
        changed: the lane's condition; it is notified when a message has arrived, or the lane has failed.
        failure: returns the error that the lane has failed with, or None.
    """

    _send: Callable[[FromLane], None]
    _clock: Callable[[], float]
    _changed: Condition
    _failure: Callable[[], BaseException | None]
    _calls: dict[str, _Call] = attrs.field(factory=dict, init=False)

    @property
    def asked(self) -> bool:
        """Whether the lane has asked for a start time, and has no answer yet."""
        return any(call.asked for call in self._calls.values())

    def wait(self, limit: str) -> None:
        """Return when the next call of a limit may start; raise the lane's error if it fails."""
        with self._changed:
            call = self._calls.setdefault(limit, _Call())
        with call.one_thread, self._changed:
            call.start, call.asked = math.inf, True
            self._send(AskStart(limit, call.late_seconds))
            while (seconds := call.start - self._clock()) > 0:
                failure = self._failure()
                if failure is not None:
                    raise failure
                self._changed.wait(min(seconds, _LONGEST_WAIT_SECONDS))
            call.late_seconds = -seconds

    def refused(self, limit: str, called_seconds_ago: float, retry_after_seconds: float) -> None:
        """Tell the coordinator that the server has refused a call."""
        self._send(Refused(limit, called_seconds_ago, retry_after_seconds))

    def receive(self, message: StartIn) -> None:
        """A start time has come, perhaps in place of the one before; one that nobody waits for lapses."""
        call = self._calls[message.limit]
        call.start, call.asked = self._clock() + message.seconds, False

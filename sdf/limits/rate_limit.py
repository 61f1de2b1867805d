"""RateLimit: a side input through which all tasks of a run keep to the rate limit of a server."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from sdf.errors import ContractError, InvalidTypeError, InvalidValueError, show
from sdf.limits.pacer import Pacer
from sdf.limits.refusals import retry_after_seconds
from sdf.numbers import as_number, is_number

__all__ = ["RateLimit", "StartTimes", "limits_of", "paced", "shared", "waits_for_limit"]

T = TypeVar("T")

_MOST_REFUSALS = 10  # in a row, of one call
_waiting: list[str] = []  # the limits that threads of this process wait for


def waits_for_limit() -> bool:
    """Return whether a thread of this process waits for a start time."""
    return bool(_waiting)


class StartTimes(Protocol):
    """Where start times come from."""

    def wait(self, limit: str) -> None:
        """Return when the next call of a limit may start."""

    def refused(self, limit: str, called_seconds_ago: float, retry_after_seconds: float) -> None:
        """Tell that the server has refused a call of a limit."""


class RateLimit:
    """A limit of calls per second that holds for a whole run.

    Pass it as a side input; `process` calls through it::

        class ReadOrders(DoFn):
            def get_initial_restriction(self, shop):
                return OffsetRange(0, pages_of(shop))

            def process(self, shop, tracker, api):
                for page in tracker.claims():
                    yield from api.call(requests.get, f"{URL}/{shop}?page={page}").json()

        run_sdf(shops, ReadOrders(), runner=LiveRunner(), side_inputs={"api": RateLimit("api", per_second=100)})

    With `LiveRunner` the driver hands out the start times of all calls, evenly spaced: lanes share the limit, however
    many there are, and whatever they have to do. With `StagedRunner` and ``stream_sdf`` each task has an equal share,
    also one that calls nothing; so set ``max_tasks``, to no more than ``per_second``. In `run_direct` and `check_dofn`
    this process has all of it.

    A run keeps about 2 % below the limit, as calls take different times to reach the server. The limit holds for one
    run: two runs at once need a part of it each.

    Args:
        name: what to call it in messages. Two limits of a run need two names.
        per_second: how many calls the server allows in a second; 0.5 for one in two seconds. A server that counts the
            calls of any second may refuse a few, as calls arrive unevenly: give 90 to 95 % of such a limit.

    Raises:
        InvalidTypeError, InvalidValueError: for a name that is not a string, or a rate that is not positive.
    """

    def __init__(self, name: str, *, per_second: float) -> None:
        if not isinstance(name, str):
            raise InvalidTypeError(f"RateLimit name must be a string (got {show(name)}).")
        rate = as_number(per_second)
        if not is_number(rate):
            raise InvalidTypeError(f"RateLimit per_second must be a number (got {show(per_second)}).")
        if not 0 < rate < math.inf:
            raise InvalidValueError(f"RateLimit per_second must be a positive number (got {show(per_second)}).")
        self.name = name
        self.per_second = rate
        self.tasks = 1
        self._source: StartTimes | None = OwnStartTimes([self])
        self._called = threading.local()

    def __repr__(self) -> str:
        return f"RateLimit({self.name!r}, per_second={self.per_second})"

    def __getstate__(self) -> dict[str, Any]:
        return {"name": self.name, "per_second": self.per_second, "tasks": self.tasks}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _source=None, _called=threading.local())

    def acquire(self) -> None:
        """Wait until the next call may start, and return. Other tasks may split what this one runs meanwhile.

        Raises:
            ContractError: in a worker, if this limit is not a side input itself.
        """
        _waiting.append(self.name)
        try:
            self._from().wait(self.name)
        finally:
            _waiting.pop()
        self._called.at = time.monotonic()

    def refused(self, retry_after_seconds: float = 1.0) -> None:
        """Tell that the server has refused the call that this thread acquired last. Then `acquire` for another try.

        No lane of `LiveRunner`, elsewhere not this task, calls the server for ``retry_after_seconds``, and then all
        at three quarters of the rate. It grows back.
        """
        seconds = as_number(retry_after_seconds)
        if not is_number(seconds) or not 0 <= seconds < math.inf:
            raise InvalidValueError(
                f"RateLimit {self.name!r}: refused() retry_after_seconds must be a number >= 0 "
                f"(got {show(retry_after_seconds)})."
            )
        now = time.monotonic()
        self._from().refused(self.name, now - getattr(self._called, "at", now), seconds)

    def call(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call a function when the limit allows, and again if the server refuses; return what it returns.

        A call was refused if it returns, or raises, a response with status 429, or 503 with a Retry-After header, of
        `requests`, `httpx`, `urllib` or `urllib3`. Retry-After is kept to. The tenth refusal in a row is returned, or
        raised, as it is.
        """
        for tries in range(1, _MOST_REFUSALS + 1):
            self.acquire()
            try:
                answer = function(*args, **kwargs)
            except Exception as error:
                seconds = retry_after_seconds(error)
                if seconds is None or tries == _MOST_REFUSALS:
                    raise
            else:
                seconds = retry_after_seconds(answer)
                if seconds is None or tries == _MOST_REFUSALS:
                    return answer
            self.refused(seconds)
        raise AssertionError("the last try returns or raises")

    def _from(self) -> StartTimes:
        if self._source is None:
            raise ContractError(
                f"RateLimit {self.name!r} is used where no run paces it. Pass it as a side input by itself, not within "
                f"another value or as an attribute, side_inputs={{'api': RateLimit(...)}}, and use it in process()."
            )
        return self._source

    def pace(self) -> Pacer:
        """Return a pacer of one task's share of this limit."""
        window_seconds = max(1.0, 1 / self.per_second)
        calls = self.per_second * window_seconds
        return Pacer(calls if self.tasks == 1 else calls // self.tasks, window_seconds)


class OwnStartTimes:
    """Start times of one process that paces itself.

    Args:
        limits: the limits, each with its share.
        begins_empty: the first call waits, too. So a task's calls keep their distance from those of the task before it,
            in another process, on the same slot.
    """

    def __init__(self, limits: list[RateLimit], *, begins_empty: bool = False) -> None:
        self._limits = limits
        self._begins_empty = begins_empty
        self._pacers: dict[str, Pacer] = {}
        self._lock = threading.Lock()

    def wait(self, limit: str) -> None:
        with self._lock:
            pacer = self._pacer(limit)
            start, refused_calls = pacer.start(time.monotonic()), pacer.refused_calls
        while (now := time.monotonic()) < start:
            time.sleep(start - now)
            with self._lock:
                if pacer.refused_calls > refused_calls:  # another thread's call; this start time is void
                    start, refused_calls = pacer.start(time.monotonic()), pacer.refused_calls
        with self._lock:
            pacer.late(now, now - start)

    def refused(self, limit: str, called_seconds_ago: float, retry_after_seconds: float) -> None:
        now = time.monotonic()
        with self._lock:
            self._pacer(limit).refused(now, now - called_seconds_ago, retry_after_seconds)

    def _pacer(self, limit: str) -> Pacer:
        if limit not in self._pacers:
            pacer = next(each.pace() for each in self._limits if each.name == limit)
            if self._begins_empty:
                pacer.start(time.monotonic())
            self._pacers[limit] = pacer
        return self._pacers[limit]


def limits_of(side_inputs: Mapping[str, Any]) -> list[RateLimit]:
    """Return the limits among side inputs, one of each name.

    Raises:
        InvalidValueError: if two differ and have one name.
    """
    found: dict[str, RateLimit] = {}
    for value in side_inputs.values():
        if isinstance(value, RateLimit):
            other = found.setdefault(value.name, value)
            if other.per_second != value.per_second:
                raise InvalidValueError(
                    f"two rate limits have the name {value.name!r}: {other!r} and {value!r}. Give each its own name."
                )
    return list(found.values())


def shared(side_inputs: Mapping[str, Any], tasks: int, who: str) -> dict[str, Any]:
    """Return side inputs whose limits are for one of so many tasks.

    Raises:
        InvalidValueError: if a limit is too low for them, or two have one name.
    """
    limits_of(side_inputs)
    return {
        name: _share(value, tasks, who) if isinstance(value, RateLimit) else value
        for name, value in side_inputs.items()
    }


def _share(limit: RateLimit, tasks: int, who: str) -> RateLimit:
    most = max(1, math.floor(limit.per_second))
    if tasks > most:
        raise InvalidValueError(
            f"{who} gives each of up to {tasks} tasks an equal share of {limit!r}, and all of them at once would call "
            f"more often than it allows. Set max_tasks to at most {most}."
        )
    one = RateLimit(limit.name, per_second=limit.per_second)
    one.tasks = tasks
    return one


@contextmanager
def paced(side_inputs: Mapping[str, Any], source: StartTimes | None = None) -> Iterator[None]:
    """Have the limits among side inputs take their start times from a source; None for pacers of this process."""
    limits = [value for value in side_inputs.values() if isinstance(value, RateLimit)]
    source = OwnStartTimes(limits, begins_empty=True) if source is None else source
    for limit in limits:
        limit._source = source
    try:
        yield
    finally:
        for limit in limits:
            limit._source = None

"""Watch: what a function gives that is asked again and again, each output once. For sources that can only be listed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.io.follow.clock import CLOCK, now
from sdf.io.follow.watch import Scan, ScanFn, Scans
from sdf.io.options import as_seconds
from sdf.io.stored import stored

__all__ = ["Polled", "Polls", "Watch"]


@stored
@attrs.frozen
class Polls(Scans):
    """The polls ``[start, stop)`` of an element; ``seen`` has the keys of its outputs.

    Attributes:
        began: time when the element came, by the clock of the process that polls.
        news: time of the last poll that gave something new.
        clock: names that clock.
    """

    began: float = 0.0
    news: float = 0.0
    clock: str = ""

    def by_this_clock(self) -> Polls:
        """Return them by the clock of this process. What another one waited since its last news does not count.

        Nobody knows how long that was: the system's clock may have been set meanwhile.
        """
        if self.clock == CLOCK:
            return self
        at = now()
        return attrs.evolve(self, began=at - self.news + self.began, news=at, clock=CLOCK)


@attrs.frozen
class Poll(Scan):
    """A poll that was made; see `Scan`.

    Attributes:
        began, news: as of `Polls`, after it, by the clock of this process.
        ended: whether it was the last one.
    """

    began: float
    news: float
    ended: bool

    def after(self, scans: Scans) -> Scans:
        times: dict[str, Any] = {"began": self.began, "news": self.news, "clock": CLOCK}
        return attrs.evolve(super().after(scans), ended=self.ended, **times)


@attrs.frozen
class Polled:
    """What `Watch` tells ``until`` after a poll.

    Attributes:
        element: the element.
        outputs: all that the poll gave.
        seconds: since the element came, without the time when the stream was down.
        quiet_seconds: since a poll gave something new, or since the stream was started.
    """

    element: Any
    outputs: tuple[Any, ...]
    seconds: float
    quiet_seconds: float


class Watch(ScanFn):
    """Asks a function for its outputs, again and again, in streams. Gives each output once. The element is any value.

    Position: the number of a poll. Outputs keep their order. The keys of all outputs are kept, as long as the element
    is watched. The driver polls, beside the batches. A poll that raises ends the stream; started again, it polls again,
    and nothing is given twice.

    Args:
        poll: a function that gets the element, and returns an iterable of all outputs that there are now. It must be
            picklable.
        interval_seconds: seconds from one poll to the next.
        until: a function that gets a `Polled`, and returns True if the element need not be watched any more, such as
            ``lambda polled: polled.quiet_seconds > 3600``; None: watch for ever.
        key: a function that gives the key of an output; outputs with the same key are one. None: the output itself.
            Keys must be hashable.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value, and when it runs, for a key that
            cannot be hashed, or does not equal itself, such as NaN.

    Source: Watch of Apache Beam; its termination conditions are functions here.
    """

    def __init__(
        self,
        poll: Callable[[Any], Iterable[Any]],
        *,
        interval_seconds: float = 5.0,
        until: Callable[[Polled], bool] | None = None,
        key: Callable[[Any], Any] | None = None,
    ) -> None:
        for name, value in (("poll", poll), ("until", until), ("key", key)):
            if not callable(value) and (name == "poll" or value is not None):
                raise InvalidTypeError(f"Watch {name} must be a function (got {show(value)}).")
        self.poll = poll
        self.interval_seconds = as_seconds(interval_seconds, "Watch interval_seconds")
        self.until = until
        self.key = key

    def get_initial_restriction(self, element: Any) -> Polls:
        at = now()
        return Polls(0, began=at, news=at, clock=CLOCK)

    def scan(self, element: Any, scans: Polls, tracker: Any) -> Iterator[Any]:
        if scans.ended:
            return
        given, at, polls = self.poll(element), now(), scans.by_this_clock()
        if not isinstance(given, Iterable):
            raise InvalidTypeError(f"Watch poll must return an iterable of outputs (got {show(given)}).")
        outputs = tuple(given)
        new, seen = self._new(element, outputs, scans.seen)
        news = at if new else polls.news
        polled = Polled(element, outputs, at - polls.began, at - news)
        ended = self.until is not None and bool(self.until(polled))
        has_news = new or ended or polls is not scans
        if has_news and tracker.try_claim(Poll(scans.start, new, seen, polls.began, news, ended)):
            yield from new
        tracker.defer_remainder(0.0 if ended else self.interval_seconds)

    def _new(self, element: Any, outputs: tuple[Any, ...], seen: tuple[Any, ...]) -> tuple[tuple[Any, ...], Any]:
        """Return the outputs whose keys were not seen yet, and all keys."""
        keys = dict.fromkeys(seen)
        new = []
        for output in outputs:
            key = output if self.key is None else self.key(output)
            try:
                if key in keys:
                    continue
            except TypeError as error:
                raise InvalidTypeError(
                    f"Watch cannot tell whether it has seen {show(key)} of element {show(element)} before, since that "
                    f"cannot be hashed: {error}. Pass key=, a function that gives a string or a tuple, say."
                ) from error
            if key != key:
                raise InvalidValueError(
                    f"Watch would take {show(key)} of element {show(element)} for a new output at each poll, since it "
                    f"does not equal itself. Pass key=, a function that gives a string or a tuple, say."
                )
            keys[key] = None
            new.append(output)
        return tuple(new), tuple(keys)

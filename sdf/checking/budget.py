"""A budget of seconds for a check that goes on in this thread, and what is shown meanwhile of how far it is."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.numbers import as_number, is_number
from sdf.reporting.progress import RunProgress

__all__ = ["Budget", "SpentError", "as_seconds", "as_shown"]

_EVERY_SECONDS = 0.5
_FIRST_SHARE = 0.05  # of all seconds, for the claims of the first read: a whole check reads a hundred times or more
_QUIET_SECONDS = 3.0  # what takes no longer shows nothing, unless somebody asks for it


class SpentError(BaseException):
    """The time is up. No Exception, so that no ``except`` of a user's takes it for one of the input."""


class Budget:
    """Ends what takes longer than it may, at its next claim; and shows how far it is.

    Args:
        name: of what is checked.
        seconds: how long that may take, None for as long as it takes; the claims of its first read, a twentieth of it.
        show_progress: gets a `RunProgress` about twice a second.
        clock: monotonic seconds.

    Attributes:
        done: checks done.
        known: checks to do, as far as is known.
        claims: claims made, in all reads.
        splits: splits that succeeded.
        seconds: how long it may take, infinity for as long as it takes.
        interrupted: whether it ended something.
    """

    def __init__(
        self,
        name: str,
        seconds: float | None,
        show_progress: Callable[[RunProgress], Any] | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.done = self.known = self.claims = self.splits = 0
        self.seconds = math.inf if seconds is None else seconds
        self.interrupted = False
        self._name = name
        self._show = show_progress
        self._clock = clock
        self._began = self._shown_at = self._first_claim_at = self._last_claim_at = clock()
        self._failure: Exception | None = None
        self._ends = self._began + self.seconds

    def go_on(self) -> None:
        """After the first read: what comes next may take all that is left."""
        self._ends = self._began + self.seconds
        self.interrupted = False

    def spent_seconds(self) -> float:
        """Return how long it has been going on."""
        return self._clock() - self._began

    def claim_seconds(self) -> float:
        """Return how long it was from one claim to the next, on average, since the first of them."""
        return (self._last_claim_at - self._first_claim_at) / max(1, self.claims - 1)

    def times_of_read(self, began_seconds: float) -> str:
        """Return where the time went until now, for who wonders: all claims are those of one read.

        Args:
            began_seconds: what `spent_seconds` was when that began.
        """
        now, read_at = self._clock(), self._began + began_seconds
        before = f"The first read began after {began_seconds:.2f} s"
        if not self.claims:
            return f"{before} and took {now - read_at:.2f} s without a claim."
        return (
            f"{before}, took {self._first_claim_at - read_at:.2f} s to open (until its first claim), "
            f"{self._last_claim_at - self._first_claim_at:.2f} s until the last of its {self.claims:,} claims, "
            f"and {now - self._last_claim_at:.2f} s after that."
        )

    def claimed(self) -> None:
        """Count a claim, and look at the clock."""
        self.claims += 1
        self._last_claim_at = now = self._clock()
        if self.claims == 1:
            self._first_claim_at = now
            self._ends = min(self._ends, now + _FIRST_SHARE * self.seconds)
        self._look(now)

    def look(self) -> None:
        """Look at the clock: at each claim and each check.

        Raises:
            SpentError: if the time is up.
        """
        self._look(self._clock())

    def _look(self, now: float) -> None:
        if now - self._shown_at >= _EVERY_SECONDS:
            self._shown_at = now
            self._tell(now, ended=False)
        if now > self._ends:
            self.interrupted = True
            raise SpentError

    def close(self) -> None:
        """Show the last of it; raise what the function that shows it raised, which was called amid user code."""
        self._tell(self._clock(), ended=True)
        if self._failure is not None:
            raise self._failure

    def _tell(self, now: float, *, ended: bool) -> None:
        if self._show is None or self._failure is not None:
            return
        progress = RunProgress(self._name, now - self._began, self.done, self.known, 1, 1, self.splits, ended)
        try:
            self._show(progress)
        except Exception as error:  # raised by close()
            self._failure = error


def as_seconds(value: Any, who: str) -> float | None:
    """Return a budget; raise unless it is None or a positive number."""
    if value is None:
        return None
    number = as_number(value)
    if not is_number(number) or not number > 0:
        raise InvalidValueError(f"{who} seconds must be a positive number, or None for no limit (got {show(value)}).")
    return float(number)


def as_shown(progress: Any, who: str) -> Callable[[RunProgress], Any] | None:
    """Return what shows progress: a function of the user's, lines on stderr, or nothing.

    Args:
        progress: a function; True for lines; None for lines if stderr is a terminal and it takes seconds; False.
        who: for the error.

    Raises:
        InvalidTypeError: if it is none of these.
    """
    if progress is False:
        return None
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    if progress is None:
        return _Line(who, _QUIET_SECONDS) if _is_terminal() else None
    if progress is not True:
        raise InvalidTypeError(f"{who} progress must be True, False, None or a function (got {show(progress)}).")
    return _Line(who, 0.0)


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError, OSError):  # None, closed, or anything that a program put there
        return False


class _Line:
    """Writes over one line of a terminal; elsewhere, one line after the other."""

    def __init__(self, who: str, quiet_seconds: float) -> None:
        self._who = who
        self._quiet_seconds = quiet_seconds
        self._end = "\r" if _is_terminal() else "\n"

    def __call__(self, progress: RunProgress) -> None:
        if progress.seconds < self._quiet_seconds:
            return
        how_far = f"{progress.done:g} of {progress.known:g} checks" if progress.known else "the first read"
        text = f"{self._who} of {progress.name}: {how_far}, {progress.splits} splits, {progress.seconds:.0f} s"
        sys.stderr.write(f"{text:<79}{chr(10) if progress.ended else self._end}")
        sys.stderr.flush()

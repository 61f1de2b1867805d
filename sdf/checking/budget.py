"""A budget of seconds for a check that runs in the calling thread, and the progress that is shown meanwhile."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.numbers import as_number, is_number
from sdf.reporting.progress import RunProgress, is_terminal

__all__ = ["Budget", "SpentError", "as_seconds", "as_shown"]

_EVERY_SECONDS = 0.5
_FIRST_SHARE = 0.05  # share of all seconds for the claims of the first read; a whole check reads 100 times or more
_QUIET_SECONDS = 3.0  # a shorter check shows nothing, unless the caller asks for it


class SpentError(BaseException):
    """The time is up. A BaseException, so that no ``except Exception`` of user code catches it."""


class Budget:
    """Ends a check at its next claim when its time is up, and shows its progress.

    Args:
        name: the name of the DoFn that is checked.
        seconds: the time limit of the check; None for no limit. The claims of the first read may take 1/20 of it.
        show_progress: gets a `RunProgress` about twice a second.
        clock: returns monotonic seconds.

    Attributes:
        done: number of checks done.
        known: number of all checks; 0 during the first read.
        claims: number of claims, in all reads.
        splits: number of splits that succeeded.
        seconds: the time limit in seconds, infinity for none.
        interrupted: whether the budget has ended a read or a check.
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
        """Let the checks after the first read use all the time that is left."""
        self._ends = self._began + self.seconds
        self.interrupted = False

    def spent_seconds(self) -> float:
        """Return the seconds since the check began."""
        return self._clock() - self._began

    def claim_seconds(self) -> float:
        """Return the mean seconds from one claim to the next."""
        return (self._last_claim_at - self._first_claim_at) / max(1, self.claims - 1)

    def times_of_read(self, began_seconds: float) -> str:
        """Return, for the user, how the time until now was spent. All claims so far must be of one read.

        Args:
            began_seconds: the value of `spent_seconds` when that read began.
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
        """Count a claim and check the time; called at each claim."""
        self.claims += 1
        self._last_claim_at = now = self._clock()
        if self.claims == 1:
            self._first_claim_at = now
            self._ends = min(self._ends, now + _FIRST_SHARE * self.seconds)
        self._look(now)

    def look(self) -> None:
        """Check the time; called before each check.

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
        """Show the final progress; raise the error of the progress function, kept because user code may swallow it."""
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
    """Return a time limit in seconds; raise unless it is None or a positive number."""
    if value is None:
        return None
    number = as_number(value)
    if not is_number(number) or not number > 0:
        raise InvalidValueError(f"{who} seconds must be a positive number, or None for no limit (got {show(value)}).")
    return float(number)


def as_shown(progress: Any, who: str) -> Callable[[RunProgress], Any] | None:
    """Return the function that shows progress: the user's, or one that writes lines on stderr; None to show nothing.

    Args:
        progress: a function; True for lines; None for lines only if stderr is a terminal and the check takes seconds;
            False for nothing.
        who: the name of the caller, for the error and the lines.

    Raises:
        InvalidTypeError: if ``progress`` is none of these.
    """
    if progress is False:
        return None
    if callable(progress):
        return progress  # type: ignore[no-any-return]
    if progress is None:
        return _Line(who, _QUIET_SECONDS) if is_terminal(sys.stderr) else None
    if progress is not True:
        raise InvalidTypeError(f"{who} progress must be True, False, None or a function (got {show(progress)}).")
    return _Line(who, 0.0)


class _Line:
    """Rewrites one line on a terminal; elsewhere writes a new line each time."""

    def __init__(self, who: str, quiet_seconds: float) -> None:
        self._who = who
        self._quiet_seconds = quiet_seconds
        self._end = "\r" if is_terminal(sys.stderr) else "\n"

    def __call__(self, progress: RunProgress) -> None:
        if progress.seconds < self._quiet_seconds:
            return
        how_far = f"{progress.done:g} of {progress.known:g} checks" if progress.known else "the first read"
        text = f"{self._who} of {progress.name}: {how_far}, {progress.splits} splits, {progress.seconds:.0f} s"
        sys.stderr.write(f"{text:<79}{chr(10) if progress.ended else self._end}")
        sys.stderr.flush()

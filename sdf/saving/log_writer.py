"""LogWriter: writes the log of a saved run in a thread of its own, at most one entry a second.

The commit of the sinks waits for the log: it calls `flush`. A scheduling decision waits only if the storage is so slow
that `_MOST_WAITING` records wait to be written.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from sdf.saving.run_log import RunLog

__all__ = ["LogWriter"]

_EVERY_SECONDS = 1.0
_MOST_WAITING = 100_000  # records, of some hundred bytes each


class LogWriter:
    """See the module's docstring. Call `close` at the end.

    Args:
        log: the log, read to its end.
        clock: monotonic seconds.

    Attributes:
        seconds: how long writing took.
    """

    def __init__(self, log: RunLog, *, clock: Callable[[], float]) -> None:
        self._log = log
        self._clock = clock
        self._records: list[Any] = []
        self._changed = threading.Condition()
        self._urgent = self._writes = self._closed = False
        self._failure: BaseException | None = None
        self.seconds = 0.0
        self._thread = threading.Thread(target=self._run, name="sdf-log", daemon=True)
        self._thread.start()

    def add(self, *records: Any) -> None:
        """Have records written soon, in the order of the calls; wait while too many of them wait."""
        with self._changed:
            while self._is_full() and self._failure is None:
                self._changed.wait()
            self._records.extend(records)
            self._changed.notify_all()

    def _is_full(self) -> bool:
        return len(self._records) >= _MOST_WAITING

    def check(self) -> None:
        """Raise the error of the thread, if it has failed."""
        if self._failure is not None:
            raise self._failure

    def flush(self) -> None:
        """Wait until all that was added is durable; raise the error if that fails."""
        with self._changed:
            self._urgent = True
            self._changed.notify_all()
            while (self._records or self._writes) and self._failure is None:
                self._changed.wait()
            self._urgent = False
        self.check()

    def close(self) -> None:
        """Write what was added, unless writing has failed, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        wrote_at = self._clock() - _EVERY_SECONDS
        try:
            while (records := self._take(wrote_at)) is not None:
                wrote_at = self._clock()
                self._log.append(records)
                self.seconds += self._clock() - wrote_at
        except BaseException as error:  # handed to the threads that wait
            self._failure = error
        with self._changed:
            self._writes = False
            self._changed.notify_all()

    def _take(self, wrote_at: float) -> list[Any] | None:
        """Wait until an entry is due, and return its records; None at the end."""
        with self._changed:
            self._writes = False
            self._changed.notify_all()
            while not self._records:
                if self._closed:
                    return None
                self._changed.wait()
            while (left := wrote_at + _EVERY_SECONDS - self._clock()) > 0:
                if self._urgent or self._closed or self._is_full():
                    break
                self._changed.wait(left)
            records, self._records, self._writes = self._records, [], True
            self._changed.notify_all()
            return records

"""Saving: the driver's side of a saved run. It replays the log, logs what happens, and commits the sinks."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from sdf.errors import JournalCorruptError, JournalDiskError, JournalError, SdfError, SinkError
from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.execution.work_items import WorkItem
from sdf.quarantine.failures import FailedBlock
from sdf.saving.history import History
from sdf.saving.log_records import Segment, split_record
from sdf.saving.log_writer import LogWriter
from sdf.saving.run_log import RunLog
from sdf.saving.same_elements import difference
from sdf.saving.segments import Targets
from sdf.scheduling.run_state import RunState
from sdf.sinks.sink import Sink, SinkRun, Token

__all__ = ["Saving"]

log = logging.getLogger("sdf.saving")

_PULSE_SECONDS = 10.0


class Saving:
    """See the module's docstring. Call `close` at the end.

    Args:
        run_log: the log, not yet read.
        identity: what the run is made of, as JSON data by what it is called in messages.
        sinks: the sinks, by output, the main one first.
        app: the app of the token if the run is new.
        commit_seconds: how long a segment may last.
        clock: monotonic seconds.
        retry: run again what a run that is done has set aside, and add its records to the result.

    Raises:
        JournalError: if the checkpoint belongs to another run; for a retry, if that is not done.
        JournalFencedError: if another driver begins at the same moment.
        SinkError: if a sink refuses the run.

    Attributes:
        history: what the log says.
        targets: the sinks and the token.
        resumed: whether an earlier driver has begun the run, or the retry.
        over: whether there is nothing to do for this driver: no work, and no commit.
        commit_seconds: how long a segment may last.
        failures: the blocks that were set aside so far.
    """

    def __init__(
        self,
        run_log: RunLog,
        identity: Mapping[str, Any],
        sinks: Sequence[tuple[str, Sink]],
        *,
        app: str,
        driver: str,
        commit_seconds: float,
        clock: Callable[[], float],
        retry: bool = False,
    ) -> None:
        self._log = run_log
        self._clock = clock
        self.history = History(run_log)
        if self.history.aborted:
            self.history.reset()
        self.commit_seconds = commit_seconds
        self._pulse_at = clock()
        self._uncommitted_seconds = self._lost_seconds = 0.0
        if retry and not self.history.done:
            raise JournalError(
                f"there is no run that is done in {run_log.root}, so nothing to retry: save_sdf with "
                f"on_failure=Quarantine() sets blocks aside, and runs to the end. Pass the checkpoint of such a run."
            )
        begins = self.history.app is None or (not self.history.prepared and self.history.identity != identity)
        self.resumed = self.history.retrying if retry else self.history.prepared
        if not begins:
            self.history.check_same(identity)
        self.failures = self.history.failed_blocks(again=retry and self.history.retrying)
        self.over = self.history.done and not (retry and (self.history.retrying or self.failures))
        if begins:
            record = ["begin", app, identity]
        elif retry and not (self.over or self.resumed):
            ended = Token(str(self.history.app), self.history.retries)
            for _, sink in sinks:  # the driver that ended it may have died before it did this
                sink.clean(ended)
            record = self.history.of_retry(driver)
            self.failures = []
        else:
            record = ["driver", driver]
        token = Token(app if begins else str(self.history.app), self.history.retries)
        self.targets = Targets(tuple(sinks), token)
        if not self.over:
            run_log.append([record])
            for name, sink in sinks:
                if self.history.committing and name not in self.history.committed:
                    sink.check_commit(token)
                sink.prepare(SinkRun(token, name, resumed=self.resumed if retry else not begins))
        self._writer = LogWriter(run_log, clock=clock)
        if not (self.history.prepared or self.history.done):
            self._writer.add(["prepared"])
            self._writer.flush()

    # While it runs.

    def note_operations(self, session: str, user: str, tag: str) -> None:
        """Log what this driver is about to run on a Spark Connect server, before it runs there."""
        self._log_now(["operations", session, user, tag])

    def begin(self, work: RunState, expand: Callable[[], Iterable[Expanded]]) -> list[tuple[WorkItem, float]]:
        """Fill the state of the run, from the log or with newly expanded elements.

        Args:
            work: the state of the run, empty.
            expand: expands the elements; called only if they are not all in the log.

        Returns:
            The work items to run, each with the seconds that it must wait.
        """
        if self.history.expanded is None:
            elements = list(expand())
            for record in self.history.of_elements(elements):
                self._writer.add(record)
            todo = [(item, 0.0) for item in work.add(elements)]
            self._writer.flush()
        else:
            now = self._log.now()
            todo = [(item, max(0, due - now) / 1000) for item, due in self.history.replay(work)]
            log.info("%s: %d work items of %d are not committed yet", work.name, len(todo), len(work.ledger))
        work.ledger.on_split = self._split
        return todo

    def _split(self, item_id: int, primary: Any, residuals: Sequence[Residual]) -> None:
        self._writer.add(split_record(item_id, primary, residuals, self._log.now))

    def commit(self, item_ids: Iterable[int], messages: Sequence[Any], records: Sequence[int], seconds: float) -> None:
        """Log a segment: the ledger holds its work items as committed."""
        segment = Segment(tuple(messages), tuple(records), seconds)
        self._writer.add(self.history.of_segment(item_ids, segment))

    def set_aside(self, item: WorkItem, block: FailedBlock) -> None:
        """Log that a work item was set aside: the ledger holds it as done."""
        self._writer.add(["failed", item.id, block.attempts, block.error])
        self.failures.append(block)

    def pulse(self, uncommitted_seconds: float, lost_seconds: float) -> None:
        """Log now and then how much work is not committed; raise if the log cannot be written.

        Args:
            uncommitted_seconds: seconds of work that would be lost if this driver died now.
            lost_seconds: those that were lost with workers since it began.
        """
        self._writer.check()
        self._uncommitted_seconds, self._lost_seconds = uncommitted_seconds, lost_seconds
        if self._clock() - self._pulse_at >= _PULSE_SECONDS:
            self._pulse_at = self._clock()
            self._writer.add(self._running())

    def _running(self) -> list[Any]:
        return ["running", round(self._uncommitted_seconds + self._lost_seconds, 1)]

    def check_alone(self) -> None:
        """Raise JournalFencedError if another driver has taken over: that may be why the work of this one fails."""
        with suppress(JournalDiskError):
            self._log_now(self._running())

    # At the end.

    def finish(self) -> None:
        """Make the results visible, now that all is committed and proven; then remove what no message names.

        Raises:
            SinkError: if a sink cannot commit; the same call then commits again.
            JournalError: if another driver has taken over, or the log does not hold what was committed before.
        """
        history, token = self.history, self.targets.token
        outputs = [name for name, _ in self.targets.sinks]
        digest = history.of_messages()
        if history.committing is None:
            self._uncommitted_seconds = 0.0
            self._writer.add(self._running())
            self._log_now(["committing", digest])
        elif history.committing != digest:
            raise JournalCorruptError(
                f"{self._log.root}: the messages in the log are not those that an earlier driver began to commit. "
                f"Restore the checkpoint from a copy."
            )
        for name, sink in reversed(self.targets.sinks):  # the main output last
            if name not in history.committed:
                self._committed(name, sink, history.messages(outputs.index(name)), token)
        self._log_now(["done"])
        history.retrying = False
        self.clean()

    def _committed(self, name: str, sink: Sink, messages: list[Any], token: Token) -> None:
        try:
            sink.commit(messages, token)
        except Exception as error:
            self._log_now(self._running())  # says so if another driver is at it, which may be the cause
            if isinstance(error, SdfError):
                raise
            raise SinkError(
                f"{type(sink).__name__}.commit() of output {name!r} raised {type(error).__name__}: {error}. All "
                f"records are written and logged: make the same call again, which only commits."
            ) from error
        self._log_now(["committed", name])

    def _log_now(self, record: list[Any]) -> None:
        self._writer.add(record)
        self._writer.flush()

    def clean(self) -> None:
        """Remove what the sinks keep for a run that is done; not while a retry is at it."""
        if self.history.retrying:
            return
        for _, sink in self.targets.sinks:
            sink.clean(self.targets.token)

    @property
    def repeated_seconds(self) -> float:
        """About how many seconds of work were lost before they were committed, with drivers or with workers."""
        return self.history.lost_seconds + self._lost_seconds

    @property
    def log_seconds(self) -> float:
        """How long writing the log has taken."""
        return self._writer.seconds

    def close(self) -> None:
        """Write what waits for the log, and end its thread."""
        self._writer.close()

    def check_same_elements(self, elements: Sequence[Any]) -> None:
        """Raise JournalError unless these are the elements of the run, which is done."""
        found = difference(self.history.elements(), elements)
        if found is not None:
            before, now = found
            raise JournalError(
                f"the checkpoint in {self._log.root} belongs to a run over other elements: it had {before}, this call "
                f"has {now}. That run is done, and its results stay; use another checkpoint for another run."
            )

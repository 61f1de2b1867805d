"""The history of a saved run: what the log holds of the ledger, and how a new driver takes it up.

The log holds the elements with their work items, every split, and every commit of a segment; assignments, steals and
stages are not in it. So what is committed stays committed, and all else belongs to nobody again, and is run again. For
the numbers of the work items see `sdf.saving.parts`; for the records, `sdf.saving.log_records`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from sdf.errors import JournalError, SdfError, show, show_both
from sdf.execution.bulk.table import Table
from sdf.execution.expansion import Expanded
from sdf.execution.work import work_of
from sdf.execution.work_items import WorkItem, units
from sdf.journal.chain import canonical, sha256
from sdf.journal.pending import from_data
from sdf.quarantine.failures import FailedBlock
from sdf.saving.log_records import Segment, commit_record, element_line, restriction_of
from sdf.saving.parts import Part, Parts
from sdf.saving.run_log import RunLog, damaged
from sdf.scheduling.run_state import RunState, collecting_nothing

__all__ = ["History"]

_TOGETHER = 50_000  # elements in one blob
_BEFORE = "an earlier driver"  # owns in the ledger what was committed before this driver began


class History:
    """What the log of a saved run says. It reads the log, and makes records for it; it does not write them.

    Args:
        log: the log, not yet read.

    Attributes:
        app: the app of the run's token; None if the log is empty.
        identity: what the run is made of.
        prepared: whether the sinks have accepted the run.
        blobs: the blobs that hold the elements.
        former_blobs: those of runs that were given up; the log names them.
        expanded: number of elements and tables of elements, None if they are not all in the log.
        segments: number of committed segments.
        records: number of committed records of each output, the main one first.
        seconds: seconds that the committed segments took.
        committing: the hash of the messages that are being committed, None before.
        committed: the outputs whose sinks have committed.
        done: whether the run has ended: its results are visible.
        retries: how often what was set aside was begun to run again; the version of the token.
        retrying: whether the last of these has not ended.
        aborted: whether the run was given up.
        drivers: how many drivers have worked on the run.
        operations: what its drivers have run on Spark Connect servers: session, user and tag.
        lost_seconds: seconds of work that were lost, as its drivers were last heard of.
    """

    def __init__(self, log: RunLog) -> None:
        self._log = log
        self.blobs: list[Any] = []
        self.former_blobs: list[Any] = []
        self.reset()
        with collecting_nothing():
            for record in log.read():
                self._enter(record)
        self.lost_seconds += self._running

    def reset(self) -> None:
        """Forget all, as of a run that was given up: another one begins."""
        self._parts = Parts()
        self._elements: list[tuple[Any, Any, str | None]] = []  # element, initial restriction and note, as in the log
        self._messages: list[bytes] = []  # of each segment, as JSON, since there may be a million
        self.former_blobs += self.blobs
        self.blobs = []
        self.app: str | None = None
        self.identity: Mapping[str, Any] = {}
        self.expanded: int | None = None
        self.segments = 0
        self.records: tuple[int, ...] = ()
        self.seconds = 0.0
        self.committing: str | None = None
        self.committed: set[str] = set()
        self.done = False
        self.retries = 0
        self.retrying = False
        self._added = 0  # the segments before this one are visible
        self.aborted = False
        self.drivers = 0
        self.prepared = False
        self.operations: list[tuple[str, str, str]] = []
        self.lost_seconds = self._running = 0.0

    def _enter(self, record: Any) -> None:
        try:
            kind, *values = record
            if kind == "begin":
                self.reset()
                self.app, self.identity = values
                self.drivers = 1
            elif kind == "prepared":
                self.prepared = True
            elif kind == "driver":
                self._take_over()
            elif kind == "retry":
                self._retry()
                if not self.done or values[0] != self.retries:
                    raise ValueError("no such retry can begin here")
            elif kind == "operations":
                session, user, tag = values
                self.operations.append((session, user, tag))
            elif kind == "elements":
                self.blobs += values
            elif kind == "expanded":
                self._expand(*values)
            elif kind == "split":
                self._parts.split(*values)
            elif kind == "commit":
                ranges, messages, records, seconds = values
                self._parts.commit(ranges)
                self._count(Segment(messages, records, seconds))
            elif kind == "failed":
                self._parts.set_aside(*values)
            elif kind == "running":
                (self._running,) = values
            elif kind == "committing":
                (self.committing,) = values
            elif kind == "committed":
                self.committed.add(*values)
            elif kind == "done":
                self.done, self.retrying = True, False
            elif kind == "aborted":
                self.aborted = True
            else:
                raise ValueError(f"it does not know {show(kind)}")
        except (ValueError, TypeError, LookupError) as error:
            raise damaged(self._log.root, f"the log holds {show(record)}, which cannot be: {error}") from error

    def _take_over(self, *, retry: bool = False) -> None:
        self.drivers += 1
        self.lost_seconds, self._running = self.lost_seconds + self._running, 0.0
        self.blobs = self.blobs if self.expanded else []  # else the driver before had not expanded all
        self._parts = self._parts.renumbered(retry=retry)

    def _retry(self) -> None:
        self._take_over(retry=True)
        self.retries += 1
        self.retrying = True
        self.committing, self.committed = None, set()
        self._added = len(self._messages)

    def _expand(self, count: int) -> None:
        for element, whole, pieces, note in self._stored_elements():
            self._elements.append((element, pieces[0][0] if whole is None else whole, note))
            self._parts.add_element(pieces)
        if count != len(self._elements):
            raise ValueError(f"it should have {count} elements, it has {len(self._elements)}")
        self.expanded = count

    def _count(self, segment: Segment) -> None:
        self._messages.append(canonical(segment.messages))
        self.segments += 1
        self.records = tuple(map(sum, zip(segment.records, self.records or [0] * len(segment.records), strict=True)))
        self.seconds += segment.seconds

    def check_same(self, identity: Mapping[str, Any]) -> None:
        """Raise JournalError, naming the difference, unless the log belongs to the run with this identity."""
        for name, value in identity.items():
            before = self.identity.get(name)
            if json.dumps(before, sort_keys=True) != json.dumps(value, sort_keys=True):  # 1, 1.0 and True differ
                was, now = show_both(before, value)
                raise JournalError(
                    f"the checkpoint in {self._log.root} belongs to another run: it was begun with {name} "
                    f"{was}, this call has {now}. Make the same call, or use another checkpoint"
                    f"{'.' if self.done else '; or give that run up with abort_save.'}"
                )

    def elements(self) -> Iterator[Any]:
        """Yield the elements of the run, once they are all in the log; those of a table after one another."""
        for element in self._entries():
            if type(element) is Table:
                yield from element.elements(element.whole())
            else:
                yield element

    def _entries(self) -> Iterator[Any]:
        """Yield the elements of the log, and the tables of elements."""
        return (from_data(element) for element, _, _, _ in self._stored_elements())

    def _stored_elements(self) -> Iterator[Any]:
        for blob in self.blobs:
            for line in zlib.decompress(self._log.get(blob)).splitlines():
                yield json.loads(line)

    def failed_blocks(self, *, again: bool = False) -> list[FailedBlock]:
        """Return the blocks that were set aside; call this before `replay`.

        Those that are being tried again, and are not committed yet, are among them, unless ``again``: then only those
        that have failed again.
        """
        if not self._parts.some_failed:
            return []
        return [
            FailedBlock(*work_of(element, restriction_of(part.data)).named(), failed[1], failed[0])
            for element, parts in zip(self._entries(), self._parts.elements(), strict=True)
            for part in parts
            if (failed := part.failed if again else part.failed or part.retried) is not None
        ]

    def replay(self, work: RunState) -> list[tuple[WorkItem, int]]:
        """Enter all of the history into the state of a new run.

        Returns:
            The work items that are neither committed nor set aside, each with the time from which it may run, in
            milliseconds since the epoch; 0 for at once.

        Raises:
            JournalCorruptError: if the history does not add up.
        """
        todo: list[tuple[WorkItem, int]] = []
        try:
            with collecting_nothing():
                for (element, whole, note), parts in zip(self._elements, self._parts.elements(), strict=True):
                    restrictions = [(restriction_of(part.data), part.size, _watermark(part)) for part in parts]
                    untouched = len(parts) == 1 and parts[0].data == (tuple(whole) if type(whole) is list else whole)
                    one = restrictions[0][0] if untouched else restriction_of(whole)
                    items = work.restore(from_data(element), one, restrictions, note)
                    done = [item for item, part in zip(items, parts, strict=True) if part.committed]
                    work.ledger.assign(_BEFORE, done)
                    aside = [item for item, part in zip(items, parts, strict=True) if part.failed is not None]
                    for item in aside:
                        work.set_aside(item)
                    work.done_before += sum(map(units, [*done, *aside]))
                    todo += [
                        (item, part.due)
                        for item, part in zip(items, parts, strict=True)
                        if not part.committed and part.failed is None
                    ]
                work.ledger.seal(_BEFORE, _BEFORE)
        except (SdfError, LookupError, ValueError, TypeError) as error:
            raise damaged(self._log.root, f"the log does not add up: {error}") from error
        self._elements, self._parts = [], Parts()  # the ledger has them now
        return todo

    def messages(self, output: int, *, added: bool = False) -> list[Any]:
        """Return the messages of one output's sink, in the order of the commits.

        Those of this commit; with ``added`` also those that earlier ones, before a retry, have made visible.
        """
        found = (json.loads(messages)[output] for messages in self._messages[0 if added else self._added :])
        return [message for message in found if message is not None]

    # What goes into the log.

    def of_elements(self, elements: Iterable[Expanded]) -> Iterator[list[Any]]:
        """Store elements and enter them; yield the records for the log."""
        count = 0
        lines = map(element_line, elements)
        while together := list(islice(lines, _TOGETHER)):
            count += len(together)
            self.blobs.append(self._log.put(zlib.compress(b"\n".join(together), 1)))
            yield ["elements", self.blobs[-1]]
        self.expanded = count
        yield ["expanded", count]

    def of_segment(self, item_ids: Iterable[int], segment: Segment) -> list[Any]:
        """Enter a committed segment; return its record."""
        self._count(segment)
        return commit_record(item_ids, segment)

    def of_retry(self, driver: str) -> list[Any]:
        """Open again what was set aside; return the record for it."""
        self._retry()
        return ["retry", self.retries, driver]

    def of_messages(self) -> str:
        """Return the hash of the messages to commit."""
        return sha256(b"\n".join(self._messages[self._added :]))


def _watermark(part: Part) -> Any:
    return None if part.watermark is None else from_data(part.watermark)

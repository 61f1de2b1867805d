"""TableInvoker: runs rows of a table one after the other, with the interface of an `Invoker`.

The thread of `process` takes one row after the other under a lock. A split takes the same lock, so it sees which row
runs. It cuts behind this row, between two rows, if that is about where it should cut. It cuts inside the row if the row
is much of what is left, or has run for long; then the row's rest is a residual of its own, and so are the rows behind.
`process` may defer the rest of a row. That ends the run of the rows, too.

Each row is checked as every work item is. If the DoFn has a tracker or a watermark estimator of its own, a row has an
`Invoker` of its own. Otherwise one is used again for all rows (`PlainRow`), with a new tracker for each: the checks of
a row that does nothing unusual then cost less than a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from itertools import accumulate, chain
from threading import Lock
from typing import Any

import attrs

from sdf.errors import SdfError
from sdf.execution.bulk.plain_row import PlainRow
from sdf.execution.bulk.table import Rows, Table, nearest
from sdf.execution.expansion import keeps_default
from sdf.execution.invoker import Invoker, Residual
from sdf.execution.output_count import OutputCount
from sdf.model.dofn import DoFn
from sdf.model.forks import alone
from sdf.model.trackers import Progress

__all__ = ["DearRow", "TableInvoker"]

_MUCH = 4  # a row with one such part of what is left, or more, is cut inside
_LONG_SECONDS = 0.05  # so is a row that was seen to run for so long


@attrs.frozen
class DearRow:
    """A row that was seen to run for long: when it was seen first, for how long, and for how long without a claim."""

    row: int
    since: float
    seconds: float
    opening_seconds: float
    units: float


class TableInvoker:
    """One attempt at some rows of a table. Call `outputs` once; call `split` and `progress` from any thread.

    Args:
        fn: the DoFn, set up.
        table: the table.
        rows: the part of its work to do.
        side_inputs, late_below: as of `Invoker`.
        watermark: state of a watermark estimator to go on from, in the first row; or None.
        on_claim: as of `Invoker`; the position is a row and the position in it.
    """

    def __init__(
        self,
        fn: DoFn,
        table: Table,
        rows: Rows,
        *,
        side_inputs: Mapping[str, Any] | None = None,
        watermark: Any = None,
        late_below: Any = None,
        on_claim: Callable[[int, Any], None] | None = None,
    ) -> None:
        self._fn = fn
        self._table = table
        self._rows = rows
        self._side_inputs = side_inputs or {}
        self._watermark = watermark
        self._late_below = late_below
        self._on_claim = on_claim
        self._lock = Lock()
        self._stop = rows.stop
        self._behind: list[Residual] = []  # cut off behind the row that ran then
        self._row = rows.first - 1  # the row that runs, or ran last
        self._running: Invoker | None = None  # of that row
        self._opened: Invoker | None = None  # of the first row
        self._records = self._late = 0  # of the rows before it; not if all rows are plain
        self._count = OutputCount()  # of all plain rows
        self._done: list[Any] | None = None  # by row, the size of the rows before it
        self._claimed: tuple[int, Any] = -1, None
        self._seen = -1, 0.0, 0.0  # a row that was seen to run; first and last time
        self._opening_seconds = 0.0  # of that row: the observed time before its first claim
        self._dear: list[DearRow] = []
        default = keeps_default(fn, "create_tracker", "create_watermark_estimator")
        self._plain = on_claim is None and default and not table.carries

    # The thread of `process`.

    @contextmanager
    def outputs(self) -> Iterator[Iterable[Any]]:
        """Return a context manager that gives the outputs; see `Invoker.outputs`. Errors name the element of a row."""
        try:
            with alone(stop=self._stop_forked):
                if self._plain:
                    yield self._count.counted(chain.from_iterable(self._run_plain()))
                else:
                    yield chain.from_iterable(self._run_each())
        except (Exception, SystemExit):
            if self._running is None:
                raise
            with self._running._blame("process"):
                raise

    def named(self, error: BaseException) -> SdfError | None:
        """Return the error to raise in place of one of `process`; see `Invoker.named`. None if no row runs."""
        return None if self._running is None else self._running.named(error)

    def _stop_forked(self) -> None:
        """See `Invoker.stop_forked`."""
        self._lock._at_fork_reinit()  # type: ignore[attr-defined]
        self._stop = min(self._stop, (self._row + 1, 0))
        if self._running is not None:
            self._running.stop_forked()

    def _run_each(self) -> Iterator[Iterable[Any]]:
        for element, restriction in self._table.work(self._rows):
            if not self._next():
                return
            running = Invoker(
                self._fn,
                element,
                restriction,
                side_inputs=self._side_inputs,
                watermark=self._watermark if self._row == self._rows.first else None,
                late_below=self._late_below,
                on_claim=self._observer(),
            )
            with self._lock:
                self._running = running
                self._opened = self._opened or running
            with running.outputs() as outputs:
                yield outputs
            with self._lock:
                self._settle(running)

    def _observer(self) -> Callable[[int, Any], None] | None:
        on_claim, row = self._on_claim, self._row
        return None if on_claim is None else lambda claims, position: on_claim(claims, (row, position))

    def _run_plain(self) -> Iterator[Iterable[Any]]:
        process, side_inputs, lock, rows = self._fn.process, self._side_inputs, self._lock, self._rows
        starts, stops = self._table.bounds(rows)
        self._opened = running = PlainRow(self._fn, self._count.shared())
        for element, start, stop in zip(self._table.elements(rows), starts, stops, strict=True):
            with lock:
                running.close()
                self._settle(running)
                row = self._row + 1
                if (row, 0) >= self._stop:
                    return
                self._row, self._running = row, running
                seen = running.arm(element, start, stop)
            try:
                outputs = process(element, seen, **side_inputs)
            except StopIteration:  # leaving this generator, it would become a RuntimeError
                with running._blame("process"):
                    raise
            yield running.returned(outputs)
        with lock:
            running.close()
            self._settle(running)

    def _next(self) -> bool:
        """Go to the next row; return False if there is none."""
        with self._lock:
            if (self._row + 1, 0) >= self._stop:
                return False
            if self._running is not None:
                self._records += self._running.records
                self._late += self._running.late
            self._row, self._running = self._row + 1, None
            return True

    def _settle(self, running: Invoker) -> None:
        """If a row was cut inside, or deferred, cut off the rows behind it; the lock is held."""
        behind = (self._row + 1, 0)
        if running.residuals and behind < self._stop:
            self._behind.append(Residual(Rows(behind, self._stop)))
            self._stop = behind

    # Any thread.

    @property
    def residuals(self) -> list[Residual]:
        """Return the residuals in the order of the cuts, which is the reverse order of their work."""
        running = self._running
        inside = [] if running is None else running.residuals
        rows_of = self._table.rows_of
        return [*self._behind, *(attrs.evolve(one, restriction=rows_of(self._row, one.restriction)) for one in inside)]

    @property
    def primary(self) -> Rows | None:
        """Return the part that this attempt owns; None if that is nothing."""
        running = self._running
        if running is None or not running.residuals:
            return Rows(self._rows.start, self._stop)
        kept = running.primary
        stop = (self._row, 0) if kept is None else self._table.rows_of(self._row, kept).stop
        if kept is None and self._row == self._rows.first:
            return None
        return Rows(self._rows.start, stop)

    def parts(self) -> tuple[Rows | None, tuple[Residual, ...]]:
        """Return primary and residuals, both as of one moment: no split comes in between."""
        with self._lock:
            if self._running is not None:
                self._settle(self._running)
            return self.primary, tuple(self.residuals)

    @property
    def started(self) -> bool:
        """Return whether `process` has made a claim, or has come to another row."""
        running = self._running
        return self._row > self._rows.first or (running is not None and running.started)

    @property
    def begun(self) -> int:
        """How many rows have begun."""
        return self._row - self._rows.first + 1

    @property
    def first(self) -> tuple[Any, ...] | None:
        """The position of the first claim in the first row; see `Invoker.first`."""
        first = None if self._opened is None else self._opened.first
        return ((self._rows.first, *first),) if first else first

    @property
    def last_claimed(self) -> tuple[int, Any] | None:
        """Return the row that runs and the position of its last claim, the same object as long as both are the same."""
        running, row = self._running, self._row
        position = None if running is None else running.last_claimed
        if row < self._rows.first:
            return None
        if self._claimed[0] != row or self._claimed[1] is not position:
            self._claimed = row, position
        return self._claimed

    def placed(self, position: tuple[int, Any]) -> tuple[int, Any]:
        """See `Invoker.placed`."""
        return position

    @property
    def records(self) -> int:
        """Return how many outputs `process` has given so far."""
        if self._plain:
            return self._count.records
        return self._records + (0 if self._running is None else self._running.records)

    @property
    def late(self) -> int:
        """Return how many records were late so far."""
        return self._late + (0 if self._running is None else self._running.late)

    def progress(self) -> Progress:
        """Return the work done and left, in the unit of the rows' sizes."""
        with self._lock:
            at, end, _ = self._where()
            return Progress(at, max(0, end - at))

    def _where(self) -> tuple[Any, Any, Any]:
        """Return the sizes of what lies before this moment, the stop, and the end of the row; the lock is held."""
        rows, done = self._rows, self._done
        if done is None:
            lengths = self._table.lengths(rows.first, rows.end)
            for row in {rows.first, rows.end - 1} if lengths else ():
                lengths[row - rows.first] = self._share(row, *self._table.span_of(row, rows))
            done = self._done = list(accumulate(lengths, initial=0))
        end = done[self._stop[0] - rows.first + (self._stop[1] > 0)]
        at = self._row - rows.first
        if at < 0:
            return 0, end, 0
        if self._running is None:
            return done[at], end, done[at + 1]
        if self._running.residuals:
            kept = self._running.primary
            end = done[at] + (0 if kept is None else self._share(self._row, kept.start, kept.stop))
        progress = self._running.progress()
        if self._table.sizes is None and not self._running.residuals:
            return done[at] + progress.completed, end, done[at + 1]
        left = progress.remaining
        share = progress.completed / (progress.completed + left) if left is not None and left > 0 else 1.0
        row_end = min(end, done[at + 1])
        return done[at] + (row_end - done[at]) * share, end, row_end

    def _share(self, row: int, start: int, stop: int) -> Any:
        """Return the size of a part of a row; if sizes are not lengths, its share of the row's."""
        (size,), at = self._table.lengths(row, row + 1), row - self._table.first
        full, length = self._table.stops[at] - self._table.starts[at], stop - start
        return length if self._table.sizes is None else size * length / full if full else size

    def note(self, now: float) -> None:
        """Note which row runs; called often."""
        row, since, _ = self._seen
        if row != self._row:
            self._note_dear()
            row, since = self._row, now
        running = self._running
        if running is None or not running.started:
            self._opening_seconds = now - since
        self._seen = row, since, now

    def dear_rows(self) -> list[DearRow]:
        """Return the rows that were seen to run for long; call it after the end."""
        self._note_dear()
        self._seen = -1, 0.0, 0.0
        return self._dear

    def _note_dear(self) -> None:
        row, since, until = self._seen
        if row >= self._rows.first and until - since >= _LONG_SECONDS:
            size = float(*self._table.lengths(row, row + 1))
            self._dear.append(DearRow(row, since, until - since, self._opening_seconds, size))
        self._opening_seconds = 0.0

    def split(self, fraction_of_remainder: float | Fraction) -> Residual | None:
        """Cut off about the end of what is not done; 0 makes the run end soon. Thread-safe.

        Returns:
            The last residual; None if it cannot be split now, as `Invoker.split`.
        """
        with self._lock:
            running, rows = self._running, self._rows
            if self._row < rows.first or not (self.started or self._row + 1 < self._last_row()):
                return None
            at, end, row_end = self._where()
            target = at + float(fraction_of_remainder) * (end - at)
            alone = (self._row + 1, 0) >= self._stop
            if running is not None and target <= row_end and (alone or self._is_worth(at, end, row_end)):
                left = row_end - at
                inner = (target - at) / left if not alone and left > 0 else fraction_of_remainder
                if running.split(min(1.0, inner) if isinstance(inner, float) else inner) is not None:
                    self._settle(running)
                    return self.residuals[-1]
            return None if alone else self._cut_behind(target)

    def _last_row(self) -> int:
        return self._stop[0] + (self._stop[1] > 0)

    def _is_worth(self, at: Any, end: Any, row_end: Any) -> bool:
        row, since, until = self._seen
        return (row_end - at) * _MUCH >= end - at or (row == self._row and until - since >= _LONG_SECONDS)

    def _cut_behind(self, target: float) -> Residual | None:
        assert self._done is not None
        first = self._rows.first
        row = first + nearest(self._done, target)
        row = min(max(row, self._row + 1), self._last_row() - 1)
        self._behind.append(Residual(Rows((row, 0), self._stop)))
        self._stop = (row, 0)
        return self._behind[-1]

"""Runs one work item until it is done, split or deferred, and enforces the contract of `process`.

One thread iterates `Invoker.run`, which runs `process`. Any other thread may call `Invoker.split` and
`Invoker.progress` meanwhile. A runner stops a work item by a split at 0: then the next claim of `process` is refused.
So a claim need not check a stop flag: for the built-in trackers the ``try_claim`` that `process` calls is the tracker's
own method. Per output record the invoker costs one step of a generator.

An `OutputCount` finds outputs before the first claim and after a refused one. If the caller passes ``on_claim``, as
`run_direct` and `check_dofn` do, each output is checked, and the error message shows it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from numbers import Real
from threading import Lock
from typing import Any

import attrs

from sdf.errors import ClaimError, InvalidTypeError, OutputError, SdfError, SplitError, blame, show
from sdf.execution.output_count import RETURN_OR_COMBINE, OutputCount
from sdf.execution.tracker_views import LockedTracker, sides, tracker_of
from sdf.model.dofn import DoFn
from sdf.model.forks import alone
from sdf.model.restrictions import tiling_flaw
from sdf.model.trackers import Progress, as_delay, as_pair

__all__ = ["Invoker", "Residual"]


@attrs.frozen
class Residual:
    """Work that was cut off or deferred, to be run as a work item of its own.

    Attributes:
        restriction: the remaining work.
        delay_seconds: delay that `process` asked for; 0 if a runner split it off.
        watermark: the state of the watermark estimator from before the split, or None.
        deferred: whether `process` deferred it; otherwise a runner split it off.
    """

    restriction: Any
    delay_seconds: float = 0
    watermark: Any = None
    deferred: bool = False


class Invoker:
    """One attempt at one work item. Call `run` once; call `split` and `progress` from any thread.

    Args:
        fn: the DoFn, set up.
        element: the input.
        restriction: the part of its work to do.
        side_inputs: keyword arguments for `process`.
        watermark: state of a watermark estimator to go on from, or None.
        late_below: as of `WatermarkEstimator`.
        on_claim: called in the thread of `process` after each successful claim, with the number of claims so far and
            the position. With it each output is checked too, which costs time per record.

    Attributes:
        residuals: the residuals in the order of the cuts, which is the reverse order of their work.
        begun: of how many elements it has begun the work.
        first: the position of the first claim, in a tuple; that is empty if the first claim was refused, as no block
            starts in the restriction. None before.
    """

    begun = 1

    def __init__(
        self,
        fn: DoFn,
        element: Any,
        restriction: Any,
        *,
        side_inputs: Mapping[str, Any] | None = None,
        watermark: Any = None,
        late_below: Any = None,
        on_claim: Callable[[int, Any], None] | None = None,
    ) -> None:
        self._fn = fn
        self._element = element
        self._restriction = restriction
        self._side_inputs = side_inputs or {}
        self._on_claim = on_claim
        self._claims = 0
        self.residuals: list[Residual] = []
        self.first: tuple[Any, ...] | None = None
        self._nothing_claimed = False
        self._finished = False
        self._stopped = False  # by a runner's split at 0: all unclaimed work is the last residual
        self._failure: Exception | None = None
        self._count = OutputCount()
        self._refused_to_claims = False  # claims() met the end, and gave nothing that was refused
        self._rest_is_others = False  # at a block, not at the end of all blocks
        self._split_lock = Lock()
        with self._blame("create_tracker"):
            tracker = tracker_of(fn, element, restriction)
            self._tracker, seen = sides(tracker, self._at_edge, self._note_failure)
        with self._blame("create_watermark_estimator"):
            self._watermark = fn.create_watermark_estimator(element, restriction)
            if self._watermark is not None and watermark is not None:
                self._watermark.restore(watermark)
            if self._watermark is not None and late_below is not None:
                self._watermark.late_below = late_below
        seen.defer_remainder = self._defer
        seen.watermark = self._watermark
        if on_claim is not None:
            seen.try_claim = self._observed_claim
            if hasattr(seen, "try_return_record_at"):
                seen.try_return_record_at = self._observed_record
        self._seen = seen

    def run(self) -> Iterator[Any]:
        """Yield the outputs of `process`; raise at the end unless all work was claimed, split off or deferred.

        Raises:
            ContractError: one of its subclasses, with the DoFn, element and restriction.
            ProcessError: if `process` itself raised; the original exception is its cause.
        """
        with self.outputs() as outputs:
            yield from outputs

    @contextmanager
    def outputs(self) -> Iterator[Iterable[Any]]:
        """Return a context manager that gives the outputs that `run` yields, without its generator step per record.

        Leave it when the outputs have ended; it raises the same errors as `run`.
        """
        with self._blame("process"), alone(stop=self.stop_forked):
            outputs = self._fn.process(self._element, self._seen, **self._side_inputs)
            outputs = self._as_outputs(outputs)
            if self._on_claim is not None and isinstance(outputs, Iterator):
                outputs = self._checked(outputs)
            yield self._count.counted(outputs)
            with self._split_lock:
                self._finished = True
                if self._failure is not None:
                    raise self._failure
            self._count.check(self._tracker.last_claimed)
            if not self._nothing_claimed:
                self._tracker.check_done()

    def stop_forked(self) -> None:
        """In a forked process: refuse all claims from now on, without a lock that a thread of the parent holds."""
        self._split_lock = Lock()
        if isinstance(self._tracker, LockedTracker):
            self._tracker._lock, self._tracker.refused = Lock(), True
        else:
            self._seen._lock = Lock()
            self._tracker.try_split(0)

    @staticmethod
    def _as_outputs(outputs: Any) -> Iterable[Any]:
        if outputs is None:
            return ()
        if isinstance(outputs, (str, bytes, dict)) or not isinstance(outputs, Iterable):
            raise InvalidTypeError(f"it must yield records or return an iterable of them (got {show(outputs)})")
        return outputs

    @property
    def primary(self) -> Any:
        """Return the part that this attempt owns; None if all work was deferred before any claim."""
        return None if self._nothing_claimed else self._tracker.current_restriction()

    def parts(self) -> tuple[Any, tuple[Residual, ...]]:
        """Return primary and residuals, both as of one moment: no split comes in between."""
        with self._split_lock:
            return self.primary, tuple(self.residuals)

    @property
    def started(self) -> bool:
        """Return whether `process` has made a claim."""
        return bool(self._tracker.started)

    @property
    def last_claimed(self) -> Any:
        """Return the position of the last claim, refused or not; None before the first, or if the tracker has none."""
        return self._tracker.last_claimed

    def placed(self, position: Any) -> tuple[int, Any]:
        """Return the row of a position that was claimed last, -1 for an element by itself, and the position there."""
        return -1, position

    def note(self, now: float) -> None:
        """Note the time; called often. Only rows of a table are told apart by it."""

    def dear_rows(self) -> list[Any]:
        """Return the rows of a table that ran for long: an element by itself has none."""
        return []

    def progress(self) -> Progress:
        """Return the work done and left of the current restriction."""
        with self._blame("progress"):
            progress = self._tracker.progress()
            if not isinstance(progress, Progress):
                raise InvalidTypeError(f"it must return a Progress(completed, remaining) (got {show(progress)})")
            done: Any = progress.completed
            left: Any = 0 if progress.remaining is None else progress.remaining
            integers = type(done) is int and type(left) is int  # the usual case: isinstance() with Real is slow
            if not integers and not (isinstance(done, Real) and isinstance(left, Real)):
                raise InvalidTypeError(
                    f"Progress(completed, remaining) holds numbers; only remaining may be None (got {show(progress)})"
                )
            return progress

    def split(self, fraction_of_remainder: float | Fraction) -> Residual | None:
        """Cut off the end of what is unclaimed; 0 makes `process` stop at its next claim. Thread-safe.

        Returns:
            The residual, or None if the work item cannot be split now: it has claimed nothing yet, has ended, has too
            little left, or the tracker declines.

        Raises:
            SplitError: if the two parts do not tile what was split. `run` raises it too, at its end.
        """
        with self._split_lock:
            if self._finished or not self._tracker.started:
                return None
            state = None if self._watermark is None else self._watermark.state()
            try:
                with self._blame("try_split"):
                    rest = self._cut(lambda: self._tracker.try_split(fraction_of_remainder), Residual(None, 0, state))
                self._stopped = self._stopped or (rest is not None and fraction_of_remainder == 0)
                return rest
            except Exception as error:
                self._note_failure(error)
                raise

    def _note_failure(self, error: Exception) -> None:
        """Keep an error that `process` may swallow or never sees; the first one is raised at the end."""
        if self._failure is None:
            self._failure = error

    def _cut(self, cut: Callable[[], Any], template: Residual) -> Residual | None:
        before = self._tracker.current_restriction()
        pair = as_pair(cut())
        if pair is None:
            return None
        primary, residual = pair
        for first in (primary, self._tracker.current_restriction()):
            flaw = tiling_flaw(before, (first, residual), self._size)
            if flaw is not None:
                raise SplitError(
                    f"after try_split() the primary {show(first)} and the residual {show(residual)} are not what was "
                    f"split, {show(before)}: {flaw}"
                )
        cut_off = attrs.evolve(template, restriction=residual)
        self.residuals.append(cut_off)
        return cut_off

    def _defer(self, delay_seconds: float = 0) -> None:
        """Implement ``tracker.defer_remainder``; runs in the thread of `process`."""
        try:
            self._defer_rest(as_delay(delay_seconds))
        except Exception as error:
            self._note_failure(error)
            raise

    def _defer_rest(self, delay_seconds: float) -> None:
        with self._split_lock:
            state = None if self._watermark is None else self._watermark.state()
            template = Residual(None, delay_seconds, state, deferred=True)
            if self._tracker.started:
                cut_off = None
                if not self._rest_is_others:
                    cut_off = self._cut(lambda: self._deferred_pair(delay_seconds), template)
                if cut_off is None and self._stopped:  # the runner has just cut off the same work
                    rest = self.residuals[-1]
                    delay_seconds = max(rest.delay_seconds, delay_seconds)
                    self.residuals[-1] = attrs.evolve(rest, delay_seconds=delay_seconds, deferred=True)
            elif not self._nothing_claimed and not self._is_done():
                # Nothing was claimed: defer the whole restriction, as the tracker may refuse to split it.
                if isinstance(self._tracker, LockedTracker):
                    self._tracker.refused = True
                else:
                    self._tracker.try_split(0)  # so that claims are refused from now on
                self._nothing_claimed = True
                self.residuals.append(attrs.evolve(template, restriction=self._restriction))

    def _is_done(self) -> bool:
        try:
            self._tracker.check_done()
        except (AttributeError, NameError):  # no answer, but a bug of the tracker
            raise
        except Exception:  # raising is how a tracker says no
            return False
        return True

    def _deferred_pair(self, delay_seconds: float) -> Any:
        residual = self._tracker.defer_remainder(delay_seconds)
        return None if residual is None else (self._tracker.current_restriction(), residual)

    def _observed_claim(self, position: Any) -> bool:
        if self._nothing_claimed:
            error = ClaimError("try_claim() after defer_remainder(). Return from process() after deferring.")
            self._note_failure(error)
            raise error
        claimed = bool(self._tracker.try_claim(position))
        if claimed:
            self._claims += 1
            assert self._on_claim is not None
            self._on_claim(self._claims, position)
        return claimed

    def _observed_record(self, is_at_split_point: bool, record_start: Any) -> bool:
        if is_at_split_point:
            return bool(self._seen.try_claim(record_start))  # refused while claims() is in use
        return bool(self._tracker.try_return_record_at(False, record_start))

    @property
    def records(self) -> int:
        """Return how many outputs `process` has given so far."""
        return self._count.records

    @property
    def late(self) -> int:
        """Return how many records were late so far, as of `WatermarkEstimator`."""
        return 0 if self._watermark is None else self._watermark.late

    def _at_edge(self) -> None:
        """Check or note the number of outputs; the tracker calls this at the first claim and at a refused one.

        Raises:
            OutputError: for an output before the first claim; `run` raises it too, in case `process` catches it.
        """
        if self.first is None:
            self._note_first()
        if self._tracker.refused and self._seen.delivering:
            self._refused_to_claims, self._rest_is_others = True, not self._seen.closing
        error = self._count.claimed()
        if error is not None:
            self._note_failure(error)
            raise error
        if self._tracker.refused and not self._refused_to_claims:
            self._count.refused()

    def _note_first(self) -> None:
        claimed = self._tracker.last_claimed
        if claimed is None:  # of claims(), all positions of a range
            claimed = getattr(self._restriction, "start", None)
        self.first = () if self._tracker.refused else (claimed,)

    def _checked(self, outputs: Iterable[Any]) -> Iterator[Any]:
        for output in outputs:
            if self._tracker.refused and not self._refused_to_claims:
                raise OutputError(
                    f"it gave {show(output)} after a refused claim; that block belongs to another work item. "
                    f"{RETURN_OR_COMBINE}"
                )
            if not self._tracker.started:
                raise OutputError(f"it gave {show(output)} before its first claim; claim a block first")
            yield output

    def _size(self, restriction: Any) -> float | None:
        return self._fn.restriction_size(self._element, restriction)

    def named(self, error: BaseException) -> SdfError:
        """Return the error to raise in place of one of `process` that is no Exception, such as a panic in Rust."""
        return self._blame("process").named(error)

    def _blame(self, method: str) -> blame:
        return blame(lambda: f"{type(self._fn).__name__}.{method}()", self._element, self._restriction)

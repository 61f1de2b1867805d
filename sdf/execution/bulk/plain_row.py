"""PlainRow: an invoker that is used for one row of a table after the other, each with a new tracker.

Only for a DoFn with the tracker and the watermarks of `DoFn`. What a row does that is unusual, such as a split or an
error, ends the run of the rows; so only what any row may change is set anew for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sdf.execution.invoker import Invoker
from sdf.execution.tracker_views import Held
from sdf.model.dofn import DoFn
from sdf.model.restrictions import OffsetRange

__all__ = ["PlainRow"]


class PlainRow(Invoker):
    """An invoker that is used for one row after the other, as long as nothing unusual happens."""

    def __init__(self, fn: DoFn) -> None:
        self._bounds = 0, 0
        super().__init__(fn, None, OffsetRange(0, 0))
        self._kind, self._template = type(self._seen), dict(vars(self._seen))

    @property
    def _restriction(self) -> OffsetRange:
        return OffsetRange(*self._bounds)

    @_restriction.setter
    def _restriction(self, restriction: OffsetRange) -> None:
        pass

    @property
    def _tracker(self) -> Any:
        return Held(self._seen)

    @_tracker.setter
    def _tracker(self, tracker: Any) -> None:
        pass

    def arm(self, element: Any, start: int, stop: int) -> Any:
        """Get ready for a row; return its tracker."""
        seen = object.__new__(self._kind)
        fields = vars(seen)
        fields.update(self._template)
        fields["_start"] = fields["_fence"] = start
        fields["_last"] = fields["_record"] = start - 1
        fields["_stop"] = stop
        self._bounds = start, stop
        self._element, self._seen, self._ones = element, seen, None
        self._begun = self._finished = self._refused_to_claims = self._rest_is_others = False
        self._records_at_refusal = None
        return seen

    def as_outputs(self, outputs: Any) -> Iterable[Any]:
        """Check what `process` has returned."""
        return self._as_outputs(outputs)

    def _at_edge(self) -> None:
        if not self._begun and not self._seen._refused and (self._ones is None or not self.records):
            self._begun = True  # the first claim, and all is well
            return
        super()._at_edge()

    def check(self, records: int) -> None:
        """Check at the end of a row what `Invoker.outputs` does, given how many records there were."""
        at_refusal, seen = self._records_at_refusal, self._seen
        if (records and not self._begun) or (at_refusal is not None and records != at_refusal):
            self._check_records()
        if not self._nothing_claimed and seen._start != seen._stop and seen._reached() < seen._stop - 1:
            self._tracker.check_done()

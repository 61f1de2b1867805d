"""PlainRow: an invoker that is used for one row of a table after the other, each with a new tracker.

Only for a DoFn with the tracker and the watermarks of `DoFn`. What a row does that is unusual, such as a split or an
error, ends the run of the rows; so only what any row may change is set anew for the next one.
"""

from __future__ import annotations

from collections.abc import Iterable
from types import GeneratorType
from typing import Any

from sdf.execution.invoker import Invoker
from sdf.execution.output_count import OutputCount
from sdf.execution.tracker_views import Held
from sdf.model.dofn import DoFn
from sdf.model.restrictions import OffsetRange

__all__ = ["PlainRow"]


class PlainRow(Invoker):
    """An invoker that is used for one row after the other, as long as nothing unusual happens.

    Args:
        fn: the DoFn, set up.
        count: counts the outputs of the row.
    """

    def __init__(self, fn: DoFn, count: OutputCount) -> None:
        self._bounds = 0, 0
        super().__init__(fn, None, OffsetRange(0, 0))
        self._count = count
        self._kind: Any = type(self._seen)
        self._template = dict(vars(self._seen))

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
        seen, fields = object.__new__(self._kind), self._template.copy()
        fields["_start"] = fields["_fence"] = start
        fields["_last"] = fields["_record"] = start - 1
        fields["_stop"] = stop
        seen.__dict__ = fields
        self._bounds = start, stop
        self._element, self._seen = element, seen
        self._finished = self._refused_to_claims = self._rest_is_others = False
        self._count.clear()
        return seen

    def returned(self, outputs: Any) -> Iterable[Any]:
        """Return as an iterable what `process` has returned."""
        self._count.given = True
        return outputs if type(outputs) is GeneratorType else self._as_outputs(outputs)

    def _at_edge(self) -> None:
        count = self._count
        if self.first is None:  # in the first row
            self._note_first()
        if not (count.begun or self._seen._refused or count.records):
            count.begun = True  # the first claim, and all is well
            return
        super()._at_edge()

    def close(self) -> None:
        """End a row, and check what `Invoker.outputs` checks; before the first row this does nothing."""
        self._finished = True
        if self._failure is not None:
            raise self._failure
        seen, count = self._seen, self._count
        if count.begun and count.at_refusal is None and seen._last >= seen._stop - 1:
            return  # the usual case: each block was claimed, and no more
        count.check(self._tracker.last_claimed)
        if not self._nothing_claimed and seen._start != seen._stop and seen._reached() < seen._stop - 1:
            self._tracker.check_done()

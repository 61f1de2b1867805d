"""Which rule a DoFn breaks, from what it gave at each claim: of the whole work, and of a part that begins later."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import attrs

from sdf.checking.records import Records, key_of
from sdf.errors import show
from sdf.model.restrictions import ByteKeyRange, OffsetRange

__all__ = ["AtClaim", "Diagnosis"]


@attrs.frozen
class AtClaim:
    """A claim, and the records that process() gave between it and the next one."""

    position: Any
    records: Records

    @property
    def key(self) -> Hashable:
        """What claims are compared by."""
        return key_of(self.position)


@attrs.define
class Diagnosis:
    """Finds the broken rule by comparing parts with the whole.

    What comes after the last claim of a part may be a partial result; all before it belongs to blocks.

    Attributes:
        combines: whether partial results were combined before the records were found to differ.
        starts: in what the blocks of a part differ from those of the whole; empty if they do not, so far.
        partial: what a part and the whole gave after their last claims, if that differs; else empty.
    """

    combines: bool = False
    starts: str = ""
    partial: str = ""

    def compare(
        self, restriction: Any, whole: Sequence[AtClaim], part: Sequence[AtClaim], outputs: Mapping[Hashable, Any]
    ) -> None:
        """Compare what a read of a part gave with what the whole read gave.

        Args:
            restriction: the part, which ends where the whole does.
            whole, part: their claims, in order.
            outputs: an output by each key in the records.
        """
        if self.starts:
            return
        at, claimed = {one.key: one for one in whole}, {one.key for one in part}
        for one in part:
            if one.key not in at:
                self.starts = (
                    f"the part {show(restriction)} claims {show(one.position)}, which the whole read does not claim"
                )
                return
        for one in whole if isinstance(restriction, (OffsetRange, ByteKeyRange)) else ():
            if one.position >= restriction.start and one.key not in claimed:
                self.starts = (
                    f"the part {show(restriction)} does not claim {show(one.position)}, which the whole read claims"
                )
                return
        for one in part[:-1]:
            same = at[one.key]
            if one.records != same.records and same is not whole[-1]:
                given, expected = _differences(one, same, outputs)
                claim = f"after the claim of {show(one.position)}"
                self.starts = f"{claim} the part {show(restriction)} gives {given}, and the whole read gives {expected}"
                return
        if part and part[-1].records != whole[-1].records and not self.combines:
            given, expected = _differences(part[-1], whole[-1], outputs)
            self.partial = f"after its last claim the part {show(restriction)} gives {given}, and the whole {expected}"

    def __str__(self) -> str:
        """Return which rule is broken, and how to go on; empty if that is not known."""
        if self.starts:
            return (
                f"the blocks depend on where a part starts: {self.starts}. Rule 2: a block belongs to the restriction "
                f"in which it starts. Find the first block at or after the start by an offset, a key or an index in "
                f"the data. Do not count from the start"
            )
        if self.partial:
            return (
                f"process() gives partial results: {self.partial}. Rule 4: a later step must combine them, such as "
                f"reduceByKey(). If yours does, pass combine= to check_dofn(). Else yield all records of a block "
                f"before the next claim"
            )
        return ""


def _differences(one: AtClaim, other: AtClaim, outputs: Mapping[Hashable, Any]) -> tuple[str, str]:
    """Return as texts what only the first has given, and what only the second."""
    return _shown(one.records - other.records, outputs), _shown(other.records - one.records, outputs)


def _shown(records: Records, outputs: Mapping[Hashable, Any]) -> str:
    if not records:
        return "nothing"
    more = records.total() - 1
    return f"{show(outputs[next(iter(records))])}{f' and {more:,} more' if more else ''}"

"""Pins: what one step of one batch read, for ever. The driver writes it down before anyone outside sees a record.

From the pins alone any driver can give the same records again. A pin holds only what was read. Work that was run and
gave nothing stays in the journal as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from sdf.journal.pending import Pending, from_data, from_json, to_data, to_json
from sdf.quarantine.failures import FailedBlock

__all__ = ["Pin", "StageResult", "Tried", "failed_to_json"]


@attrs.frozen
class Tried:
    """How work went that was run and gave nothing, so that all of it is still to do.

    Attributes:
        id: of the work.
        delay: how long it waits, in milliseconds.
        watermark: the state of its watermark estimator now.
        seen: as of `Pending`.
    """

    id: int
    delay: int
    watermark: Any
    seen: Any


@attrs.frozen
class StageResult:
    """What a stage did.

    Attributes:
        tasks: for each task the parts that it read, in order.
        counts: for each task the number of records it gave to each output, the main one first.
        rest: what is still to do of its work, each with the milliseconds that it waits; None if it was not started.
        late: as of `Pin`.
        failed: as of `Pin`.
        changed: ids of the work in place of which ``rest`` has something else, since it failed.
    """

    tasks: tuple[tuple[Pending, ...], ...]
    counts: tuple[tuple[int, ...], ...]
    rest: tuple[tuple[Pending, int | None], ...]
    late: int
    failed: tuple[FailedBlock, ...] = ()
    changed: frozenset[int] = frozenset()


@attrs.frozen
class Pin:
    """What one step of one batch read, for ever.

    Attributes:
        tasks: for each task the parts that it read, in order.
        counts: for each task the number of records it gave to each output, the main one first.
        taken: ids of the remaining work that it read some of, or that failed.
        left: what is still to do in place of ``taken``, and of the new elements.
        held: the lowest watermark of its input before the step; None if no input has one.
        by: the driver that ran the step.
        tried: how other work went; not in the journal, since that work has not changed.
        late: how many of its records have a time below the watermark that the stream had when the batch began.
        failed: the blocks that it set aside.
        written: of a pin from the journal, what it says there of ``tasks`` and ``failed``; else None.
    """

    tasks: tuple[tuple[Pending, ...], ...] = ()
    counts: tuple[tuple[int, ...], ...] = ()
    taken: tuple[int, ...] = ()
    left: tuple[Pending, ...] = ()
    held: Any = None
    by: str = ""
    tried: tuple[Tried, ...] = ()
    late: int = 0
    failed: tuple[FailedBlock, ...] = ()
    written: Mapping[str, Any] | None = None

    def records(self, output: int = 0) -> int:
        """Return how many records there are of an output."""
        return sum(counts[output] for counts in self.counts)

    @property
    def is_void(self) -> bool:
        """Whether it read nothing, and nothing failed in another way than before."""
        return not any(self.tasks) and not self.taken and not self.failed

    def content(self) -> dict[str, Any]:
        """Return as JSON data what names its records: the parts that were read or set aside, and the numbers.

        In each process it is the same: a value that was pickled has other bytes when it is pickled again.
        """
        read = self.written
        if read is None:
            read = {"tasks": [[to_json(part) for part in parts] for parts in self.tasks]}
            read |= {"failed": [failed_to_json(block) for block in self.failed]} if self.failed else {}
        return {**read, "counts": [list(counts) for counts in self.counts]}

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON data."""
        left = [to_json(one) for one in self.left]
        more = {"held": to_data(self.held), "by": self.by, "late": self.late}
        return {**self.content(), "taken": list(self.taken), "left": left, **more}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Pin:
        """Return what `to_json` described."""
        return cls(
            tuple(tuple(from_json(part) for part in parts) for parts in data["tasks"]),
            tuple(map(tuple, data["counts"])),
            tuple(data["taken"]),
            tuple(from_json(one) for one in data["left"]),
            from_data(data["held"]),
            data["by"],
            late=data.get("late", 0),  # pins had none before
            failed=tuple(map(failed_from_json, data.get("failed", ()))),
            written={name: data[name] for name in ("tasks", "failed") if name in data},
        )


def failed_to_json(block: FailedBlock) -> dict[str, Any]:
    """Return a block that was set aside as JSON data."""
    values = {"element": to_data(block.element), "restriction": to_data(block.restriction)}
    return {**values, "error": block.error, "attempts": block.attempts}


def failed_from_json(data: dict[str, Any]) -> FailedBlock:
    """Return the block that `failed_to_json` described."""
    return FailedBlock(from_data(data["element"]), from_data(data["restriction"]), data["error"], data["attempts"])

"""Content: the work items that a task has committed, as they are broadcast for a replay.

Tables are the bulk of them. They are plain values, so PySpark writes them into the file of the broadcast as they are,
and the driver never holds them a second time, pickled. All else may hold values of the user's classes, which only the
pickler of the run can send.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from sdf.execution.work_items import WorkItem
from sdf.spark import serde

__all__ = ["Content"]


@attrs.frozen
class Content:
    """See the module's docstring.

    Attributes:
        rows: the work items that are rows of tables, at their places; None at the others.
        others: the others, pickled as a list.
    """

    rows: tuple[WorkItem | None, ...]
    others: bytes

    @classmethod
    def of(cls, items: Sequence[WorkItem]) -> Content:
        """Return the content that holds these work items, in order."""
        rows = tuple(item if item.is_rows and item.watermark is None else None for item in items)
        others = [item for item, row in zip(items, rows, strict=True) if row is None]
        return cls(rows, serde.dumps(others, "the committed restrictions"))

    def items(self) -> list[WorkItem]:
        """Return the work items, in order."""
        others = iter(serde.loads(self.others))
        return [next(others) if item is None else item for item in self.rows]

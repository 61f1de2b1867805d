"""Slots: how many partitions a read has that does not say so.

Spark makes the reader of a query in a Python process beside the driver, which has no way to ask Spark. So the number is
found where the class of the data source is sent to Spark, which is when it is registered.
"""

from __future__ import annotations

from typing import Any

import attrs

from sdf.spark.door.context import active_context
from sdf.spark.jobs import slot_counter

__all__ = ["UNKNOWN_SLOTS", "Slots"]

UNKNOWN_SLOTS = 32  # an idle slot costs more than a task: 32 partitions on 4 slots are 28 starts of a task too many


@attrs.frozen
class Slots:
    """A number of slots. Sent to another process, it becomes what Spark has at that time.

    Attributes:
        given: the number that the user gave; None to ask Spark.
    """

    given: int | None

    def number(self) -> int:
        """Return the number that was given or found; `UNKNOWN_SLOTS` if there is none."""
        return self.given or UNKNOWN_SLOTS

    def __reduce__(self) -> Any:
        sc = active_context()
        return Slots, (slot_counter(sc)() if self.given is None and sc is not None else self.given,)

"""Changes of a stream's remaining work without a batch: by a drain, other elements, or a watermark that has moved.

A change is written in place of the next batch's first pin before it is committed (`sdf.spark.stream.checkpoint`).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import show
from sdf.journal.remaining import RemainingPart
from sdf.spark.stream.checkpoint import Checkpoint
from sdf.spark.stream.outlets import Outlets
from sdf.spark.stream.steps import Step

__all__ = ["Changes"]

log = logging.getLogger("sdf.stream")


class Changes:
    """See the module's docstring.

    Args:
        checkpoint: the state of the stream.
        steps: the steps of its chain.
        outlets: hear of a watermark that has moved.
        tells: whether they do.
    """

    def __init__(self, checkpoint: Checkpoint, steps: Sequence[Step], outlets: Outlets, *, tells: bool) -> None:
        self._checkpoint = checkpoint
        self._steps = steps
        self._outlets = outlets
        self._tells = tells

    def commit(self, changed: dict[str, Any]) -> None:
        """Commit a change that was written."""
        if changed["watermark"] is not None and self._tells:
            number, key = self._checkpoint.batch + 1, self._checkpoint.journal.key(changed)
            self._outlets.tell(number, key, changed["watermark"])
        self._checkpoint.commit_change(changed)

    def move_watermark(self) -> None:
        """Commit the watermark if it has moved, unless a batch was begun or the stream is at its end."""
        if self._checkpoint.done or self._checkpoint.follows:
            return
        reached = self._checkpoint.reached()
        if reached != self._checkpoint.watermark:
            self.commit(self._checkpoint.plan_change(watermark=reached))

    def truncate(self, works: Iterable[RemainingPart]) -> None:
        """Commit what `truncate` keeps of some remaining work, if that is not all of it."""
        gone, left = [], []
        for one in works:
            rest = self._steps[one.part.step].truncated(one.now)
            if rest is None or rest.restriction is not one.part.restriction:
                gone.append(one.id)
                left += [] if rest is None else [rest]
        if gone or (not self._checkpoint.remaining and not self._checkpoint.done):
            self.commit(self._checkpoint.plan_change(gone=gone, parts=left))

    def take_elements(self, rdd: RDD[Any]) -> None:
        """Let the scans of a resumed stream go on with the elements given now; they keep what they have seen.

        For instance with another pattern. Elements that came or went, so that nobody knows which took the place of
        which, are left as they were.
        """
        step = self._steps[0]
        if not step.fn.scans or self._checkpoint.follows or self._checkpoint.batch == 0:
            return
        elements = rdd.collect()
        scans = [one for one in self._checkpoint.remaining if one.part.step == 0 and step.is_scan(one.part)]
        old = [one for one in scans if one.part.element not in elements]
        new = [element for element in elements if not any(element == one.part.element for one in scans)]
        if len(old) != len(new):
            log.warning("the elements %s are not those of the journal, which go on", show(elements))
        elif old:
            parts = [attrs.evolve(one.now, element=element) for one, element in zip(old, new, strict=True)]
            self.commit(self._checkpoint.plan_change(gone=[one.id for one in old], parts=parts))

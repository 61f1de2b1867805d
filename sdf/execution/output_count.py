"""OutputCount: how many outputs `process` has given, and whether each belongs to a block that was claimed.

An output before the first claim, or after a refused one, belongs to no block of the work item. Checking each output
would cost time per record. So the outputs are counted in C, and counts are compared: at the first claim the count must
be 0, and at the end it must be the same as at a refused claim.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import compress, repeat
from operator import length_hint
from typing import Any

from sdf.errors import OutputError, show

__all__ = ["RETURN_OR_COMBINE", "OutputCount"]

RETURN_OR_COMBINE = (
    "Return as soon as try_claim() is False. To give a partial result of what was claimed, loop over tracker.claims(): "
    "outputs may follow the loop, and a later step must combine them"
)


class OutputCount:
    """Counts the outputs of one element.

    Args:
        ones: counts down the outputs of all elements that share it; None: a counter of its own.

    Attributes:
        begun: whether the first claim was noted.
        at_refusal: the count at a refused claim; None before it.
    """

    def __init__(self, ones: repeat[bool] | None = None) -> None:
        self._ones = repeat(True, sys.maxsize) if ones is None else ones
        self.clear()

    def clear(self) -> None:
        """Begin with the next element."""
        self._before = length_hint(self._ones)
        self.given = False  # whether `process` has returned its outputs
        self.begun = False
        self.at_refusal: int | None = None

    def shared(self) -> OutputCount:
        """Return an `OutputCount` for one element after the other; this one counts the outputs of all."""
        return OutputCount(self._ones)

    def counted(self, outputs: Iterable[Any]) -> Iterator[Any]:
        """Return the outputs; each is counted when it is read."""
        self.given = True
        return compress(outputs, self._ones)

    @property
    def records(self) -> int:
        """The number of outputs so far."""
        return self._before - length_hint(self._ones)

    def claimed(self) -> OutputError | None:
        """Note that a claim was settled; return an error if it is the first and there were outputs before it.

        As long as `process` has not returned its outputs, it may have made all of them already.
        """
        first, self.begun = not self.begun, True
        return self._before_claim() if first and self.records else None

    def refused(self) -> None:
        """Note that a claim was refused."""
        if self.given:
            self.at_refusal = self.records

    def check(self, last_claimed: Any) -> None:
        """Check the counts at the end of the outputs.

        Raises:
            OutputError: for an output that belongs to no claimed block; it names the refused claim.
        """
        if self.records and not self.begun:
            raise self._before_claim()
        late = 0 if self.at_refusal is None else self.records - self.at_refusal
        if late:
            raise OutputError(
                f"it gave {_counted(late)} after a refused claim, of {show(last_claimed)}; that block "
                f"belongs to another work item. {RETURN_OR_COMBINE}"
            )

    def _before_claim(self) -> OutputError:
        return OutputError(
            f"it gave {_counted(self.records)} before its first claim; claim a block first, then yield what is in it"
        )


def _counted(records: int) -> str:
    return "1 output" if records == 1 else f"{records:,} outputs"

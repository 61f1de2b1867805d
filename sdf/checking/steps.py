"""What a check of a DoFn covered, and its advice on splitting."""

from __future__ import annotations

import attrs

__all__ = ["CheckedDoFn"]


@attrs.frozen
class CheckedDoFn:
    """What `check_dofn` covered.

    Attributes:
        claims: number of claims in the whole read, with which all others are compared; 0 if no read ended in time.
        records: number of outputs of the whole read.
        splits: number of splits that succeeded; 0 means that the check shows nothing about splitting.
        skipped: the checks that were left out, so that the check ends in time.
        note: how the seconds of the first read were spent, if a check was left out; else empty.
    """

    claims: int
    records: int
    splits: int
    skipped: tuple[str, ...] = ()
    note: str = ""

    @property
    def complete(self) -> bool:
        """Whether no check was left out."""
        return not self.skipped

    @property
    def advice(self) -> str:
        """What to do if the work can never be split, or gave no record; else empty.

        If a check was left out, there is no advice on splitting: that check might have split the work.
        """
        if self.claims and not self.records:
            return (
                f"No record came of {self.claims} claims: if there are records in them, process() has to yield them, "
                f"or to return an iterable."
            )
        if self.splits or self.skipped:
            return ""
        if self.claims == 0:
            return "Nothing was claimed, so nothing is known about splitting: give an element that has work."
        if self.claims == 1:
            return "There is one claim, so no run can split this work: if it takes long, claim smaller blocks."
        return (
            f"There are {self.claims} claims, but no split succeeded, so no run can share this work out: claim smaller "
            f"blocks, or let the tracker's try_split() split what is unclaimed."
        )

    def __str__(self) -> str:
        said = [f"{self.claims:,} claims, {self.records:,} records, {self.splits:,} splits."]
        if self.skipped:
            said += [f"Not checked within the time limit: {'; '.join(self.skipped)}.", self.note]
            said.append("To check more, give a smaller element, restriction=, a part of its work, or more seconds=.")
        return " ".join(filter(None, [*said, self.advice]))

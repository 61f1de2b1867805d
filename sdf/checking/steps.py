"""What a check of a DoFn exercised, and what it says about splitting it."""

from __future__ import annotations

import attrs

__all__ = ["CheckedDoFn"]


@attrs.frozen
class CheckedDoFn:
    """What `check_dofn` exercised.

    Attributes:
        claims: claims in the read that all others were compared with; 0 if none came to its end in time.
        records: outputs of that read.
        splits: splits that succeeded; 0 means that nothing could be shown about splitting.
        skipped: what was not checked, since the budget was spent.
        note: where the time of the first read went, in seconds, if anything was skipped; else empty.
    """

    claims: int
    records: int
    splits: int
    skipped: tuple[str, ...] = ()
    note: str = ""

    @property
    def complete(self) -> bool:
        """Whether all was checked that there is to check."""
        return not self.skipped

    @property
    def advice(self) -> str:
        """What to do if the work can never be split, however long it takes, or gave nothing; else empty.

        Where anything was skipped, nothing is said about splitting: what was skipped might have shown it.
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
            said += [f"Not checked, since the time was up: {'; '.join(self.skipped)}.", self.note]
            said.append("To check more, give a smaller element, restriction=, a part of its work, or more seconds=.")
        return " ".join(filter(None, [*said, self.advice]))

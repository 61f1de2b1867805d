"""StagedRunner: work begins before the last element is expanded."""

import time
from pathlib import Path

import pytest

from sdf import DoFn, OffsetRange, run_sdf
from sdf.errors import SdfError
from sdf.spark.staged import expansion_job, receipts

MOST_SECONDS = 60


class WaitsFn(DoFn):
    """Element: a name. "last" is expanded when "first" has been processed, and that fails if it is told to.

    Args:
        folder: where it notes what was expanded and processed.
        fails: whether "last" has no restriction.
    """

    def __init__(self, folder, *, fails=False):
        self.folder = Path(folder)
        self.fails = fails

    def get_initial_restriction(self, element):
        with (self.folder / "expanded").open("a") as file:
            file.write(f"{element}\n")
        if element == "last":
            until = time.monotonic() + MOST_SECONDS
            while not (self.folder / "processed").exists():
                assert time.monotonic() < until, "nothing runs before this element is expanded"
                time.sleep(0.05)
            if self.fails:
                raise KeyError(element)
        return OffsetRange(0, 3)

    def process(self, element, tracker):
        for position in tracker.claims():
            if element == "first":
                (self.folder / "processed").touch()
            yield element, position


RECORDS = [(element, position) for element in ("first", "last") for position in range(3)]


def test_work_begins_before_the_last_element_is_expanded(sc, tmp_path):
    """The expansion of one waits for the work of another."""
    result = run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path))
    assert sorted(result.collect()) == RECORDS
    assert result.report.elements == 2
    result.unpersist()


def test_an_element_that_cannot_be_expanded_when_work_has_begun(sc, tmp_path):
    """It ends the run, with the same error, and nothing is left of what has run."""
    stored = sc._jsc.getPersistentRDDs().size()
    with pytest.raises(SdfError, match=r"WaitsFn\.get_initial_restriction.*'last'"):
        run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path, fails=True))
    assert (tmp_path / "processed").exists(), "nothing had run"
    assert sc._jsc.getPersistentRDDs().size() == stored
    assert not sc.statusTracker().getActiveJobsIds()


@pytest.mark.parametrize("change", ["lost", "doubled"])
def test_expanded_elements_that_are_lost_or_doubled(sc, monkeypatch, tmp_path, change):
    """A partition that has not arrived is expanded by a second job; one that comes again later changes nothing."""
    changed = []
    add = receipts.AsTasksEnd.addInPlace

    def unreliable(self, value1, value2):
        if value2 and isinstance(value2[0], expansion_job.ExpandedPartition):
            changed.append(value2)
            for each in changed if change == "doubled" else ():
                add(self, value1, each)
            return value1
        return add(self, value1, value2)

    monkeypatch.setattr(receipts.AsTasksEnd, "addInPlace", unreliable)
    if change == "lost":
        (tmp_path / "processed").touch()
    result = run_sdf(sc.parallelize(["first", "last"], 2), WaitsFn(tmp_path))
    assert len(changed) == 2
    assert sorted(result.collect()) == RECORDS
    assert result.report.elements == 2
    expanded = sorted((tmp_path / "expanded").read_text().split())
    assert expanded == sorted(["first", "last"] * (2 if change == "lost" else 1))
    result.unpersist()


class LengthFn(DoFn):
    """Element: a text. Its record is the length."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        if tracker.try_claim(0):
            yield len(element)


def test_a_partition_that_is_large_comes_with_the_end_of_the_job(sc):
    """Its elements, and those of a small one, are there once."""
    lengths = [5000] * 1000 + [7]
    texts = sc.parallelize(["x" * length for length in lengths[:-1]], 1).union(sc.parallelize(["x" * 7], 1))
    result = run_sdf(texts, LengthFn())
    assert sorted(result.collect()) == sorted(lengths)
    assert result.report.elements == len(lengths)
    result.unpersist()


def test_no_partitions(sc):
    """An RDD without partitions has nothing to expand."""
    assert run_sdf(sc.emptyRDD(), WaitsFn(".")).collect() == []

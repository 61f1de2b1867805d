"""Limits of a batch in records and bytes, besides time."""

import pytest
from support.fns import CountFn
from support.streaming import grouped

from sdf import stream_sdf
from sdf.errors import InvalidValueError


class LongFn(CountFn):
    """Gives records of a thousand bytes."""

    def process(self, element, tracker):
        for _, number in super().process(element, tracker):
            yield f"{number:1000}"


@pytest.fixture
def sizes(sc, tmp_path):
    """Give a function that runs a stream to its end, and returns the number of records of each batch."""

    def run(fn, elements, **options):
        given = []
        stream_sdf(
            sc.parallelize(elements),
            fn,
            checkpoint=tmp_path / "journal",
            foreach_batch=lambda batch: given.append(batch.rdd.collect()),
            **grouped(batch_seconds=60, max_tasks=2, **options),
        )
        records = [record for batch in given for record in batch]
        assert len(records) == len(set(records)) == sum(count for _, count in elements)
        return list(map(len, given))

    return run


@pytest.mark.parametrize(
    ("fn", "count", "options"),
    [
        (CountFn(), 10_000, {"max_records": 2_000}),
        (LongFn(), 4_000, {"max_bytes": 400_000}),
    ],
)
def test_a_batch_ends_when_it_has_given_enough(sizes, fn, count, options, monkeypatch):
    """Long before its time is up; what is left comes in the next ones, each record once."""
    monkeypatch.setattr("sdf.spark.stream.micro_batches.Stream._pause", lambda *arguments: None)
    batches = sizes(fn, [("a", count)], **options)
    assert len(batches) > 3
    assert max(batches) < count / 3


def test_without_limits_a_batch_has_all_that_there_is_time_for(sizes):
    """One is enough here."""
    assert sizes(CountFn(), [("a", 10_000)]) == [10_000]


@pytest.mark.parametrize("name", ["max_records", "max_bytes"])
def test_a_limit_that_is_none_is_named(sizes, tmp_path, name):
    """Before anything is written."""
    with pytest.raises(InvalidValueError, match=f"{name} must be an integer >= 1"):
        sizes(CountFn(), [("a", 1)], **{name: 0})
    assert not (tmp_path / "journal").exists()

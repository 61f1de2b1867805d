"""Numbers among the options of connectors: of any kind, NumPy's say, but no bool; they are plain ones in the DoFn."""

import math
from functools import partial

import pytest
from support.integers import KINDS, NUMBER_KINDS

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.io import (
    FileBlocks,
    ListObjects,
    ReadAvro,
    ReadJson,
    ReadKafka,
    ReadLines,
    ReadLmdb,
    ReadPages,
    ReadParquet,
    ReadRecords,
    ReadTable,
    ReadTar,
    ReadWarc,
    TailKafka,
    TailLines,
    TailTable,
    TopicPartition,
    WatchFiles,
    WatchTopics,
)

CONFIG = {"bootstrap.servers": "host:9092"}

INTEGERS = [
    (FileBlocks, "block_size", "size"),
    (ReadLines, "block_size", "block_size"),
    (ReadLines, "max_record_bytes", "max_record_bytes"),
    (ReadRecords, "length", "length"),
    (ReadAvro, "block_size", "block_size"),
    (ReadParquet, "block_size", "block_size"),
    (ReadJson, "block_size", "block_size"),
    (ReadTar, "max_member_bytes", "max_member_bytes"),
    (ReadWarc, "block_size", "block_size"),
    (ReadWarc, "max_record_bytes", "max_record_bytes"),
    (ReadLmdb, "block_prefix_bytes", "block_prefix_bytes"),
    (ListObjects, "page_size", "page_size"),
    (partial(ReadPages, list, len), "page_size", "page_size"),
    (partial(ReadTable, "sqlite://", key="k"), "chunk_rows", "chunk_rows"),
    (partial(TailTable, "sqlite://", key="k"), "after", "after"),
    (partial(ReadKafka, CONFIG), "block_offsets", "block_offsets"),
    (partial(ReadKafka, CONFIG), "start", "start"),
    (partial(TailKafka, CONFIG), "start", "start"),
    (partial(TopicPartition, "topic"), "partition", "partition"),
]
SECONDS = [
    (TailLines, "poll_seconds"),
    (TailLines, "rotated_seconds"),
    (WatchFiles, "interval_seconds"),
    (partial(TailTable, "sqlite://", key="k"), "poll_seconds"),
    (partial(WatchTopics, CONFIG), "interval_seconds"),
    (partial(TailKafka, CONFIG), "poll_seconds"),
    (partial(ReadKafka, CONFIG), "timeout_seconds"),
]


def name(value):
    kind = getattr(value, "func", value)
    return getattr(kind, "__name__", None)


@KINDS
@pytest.mark.parametrize(("make", "option", "attribute"), INTEGERS, ids=name)
def test_an_integer_may_be_of_any_kind(make, option, attribute, kind):
    """It is an int from then on."""
    kept = getattr(make(**{option: kind(7)}), attribute)
    assert (kept, type(kept)) == (7, int)


@NUMBER_KINDS
@pytest.mark.parametrize(("make", "option"), SECONDS, ids=name)
def test_seconds_may_be_a_number_of_any_kind(make, option, kind):
    """It is an int or a float from then on."""
    kept = getattr(make(**{option: kind(7)}), option)
    assert (kept, type(kept) in (int, float)) == (7, True)


@pytest.mark.parametrize("value", [True, "7", None, math.nan, math.inf])
@pytest.mark.parametrize(("make", "option"), SECONDS, ids=name)
def test_seconds_are_a_finite_number(make, option, value):
    """A bool, a text and NaN are none."""
    with pytest.raises(InvalidValueError, match=f"{name(make)} {option} must be"):
        make(**{option: value})


@pytest.mark.parametrize("value", [True, "7", 7.0])
def test_a_number_of_bytes_is_an_integer(value):
    """Where NumPy's are taken too."""
    with pytest.raises(InvalidTypeError, match="FileBlocks block_size must be an integer"):
        FileBlocks(value)

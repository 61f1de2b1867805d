"""A column of Spark holds one value or refuses it, whichever road leads there: rows or batches, read or written."""

from collections import namedtuple

import pyarrow as pa
import pytest

from sdf.errors import MissingExtraError

pytest.importorskip("sdf.spark.source", exc_type=MissingExtraError)

from pyspark.sql import Row
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from support.values import LEAVES, VALUES, is_same

from sdf.errors import InvalidTypeError
from sdf.sinks.arrays import as_batch
from sdf.sinks.columns import Misfit
from sdf.sinks.tables import as_table
from sdf.spark.door.arrow import arrow_schema
from sdf.spark.source.rows import ArrowRows
from sdf.spark.source.texts import Texts

TYPES = [
    *(ByteType(), ShortType(), IntegerType(), LongType(), FloatType(), DoubleType(), BooleanType(), StringType()),
    *(BinaryType(), DecimalType(5, 2), DecimalType(38, 18), DateType(), TimestampType(), TimestampNTZType()),
    DayTimeIntervalType(),
]  # fmt: skip
DEPTHS = {
    "flat": (lambda kind: kind, lambda kind: kind, lambda value: value),
    "array": (ArrayType, pa.list_, lambda value: [value, None]),
    "struct": (
        lambda kind: StructType().add("f", kind),
        lambda kind: pa.struct([("f", kind)]),
        lambda value: {"f": value},
    ),
    "map": (
        lambda kind: MapType(StringType(), kind),
        lambda kind: pa.map_(pa.string(), kind),
        lambda value: {"k": value},
    ),
}  # fmt: skip


def read(schema, record):
    """Return the value of a record, or of a batch, that a data source gives; InvalidTypeError if it does not fit."""
    try:
        (batch,) = ArrowRows(schema, "RecordsFn", Texts()).batches([record])
    except InvalidTypeError:
        return InvalidTypeError
    return batch.to_pylist()[0]["c"]


def staged(schema, record):
    """Return what the files of a run with this schema hold of it: those of `run_sdf` and of `data_sink`."""
    arrow = arrow_schema(schema)
    try:
        made = as_table([record], arrow) if isinstance(record, pa.RecordBatch) else as_batch([record], arrow)
    except Misfit:
        return InvalidTypeError
    return made.to_pylist()[0]["c"]


def batch_of(kind, value):
    """Return a batch with a value in a column of a type; None if pyarrow does not make it of the very value."""
    try:
        batch = pa.RecordBatch.from_pydict({"c": pa.array([value], kind)})
        return batch if is_same(batch["c"].to_pylist()[0], value) else None
    except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError):
        return None


@pytest.mark.parametrize("depth", DEPTHS)
def test_a_data_source_takes_what_a_run_takes(depth):
    """As rows and as batches of each type of Arrow; but for texts, which a data source casts."""
    nest, nest_arrow, put = DEPTHS[depth]
    wrong, fit = [], 0
    for kind in TYPES:
        schema = StructType().add("c", nest(kind))
        for value in VALUES[:: 1 if depth == "flat" else 3]:
            if isinstance(value, str) and depth == "flat" and kind != StringType():
                continue
            leaves = LEAVES[:: 3 if depth == "flat" else 8]
            records = [{"c": put(value)}, *(batch_of(nest_arrow(leaf), put(value)) for leaf in leaves)]
            for record in records:
                if record is not None:
                    found, expected = read(schema, record), staged(schema, record)
                    fit += found is not InvalidTypeError
                    if repr(found) != repr(expected):
                        wrong.append((kind, value, record, found, expected))
    assert not wrong
    assert fit > 50


NOT_NULL = {
    "flat": (StructType().add("c", "long", False), [1, None]),
    "in a struct": (StructType().add("c", StructType().add("f", "long", False)), [{"f": 1}, {"f": None}]),
    "in an array": (StructType().add("c", ArrayType(LongType(), False)), [[1], [None]]),
    "in a map": (StructType().add("c", MapType(StringType(), LongType(), False)), [{"k": 1}, {"k": None}]),
    "deep": (
        StructType().add("c", ArrayType(StructType().add("f", ArrayType(LongType(), False)))),
        [[{"f": [1]}], [{"f": [None]}]],
    ),
}


@pytest.mark.parametrize("given", ["row", "batch"])
@pytest.mark.parametrize("place", NOT_NULL)
def test_null_is_refused_where_it_is_not_allowed(place, given):
    """On each road, at each depth."""
    schema, values = NOT_NULL[place]
    for value, fits in zip(values, (True, False), strict=True):
        kind = arrow_schema(schema).field("c").type
        kind = {"flat": kind, "in a map": pa.map_(pa.string(), pa.int64())}.get(place)
        record = {"c": value}
        if given == "batch":
            record = pa.RecordBatch.from_pydict({"c": pa.array([value], kind)})
        for road in (read, staged):
            assert (road(schema, record) is not InvalidTypeError) is fits


@pytest.mark.parametrize(
    ("record", "why"),
    [
        (Row("c", "c")(1, 2), "it has two fields of the name 'c'"),
        (pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["c", "c"]), "it has two columns 'c'"),
        ({"c": "\ud800"}, "surrogates not allowed"),
    ],
    ids=["row", "batch", "surrogate"],
)
def test_what_a_record_says_in_two_ways_does_not_fit(record, why):
    """Nor does what no column can hold."""
    with pytest.raises(InvalidTypeError, match=why):
        list(ArrowRows(StructType().add("c", "long"), "RecordsFn", Texts()).batches([record]))


def test_named_tuples_are_taken_by_name():
    """As by a sink: their order is their own."""
    record = namedtuple("Point", "y x")("b", 2)
    (batch,) = ArrowRows(StructType().add("x", "long").add("y", "string"), "RecordsFn", Texts()).batches([record])
    assert batch.to_pylist() == [{"x": 2, "y": "b"}]

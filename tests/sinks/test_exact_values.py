"""What a column cannot hold exactly does not fit, on each road to a file: rows, and Arrow columns, at every depth."""

import datetime as dt
import math
import re
import struct
import uuid
from collections import namedtuple
from decimal import Decimal
from fractions import Fraction

import pytest

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

from sdf.sinks.arrays import as_batch  # noqa: E402, needs pyarrow
from sdf.sinks.columns import Misfit  # noqa: E402
from sdf.sinks.schema import as_schema  # noqa: E402
from sdf.sinks.tables import as_table  # noqa: E402

UTC = dt.timezone.utc
EAST = dt.timezone(dt.timedelta(hours=5))
NOON = dt.datetime(2024, 7, 1, 12)
Point = namedtuple("Point", "x y")

LEAVES = [
    *(pa.int8(), pa.uint8(), pa.int32(), pa.int64(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.bool_()),
    *(pa.string(), pa.large_string(), pa.binary(), pa.binary(16), pa.decimal128(5, 2), pa.decimal128(38, 18)),
    *(pa.date32(), pa.date64(), pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
    *(pa.timestamp(unit, zone) for unit in ("s", "ms", "us", "ns") for zone in (None, "UTC", "America/New_York")),
    *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    pa.dictionary(pa.int8(), pa.string()),
    *(getattr(pa, name)() for name in ("string_view", "binary_view", "uuid", "json_") if hasattr(pa, name)),
]  # fmt: skip
VALUES = [
    *(0, 1, -1, 7, 128, 256, 2049, 2**24 + 1, 2**31, 2**53, 2**53 + 1, 2**63 - 1, 2**63, 2**64, -(2**63)),
    *(True, False, 0.0, -0.0, 0.1, 1.0, 1.5, 1e-300, 65504.0, 65520.0, 2.0**24 + 1, 1e39, 1e300, math.inf, math.nan),
    *(np.int64(5), np.uint8(200), np.float32(0.1), np.float64(1e300), np.longdouble("0.1"), np.bool_(True)),
    *(Fraction(1, 3), Decimal(1), Decimal("0.1"), Decimal("1.239"), Decimal("999.99"), Decimal("1E+4"), Decimal("NaN")),
    *("", "x", "5", "ä\0", "true", "\ud800", "00000000-0000-0000-0000-000000000001", b"", b"x", bytes(16)),
    uuid.UUID(int=1),
    *(dt.date(1, 1, 1), dt.date(2024, 7, 1), dt.date(9999, 12, 31)),
    *(dt.time(), dt.time(12, 0, 1), dt.time(1, 2, 3, 4000), dt.time(1, 2, 3, 4), dt.time(12, tzinfo=UTC)),
    *(dt.datetime.min, NOON, NOON.replace(microsecond=1), NOON.replace(microsecond=1000), dt.datetime.max),
    *(NOON.replace(tzinfo=UTC), NOON.replace(tzinfo=EAST)),
    *(dt.datetime(2300, 1, 1), dt.datetime(2300, 1, 1, tzinfo=UTC)),
    *(dt.timedelta(1), dt.timedelta(microseconds=1), dt.timedelta.max, dt.timedelta(seconds=-1)),
]  # fmt: skip
DEPTHS = {
    "flat": (lambda kind: kind, lambda value: value),
    "list": (pa.list_, lambda value: [value]),
    "large list": (pa.large_list, lambda value: [value]),
    "fixed list": (lambda kind: pa.list_(kind, 2), lambda value: [value, value]),
    "struct": (lambda kind: pa.struct([("f", kind)]), lambda value: {"f": value}),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("k", value)]),
    "deep": (lambda kind: pa.list_(pa.struct([("f", pa.list_(kind))])), lambda value: [{"f": [value]}]),
}


def is_same(found, given):
    """Tell whether a value that is read is the one that was given, and of a type that means the same."""
    if isinstance(given, (list, dict, tuple)):
        if isinstance(given, dict):
            return found.keys() == given.keys() and all(is_same(found[name], given[name]) for name in given)
        return len(found) == len(given) and all(map(is_same, found, given))
    if isinstance(given, uuid.UUID) or isinstance(found, uuid.UUID):
        return found in (given, uuid.UUID(str(given)) if not isinstance(given, bytes) else uuid.UUID(bytes=given))
    if isinstance(given, (bool, np.bool_)) is not isinstance(found, bool) or isinstance(given, str) is not isinstance(
        found, str
    ):
        return False
    return found == given or (found != found and given != given)


def is_nearest(found, given, kind):
    """Tell whether a float became the nearest one of a smaller type, neither infinity nor zero."""
    code = {pa.float16(): "e", pa.float32(): "f"}.get(kind)
    if code is None or type(given) not in (float, np.float64, np.float32):
        return False
    return found and math.isfinite(found) and struct.unpack(code, struct.pack(code, given))[0] == found


def rows(kind, value, is_map):
    schema = as_schema({"c": kind})
    return as_batch([{"c": None}, {"c": dict(value) if is_map else value}], schema)["c"].to_pylist()[1]


def column(kind, array):
    return as_table([pa.table({"c": array})], as_schema({"c": kind}))["c"].to_pylist()


@pytest.mark.parametrize("depth", DEPTHS)
def test_rows_are_held_exactly_or_do_not_fit(depth):
    """Every kind of column with every value; some of each fit, or the test would show nothing."""
    nest, put = DEPTHS[depth]
    wrong, held = [], set()
    for leaf in LEAVES:
        for value in VALUES:
            try:
                found = rows(nest(leaf), put(value), depth == "map")
            except Misfit:
                continue
            held.add(leaf)
            if is_same(found, put(value)):
                continue
            if depth == "flat" and is_nearest(found, value, leaf):
                continue
            if depth != "flat" and leaf in (pa.float16(), pa.float32()):  # as the flat column decides
                assert is_nearest(rows(leaf, value, False), value, leaf)
                continue
            wrong.append((leaf, value, found))
    assert not wrong
    assert held == set(LEAVES)


def arrays():
    """Yield an array of each value of each type that pyarrow makes of it, or that it takes."""
    for value in VALUES:
        for leaf in LEAVES:
            try:
                array = pa.array([value], leaf)
                if is_same(array.to_pylist()[0], value):
                    yield value, array
            except (pa.ArrowException, ValueError, TypeError, OverflowError, AttributeError):
                continue


def nested(array, depth):
    """Return an array with a null before the only value, which lies in the middle of a slice."""
    nest, put = DEPTHS[depth]
    if depth == "flat":
        return pa.concat_arrays([pa.nulls(1, array.type), array])
    try:
        value = array.to_pylist()[0]
        made = pa.array([put(value), None, put(value), put(value)], nest(array.type))
        return made.slice(1, 2) if is_same(made[2].as_py(), put(value)) else None
    except (pa.ArrowException, OverflowError, ValueError, TypeError, NotImplementedError):
        return None  # pyarrow makes no such array


@pytest.mark.parametrize("depth", DEPTHS)
def test_arrow_columns_are_held_exactly_or_do_not_fit(depth):
    """Every type into every other, with some values of each."""
    nest, put = DEPTHS[depth]
    wrong, tried = [], 0
    for value, array in list(arrays())[:: 2 if depth == "flat" else 11]:
        given = nested(array, depth)
        for leaf in LEAVES if given is not None else ():
            tried += 1
            try:
                found = column(nest(leaf), given)
            except Misfit:
                assert leaf != array.type
                continue
            if found[0] is not None or not is_same(found[1], put(value)):
                wrong.append((array.type, leaf, value, found))
    assert not wrong
    assert tried > 500


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (pa.struct([("x", pa.int64())]), [1], r"\[1\] is no value of type struct"),
        (pa.list_(pa.int64()), Point(1, 2), "is no value of type list"),
        (pa.list_(pa.int64()), np.array(3), "is an array without a dimension"),
        (pa.list_(pa.int64()), np.array(["2024-01-01"], "datetime64[ns]"), "is no value of type int64"),
        (pa.list_(pa.timestamp("us")), np.array([1], "datetime64[ns]"), "has a fraction"),
        (pa.list_(pa.timestamp("us")), np.array([1], "datetime64[h]"), "does not convert to times"),
        (pa.list_(pa.int64()), np.array([(1, 2)], [("x", int), ("y", int)]), "is an array of records"),
    ],
)
def test_kinds_of_values_that_would_lose_what_they_are(kind, value, error):
    """A list is no row, a row no list, and an array of times no numbers."""
    with pytest.raises(Misfit) as raised:
        rows(kind, value, False)
    assert re.search(error, f"{raised.value.value!r} {raised.value.flaw}")
    assert raised.value.path.startswith("c")


def test_times_of_numpy():
    """At every depth."""
    times = np.array([["2024-07-01T12:00:00"]], "datetime64[ns]")
    assert rows(pa.list_(pa.list_(pa.timestamp("us"))), times, False) == [[NOON]]


NEVER = {
    "flat": (lambda kind: pa.field("c", kind, nullable=False), lambda: [1, None]),
    "in a struct": (
        lambda kind: pa.struct([pa.field("f", kind, nullable=False)]),
        lambda: [{"f": 1}, None, {"f": None}],
    ),
    "in a list": (lambda kind: pa.list_(pa.field("f", kind, nullable=False)), lambda: [[1], None, [None]]),
    "in a map": (
        lambda kind: pa.map_(pa.string(), pa.field("f", kind, nullable=False)),
        lambda: [[("k", 1)], None, [("k", None)]],
    ),
    "deep": (
        lambda kind: pa.list_(pa.struct([pa.field("f", kind, nullable=False)])),
        lambda: [[{"f": 1}, None], None, [{"f": None}]],
    ),
}  # fmt: skip


@pytest.mark.parametrize("road", ["rows", "column", "the same type"])
@pytest.mark.parametrize("place", NEVER)
def test_null_does_not_fit_where_it_is_not_allowed(place, road):
    """But what may be null around it may."""
    require, values = NEVER[place]
    field = require(pa.int64())
    field = field if isinstance(field, pa.Field) else pa.field("c", field)
    schema = as_schema(pa.schema([field]))
    assert schema.field("c").type == field.type
    *good, bad = values()

    def road_to(values):
        if road == "rows":
            made = [dict(one) if one and place == "in a map" else one for one in values]
            return as_batch([{"c": one} for one in made], schema)["c"].to_pylist()
        kind = pa.int64() if road == "the same type" else pa.int8()
        given = require(kind)
        return as_table(
            [pa.table({"c": pa.array(values, given.type if isinstance(given, pa.Field) else given)})], schema
        )["c"].to_pylist()

    assert road_to(good) == good
    with pytest.raises(Misfit, match=r"NOT NULL"):
        road_to([*good, bad])


def test_a_field_of_a_struct_that_the_schema_lacks_does_not_fit():
    """As a column that it lacks."""
    for depth, (nest, put) in DEPTHS.items():
        array = pa.array([put({"a": 1, "b": 2})], nest(pa.struct([("a", pa.int64()), ("b", pa.int64())])))
        with pytest.raises(Misfit, match="is not one of the fields"):
            column(nest(pa.struct([("a", pa.int64())])), array)
        less = pa.array([put({"a": 1})], nest(pa.struct([("a", pa.int8())])))
        found = column(nest(pa.struct([("a", pa.int64()), ("b", pa.string())])), less)
        assert found == [put({"a": 1, "b": None})], depth

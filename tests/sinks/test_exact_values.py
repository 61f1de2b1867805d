"""What a column cannot hold exactly does not fit, on each road to a file: rows, and Arrow columns, at every depth."""

import math
import re
import struct
from collections import namedtuple

import pytest

pa = pytest.importorskip("pyarrow")
np = pytest.importorskip("numpy")

from support.values import DEPTHS, LEAVES, NOON, VALUES, is_same  # noqa: E402, needs pyarrow

from sdf.errors import InvalidValueError  # noqa: E402
from sdf.sinks.arrays import as_batch  # noqa: E402
from sdf.sinks.columns import Misfit  # noqa: E402
from sdf.sinks.schema import as_schema  # noqa: E402
from sdf.sinks.tables import as_table  # noqa: E402

Point = namedtuple("Point", "x y")


def is_nearest(found, given, kind):
    """Tell whether a float became the nearest one of a smaller type, neither infinity nor zero."""
    code = {pa.float16(): "e", pa.float32(): "f"}.get(kind)
    if code is None or type(given) not in (float, np.float64, np.float32):
        return False
    return found and math.isfinite(found) and struct.unpack(code, struct.pack(code, given))[0] == found


def rows(kind, value, is_map):
    schema = as_schema({"c": kind})
    return as_batch([{"c": None}, {"c": dict(value) if is_map else value}], schema)["c"].to_pylist()[1]


def types_of_rows():
    """Return the types that a row can have a value of. Of a half float, PyArrow 15 makes none from Python's float."""
    try:
        pa.array([1.5], pa.float16())
    except pa.ArrowTypeError:
        return {*LEAVES} - {pa.float16()}
    return {*LEAVES}


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
    assert held == types_of_rows()


def arrays():
    """Yield an array of each value of each type that pyarrow makes of it, or that it takes."""
    for value in VALUES:
        for leaf in LEAVES:
            try:
                array = pa.array([value], leaf)
                if is_same(array.to_pylist()[0], value):
                    yield array.to_pylist()[0], array
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


def held(road, *what):
    """Return what a column holds after a road, Misfit if it does not fit."""
    try:
        return road(*what)
    except Misfit:
        return Misfit


@pytest.mark.parametrize("depth", DEPTHS)
def test_rows_and_arrow_columns_agree(depth):
    """Of each value in each type, also in others than its own; but for floats that a smaller type rounds."""
    nest, put = DEPTHS[depth]
    wrong = []
    for value, array in list(arrays())[:: 3 if depth == "flat" else 7]:
        given = nested(array, depth)
        for leaf in LEAVES if given is not None else ():
            by_row = held(rows, nest(leaf), put(value), depth == "map")
            by_column = held(lambda *what: column(*what)[1], nest(leaf), given)
            is_rounded = pa.types.is_floating(array.type) and pa.types.is_floating(leaf) and by_column is Misfit
            if repr(by_row) != repr(by_column) and not is_rounded:
                wrong.append((array.type, leaf, value, by_row, by_column))
    assert not wrong


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (pa.struct([("x", pa.int64())]), [1], r"\[1\] is no value of type struct"),
        (pa.list_(pa.int64()), Point(1, 2), "is no value of type list"),
        (pa.list_(pa.int64()), np.array(3), "is an array without a dimension"),
        (pa.list_(pa.int64()), np.array(["2024-01-01"], "datetime64[ns]"), "is no value of type int64"),
        (pa.int64(), np.timedelta64(5, "ns"), "is no value of type int64"),
        (pa.list_(pa.int64()), [np.timedelta64(1, "M")], "is no value of type int64"),
        (pa.float64(), np.timedelta64(5, "ns"), "is no value of type double"),
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


@pytest.mark.parametrize("place", NEVER)
def test_a_table_does_not_take_a_schema_with_not_null(place):
    """Its columns are nullable, so the schema would not be kept."""
    require, _ = NEVER[place]
    field = require(pa.int64())
    field = field if isinstance(field, pa.Field) else pa.field("c", field)
    with pytest.raises(InvalidValueError, match=r"DeltaTable schema: 'c', or what it holds, must not be null"):
        as_schema(pa.schema([field]), "DeltaTable", lambda schema: schema)
    kind = field.type if place == "flat" else pa.list_(pa.dictionary(pa.int8(), pa.string()))
    assert as_schema({"c": kind}, "DeltaTable", lambda schema: schema).names == ["c"]


def test_a_field_of_a_struct_that_the_schema_lacks_does_not_fit():
    """As a column that it lacks."""
    for depth, (nest, put) in DEPTHS.items():
        array = pa.array([put({"a": 1, "b": 2})], nest(pa.struct([("a", pa.int64()), ("b", pa.int64())])))
        with pytest.raises(Misfit, match="is not one of the fields"):
            column(nest(pa.struct([("a", pa.int64())])), array)
        less = pa.array([put({"a": 1})], nest(pa.struct([("a", pa.int8())])))
        found = column(nest(pa.struct([("a", pa.int64()), ("b", pa.string())])), less)
        assert found == [put({"a": 1, "b": None})], depth

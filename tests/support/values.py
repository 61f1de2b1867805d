"""Values of every kind, column types of every kind, and whether one holds the other: for tables of all of them."""

import datetime as dt
import math
import uuid
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa

UTC = dt.timezone.utc
EAST = dt.timezone(dt.timedelta(hours=5))
NOON = dt.datetime(2024, 7, 1, 12)

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
    if isinstance(given, np.generic):
        given = given.item()
    if isinstance(given, uuid.UUID) or isinstance(found, uuid.UUID):
        return found in (given, uuid.UUID(str(given)) if not isinstance(given, bytes) else uuid.UUID(bytes=given))
    if isinstance(given, (bool, np.bool_)) is not isinstance(found, bool) or isinstance(given, str) is not isinstance(
        found, str
    ):
        return False
    return found == given or (found != found and given != given)

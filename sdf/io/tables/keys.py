"""The keys of database tables as positions: integers, byte strings and texts.

The database must order keys as positions are ordered, else rows would be lost where parts meet. For integers that is
certain. For byte strings and texts it is not: a database may compare texts by the rules of a language, pad them, or
ignore case. They are read only if the database can order them by bytes, and the position is made from exactly the value
that the database compares.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Any

import attrs

from sdf import ByteKeyRange, OffsetRange
from sdf.errors import ReadError, SourceError, show
from sdf.extras import Library

__all__ = ["ByteKeys", "IntegerKeys", "KeyRange", "first_text", "keys_of", "sa"]

sa = Library("sqlalchemy", "ReadTable")

# By dialect: the collation that compares bytes, the query for the encoding of text, and the encoding that it must be.
_BYTE_ORDER = {
    "postgresql": ("C", "SHOW server_encoding", "UTF8"),
    "sqlite": ("BINARY", "PRAGMA encoding", "UTF-8"),
}
_MOST = 1 << 63  # the least integer that many databases cannot compare with
_SURROGATES = range(0xD800, 0xE000)  # code points that are no characters
_CHARACTERS = 0x110000 - len(_SURROGATES)


@attrs.frozen
class KeyRange(OffsetRange):
    """Integer keys ``[start, stop)`` of a table that had keys in ``[first, end)`` when the run was planned."""

    stop: int
    first: int
    end: int


class IntegerKeys:
    """Integer keys, in blocks of ``step`` key values, counted from the first key."""

    def __init__(self, column: Any, where: str) -> None:
        self.order = sa.type_coerce(column, sa.BigInteger())
        self.where = where

    def whole(self, low: Any, high: Any) -> KeyRange:
        if low is None:
            return KeyRange(0, 0, 0, 0)
        first, end = self.position(low), self.position(high) + 1
        return KeyRange(first, end, first, end)

    def plan(self, part: KeyRange, step: int) -> tuple[Any, Callable[[Any], int]]:
        """Return the SQL condition for the keys of a part, and a function from a key to its block."""
        first = part.first

        def block_at_or_after(position: int) -> int:
            return min(position + (first - position) % step, part.end)

        def block_of(key: Any) -> int:
            number = self.position(key)
            return number - (number - first) % step

        return self.within(block_at_or_after(part.start), block_at_or_after(part.stop)), block_of

    def position(self, key: Any) -> int:
        number: int = _checked(key, int, self.where)
        return number

    def within(self, start: int, stop: int) -> Any:
        """Return the SQL condition for keys in ``[start, stop)``; between two integers too, where `position` refuses.

        The largest integer of the database has none after it.
        """
        if start >= stop:
            return sa.false()
        return sa.and_(self.order >= start, self.order < stop if stop < _MOST else self.order <= stop - 1)


class ByteKeys:
    """Keys that are byte strings or UTF-8 texts; each key is a block."""

    def __init__(self, order: Any, where: str, kind: type, lowest: str) -> None:
        self.order = order
        self.where = where
        self._kind = kind
        self._lowest = lowest

    def position(self, key: Any) -> bytes:
        key = _checked(key, self._kind, self.where)
        return (key.encode() if self._kind is str else key) or b"\x00"  # b"" is no key for a ByteKeyRange

    def whole(self, low: Any, high: Any) -> ByteKeyRange:
        if low is None:
            return ByteKeyRange(b"", b"\x00")
        return ByteKeyRange(self.position(low), self.position(high) + b"\x00")

    def plan(self, part: ByteKeyRange, step: int) -> tuple[Any, Callable[[Any], bytes]]:
        conditions = [sa.true()]
        if part.start > b"\x00":
            low = self._bound(part.start)
            conditions.append(sa.false() if low is None else self.order >= low)
        if part.stop:
            high = self._bound(part.stop)
            conditions.extend([] if high is None else [self.order < high])
        return sa.and_(*conditions), self.position

    def _bound(self, position: bytes) -> Any:
        return first_text(position, self._lowest) if self._kind is str else position


def keys_of(connection: Any, column: Any, kind: Any, where: str) -> IntegerKeys | ByteKeys:
    """Return the handling of the keys in a column: integers, or byte strings and texts.

    Args:
        connection: a connection to the database.
        column: the column of the keys.
        kind: the SQLAlchemy type of the column.
        where: connector, key and table, for error messages.

    Raises:
        SourceError: if ranges of such keys are not possible, or the database does not order them by their bytes.
    """
    if isinstance(kind, sa.Integer):
        return IntegerKeys(column, where)
    is_text = isinstance(kind, sa.String)
    if not is_text and not isinstance(kind, (sa.LargeBinary, sa.BINARY, sa.VARBINARY)):
        raise SourceError(f"{where} must be integers, byte strings or texts (it is {kind!r}).")
    dialect = connection.dialect.name
    if dialect not in _BYTE_ORDER:
        raise SourceError(
            f"{where} is of type {kind!r}, and how {dialect} orders that is not known to be the order of "
            f"bytes. Choose a key of integers."
        )
    if not is_text:
        return ByteKeys(sa.type_coerce(column, sa.LargeBinary()), where, bytes, "")
    collation, ask, encoding = _BYTE_ORDER[dialect]
    found = connection.exec_driver_sql(ask).scalar()
    if found != encoding:
        raise SourceError(
            f"{where} is text in a database whose encoding is {found}; its order is that of bytes only in "
            f"{encoding}. Choose a key of integers or byte strings."
        )
    if dialect == "postgresql":  # char(n) and citext have their own comparison, whatever the collation
        return ByteKeys(sa.cast(column, sa.Text()).collate(collation), where, str, "\x01")
    return ByteKeys(sa.type_coerce(column, sa.Text()).collate(collation), where, str, "\x00")


def first_text(bound: bytes, lowest: str) -> str | None:
    """Return the lowest text whose UTF-8 is >= ``bound``; None if there is none.

    Args:
        bound: any bytes, as a split makes them; they need not be UTF-8.
        lowest: the lowest character that the database stores. PostgreSQL has no NUL.
    """
    try:
        text, rest = bound.decode(), b""
    except UnicodeDecodeError as error:
        text, rest = bound[: error.start].decode(), bound[error.start :]
    if lowest > "\x00" and "\x00" in text:
        return text[: text.index("\x00")] + lowest
    if not rest:
        return text
    found = bisect_left(range(_CHARACTERS), rest, key=lambda number: _character(number).encode())
    if found < _CHARACTERS:
        return text + _character(found)
    shorter = text.rstrip(_character(_CHARACTERS - 1))  # no text that begins with `text` is >= bound
    if not shorter:
        return None
    last = ord(shorter[-1]) + 1
    return shorter[:-1] + chr(_SURROGATES.stop if last == _SURROGATES.start else last)


def _character(number: int) -> str:
    return chr(number if number < _SURROGATES.start else number + len(_SURROGATES))


def _checked(key: Any, kind: type, where: str) -> Any:
    if type(key) is not kind:
        raise ReadError(
            f"{where} should be of type {kind.__name__} only (got {show(key)}). Mend that row, or leave it "
            f"out with TableQuery(where=...)."
        )
    return key

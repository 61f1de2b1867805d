"""ReadTable: the rows of a database table or view, by ranges of a key.

A part is read by one query in key order, whose rows are streamed. `sdf.io.tables.keys` says which types of keys are
possible, and how keys become positions.
"""

from __future__ import annotations

import copy
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import attrs

from sdf import ByteKeyRange, ByteKeyRangeTracker, OffsetRangeTracker, RestrictionTracker
from sdf.errors import RUN_DOCTOR, InvalidTypeError, InvalidValueError, MissingExtraError, ReadError, SourceError, show
from sdf.extras import need
from sdf.io.connector import Connector
from sdf.io.tables.held import as_held, converter_of
from sdf.io.tables.keys import ByteKeys, IntegerKeys, KeyRange, keys_of, sa
from sdf.numbers import as_integer, is_integer

__all__ = ["ReadTable", "TableQuery"]

_MOST_ROWS = 2**31 - 1  # the largest number of rows to fetch that databases accept


def _as_columns(columns: Any, who: str = "TableQuery") -> tuple[str, ...] | None:
    if columns is None:
        return None
    if isinstance(columns, str) or not isinstance(columns, Sequence) or not all(isinstance(c, str) for c in columns):
        raise InvalidTypeError(f"{who} columns must be a list of names, or None for all (got {show(columns)}).")
    if not columns or len(set(columns)) < len(columns):
        raise InvalidValueError(f"{who} columns must be distinct names, at least one (got {show(columns)}).")
    return tuple(columns)


def _is_text(query: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) and (value is not None or attribute.default is attrs.NOTHING):
        raise InvalidTypeError(f"TableQuery {attribute.name} must be a string (got {show(value)}).")


@attrs.frozen
class TableQuery:
    """Rows of a table; an element of `ReadTable`.

    Attributes:
        table: name of a table or a view.
        columns: names of the columns to read; None for the option ``columns`` of `ReadTable`.
        where: a condition in the database's SQL; None for all rows. Write ``\\:`` for a colon before a name.
        schema: schema of the table; None for the default schema.

    Raises:
        InvalidTypeError, InvalidValueError: for an attribute of the wrong type or value.
    """

    table: str = attrs.field(validator=_is_text)
    columns: tuple[str, ...] | None = attrs.field(default=None, converter=_as_columns)
    where: str | None = attrs.field(default=None, validator=_is_text)
    schema: str | None = attrs.field(default=None, validator=_is_text)

    def __str__(self) -> str:
        return f"table {self.schema + '.' if self.schema else ''}{self.table}"


class ReadTable(Connector):
    """Reads tables. Element: a name or a `TableQuery`. Gives rows as dicts.

    Position of integer keys: the first of a block of ``chunk_rows`` key values, counted from the first key; empty
    blocks cost nothing. Position of byte strings and texts (in UTF-8): the key, or ``b"\\0"`` for an empty key. The key
    need not be unique: all rows of a key are in one block. The key needs an index (for texts in PostgreSQL, one with
    ``COLLATE "C"``), otherwise each part scans the table. Byte strings and texts: SQLite and PostgreSQL only.

    The range of keys is pinned when the run is planned; rows added later with greater or lower keys are not read. The
    rows in that range are not pinned: each part sees them as they are when it begins. Do not change them while a run
    reads them, else a part that runs again may yield other rows.

    Each worker holds a connection, and one transaction for as long as a part is read.

    SQLite keeps values of any type in a column. Numbers of NUMERIC columns become a Decimal of the same value. What is
    no value of a BOOLEAN, DATE, DATETIME, TIME or JSON column is an error. Other columns give what they hold.

    Args:
        url: URL of the database, as SQLAlchemy takes it, such as ``"postgresql+psycopg://user@host/name"``.
        key: name of a column of integers, byte strings or texts.
        chunk_rows: rows fetched at a time; for an integer key, also the number of key values that one claim takes.
        columns: names of the columns to read; None for all.
        with_position: yield ``((table, key), row)`` instead of ``row``.
        engine_options: keyword arguments for ``sqlalchemy.create_engine``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such database, table or column, if rows have no key, or if the
            database reports an error.
        ReadError: when it runs, if a key or a value is not of the column's type, as SQLite allows.
    """

    _range: tuple[Any, Any] = (None, None)  # of keys; see for_ranges()

    def __init__(
        self,
        url: str,
        *,
        key: str,
        chunk_rows: int = 10_000,
        columns: Sequence[str] | None = None,
        with_position: bool = False,
        engine_options: Mapping[str, Any] | None = None,
    ) -> None:
        name = type(self).__name__
        need("sqlalchemy", name)
        if not isinstance(url, str):
            raise InvalidTypeError(f"{name} url must be a string, such as 'sqlite:///my.db' (got {show(url)}).")
        try:
            parsed = sa.make_url(url)
            parsed.get_dialect()
        except sa.exc.ArgumentError as error:
            raise InvalidValueError(
                f"{name} url must be one that SQLAlchemy knows, such as 'sqlite:///my.db': {error}"
            ) from error
        except ModuleNotFoundError as error:
            raise _missing_driver(name, parsed, error) from error
        if not isinstance(key, str):
            raise InvalidTypeError(f"{name} key must be the name of a column (got {show(key)}).")
        chunk_rows = as_integer(chunk_rows)
        if not is_integer(chunk_rows):
            raise InvalidTypeError(f"{name} chunk_rows must be an integer, a number of rows (got {show(chunk_rows)}).")
        if not 1 <= chunk_rows <= _MOST_ROWS:
            raise InvalidValueError(f"{name} chunk_rows must be >= 1 and <= {_MOST_ROWS} (got {chunk_rows}).")
        self.url = url
        self.shown_url = parsed.render_as_string(hide_password=True)
        self.key = key
        self.chunk_rows = chunk_rows
        self.columns = _as_columns(columns, name)
        self.with_position = with_position
        self.engine_options = dict(engine_options or {})

    def for_schema(self, schema: Any, texts: Any) -> ReadTable:
        """Return a reader of the columns of a table in Spark only; called by `data_source` for each read.

        Args:
            schema: its `pyarrow.Schema`.
            texts: of no use here.
        """
        reader = copy.copy(self)
        if self.columns is None or set(schema.names) <= set(self.columns):
            reader.columns = tuple(schema.names)
        return reader

    def for_ranges(self, ranges: Mapping[str, tuple[Any, Any]]) -> ReadTable:
        """Return a reader of the keys in their range; called by `data_source` for a query.

        Args:
            ranges: by the name of a column, its lowest and highest value; None where there is no bound.
        """
        reader = copy.copy(self)
        reader._range = ranges.get(self.key, (None, None))
        return reader

    def setup(self) -> None:
        name = type(self).__name__
        try:
            self._engine = need("sqlalchemy", name).create_engine(self.url, **self.engine_options)
        except ModuleNotFoundError as error:
            raise _missing_driver(name, sa.make_url(self.url), error) from error
        self._tables: dict[TableQuery, _Table] = {}

    def teardown(self) -> None:
        self._engine.dispose()
        del self._engine, self._tables  # so that the DoFn can be pickled again

    def get_initial_restriction(self, element: Any) -> KeyRange | ByteKeyRange:
        query = self._query_of(element)
        with self._reading(query) as (connection, table):
            self._check_keys(query, connection, table)
            low, high = (connection.scalar(end) for end in table.ends())
            return table.keys.whole(*_within(self._range, low, high))

    def _check_keys(self, query: Any, connection: Any, table: Any) -> None:
        """Raise SourceError if a row has no key."""
        if table.nullable and connection.execute(table.without_key()).first():
            name = connection.dialect.identifier_preparer.quote(self.key).replace(":", "\\:")
            raise SourceError(
                f"{type(self).__name__}: {query} in {self.shown_url} has rows without a key ({self.key} is NULL), "
                f"which belong to no range. Choose another key, or leave them out: "
                f"TableQuery(where={f'{name} IS NOT NULL'!r})."
            )

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        if isinstance(restriction, ByteKeyRange):
            return ByteKeyRangeTracker(restriction)
        return OffsetRangeTracker(restriction)

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        query = self._query_of(element)
        restriction = tracker.current_restriction()
        with self._reading(query) as (connection, table):
            condition, block_of = table.keys.plan(restriction, self.chunk_rows)
            claimed = None
            for key, record in self._rows(query, connection, table, condition):
                block = block_of(key)
                if block != claimed:
                    if not tracker.try_claim(block):
                        return
                    claimed = block
                yield record
        tracker.try_claim(b"" if isinstance(restriction, ByteKeyRange) else restriction.stop)

    def _query_of(self, element: Any) -> TableQuery:
        query = TableQuery(element) if isinstance(element, str) else element
        if not isinstance(query, TableQuery):
            raise InvalidTypeError(f"{type(self).__name__} reads a table's name or a TableQuery (got {show(element)}).")
        return query if query.columns else attrs.evolve(query, columns=self.columns)

    def _rows(self, query: TableQuery, connection: Any, table: _Table, condition: Any) -> Iterator[tuple[Any, Any]]:
        """Stream the rows for which a condition holds, in order: the key of each, and its record."""
        rows = connection.execution_options(yield_per=self.chunk_rows).execute(table.in_order(condition))
        try:
            for *values, key in rows:
                record = dict(zip(table.names, values, strict=True))
                for name, convert in table.converters.items():
                    record[name] = convert(record[name])
                yield key, ((query.table, key), record) if self.with_position else record
        except (ValueError, TypeError, ArithmeticError) as error:  # raised for a value that does not convert
            raise ReadError(
                f"{type(self).__name__}: {query} in {self.shown_url} has a value that is not of its column's type: "
                f"{type(error).__name__}: {error}. Mend that row, leave it out with TableQuery(where=...), or name the "
                f"other columns."
            ) from error

    @contextmanager
    def _reading(self, query: TableQuery) -> Iterator[tuple[Any, _Table]]:
        """Connect, and look up the table, once per worker and query."""
        who = type(self).__name__
        _check_there(who, self._engine.url)
        try:
            with self._engine.connect() as connection:
                if query not in self._tables:
                    self._tables[query] = _look_up(who, connection, query, self.key, self.shown_url)
                yield connection, self._tables[query]
        except sa.exc.SQLAlchemyError as error:
            raise SourceError(f"{who}: {query} in {self.shown_url}: {error}") from error


@attrs.frozen
class _Table:
    """The looked-up table of a query, and the SQL for its rows.

    Attributes:
        names: names of the columns of a row.
        keys: the handling of its keys.
        nullable: whether rows may have no key.
        rows: the SQL query for all rows, each with its key as the last column.
        converters: by the name of a column, what makes a value of its type of what SQLite holds.
    """

    names: tuple[str, ...]
    keys: IntegerKeys | ByteKeys
    nullable: bool
    rows: Any
    converters: Mapping[str, Callable[[Any], Any]]

    def in_order(self, condition: Any) -> Any:
        return self.rows.where(condition).order_by(self.keys.order)

    def without_key(self) -> Any:
        return self.rows.where(self.keys.order.is_(None)).limit(1)

    def ends(self) -> tuple[Any, Any]:
        """Return the queries for the lowest and for the highest key."""
        order = self.keys.order
        found = self.rows.with_only_columns(order).where(order.is_not(None)).limit(1)
        return found.order_by(order), found.order_by(order.desc())


def _within(bounds: tuple[Any, Any], low: Any, high: Any) -> tuple[Any, Any]:
    """Return the lowest and the highest key that lie within bounds of the same type; None and None if none can."""
    if type(low) is not type(high) or low is None:
        return low, high  # no row, or one whose key is not of the column's type, which is an error
    low = max([low, *(bound for bound in bounds[:1] if type(bound) is type(low))])
    high = min([high, *(bound for bound in bounds[1:] if type(bound) is type(high))])
    return (low, high) if low <= high else (None, None)


def _check_there(who: str, url: Any) -> None:
    """Raise SourceError if a URL names an SQLite file that does not exist: connecting would create it."""
    path = url.database
    if url.get_backend_name() != "sqlite" or not path or path.startswith((":", "file:")):
        return  # no file, or a URI, which itself says whether to create one
    if not os.path.exists(path):
        raise SourceError(f"{who}: there is no database {path!r} on host {socket.gethostname()!r}.")


def _look_up(who: str, connection: Any, query: TableQuery, key: str, url: str) -> _Table:
    where = f"{query} in {url}"
    try:
        columns = {column["name"]: column for column in sa.inspect(connection).get_columns(query.table, query.schema)}
    except sa.exc.NoSuchTableError as error:
        raise SourceError(f"{who}: there is no {where}. Name the schema too if it is not the default one.") from error
    names = query.columns or tuple(columns)
    for name in (key, *names):
        if name not in columns:
            raise SourceError(f"{who}: {where} has no column {name!r}; it has {show(list(columns))}.")
    kinds = {name: columns[name]["type"] for name in columns}
    table = sa.table(query.table, *(sa.column(name, kinds[name]) for name in columns), schema=query.schema)
    keys = keys_of(connection, table.c[key], kinds[key], f"{who}: key {key!r} of {where}")
    selected, converters = [table.c[name] for name in names], {}
    if connection.dialect.name == "sqlite":
        selected = [as_held(table.c[name], kinds[name]) for name in names]
        found = {name: converter_of(name, kinds[name]) for name in names}
        converters = {name: convert for name, convert in found.items() if convert is not None}
    rows = sa.select(*selected, keys.order.label(None))
    if query.where is not None:
        rows = rows.where(sa.text(f"({query.where}\n)"))
    return _Table(names, keys, columns[key]["nullable"], rows, converters)


def _missing_driver(who: str, url: Any, error: ModuleNotFoundError) -> MissingExtraError:
    return MissingExtraError(
        f"{who} needs {error.name}, the driver that {url.drivername!r} names, which is not installed here. Install the "
        f"package that SQLAlchemy's page on the dialect {url.get_backend_name()!r} names for it (on the driver and on "
        f"every executor). {RUN_DOCTOR}"
    )

"""SqlTable: records as rows that are added to a table of a database, through SQLAlchemy."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from operator import itemgetter
from typing import Any

import attrs

from sdf.errors import (
    RUN_DOCTOR,
    BadRecordError,
    InvalidTypeError,
    InvalidValueError,
    MissingExtraError,
    SinkError,
    show,
)
from sdf.sinks.columns import Misfit, columns_of
from sdf.sinks.files import as_count
from sdf.sinks.sink import Place, Sink, SinkRun, Token
from sdf.sinks.sql_stage import ATTEMPT, OWN, ROW, SqlStage, sa
from sdf.sinks.sql_values import check_same, for_column, make_exact, plain

__all__ = ["SqlTable"]

_DIALECTS = ("postgresql", "sqlite")
# Rows in a statement: psycopg takes 4.7 s for 80,000 rows of three columns by 100, and 9.6 s by 1,000, the default.
_PAGES = {"insertmanyvalues_page_size": 100}
_BUSY_SECONDS = 60  # SQLite lets one connection write at a time; the others wait
# Of what psycopg calls ProgrammingError: a value of the wrong type. Without a state, the driver itself refused it.
_WRONG_VALUE_STATES = (None, "42804", "42846")


def _is_text(sink: Any, attribute: Any, value: Any) -> None:
    if not isinstance(value, str) and (value is not None or attribute.default is attrs.NOTHING):
        raise InvalidTypeError(f"SqlTable {attribute.name} must be a string (got {show(value)}).")


def _as_url(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidTypeError(f"SqlTable url must be a string, such as 'sqlite:////data/my.db' (got a {type(value)}).")
    try:
        url = sa.make_url(value)
    except sa.exc.ArgumentError as error:
        raise InvalidValueError(
            "SqlTable url must be one that SQLAlchemy knows, such as 'postgresql+psycopg://user:password@host/name'."
        ) from error
    name = url.get_backend_name()
    if name not in _DIALECTS:
        raise InvalidValueError(f"SqlTable writes to {' and '.join(_DIALECTS)} (got a URL for {name!r}).")
    if name == "sqlite" and (url.database or ":memory:") == ":memory:":
        raise InvalidValueError("SqlTable url must name a file for SQLite: workers do not see the driver's memory.")
    if name == "sqlite" and not url.database.startswith("file:"):
        url = url.set(database=os.path.abspath(url.database))
    return str(url.render_as_string(hide_password=False))


def _as_columns(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Sequence) or not all(isinstance(one, str) for one in value):
        raise InvalidTypeError(f"SqlTable columns must be a list of names, or None for all (got {show(value)}).")
    if not value or len(set(value)) < len(value):
        raise InvalidValueError(f"SqlTable columns must be distinct names, at least one (got {show(value)}).")
    return tuple(value)


def _as_rows(value: Any) -> int:
    return as_count(value, "SqlTable batch_rows", "rows")


def _as_options(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidTypeError("SqlTable engine_options must be a mapping of names to values.")
    return dict(value or {})


@attrs.frozen
class SqlTable(Sink):
    """Adds records to a table of SQLite or PostgreSQL, all in one transaction at the end of the run.

    The table must be there. Workers put rows into a staging table beside it, with the types and the NOT NULL and (in
    PostgreSQL) CHECK conditions of the target, so that a row that does not fit fails at once. What only the whole can
    break, such as a key that is there already, fails at the commit, and nothing is added. The same run is never added
    twice: ``sdf_commits``, a table beside the target, remembers it; delete its rows only when the checkpoints of their
    runs are gone.

    A record is a dict, a named tuple, a Row of Spark, or an instance of an attrs class or a dataclass, by the names of
    its fields; a tuple or list, by position; or any other value, if there is only one column. A field that is missing
    is NULL, not the column's default. Each row is read back as it is inserted: a value that the database holds as
    another one is not written, such as a decimal with more digits than the column has, a text in a column of numbers, a
    text that PostgreSQL pads or cuts, NaN in SQLite, or a time with a zone in a column without. NumPy's numbers and
    arrays are taken as Python's.

    Args:
        url: URL of the database, as SQLAlchemy takes it, such as ``"postgresql+psycopg://user@host/name"``; for the
            driver and all executors the same database. The path of an SQLite file is made absolute.
        table: the name of the table.
        columns: the columns that get values; the others get their defaults. None: all that take values.
        schema: the schema of the table; None for the default one.
        batch_rows: rows inserted in one transaction of a worker.
        engine_options: keyword arguments for ``sqlalchemy.create_engine``.

    Raises:
        BadRecordError: when it runs, for a record that does not fit.
        InvalidTypeError, InvalidValueError: for a wrong option.
        MissingExtraError: if SQLAlchemy, or the driver of the database, is not installed.
        SinkError: when it runs, if there is no such table or column, or the database reports an error.
    """

    appends = True

    url: str = attrs.field(converter=_as_url, repr=False)  # with the password
    table: str = attrs.field(validator=_is_text)
    columns: tuple[str, ...] | None = attrs.field(default=None, kw_only=True, converter=_as_columns)
    schema: str | None = attrs.field(default=None, kw_only=True, validator=_is_text)
    batch_rows: int = attrs.field(default=1000, kw_only=True, converter=_as_rows)
    engine_options: dict[str, Any] = attrs.field(
        default=None, kw_only=True, converter=_as_options, repr=False, hash=False
    )

    def __attrs_post_init__(self) -> None:
        self._make_engine().dispose()

    def identity(self) -> Any:
        url = sa.make_url(self.url)
        return {
            "sink": "SqlTable",
            "database": [url.get_backend_name(), url.host, url.port, url.database],
            "table": self.table,
            "columns": None if self.columns is None else list(self.columns),
            "schema": self.schema,
        }

    def prepare(self, run: SinkRun) -> None:
        with self._stage("prepare", run.token) as stage:
            stage.prepare(run, self.columns)

    def write(self, records: Iterator[Any], place: Place) -> Any:
        with self._engine() as engine:
            with self._blaming("write"), engine.begin() as connection:
                stage = SqlStage(engine, self.table, self.schema, place.token, self._where)
                stage.check(connection, place.tag)
                insert = _Insert(self, engine, stage.reflected(connection), place.name)
            count = 0
            # Each batch in a transaction of its own: none is open while the records are made, which takes its time.
            while batch := list(islice(records, self.batch_rows)):
                with self._blaming("write"):
                    insert.all_of(batch, count)
                count += len(batch)
        return {"attempt": place.name, "records": count} if count else None

    def commit(self, messages: Sequence[Any], token: Token) -> None:
        counts: dict[str, int] = {}
        for message in messages:
            if message is not None:
                name = message["attempt"]
                if name in counts:
                    raise SinkError(f"two messages name the attempt {name!r}: the log of this run is damaged.")
                counts[name] = message["records"]
        with self._stage("commit", token) as stage:
            stage.commit(counts)

    def abort(self, messages: Sequence[Any], token: Token) -> None:
        with self._stage("abort", token) as stage:
            stage.drop(uncommitted=True)

    def clean(self, token: Token) -> None:
        with self._stage("clean", token) as stage:
            stage.drop(uncommitted=False)

    @property
    def _where(self) -> str:
        """The target, for messages."""
        kind, host, port, database = self.identity()["database"]
        at = "" if host is None else f" at {host}{'' if port is None else f':{port}'}"
        return f"table {self.schema + '.' if self.schema else ''}{self.table} of {kind} {database!r}{at}"

    @contextmanager
    def _stage(self, what: str, token: Token) -> Iterator[SqlStage]:
        with self._blaming(what), self._engine() as engine:
            yield SqlStage(engine, self.table, self.schema, token, self._where)

    @contextmanager
    def _engine(self) -> Iterator[Any]:
        engine = self._make_engine()
        path = engine.url.database
        # To connect would make the file.
        if engine.dialect.name == "sqlite" and not path.startswith("file:") and not os.path.exists(path):
            raise SinkError(
                f"SqlTable on host {socket.gethostname()!r}: there is no database {path!r}. Make it first, on a disk "
                f"that the driver and all executors share; or use PostgreSQL."
            )
        try:
            yield engine
        finally:
            engine.dispose()

    def _make_engine(self) -> Any:
        options = {"pool_pre_ping": True, **self.engine_options}
        is_sqlite = sa.make_url(self.url).get_backend_name() == "sqlite"
        if is_sqlite:
            options["connect_args"] = {"timeout": _BUSY_SECONDS, **options.get("connect_args", {})}
            options = {"json_serializer": partial(json.dumps, allow_nan=False), **options}  # NaN is none to its SQL
        try:
            engine = sa.create_engine(self.url, **options)
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"SqlTable needs {error.name}, the driver that {sa.make_url(self.url).drivername!r} names, which is "
                f"not installed here. Install the package that SQLAlchemy's page on that dialect names for it (on the "
                f"driver and on every executor). {RUN_DOCTOR}"
            ) from error
        if is_sqlite:
            sa.event.listen(engine, "connect", _leave_transactions)
            sa.event.listen(engine, "begin", _begin_to_write)
        return engine

    @contextmanager
    def _blaming(self, what: str) -> Iterator[None]:
        """Turn an error of the database into a SinkError that says how to go on."""
        try:
            yield
        except sa.exc.SQLAlchemyError as error:
            raise SinkError(
                f"SqlTable cannot {what} {self._where}: {_reason(error)}. What is committed in the checkpoint stays "
                f"valid: see that the database has room, answers and takes these rows, and run again to resume."
            ) from error


def _reason(error: Any) -> str:
    """Return what the database says, without the statement, which may be long."""
    cause = getattr(error, "orig", None) or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())}"


def _leave_transactions(connection: Any, record: Any) -> None:
    """Keep Python's driver from beginning transactions at its own time."""
    connection.isolation_level = None


def _begin_to_write(connection: Any) -> None:
    """Wait at the beginning for who else is writing; SQLite refuses to wait in the middle of a transaction."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")


class _Insert:
    """Puts the records of an attempt into the staging table."""

    def __init__(self, sink: SqlTable, engine: Any, table: Any, attempt: str) -> None:
        self._failures = (Misfit, sa.exc.StatementError, OverflowError, TypeError, ValueError)  # three are the drivers'
        self._where = sink._where
        self._engine = engine
        self._attempt = attempt
        self._names = list(sink.columns or (column.name for column in table.c if column.name not in OWN))
        self._columns = [table.c[name] for name in self._names]
        for column in self._columns:
            make_exact(column, engine.dialect.name)
        self._statement = table.insert().returning(table.c[ROW], *self._columns)

    def all_of(self, records: list[Any], first: int) -> None:
        """Insert records, all or none.

        Args:
            records: the records.
            first: the number of the first of them.

        Raises:
            BadRecordError: if one does not fit.
        """
        try:
            with self._engine.begin() as connection:
                self._insert(connection, records, first)
        except self._failures as error:
            if not self._refuses(error):
                raise
            for number, record in enumerate(records, first):
                self._try(record, number)
            raise  # each fits alone

    def _insert(self, connection: Any, records: list[Any], first: int) -> None:
        """Insert records, and read them back; raise Misfit for one that the database holds as another value."""
        names = self._names
        given = [plain(values, name) for name, values in zip(names, columns_of(records, names), strict=True)]
        columns = [for_column(column, values) for column, values in zip(self._columns, given, strict=True)]
        rows = [
            {ATTEMPT: self._attempt, ROW: number, **dict(zip(names, row, strict=True))}
            for number, row in enumerate(zip(*columns, strict=True), first)
        ]
        returned = connection.execute(self._statement, rows, execution_options=_PAGES)
        found = sorted(returned, key=itemgetter(0))
        check_same(names, given, list(zip(*found, strict=True))[1:])

    def _refuses(self, error: Exception) -> bool:
        """Tell whether an error is about a record, not about the table or the connection."""
        if not isinstance(error, sa.exc.DBAPIError):
            return True  # the value was not even sent
        if error.connection_invalidated:
            return False
        if isinstance(error, sa.exc.ProgrammingError):
            return getattr(error.orig, "sqlstate", None) in _WRONG_VALUE_STATES
        return isinstance(error, (sa.exc.IntegrityError, sa.exc.DataError, sa.exc.NotSupportedError))

    def _try(self, record: Any, number: int) -> None:
        """Insert a record and take it back; raise BadRecordError if it does not fit."""
        try:
            with self._engine.connect() as connection, connection.begin() as transaction:
                self._insert(connection, [record], number)
                transaction.rollback()
        except self._failures as error:
            if not self._refuses(error):
                raise
            if isinstance(error, Misfit):
                path: Any = error.path
                what = f"{show(error.value)} {error.flaw}"
            else:
                # PostgreSQL tells the column if it is one that must not be NULL
                path = getattr(getattr(getattr(error, "orig", None), "diag", None), "column_name", None)
                what = f"{show(record)}: {_reason(error)}"
            field = f" in field {path!r}" if path else ""
            bad = BadRecordError(
                f"SqlTable cannot write record {number} of this segment to {self._where}:{field} {what}."
            )
            bad.number = number
            raise bad from error

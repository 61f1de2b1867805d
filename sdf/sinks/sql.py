"""SqlTable: records inserted into a table of a database in one transaction, which marks itself; through SQLAlchemy.

Workers insert into a staging table, each row with the name of its attempt. The commit is one transaction: it inserts
the token into the table ``sdf_commits``, where it must be unique, and copies the rows of the named attempts. A commit
that finds its token there was made before.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any

import attrs

from sdf.errors import BadRecordError, InvalidTypeError, SdfError, SinkError, show
from sdf.extras import need
from sdf.sinks.columns import names_of
from sdf.sinks.sink import Place, Sink, SinkRun, Token

__all__ = ["SqlTable"]

_TOGETHER = 1000  # records in one INSERT, and in one transaction of a worker: SQLite has one writer at a time
_WAIT_SECONDS = 60
_ATTEMPT = "sdf_attempt"
_COMMITS = "sdf_commits"


def _as_columns(value: Any) -> tuple[str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str) or not all(isinstance(name, str) for name in value) or not value:
        raise InvalidTypeError(f"SqlTable columns must be names of columns, or None for all (got {show(value)}).")
    return tuple(value)


@attrs.frozen
class SqlTable(Sink):
    """Appends records to a table of SQLite, PostgreSQL or another database of SQLAlchemy with transactional inserts.

    A record is a dict, a named tuple, or an instance of an attrs class or a dataclass, by the names of its fields; or a
    tuple or list, by position. A column that a record does not have gets NULL.

    The user of the database must be able to make tables. A staging table, ``sdf_stage_<digits>``, is there while the
    run is not done; ``sdf_commits`` stays.

    Args:
        url: the database, as SQLAlchemy takes it. Its password is neither in the log nor in messages.
        table: the name of the table, which must exist, with its schema if it is not the default one: "sales.orders".
        columns: the columns to fill, in the order of records that are tuples; None: all.

    Raises:
        BadRecordError: when it runs, for a record that the database refuses.
        MissingExtraError: if SQLAlchemy is not installed.
        SinkError: when it runs, if the table is not there, or the database fails.
    """

    appends = True

    url: str = attrs.field(validator=attrs.validators.instance_of(str), repr=False)
    table: str = attrs.field(validator=attrs.validators.instance_of(str))
    columns: tuple[str, ...] | None = attrs.field(default=None, kw_only=True, converter=_as_columns)

    def __attrs_post_init__(self) -> None:
        need("sqlalchemy", "SqlTable")

    def identity(self) -> Any:
        columns = None if self.columns is None else list(self.columns)
        return {"sink": "SqlTable", "database": self._shown(), "table": self.table, "columns": columns}

    def _shown(self) -> str:
        return str(need("sqlalchemy.engine", "SqlTable").make_url(self.url).render_as_string(hide_password=True))

    # The driver.

    def prepare(self, run: SinkRun) -> None:
        sql = need("sqlalchemy", "SqlTable")
        with self._engine("prepare") as engine:
            target = self._target(engine)
            self._commits().create(engine, checkfirst=True)
            columns = [sql.Column(one.name, one.type, nullable=one.nullable) for one in target]
            attempt = sql.Column(_ATTEMPT, sql.String(64), index=True)
            sql.Table(self._stage_name(run.token), sql.MetaData(), attempt, *columns).create(engine, checkfirst=True)

    def commit(self, messages: Sequence[Any], token: Token) -> None:
        errors = need("sqlalchemy.exc", "SqlTable")
        wanted = {message["attempt"]: message["records"] for message in messages if message is not None}
        mark = self._commits().insert().values(app=f"{token.app}/{self.table}", version=token.version)
        marked = False
        with self._engine("commit") as engine:
            try:
                with engine.begin() as connection:
                    connection.execute(mark)  # waits for another driver that is at it, and fails if that commits
                    marked = True
                    if wanted:
                        self._copy(connection, wanted, token)
            except errors.IntegrityError:
                if marked:
                    raise

    def _copy(self, connection: Any, wanted: Mapping[str, int], token: Token) -> None:
        """Copy the rows of some attempts, given with their numbers of records, from the staging table."""
        sql = need("sqlalchemy", "SqlTable")
        stage, target = self._stage(connection, token), self._target(connection)
        name = sql.Column("name", sql.String(64), primary_key=True)
        names = sql.Table("sdf_names", sql.MetaData(), name, prefixes=["TEMPORARY"])
        names.create(connection)
        connection.execute(names.insert(), [{"name": name} for name in wanted])
        named = sql.select(stage).join(names, stage.c[_ATTEMPT] == names.c.name).subquery()
        attempt = named.c[_ATTEMPT]
        counts = connection.execute(sql.select(attempt, sql.func.count()).group_by(attempt)).all()
        self._check_counts(wanted, dict(map(tuple, counts)), token)
        columns = [one.name for one in target]
        rows = sql.select(*(named.c[name] for name in columns))
        connection.execute(target[0].table.insert().from_select(columns, rows))
        names.drop(connection)

    def _check_counts(self, wanted: Mapping[str, int], found: Mapping[str, int], token: Token) -> None:
        for name, count in wanted.items():
            if found.get(name, 0) != count:
                raise SinkError(
                    f"SqlTable cannot commit {token} to {self.table!r} of {self._shown()}: the staging table has "
                    f"{found.get(name, 0)} records of attempt {name}, and {count} were written. Nothing was committed. "
                    f"Somebody else has changed it: start over with a new checkpoint."
                )

    def abort(self, messages: Sequence[Any], token: Token) -> None:
        self.clean(token)

    def clean(self, token: Token) -> None:
        sql = need("sqlalchemy", "SqlTable")
        with self._engine("clean") as engine:
            sql.Table(self._stage_name(token), sql.MetaData()).drop(engine, checkfirst=True)

    # The workers.

    def write(self, records: Iterator[Any], place: Place) -> Any:
        written = 0
        with self._engine("write") as engine:
            stage = self._stage(engine, place.token)
            names = [column.name for column in stage.columns if column.name != _ATTEMPT]
            while batch := list(islice(records, _TOGETHER)):
                rows = [self._row(record, names, written + at, place) for at, record in enumerate(batch)]
                self._insert(engine, stage, rows, written)
                written += len(batch)
        return {"attempt": place.name, "records": written} if written else None

    def _row(self, record: Any, names: list[str], number: int, place: Place) -> dict[str, Any]:
        if isinstance(record, Mapping):
            row = dict(record)
        elif type(record) in (tuple, list):
            row = dict(zip(names, record, strict=False))
            if len(record) != len(names):
                raise _bad(number, f"{show(record)} has {len(record)} values, and the columns are {names}")
        else:
            try:
                row = {name: getattr(record, name) for name in names_of(record)}
            except Exception as error:  # a value without fields
                raise _bad(number, f"{show(record)} has no fields") from error
        unknown = [name for name in row if name not in names]
        if unknown:
            raise _bad(number, f"field {unknown[0]!r} ({show(row[unknown[0]])}) is no column of {self.table!r}")
        return {**dict.fromkeys(names), **row, _ATTEMPT: place.name}

    def _insert(self, engine: Any, stage: Any, rows: list[dict[str, Any]], first: int) -> None:
        """Insert rows in one transaction; if the database refuses them, find the first that it refuses."""
        errors = need("sqlalchemy.exc", "SqlTable")
        refusals = (errors.DataError, errors.IntegrityError, errors.StatementError)
        try:
            with engine.begin() as connection:
                connection.execute(stage.insert(), rows)
            return
        except refusals as error:
            if isinstance(error, (errors.OperationalError, errors.InterfaceError)):
                raise
            refused = error
        for number, row in enumerate(rows, first):
            try:
                with engine.connect() as connection, connection.begin() as trial:
                    connection.execute(stage.insert(), [row])
                    trial.rollback()
            except refusals as error:
                shown = {name: value for name, value in row.items() if name != _ATTEMPT}
                raise _bad(number, f"{show(shown)} is refused: {str(error.orig or error).splitlines()[0]}") from error
        raise refused

    # The database.

    @contextmanager
    def _engine(self, what: str) -> Iterator[Any]:
        """Give an engine; raise what the database raises as a SinkError."""
        sql, errors = need("sqlalchemy", "SqlTable"), need("sqlalchemy.exc", "SqlTable")
        pool = need("sqlalchemy.pool", "SqlTable")
        sqlite = self.url.startswith("sqlite")
        engine = sql.create_engine(
            self.url, poolclass=pool.NullPool, connect_args={"timeout": _WAIT_SECONDS} if sqlite else {}
        )
        try:
            yield engine
        except SdfError:
            raise
        except errors.SQLAlchemyError as error:
            raise SinkError(
                f"SqlTable cannot {what} {self.table!r} of {self._shown()}: {type(error).__name__}: "
                f"{str(getattr(error, 'orig', None) or error).splitlines()[0]}. What is committed in the checkpoint "
                f"stays valid: mend it, and run again to resume."
            ) from error
        finally:
            engine.dispose()

    def _target(self, bind: Any) -> list[Any]:
        """Return the columns to fill; raise SinkError if they are not there."""
        sql, errors = need("sqlalchemy", "SqlTable"), need("sqlalchemy.exc", "SqlTable")
        schema, _, name = self.table.rpartition(".")
        try:
            table = sql.Table(name, sql.MetaData(), schema=schema or None, autoload_with=bind)
        except errors.NoSuchTableError as error:
            raise SinkError(
                f"SqlTable: there is no table {self.table!r} in {self._shown()}. Make it first: its columns say what "
                f"the types are."
            ) from error
        lacking = [name for name in self.columns or () if name not in table.columns]
        if lacking:
            raise SinkError(
                f"SqlTable: {self.table!r} of {self._shown()} has no column {lacking[0]!r}; its columns are "
                f"{show(tuple(table.columns.keys()))}."
            )
        return [table.columns[name] for name in self.columns or table.columns.keys()]

    def _stage_name(self, token: Token) -> str:
        of = f"{token}/{self.table}/{self.columns}"
        return f"sdf_stage_{hashlib.sha256(of.encode()).hexdigest()[:16]}"

    def _stage(self, bind: Any, token: Token) -> Any:
        sql, errors = need("sqlalchemy", "SqlTable"), need("sqlalchemy.exc", "SqlTable")
        name = self._stage_name(token)
        try:
            return sql.Table(name, sql.MetaData(), autoload_with=bind)
        except errors.NoSuchTableError as error:
            raise SinkError(
                f"SqlTable: the staging table {name!r} of this run is not in {self._shown()}. Either this host reaches "
                f"another database than the driver: give a URL that means the same on all hosts. Or the run has "
                f"ended, and this attempt came too late: then nothing is amiss."
            ) from error

    @staticmethod
    def _commits() -> Any:
        sql = need("sqlalchemy", "SqlTable")
        return sql.Table(
            _COMMITS,
            sql.MetaData(),
            sql.Column("app", sql.String(255), primary_key=True),
            sql.Column("version", sql.BigInteger, primary_key=True),
        )


def _bad(number: int, flaw: str) -> BadRecordError:
    error = BadRecordError(f"SqlTable cannot write record {number} of this segment: {flaw}.")
    error.number = number
    return error

"""SqlStage: the tables that one commit to a database needs, and the transaction that makes its rows visible.

``sdf_commits`` has a row for each commit that was made: its key lets a second one of the same token fail. A staging
table takes the rows of all attempts, each with the name of its attempt. ``sdf_stages`` has a row for each staging
table, made and removed in one transaction with it; a worker that does not find it sees another database.
"""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sdf.errors import SinkError, show
from sdf.extras import Library
from sdf.sinks.sink import SinkRun, Token

__all__ = ["ATTEMPT", "OWN", "ROW", "SqlStage", "sa"]

sa = Library("sqlalchemy", "SqlTable")

ATTEMPT = "sdf_attempt"
ROW = "sdf_row"  # the number of a record within its attempt
OWN = (ATTEMPT, ROW)

_COLUMNS = """SELECT attname, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute
WHERE attrelid = CAST(:table AS regclass) AND attnum > 0 AND NOT attisdropped"""
_CHECKS = """SELECT pg_get_constraintdef(oid) FROM pg_constraint
WHERE conrelid = CAST(:table AS regclass) AND contype = 'c'"""


class SqlStage:
    """What is in the database for one commit.

    Args:
        engine: an engine of SQLAlchemy.
        table: the name of the target.
        schema: its schema, None for the default one; staging is in the same.
        token: the token of the commit.
        where: names the target in messages.
    """

    def __init__(self, engine: Any, table: str, schema: str | None, token: Token, where: str) -> None:
        self._engine = engine
        self._table = table
        self._schema = schema
        self._token = token
        self._where = where
        key = hashlib.sha256(repr((token.app, token.version, schema, table)).encode()).hexdigest()[:32]
        self.name = f"sdf_stage_{key}"  # PostgreSQL cuts names at 63 bytes
        known = sa.MetaData(schema=schema)
        self._commits = sa.Table(
            "sdf_commits",
            known,
            sa.Column("app", sa.Text, primary_key=True),
            sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
            sa.Column("target", sa.Text, primary_key=True),  # outputs of one run may go to several tables
        )
        self._stages = sa.Table(
            "sdf_stages",
            known,
            sa.Column("name", sa.Text, primary_key=True),
            sa.Column("app", sa.Text, nullable=False),
            sa.Column("version", sa.BigInteger, nullable=False),
            sa.Column("target", sa.Text, nullable=False),
            sa.Column("tag", sa.Text, nullable=False),
        )
        self._mark = {"app": token.app, "version": token.version, "target": table}

    def prepare(self, run: SinkRun, columns: tuple[str, ...] | None) -> None:
        """Make the tables; raise SinkError if the target is not there, or cannot take rows with these columns."""
        for table in (self._commits, self._stages):
            with self._unless_there():
                table.create(self._engine, checkfirst=True)
        with self._engine.begin() as connection:
            if self._is_committed(connection):
                return
            tag = self._tag(connection)
        if tag is None:
            with self._unless_there(), self._engine.begin() as connection:
                self._make_stage(connection, columns)
                connection.execute(self._stages.insert().values(name=self.name, tag=run.tag, **self._mark))
            with self._engine.begin() as connection:
                tag = self._tag(connection)
        if tag != run.tag:
            raise SinkError(
                f"SqlTable cannot write output {run.tag!r} to {self._where}: the output {tag!r} of this run goes "
                f"there. Give each output a table of its own."
            )
        with self._engine.begin() as connection:
            self._follow_target(connection, columns)
            # fails without the right to, and for a view that takes no rows
            connection.execute(self._copy(self.reflected(connection), sa.false()))

    @contextmanager
    def _unless_there(self) -> Iterator[None]:
        """Let another driver be first to make a table: PostgreSQL refuses the second in one of several ways."""
        errors = sa.exc
        try:
            yield
        except (errors.IntegrityError, errors.ProgrammingError, errors.OperationalError) as error:
            if "already exists" not in str(error.orig) and not isinstance(error, errors.IntegrityError):
                raise

    def _make_stage(self, connection: Any, columns: tuple[str, ...] | None) -> None:
        """Make the staging table, with the types and conditions of the target, so that what it refuses fails early."""
        names, others = self._columns(connection, columns)
        quote = self._engine.dialect.identifier_preparer
        target = quote.format_table(sa.table(self._table, schema=self._schema))
        stage = quote.format_table(sa.table(self.name, schema=self._schema))
        if self._engine.dialect.name == "sqlite":
            connection.exec_driver_sql(self._sqlite_ddl(connection, stage, names))
        else:
            connection.exec_driver_sql(f"CREATE TABLE {stage} (LIKE {target} INCLUDING CONSTRAINTS)")
            for name in others:
                connection.exec_driver_sql(f"ALTER TABLE {stage} DROP COLUMN {quote.quote(name)}")
            connection.exec_driver_sql(f"ALTER TABLE {stage} ADD {ATTEMPT} TEXT NOT NULL, ADD {ROW} BIGINT NOT NULL")

    def _follow_target(self, connection: Any, columns: tuple[str, ...] | None) -> None:
        """Make the staging table anew, with its rows, if the target has other columns or conditions than it had."""
        wanted, wanted_checks = self._shape(connection, self._table)
        found, checks = self._shape(connection, self.name)
        names = list(columns or wanted)
        if found.keys() != set(names):
            names = self._columns(connection, columns)[0]
        if found == {name: wanted.get(name) for name in names} and checks <= wanted_checks:
            return
        quote = self._engine.dialect.identifier_preparer
        old = sa.Table(f"{self.name}_old", sa.MetaData(), schema=self._schema)
        stage = quote.format_table(sa.table(self.name, schema=self._schema))
        connection.exec_driver_sql(f"ALTER TABLE {stage} RENAME TO {quote.quote(old.name)}")
        self._make_stage(connection, columns)
        old = sa.Table(old.name, sa.MetaData(), schema=self._schema, autoload_with=connection)
        new = self.reflected(connection)
        both = [column.name for column in old.c if column.name in new.c]
        lost = [column.is_not(None) for column in old.c if column.name not in new.c]
        for name in both:
            if name not in OWN and found[name][0] != wanted[name][0]:
                lost.append(old.c[name].is_distinct_from(new.c[name]))
                if self._engine.dialect.name == "sqlite":  # where 5 is not distinct from '5'
                    lost.append(sa.func.typeof(old.c[name]) != sa.func.typeof(new.c[name]))
        same = (old.c[ATTEMPT] == new.c[ATTEMPT]) & (old.c[ROW] == new.c[ROW])
        flaw: Any = None
        try:
            connection.execute(new.insert().from_select(both, sa.select(*(old.c[name] for name in both))))
            changed = sa.select(old.c[ROW]).join(new, same).where(sa.or_(sa.false(), *lost)).limit(1)
            is_same = connection.execute(changed).first() is None
        except (sa.exc.IntegrityError, sa.exc.DataError, sa.exc.ProgrammingError) as error:  # not of the connection
            flaw, is_same = error, False
        if not is_same:
            raise SinkError(
                f"SqlTable cannot go on: the columns of {self._where} have changed, and records that were written "
                f"before do not fit them{f' ({flaw.orig})' if flaw else ''}. Change them back, or start over with a "
                f"new checkpoint."
            ) from flaw
        old.drop(connection)

    def _shape(self, connection: Any, table: str) -> tuple[dict[str, tuple[str, bool]], set[str]]:
        """Return type and nullability of the columns of a table by their names, and its conditions."""
        quote = self._engine.dialect.identifier_preparer
        if self._engine.dialect.name == "sqlite":
            schema = "" if self._schema is None else f"{quote.quote_identifier(self._schema)}."
            rows = connection.exec_driver_sql(f"PRAGMA {schema}table_info({quote.quote_identifier(table)})").mappings()
            found = {one["name"]: (one["type"], bool(one["notnull"])) for one in rows}
            return {name: kind for name, kind in found.items() if name not in OWN}, set()
        parts = [table] if self._schema is None else [self._schema, table]
        key = {"table": ".".join('"' + part.replace('"', '""') + '"' for part in parts)}  # a value: no % is doubled
        rows = connection.execute(sa.text(_COLUMNS), key)
        found = {name: (kind, not_null) for name, kind, not_null in rows if name not in OWN}
        return found, set(connection.scalars(sa.text(_CHECKS), key))

    def _columns(self, connection: Any, columns: tuple[str, ...] | None) -> tuple[list[str], list[str]]:
        """Return the names of the columns that get values, and of the others."""
        try:
            found = sa.inspect(connection).get_columns(self._table, self._schema)
        except sa.exc.NoSuchTableError as error:
            raise SinkError(
                f"SqlTable appends to a table, but there is no {self._where}. Make it first, or name its schema= if it "
                f"is not the default one."
            ) from error
        takes = [one["name"] for one in found if not _is_generated(one)]
        for name in columns or ():
            if name not in takes:
                raise SinkError(
                    f"SqlTable columns: {self._where} has no column {name!r} that takes values; it has {show(takes)}."
                )
        names = list(columns or takes)
        for name in OWN:
            if name in takes:
                raise SinkError(f"SqlTable needs the name {name!r} for itself, but {self._where} has such a column.")
        for one in found:
            if one["name"] not in names and _needs_value(one, self._engine.dialect.name):
                raise SinkError(
                    f"SqlTable columns: {self._where} needs a value in {one['name']!r}, which is not one of the "
                    f"columns {show(names)}. Name it too, or give it a default in the database."
                )
        return names, [one["name"] for one in found if one["name"] not in names]

    def _sqlite_ddl(self, connection: Any, stage: str, names: list[str]) -> str:
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        schema = "" if self._schema is None else f"{quote(self._schema)}."
        columns = connection.exec_driver_sql(f"PRAGMA {schema}table_info({quote(self._table)})").mappings()
        columns = [one for one in columns if one["name"] in names]
        lines = [f"{quote(one['name'])} {one['type']}{' NOT NULL' if one['notnull'] else ''}" for one in columns]
        [kind] = connection.exec_driver_sql(f"PRAGMA {schema}table_list({quote(self._table)})").mappings()
        keys = [one for one in columns if one["pk"]]
        if len(keys) == 1 and keys[0]["type"].upper() == "INTEGER" and not kind["wr"]:  # takes no other value
            lines.append(f"CHECK (typeof({quote(keys[0]['name'])}) IN ('integer', 'null'))")
        lines = [f"{ATTEMPT} TEXT NOT NULL", f"{ROW} INTEGER NOT NULL", *lines]
        return f"CREATE TABLE {stage} ({', '.join(lines)}){' STRICT' if kind['strict'] else ''}"

    def _is_committed(self, connection: Any) -> bool:
        return connection.execute(sa.select(self._commits).filter_by(**self._mark)).first() is not None

    def _tag(self, connection: Any) -> str | None:
        """Return the output that the staging table is for, None if it is not there."""
        found = sa.select(self._stages.c.tag).where(self._stages.c.name == self.name)
        tag: str | None = connection.scalar(found)
        return tag

    def reflected(self, connection: Any) -> Any:
        """Return the staging table as SQLAlchemy's."""
        return sa.Table(self.name, sa.MetaData(), schema=self._schema, autoload_with=connection)

    def check(self, connection: Any, tag: str) -> None:
        """Raise SinkError, on a worker, unless the staging table is there, and is for this output."""
        is_there = sa.inspect(connection).has_table("sdf_stages", schema=self._schema)
        found = self._tag(connection) if is_there else None
        if found == tag:
            return
        if found is None:
            raise SinkError(
                f"SqlTable on host {socket.gethostname()!r}: the staging table {self.name!r} of this run is not in the "
                f"database of {self._where}. Either this host sees another database than the driver: then give a URL "
                f"that means the same on the driver and all executors. Or the run has ended, and this attempt came too "
                f"late: then nothing is amiss."
            )
        raise SinkError(
            f"SqlTable: the staging table {self.name!r} of {self._where} is for output {found!r}, not {tag!r}. Give "
            f"each output a table of its own."
        )

    def commit(self, counts: Mapping[str, int]) -> None:
        """Copy the rows of these attempts to the target, given by their numbers, and mark that; all or nothing."""
        with self._engine.connect() as connection:
            transaction = connection.begin()
            try:
                connection.execute(self._commits.insert().values(**self._mark))
            except sa.exc.IntegrityError:
                transaction.rollback()
                with connection.begin():
                    if self._is_committed(connection):
                        return
                raise
            if self._tag(connection) is None:
                raise SinkError(
                    f"SqlTable cannot commit {self._token} to {self._where}: neither is it marked as committed in "
                    f"'sdf_commits', nor is the staging table {self.name!r} there. Both were removed, or the database "
                    f"is another one than before. Start over with a new checkpoint."
                )
            self._copy_named(connection, counts)
            transaction.commit()

    def _copy_named(self, connection: Any, counts: Mapping[str, int]) -> None:
        stage = self.reflected(connection)
        named = sa.Table(  # a statement takes only so many parameters
            f"{self.name}_named",
            sa.MetaData(),
            sa.Column("attempt", sa.Text, primary_key=True),
            prefixes=["TEMPORARY"],
        )
        named.create(connection)
        if counts:
            connection.execute(named.insert(), [{"attempt": name} for name in counts])
        attempt = stage.c[ATTEMPT]
        found = sa.select(attempt, sa.func.count()).join(named, named.c.attempt == attempt).group_by(attempt)
        there = {name: count for name, count in connection.execute(found)}  # noqa: C416, rows are no pairs to mypy
        for name, count in counts.items():
            if there.get(name, 0) != count:
                raise SinkError(
                    f"SqlTable cannot commit {self._token} to {self._where}: the attempt {name!r} wrote {count} "
                    f"records, but {there.get(name, 0)} are in the staging table {self.name!r}. Nothing was committed. "
                    f"Somebody else has changed that table: start over with a new checkpoint."
                )
        copy = self._copy(stage, attempt.in_(sa.select(named.c.attempt)))
        added = connection.execute(copy, execution_options={"preserve_rowcount": True}).rowcount
        if added != sum(counts.values()):
            raise SinkError(
                f"SqlTable cannot commit {self._token} to {self._where}: of {sum(counts.values())} rows the database "
                f"would add {added}. A trigger or a rule of the table keeps the others out. Nothing was committed."
            )
        named.drop(connection)

    def _copy(self, stage: Any, condition: Any) -> Any:
        """Return the statement that copies rows of the staging table to the target."""
        names = [column.name for column in stage.c if column.name not in OWN]
        target = sa.table(self._table, *map(sa.column, names), schema=self._schema)
        rows = sa.select(*(stage.c[name] for name in names)).where(condition)
        return target.insert().from_select(names, rows)

    def drop(self, *, uncommitted: bool) -> None:
        """Remove the staging table, if it is there.

        Args:
            uncommitted: raise SinkError, and change nothing, if the token was committed.
        """
        with self._engine.begin() as connection:
            if not sa.inspect(connection).has_table("sdf_stages", schema=self._schema):
                return
            if self._tag(connection) is not None:
                sa.Table(self.name, sa.MetaData(), schema=self._schema).drop(connection, checkfirst=True)
                connection.execute(self._stages.delete().where(self._stages.c.name == self.name))
            # Looked up last: to drop the table waited for a driver that was just committing from it.
            if uncommitted and self._is_committed(connection):
                raise SinkError(
                    f"SqlTable does not remove what {self._token} added to {self._where}: it was committed. Run again "
                    f"to end the run, or delete the rows yourself."
                )


def _is_generated(column: Mapping[str, Any]) -> bool:
    """Tell whether only the database itself puts values into a column."""
    return column.get("computed") is not None or bool((column.get("identity") or {}).get("always"))


def _needs_value(column: Mapping[str, Any], dialect: str) -> bool:
    numbered = dialect == "sqlite" and column.get("primary_key")  # if it is an integer
    generated = _is_generated(column) or column.get("identity") is not None
    return not (column["nullable"] or column["default"] is not None or generated or numbered)

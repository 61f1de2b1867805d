"""TableSink: what the sinks that add Parquet files to a table have in common.

The files lie in staging until the commit. It publishes them where the table's are, and asks for one change of the table
that names them and the token. Whether that was made is seen in the table alone: so the commit looks there, and tries
again if somebody else has changed the table first, until the table holds the token.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar

import attrs

from sdf.errors import InvalidValueError, SinkError, show
from sdf.sinks.files import as_path, files_of, is_on_hdfs
from sdf.sinks.parquet import ParquetFiles
from sdf.sinks.schema import nullable, required
from sdf.sinks.sink import SinkRun, Token
from sdf.sinks.table_files import TableFiles

__all__ = ["TableSink", "as_table_path"]

_TRIES = 30
_PAUSE_SECONDS = 0.1  # more with each try
_REFUSALS = 3  # of one version of the table: nobody was faster


def as_table_path(value: Any) -> str:
    """Return the directory of a table as an absolute path or a URL."""
    if isinstance(value, str) and is_on_hdfs(value):
        raise InvalidValueError(
            f"a table on HDFS cannot be written (got {show(value)}): the libraries of DeltaTable and IcebergTable do "
            f"not reach it from a worker. Put the table on an object store or a disk; or save ParquetFiles to "
            f"webhdfs://host:9870/x, and let Spark add them to the table."
        )
    return as_path(value)


@attrs.frozen
class TableSink(ParquetFiles):
    """Base of the sinks that add files to a table. A table is what their library has for one, None: it is not there."""

    appends = True
    path: str = attrs.field(converter=as_table_path)
    not_null: ClassVar[str]  # who does not check that a column has no null

    @abstractmethod
    def _load(self) -> Any:
        """Return the table as it is now."""

    @abstractmethod
    def _version(self, table: Any) -> Any:
        """Return what changes whenever somebody changes a table that is there."""

    @abstractmethod
    def _holds(self, table: Any, token: Token) -> bool:
        """Tell whether a table that is there has taken up a commit."""

    @abstractmethod
    def _files(self, table: Any, token: Token) -> TableFiles:
        """Return the files of a commit."""

    @abstractmethod
    def _schema_for(self, table: Any) -> Any:
        """Return the schema of files for a table; None if it is to be found from the first records."""

    @abstractmethod
    def _shape(self, table: Any) -> tuple[Any, Sequence[str]]:
        """Return the schema of a table that is there, as pyarrow's, and the names of its partitions.

        Raises:
            SinkError: if the table has what its library cannot write or keep.
        """

    @abstractmethod
    def _add(self, table: Any, files: TableFiles, messages: Sequence[Any], token: Token) -> Exception | None:
        """Ask once for a change of the table; return the error if it was refused, as it is when others were faster."""

    def for_schema(self, schema: Any) -> ParquetFiles:
        with self._blaming("look at"):
            return self if self._load() is not None else super().for_schema(schema)

    def beside(self) -> str | None:
        return None

    @property
    def advice(self) -> str:
        return (
            "Change the table, or pass a schema=, so that such records fit, and make the same call again: the run goes "
            "on. With on_error='tag' such records go to the output 'bad'."
        )

    def prepare(self, run: SinkRun) -> None:
        with self._blaming("prepare"):
            table = self._load()
            if self._is_done(table, run.token):
                return
            schema = self._schema_for(table)
            if table is not None:
                self._check(table, schema)
            if schema is None and self.rejects:
                raise InvalidValueError(
                    f"{type(self).__name__} on_error='tag' needs a schema, as there is no table {self.path!r} yet. "
                    f"Pass schema=, or make the table first."
                )
            files = self._files(table, run.token)
            files.begin(run)
            if files.any_written():  # by an earlier driver, when the table or the given schema was another one
                self._check_columns(schema if table is None else self._shape(table)[0], files.schema())
            if schema is not None:
                files.propose(schema)

    def commit(self, messages: Sequence[Any], token: Token) -> None:
        sizes = files_of(messages)
        with self._blaming("commit"):
            seen, refusal, refused = None, None, 0
            for attempt in range(_TRIES):
                time.sleep(attempt * _PAUSE_SECONDS)
                table = self._load()
                files = self._files(table, token)
                if self._is_done(table, token):
                    files.restore(sizes)
                    return
                version = None if table is None else self._version(table)
                refused = refused + 1 if refusal is not None and version == seen else 0
                if refusal is not None and refused == _REFUSALS:
                    raise refusal
                if table is not None:
                    self._check(table, files.schema())
                elif not sizes and files.schema() is None:
                    return  # no records, no schema, no table
                files.publish(sizes, anew=attempt == 0)
                seen, refusal = version, self._add(table, files, messages, token)
        raise SinkError(
            f"{type(self).__name__} cannot commit {token} to {self.path!r}: others committed first {_TRIES} times. "
            f"Nothing was added. Run again when there are fewer of them."
        )

    def abort(self, messages: Sequence[Any], token: Token) -> None:
        with self._blaming("abort"):
            table = self._load()
            if self._is_done(table, token):
                raise SinkError(
                    f"{type(self).__name__} does not remove what {token} added to {self.path!r}: it was committed. Run "
                    f"again to end the run, or delete the rows yourself."
                )
            self.stage(token).clean()
            self._files(table, token).withdraw(files_of(messages))

    def _check(self, table: Any, schema: Any) -> None:
        """Raise SinkError if files cannot be added to a table that is there; no schema: it is not known yet."""
        theirs, partitions = self._shape(table)
        if partitions:
            raise self._refused(f"it has the partitions {partitions}. Give a table without")
        must = required(theirs)
        if must:
            raise self._refused(f"its column {must[0]!r} must not be null, which {self.not_null} check. Allow it")
        self._check_columns(theirs, schema)

    def _check_columns(self, theirs: Any, schema: Any) -> None:
        """Raise SinkError unless a table, given by its schema, has all columns of files as these have them."""
        if theirs is None or schema is None:
            return  # it is found from the records
        theirs = nullable(theirs)
        known = set(theirs.names)
        for field in schema:
            if field.name not in known:
                raise self._refused(f"it has no column {field.name!r}, only {show(theirs.names)}. Add the column to it")
            flaw = self._flaw_of(theirs.field(field.name), field)
            if flaw:
                raise self._refused(flaw)

    def _flaw_of(self, found: Any, field: Any) -> str:
        """Return what is wrong with a column of a table that is to take a field of files, "" for nothing."""
        if found.type == field.type:
            return ""
        return f"its column {field.name!r} has type {found.type}, not {field.type}. Give a schema"

    def _refused(self, why: str) -> SinkError:
        return SinkError(f"{type(self).__name__} cannot add to {self.path!r}: {why}, or write to another table.")

    def _is_done(self, table: Any, token: Token) -> bool:
        return table is not None and self._holds(table, token)

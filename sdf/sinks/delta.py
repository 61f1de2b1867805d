"""DeltaTable: records appended to a Delta table in one transaction, which names itself; the library deltalake does it.

Workers write Parquet files right into the table's directory. A file counts only when the log of the table names it, so
nobody sees them before the commit. The commit is one entry in that log, with an application transaction (``txn``): the
app and the version of the token. A commit that finds them in the table was made before.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import attrs

from sdf.errors import SdfError, SinkError, show
from sdf.extras import need
from sdf.sinks.on_disk import DiskStage
from sdf.sinks.parquet import ParquetFiles
from sdf.sinks.sink import SinkRun, Token
from sdf.sinks.stage import Stage

__all__ = ["DeltaTable"]

_TRIES = 20
_SCHEMA = "schema"


@attrs.frozen
class DeltaTable(ParquetFiles):
    """Appends records to a Delta table, which is made if it is not there. See `ParquetFiles` for records and schemas.

    A table that is there decides the schema; it must not be partitioned. Other writers may append, overwrite or delete
    meanwhile. Uncommitted files lie in the table's directory. A VACUUM removes such files when they are older than its
    retention, seven days by default: a run that takes longer, or a VACUUM with less, makes the commit fail with a
    `SinkError` that names the file; nothing is committed then.

    Args:
        path: the directory of the table.
        schema, compression, target_bytes, row_group_bytes, on_error: as for `ParquetFiles`.

    Raises:
        MissingExtraError: if deltalake or pyarrow is not installed.
        SinkError: when it runs, if the table does not fit or cannot be written.
    """

    appends = True

    def __attrs_post_init__(self) -> None:
        need("deltalake", "DeltaTable")
        super().__attrs_post_init__()

    def beside(self) -> str | None:
        return None

    def stage(self, token: Token) -> Stage:
        return _TableStage(self.path, f"{self.path}/_sdf", token, type(self).__name__)

    def prepare(self, run: SinkRun) -> None:
        stage, table = self.stage(run.token), self._table()
        with self._blaming("prepare"):
            stage.prepare(run)
            if table is not None and not _is_committed(table, run.token):
                schema = self._schema_of(table)
                with suppress(FileExistsError):  # an earlier driver has done so
                    stage.create(_SCHEMA, schema.serialize().to_pybytes())

    def _schema_of(self, table: Any) -> Any:
        """Return the schema of a table as Arrow's; raise SinkError if it does not fit."""
        partitions = table.metadata().partition_columns
        if partitions:
            raise SinkError(
                f"DeltaTable cannot append to {self.path!r}: it is partitioned by {show(partitions)}, and files are "
                f"written without partitions. Use foreach_batch= or Spark's own writer for it."
            )
        arrow = need("pyarrow", "DeltaTable")
        found = arrow.schema(table.schema().to_arrow())
        if self.schema is not None:
            for field in self.schema:
                there = found.field(field.name).type if field.name in found.names else None
                if there != field.type:
                    raise SinkError(
                        f"DeltaTable cannot append to {self.path!r}: column {field.name!r} is {field.type} in the "
                        f"given schema, and {'not there' if there is None else there} in the table. Give the schema "
                        f"of the table, or leave it out."
                    )
        return found

    def commit(self, messages: Sequence[Any], token: Token) -> None:
        files = [(name, size) for message in messages if message is not None for name, size in message["names"]]
        for _ in range(_TRIES):
            table = self._table()
            if table is not None and _is_committed(table, token):
                return
            if self._tried(table, files, token):
                return
            time.sleep(0.1)
        raise SinkError(
            f"DeltaTable could not commit {token} to {self.path!r}: other writers were faster {_TRIES} times in a row. "
            f"All records are written; make the same call again."
        )

    def _tried(self, table: Any, files: Sequence[tuple[str, int]], token: Token) -> bool:
        """Commit to a table as it was loaded; return False if somebody else has committed since."""
        delta, errors = need("deltalake", "DeltaTable"), need("deltalake.exceptions", "DeltaTable")
        transaction = need("deltalake.transaction", "DeltaTable")
        actions = [self._action(transaction, name, size) for name, size in files]
        properties = delta.CommitProperties(
            max_commit_retries=0, app_transactions=[delta.Transaction(token.app, token.version)]
        )
        schema = self._schema_of(table) if table is not None else self._agreed_schema(token)
        if schema is None:
            return True  # there is no table, and there are no records to make one of
        try:
            if table is None:
                transaction.create_table_with_add_actions(
                    self.path, delta.Schema.from_arrow(schema), actions, "error", commit_properties=properties
                )
            else:
                table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)
        except (errors.CommitFailedError, errors.DeltaError) as error:
            if isinstance(error, errors.CommitFailedError) or (table is None and self._table() is not None):
                return False
            raise SinkError(f"DeltaTable cannot commit {token} to {self.path!r}: {error}.") from error
        return True

    def _agreed_schema(self, token: Token) -> Any:
        if self.schema is not None:
            return self.schema
        data = self.stage(token).read(_SCHEMA)
        arrow = need("pyarrow", "DeltaTable")
        return None if data is None else arrow.ipc.read_schema(arrow.py_buffer(data))

    def _action(self, transaction: Any, name: str, size: int) -> Any:
        """Return the action that adds a file; an action that names a missing file would be committed all the same."""
        path = f"{self.path}/{name}"
        try:
            found = os.stat(path)
            rows = need("pyarrow.parquet", "DeltaTable").read_metadata(path).num_rows
        except OSError as error:
            raise SinkError(
                f"DeltaTable cannot commit to {self.path!r}: the file {name!r} cannot be read ({error}). Nothing was "
                f"committed. A VACUUM with a short retention removes files that are not committed yet: start over with "
                f"a new checkpoint, and without it."
            ) from error
        if found.st_size != size:
            raise SinkError(
                f"DeltaTable cannot commit to {self.path!r}: the file {name!r} has {found.st_size} bytes and not "
                f"{size}. Nothing was committed. Somebody else has changed it: start over with a new checkpoint."
            )
        modified = int(found.st_mtime * 1000)
        return transaction.AddAction(name, size, {}, modified, True, f'{{"numRecords": {rows}}}')

    def abort(self, messages: Sequence[Any], token: Token) -> None:
        table = self._table()
        if table is not None and _is_committed(table, token):
            raise SinkError(f"DeltaTable does not remove what is committed in {self.path!r}: {token} was committed.")
        stage = self.stage(token)
        with self._blaming("abort"):
            for message in messages:
                for name, _ in () if message is None else message["names"]:
                    stage.remove(name)
            stage.clean()

    def _table(self) -> Any:
        """Return the table as it is now, None if there is none."""
        delta, errors = need("deltalake", "DeltaTable"), need("deltalake.exceptions", "DeltaTable")
        try:
            return delta.DeltaTable(self.path)
        except errors.TableNotFoundError:
            return None
        except errors.DeltaError as error:
            raise SinkError(f"DeltaTable cannot read the table {self.path!r}: {error}.") from error


class _TableStage(DiskStage):
    """Staging of a commit to a table: the files lie in the table's directory, the nonce and the schema below it."""

    def prepare(self, run: SinkRun) -> None:
        os.makedirs(self.path, exist_ok=True)
        super().prepare(run)

    def _check_target(self) -> None:
        """A table may hold anything."""

    def committed(self) -> bool:
        return False

    @property
    def files(self) -> str:
        return self.path

    def commit(self, files: Mapping[str, int]) -> None:
        raise SdfError("a table is committed through its log")


def _is_committed(table: Any, token: Token) -> bool:
    version = table.transaction_version(token.app)
    return version is not None and version >= token.version

"""DeltaTable: records as Parquet files that are added to a Delta table in one version, through delta-rs."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.extras import Library, need
from sdf.sinks.arrow import arrow, types
from sdf.sinks.columns import Misfit
from sdf.sinks.delta_turns import give_back, turn
from sdf.sinks.files import files_of
from sdf.sinks.schema import as_schema, nullable
from sdf.sinks.segments import Segment
from sdf.sinks.sink import Token
from sdf.sinks.stage import Stage
from sdf.sinks.table_files import TableFiles
from sdf.sinks.table_sink import TableSink
from sdf.storage.disk import has_links

__all__ = ["DeltaTable"]

deltalake = Library("deltalake", "DeltaTable")
errors = Library("deltalake.exceptions", "DeltaTable")
transaction = Library("deltalake.transaction", "DeltaTable")

_LONGEST = 32  # texts, in characters, as of other writers
_COLOUR = re.compile(r"\x1b\[\d+m")
# What delta-rs 1.6 writes; it says so only when it commits.
_FEATURES = {
    "appendOnly", "changeDataFeed", "checkConstraints", "columnMapping", "deletionVectors", "generatedColumns",
    "invariants", "timestampNtz", "v2Checkpoint", "variantType",
}  # fmt: skip
_CHECKED_BY_WRITERS = (
    "delta.constraints.", "delta.invariants", "delta.generationExpression", "delta.identity.",
    "__CHAR_VARCHAR_TYPE_STRING",
)  # fmt: skip


_MISREAD = {
    "a '%' before two hexadecimal digits": r"%[0-9A-Fa-f]{2}",
    "'#' on an object store": r"://.*#",
    "'.', '..' or nothing between slashes on an object store": r"://.*/\.{0,2}(/|$)",
    "a backslash on a disk": r"^/.*\\",
}


def _as_delta_schema(value: Any) -> Any:
    return as_schema(value, "DeltaTable", _delta_schema)


def _delta_schema(schema: Any) -> Any:
    """Return a schema with the types that Delta has; raise Misfit for a type that it does not have."""
    fields: list[Any] = []
    twins: dict[str, str] = {}
    for field in schema:
        twin = twins.setdefault(field.name.lower(), field.name)
        if twin != field.name:
            raise Misfit(field.name, field.type, f"is the field {twin!r} in another case, which Delta ignores")
        if "\0" in str(field):
            raise Misfit(field.name, field.type, "has a NUL in a name, where Delta's library ends the name")
        if types.is_timestamp(field.type):  # values with a fraction of the unit do not fit
            field = field.with_type(arrow.timestamp("us", None if field.type.tz is None else "UTC"))
        try:
            fields.append(arrow.schema(deltalake.Schema.from_arrow(arrow.schema([field])).to_arrow()).field(0))
        except Exception as error:  # of no class of its own
            raise Misfit(field.name, field.type, "Delta does not have") from error
    return nullable(arrow.schema(fields))


def _as_options(value: Any) -> dict[str, str]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidTypeError("DeltaTable storage_options must be a mapping of names to strings.")
    return dict(value or {})


@attrs.frozen
class DeltaTable(TableSink):
    """Adds records to a Delta table, all in one version at the end of the run.

    Records become Parquet files as with `ParquetFiles`. If the table is there, they have its schema, or those of its
    columns that ``schema`` names; if it is not, the commit makes it, without partitions. The version holds the
    transaction of the run (``txn`` in the log), so the same run is never added twice. Others may append to the table,
    overwrite or compact it meanwhile.

    Workers put their files into the directory ``_sdf`` of the table, which no VACUUM looks into, however short its
    retention. The commit puts them beside the table's other files: by links on a disk, by copies within the store on an
    object store. A VACUUM with a retention of zero may remove these in the moment before the version that names them is
    there; the commit looks after that, and puts them back.

    On a disk without hard links, such as a mount of an object store, the commit copies the files, and delta-rs cannot
    tell whether somebody else adds the same version. There runs of sdf take turns, and nobody else may write to the
    table while a run commits: of two versions at the same moment one would be lost.

    Tables with partitions, constraints, ``varchar`` columns, generated columns, column mapping, or
    ``delta.setTransactionRetentionDuration`` are refused: delta-rs would not check the rows, or the table would forget
    which runs it holds.

    Args:
        path: the directory of the table, as a path or a URL (``s3://``, ``gs://``, ``abfs://``).
        schema: see `ParquetFiles`. The columns are nullable. None: the schema of the table, or of the first
            records if there is no table.
        compression, target_bytes, row_group_bytes, on_error: see `ParquetFiles`.
        storage_options: options of delta-rs for the object store. Files are written with the credentials and the
            endpoint of the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``), which delta-rs reads too.

    Raises:
        BadRecordError: when it runs, for a record that does not fit.
        InvalidTypeError, InvalidValueError: for a wrong option.
        MissingExtraError: if deltalake or pyarrow is not installed.
        SinkError: when it runs, if the table cannot take these records, or cannot be written.
    """

    untold = ("storage_options", "schema")  # secrets, and what the table says that counts
    not_null = "delta-rs does not"

    schema: Any = attrs.field(default=None, kw_only=True, converter=_as_delta_schema)
    storage_options: dict[str, str] = attrs.field(
        default=None, kw_only=True, converter=_as_options, repr=False, hash=False
    )

    def __attrs_post_init__(self) -> None:
        need("deltalake", "DeltaTable")
        need("pyarrow.parquet", "DeltaTable")
        for what, sign in _MISREAD.items():
            if re.search(sign, self.path):
                raise InvalidValueError(
                    f"DeltaTable path must not have {what}, which delta-rs takes for another path (got {self.path!r})."
                )

    def stage(self, token: Token) -> Stage:
        return self.stage_in(self.path, f"{self.path}/_sdf", token)

    # On workers

    def storable(self, schema: Any) -> Any:
        return _delta_schema(schema)

    def ended(self, segment: Segment, footer: Any) -> None:
        segment.notes.setdefault("stats", []).append(_stats_of_file(footer))

    # On the driver

    def _load(self) -> Any:
        with suppress(errors.TableNotFoundError):  # `is_deltatable` holds Python's lock while it asks a store
            return deltalake.DeltaTable(self.path, storage_options=self.storage_options)
        return None

    def _version(self, table: Any) -> Any:
        return table.version()

    def _holds(self, table: Any, token: Token) -> bool:
        version = table.transaction_version(token.app)
        return version is not None and version >= token.version

    def _files(self, table: Any, token: Token) -> TableFiles:
        return TableFiles(self.path, self.stage(token))

    def _schema_for(self, table: Any) -> Any:
        if self.schema is not None or table is None:
            return self.schema
        return nullable(arrow.schema(table.schema().to_arrow()))

    def _add(self, table: Any, files: TableFiles, messages: Sequence[Any], token: Token) -> Exception | None:
        stats = _stats_of(messages)
        actions = [_action(files.published(name), size, stats[name]) for name, size in files_of(messages).items()]
        # Without retries of delta-rs: each try looks first whether the token is there, and whether the files still fit.
        properties = deltalake.CommitProperties(
            app_transactions=[deltalake.Transaction(token.app, token.version)], max_commit_retries=0
        )
        if "://" in self.path or has_links(self.stage(token).where):
            return self._ask(table, files, actions, properties, self.storage_options)
        version = 0 if table is None else table.version() + 1
        with turn(self.path, version, token) as is_free:
            if not is_free:
                return FileExistsError(f"another run has added version {version}")
            options = {**(self.storage_options or {}), "allow_unsafe_rename": "true"}
            if table is not None:
                table = deltalake.DeltaTable(self.path, version=table.version(), storage_options=options)
            return self._ask(table, files, actions, properties, options)

    def _ask(
        self, table: Any, files: TableFiles, actions: list[Any], properties: Any, options: dict[str, str] | None
    ) -> Exception | None:
        """Have delta-rs add a version; return its refusal."""
        try:
            if table is not None:
                table.create_write_transaction(actions, "append", table.schema(), commit_properties=properties)
            else:
                transaction.create_table_with_add_actions(
                    self.path, deltalake.Schema.from_arrow(files.schema()), actions, mode="error",
                    commit_properties=properties, storage_options=options,
                )  # fmt: skip
        except errors.DeltaError as error:  # CommitFailedError says no more than that
            return error  # type: ignore[no-any-return]
        return None

    def abort(self, messages: Sequence[Any], token: Token) -> None:
        super().abort(messages, token)
        self._give_back(token)

    def clean(self, token: Token) -> None:
        super().clean(token)
        self._give_back(token)

    def _give_back(self, token: Token) -> None:
        if "://" not in self.path:
            with self._blaming("clean"):
                give_back(self.path, token)

    def _shape(self, table: Any) -> tuple[Any, Sequence[str]]:
        config = table.metadata().configuration
        marks = [*config, *_metadata_keys(json.loads(table.schema().to_json()))]
        wrong = [key for key in marks if key.startswith(_CHECKED_BY_WRITERS)]
        wrong += [key for key in config if key == "delta.setTransactionRetentionDuration"]
        wrong += [key for key in config if key == "delta.columnMapping.mode" and config[key] != "none"]
        if wrong:
            raise self._refused(f"the table has {wrong[0]!r}, which DeltaTable cannot keep. Take it from the table")
        unknown = sorted({*(table.protocol().writer_features or ())} - _FEATURES)
        if unknown:
            raise self._refused(f"the table has the feature {unknown[0]!r}, which delta-rs cannot write. Drop it")
        return arrow.schema(table.schema().to_arrow()), table.metadata().partition_columns

    def _failures(self) -> tuple[type[Exception], ...]:
        return OSError, errors.DeltaError

    def _reason(self, error: Exception) -> str:
        return " ".join(_COLOUR.sub("", str(error)).split())


def _metadata_keys(schema: Any) -> Iterator[str]:
    """Yield the names in the metadata of all fields, nested ones too, of a schema as Delta's JSON."""
    for value in schema.values() if isinstance(schema, dict) else schema:
        if isinstance(value, (dict, list)):
            yield from _metadata_keys(value)
    if isinstance(schema, dict):
        yield from schema.get("metadata", ())


def _stats_of(messages: Sequence[Any]) -> dict[str, Any]:
    """Return the statistics of the files that messages name."""
    return {
        name: stats
        for message in messages
        if message is not None
        for (name, _), stats in zip(message["names"], message["stats"], strict=True)
    }


def _action(name: str, size: int, stats: Any) -> Any:
    return transaction.AddAction(name, size, {}, int(time.time() * 1000), True, json.dumps(stats))


def _stats_of_file(footer: Any) -> dict[str, Any]:
    """Return the statistics of a Parquet file, given its footer: rows, nulls and the ends of the simplest columns."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(footer.num_columns):
        column = footer.schema.column(number)
        name = column.name
        groups = [footer.row_group(group).column(number) for group in range(footer.num_row_groups)]
        stats = [group.statistics for group in groups]
        if name != column.path or not all(one and one.has_null_count for one in stats):
            continue  # nested, or unknown
        nulls[name] = sum(one.null_count for one in stats)
        ends = [(one.min, one.max) for one in stats if one.has_min_max]
        unknown = any(not one.has_min_max and one.num_values for one in stats)
        if ends and not unknown and all(map(_is_simple, (value for pair in ends for value in pair))):
            low[name] = _as_json(min(pair[0] for pair in ends))
            high[name] = _as_json(max(pair[1] for pair in ends))
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _is_simple(value: Any) -> bool:
    """Tell whether statistics mean the same to everybody: not so for NaN, times and long texts."""
    return type(value) in (int, date) or (type(value) is str and len(value) <= _LONGEST)


def _as_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value

"""IcebergTable: records as Parquet files that are added to an Iceberg table in one snapshot, through pyiceberg."""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, SinkError, show
from sdf.extras import Library, need
from sdf.sinks.arrow import arrow, types
from sdf.sinks.columns import Misfit
from sdf.sinks.files import files_of
from sdf.sinks.iceberg_catalog import (
    Catalog,
    as_catalog,
    catalog_of,
    errors,
    location_of,
    new_location,
    schemas,
    table_of,
    told_catalog,
)
from sdf.sinks.schema import as_schema, nullable, proposed
from sdf.sinks.sink import SinkRun, Token
from sdf.sinks.stage import Stage
from sdf.sinks.table_files import TableFiles
from sdf.sinks.table_sink import TableSink, as_table_path
from sdf.storage.objects import asking

__all__ = ["IcebergTable"]

convert = Library("pyiceberg.io.pyarrow", "IcebergTable")

_AT_ONCE = 16  # footers that are read
_DATA = "data"
_APP, _VERSION = "sdf.app", "sdf.version"  # in the summary of a snapshot
_NEWEST_FORMAT = 2  # of pyiceberg 0.12


def _as_name(value: Any) -> str:
    """Return the name of a table."""
    if not isinstance(value, str):
        raise InvalidTypeError(f"IcebergTable name must be a string like 'namespace.table' (got {show(value)}).")
    if not all(value.split(".")) or "." not in value:
        raise InvalidValueError(f"IcebergTable name must be like 'namespace.table' (got {value!r}).")
    return value


def _as_iceberg_schema(value: Any) -> Any:
    """Return a schema that was given with the types that Iceberg has, None for None."""
    return as_schema(value, "IcebergTable", _iceberg_schema)


def _iceberg_schema(schema: Any) -> Any:
    """Return a schema with the types, and the numbers of fields, that a new table has; raise Misfit for other types."""
    fields = []
    for field in schema:
        if types.is_timestamp(field.type):  # values with a fraction of the unit do not fit
            field = field.with_type(arrow.timestamp("us", None if field.type.tz is None else "UTC"))
        try:
            convert._pyarrow_to_schema_without_ids(arrow.schema([field]))
        except Exception as error:  # of no class of its own
            raise Misfit(field.name, field.type, "Iceberg does not have") from error
        fields.append(field)
    try:
        found = schemas.assign_fresh_schema_ids(convert._pyarrow_to_schema_without_ids(nullable(arrow.schema(fields))))
    except ValueError as error:  # as for a column a.b beside the field b of a
        raise Misfit("", schema.names, f"Iceberg does not have together: {error}") from error
    return nullable(convert.schema_to_pyarrow(found))


@attrs.frozen
class IcebergTable(TableSink):
    """Adds records to an Iceberg table, all in one snapshot at the end of the run.

    Records become Parquet files as with `ParquetFiles`. If the table is there, they have its schema, or those of its
    columns that ``schema`` names; if it is not, the commit makes it, without partitions; its namespace must be there.
    Others may append to the table, overwrite, compact or expire snapshots meanwhile.

    The snapshot names the run in its summary, and a property of the table, ``sdf.`` and the name of the run, in the
    same commit. So the same run is never added twice, also when the snapshot has expired. Who takes the property from
    the table and expires the snapshot makes it forget the run.

    Workers put their files into the directory ``_sdf`` at the table's location; Spark's ``remove_orphan_files`` does
    not look there. Other cleaners see the files of a run as orphans until its commit: let them keep files that are
    younger than the longest run. The commit puts them into ``data``: by links on a disk, by copies within the store on
    an object store. They are young then, and orphans for seconds.

    Files are written with the credentials and the endpoint of the environment. Tables with partitions, columns that
    must not be null, or format version 3 are refused.

    Args:
        name: the table, as "namespace.table".
        catalog: the name of a catalog that pyiceberg's configuration has, here and on the executors; or a mapping of
            its properties, names to strings. In these "name" is the catalog's name, "default" if it is not there; a
            catalog in an SQL database holds the tables of each name apart.
        schema: see `ParquetFiles`. The columns are nullable. None: the schema of the table, or of the first
            records if there is no table.
        compression, target_bytes, row_group_bytes, on_error: see `ParquetFiles`.

    Raises:
        BadRecordError: when it runs, for a record that does not fit.
        InvalidTypeError, InvalidValueError: for a wrong option.
        MissingExtraError: if pyiceberg or pyarrow is not installed.
        SinkError: when it runs, if the table cannot take these records, or the catalog or storage does not answer.
    """

    untold = ("catalog", "path", "schema")  # what the table holds is what counts
    not_null = "nobody would"

    name: str = attrs.field(converter=_as_name)
    catalog: Catalog = attrs.field(kw_only=True, converter=as_catalog, repr=False)  # with secrets
    schema: Any = attrs.field(default=None, kw_only=True, converter=_as_iceberg_schema)
    path: str = attrs.field(init=False, repr=False, eq=False)

    @path.default
    def _named(self) -> str:
        return self.name  # as messages name it

    def __attrs_post_init__(self) -> None:
        need("pyiceberg", "IcebergTable")
        need("pyarrow.parquet", "IcebergTable")

    def identity(self) -> Any:
        return {**super().identity(), "catalog": told_catalog(self.catalog)}

    def stage(self, token: Token) -> Stage:
        with self._blaming("find"):
            path = _path_of(location_of(self.name, self.catalog, token))
        return self.stage_in(path, f"{path}/_sdf", token)

    # On workers

    def schema_in(self, stage: Stage) -> Any:
        return proposed(stage)  # with the numbers that the table has for the fields

    def storable(self, schema: Any) -> Any:
        return _iceberg_schema(schema)

    # On the driver

    def prepare(self, run: SinkRun) -> None:
        with self._blaming("prepare"):
            place = location_of(self.name, self.catalog, run.token)
            if self._load() is None and new_location(self.name, self.catalog) != place:
                raise SinkError(
                    f"IcebergTable cannot make {self.name!r}: the catalog chooses another place for it each time, so "
                    f"workers would not find it. Make the table first."
                )
        super().prepare(run)

    def _load(self) -> Any:
        return table_of(self.name, self.catalog)

    def _version(self, table: Any) -> Any:
        return table.metadata_location

    def _holds(self, table: Any, token: Token) -> bool:
        summaries = [snapshot.summary.additional_properties for snapshot in table.snapshots() if snapshot.summary]
        found = [summary.get(_VERSION) for summary in summaries if summary.get(_APP) == token.app]
        return any(int(version) >= token.version for version in (*found, table.properties.get(_kept_as(token), -1)))

    def _location(self, table: Any, token: Token) -> str:
        """Return where the table is, or will be."""
        return location_of(self.name, self.catalog, token) if table is None else str(table.location()).rstrip("/")

    def _files(self, table: Any, token: Token) -> TableFiles:
        return TableFiles(f"{_path_of(self._location(table, token))}/{_DATA}", self.stage(token))

    def _schema_for(self, table: Any) -> Any:
        if table is None:
            return self.schema
        theirs = nullable(table.schema().as_arrow())
        if self.schema is None:
            return theirs
        known = set(theirs.names)
        return arrow.schema([_numbered(field, theirs) if field.name in known else field for field in self.schema])

    def _shape(self, table: Any) -> tuple[Any, Sequence[str]]:
        version = table.format_version
        if version > _NEWEST_FORMAT:
            raise self._refused(
                f"it has format version {version}, which pyiceberg does not write. Give one of version {_NEWEST_FORMAT}"
            )
        return table.schema().as_arrow(), [field.name for field in table.spec().fields]

    def _flaw_of(self, found: Any, field: Any) -> str:
        flaw = super()._flaw_of(found, field)
        if flaw or found.equals(field, check_metadata=True):
            return flaw
        return (
            f"its column {field.name!r} is another one than when the run began: {found.metadata}, not "
            f"{field.metadata}. Start over with a new checkpoint"
        )

    def _add(self, table: Any, files: TableFiles, messages: Sequence[Any], token: Token) -> Exception | None:
        location, schema = self._location(table, token), files.schema()
        paths = [f"{location}/{_DATA}/{files.published(name)}" for name in files_of(messages)]
        try:
            with asking(self.name):
                if table is None:
                    change = catalog_of(self.catalog).create_table_transaction(self.name, schema, location=location)
                else:
                    # Retries of pyiceberg would not look whether another driver has committed. Only here: the property
                    # is read from this copy, and not written.
                    table.metadata.properties["commit.retry.num-retries"] = "0"
                    change = table.transaction()
            self._check_columns(change.table_metadata.schema().as_arrow(), schema)
            with asking(self.name):
                change.set_properties({_kept_as(token): str(token.version)})
                properties = {_APP: token.app, _VERSION: str(token.version)}
                with change.update_snapshot(snapshot_properties=properties).fast_append() as append:
                    for file in _data_files(change, paths):
                        append.append_data_file(file)
                change.commit_transaction()
        except OSError as error:
            refusals = (errors.CommitFailedException, errors.TableAlreadyExistsError, errors.NoSuchTableError)
            if not isinstance(error.__cause__, refusals):
                raise
            return error
        return None


def _numbered(field: Any, theirs: Any) -> Any:
    """Return a field with the number that it has in a table, if it is the same."""
    return theirs.field(field.name) if theirs.field(field.name).type == field.type else field


def _data_files(change: Any, paths: Sequence[str]) -> list[Any]:
    """Return what a snapshot says of files; their footers are read."""
    io = change._table.io  # with the credentials that a catalog may lend for this table

    def described(path: str) -> Any:
        return convert.parquet_file_to_data_file(io=io, table_metadata=change.table_metadata, file_path=path)

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        return list(pool.map(described, paths))


def _path_of(location: str) -> str:
    """Return the path or URL under which sdf finds a location; Spark's tables are at s3a://."""
    return as_table_path(re.sub(r"^s3[an]://", "s3://", location))


def _kept_as(token: Token) -> str:
    """Return the property of a table that keeps the version of a token: it outlives the snapshot."""
    return f"sdf.{token.app}"

"""ParquetFiles: records as Parquet, all files with one schema; pyarrow writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, ClassVar

import attrs

from sdf.errors import BadRecordError, InvalidValueError, SinkError, show
from sdf.extras import need
from sdf.sinks.arrays import as_batch
from sdf.sinks.arrow import arrow, parquet
from sdf.sinks.columns import Misfit
from sdf.sinks.files import FileSink, as_count
from sdf.sinks.schema import SCHEMA, as_schema, as_text, nullable, proposed, read_back, without_rows, written
from sdf.sinks.segments import Batches, Segment
from sdf.sinks.sink import Place, SinkRun, Token
from sdf.sinks.stage import Stage
from sdf.sinks.tables import as_table, runs, schema_of_most, tables_of

__all__ = ["ParquetFiles"]

_EMPTY = "empty.parquet"
_SAMPLE_RECORDS = 1000
_SAMPLE_BYTES = 16 << 20
_CODECS = ("none", "snappy", "gzip", "brotli", "lz4", "zstd")
_ROW_GROUP_BYTES = 64 << 20


def _as_codec(name: Any) -> str:
    if name is not None and name not in _CODECS:
        raise InvalidValueError(f"ParquetFiles compression must be None or one of {_CODECS} (got {show(name)}).")
    codec = "none" if name is None else str(name)
    if codec != "none" and not arrow.Codec.is_available(codec):
        raise InvalidValueError(f"ParquetFiles compression {codec!r} is not in this build of pyarrow.")
    return codec


def _as_row_group_bytes(value: Any) -> int:
    return as_count(value, "ParquetFiles row_group_bytes")


def _as_policy(value: Any) -> str:
    if value not in ("raise", "tag"):
        raise InvalidValueError(f"ParquetFiles on_error must be 'raise' or 'tag' (got {show(value)}).")
    return str(value)


@attrs.frozen
class ParquetFiles(FileSink):
    """Writes records as Parquet files of one schema.

    A record is a dict, a named tuple, a Row of Spark, or an instance of an attrs class or a dataclass, by the names of
    its fields; a tuple or list, by position; any other value, in the only column; or a `pyarrow.RecordBatch` or Table,
    whose rows are written. A field that is missing is null. What a column cannot hold without loss does not fit: a
    field that the schema does not have, null where it has ``nullable=False``, 1.5 for an integer (1.0 fits), an integer
    beyond 2**53 for a float, bytes for a str, a time with a zone for one without, a fraction smaller than the unit.
    The same holds for Arrow columns, and for what is nested. One exception: a column of 16 or 32 bits takes the number
    that is nearest to a Python float; a float64 column of Arrow must have exactly its numbers. NaN stays NaN, and is
    not null.

    Without a schema the first 1,000 records of whichever attempt is first decide: int becomes int64, int and float
    float64, a datetime timestamp[us] (in UTC if it has a zone), Decimal decimal128(38, 18), a dict or tuple a struct, a
    list a list, and what is only None a string. A later record that does not fit is an error. The fields of tuples are
    ``_1``, ``_2`` and so on; that of a value without fields is ``value``. What the first records do not have is not in
    the schema: for large results, give one.

    Args:
        path: the directory to make, as a path or a URL; it must be empty or not there.
        schema: a `pyarrow.Schema` or a dict of names to types of pyarrow. None: find it.
        compression: None, "snappy", "gzip", "brotli", "lz4" or "zstd".
        target_bytes: begin a new file when one has this size; it may be larger by a row group.
        row_group_bytes: end a row group at this size in memory, before it is encoded.
        on_error: "raise", or "tag": put a record that does not fit into the output "bad"; this needs a schema.

    Raises:
        BadRecordError: when it runs, for a record that does not fit, if ``on_error`` is "raise".
        InvalidTypeError, InvalidValueError: for a wrong option.
        MissingExtraError: if pyarrow is not installed.
        SinkError: when it runs, if the target is not empty or cannot be written.
    """

    takes_batches = True
    untold: ClassVar[tuple[str, ...]] = ("schema",)  # a run that it has stopped goes on with another

    schema: Any = attrs.field(default=None, kw_only=True, converter=as_schema)
    compression: str = attrs.field(default="zstd", kw_only=True, converter=_as_codec)
    row_group_bytes: int = attrs.field(default=_ROW_GROUP_BYTES, kw_only=True, converter=_as_row_group_bytes)
    on_error: str = attrs.field(default="raise", kw_only=True, converter=_as_policy)

    def __attrs_post_init__(self) -> None:
        need("pyarrow.parquet", "ParquetFiles")
        if self.rejects and self.schema is None:
            raise InvalidValueError(
                "ParquetFiles on_error='tag' needs a schema: one that is found from the first records depends on which "
                "they were, so good records might be put aside. Pass schema={'name': pyarrow.string(), ...}."
            )

    @property
    def rejects(self) -> bool:
        return self.on_error == "tag"

    @property
    def advice(self) -> str:
        """What to do about a record that does not fit, for messages."""
        found = "" if self.schema is not None else "The schema was found from the first records. "
        return (
            f"{found}Pass a schema= that holds it, and make the same call again: the run goes on, unless it has "
            f"written files of another schema. With on_error='tag' such records go to the output 'bad'."
        )

    def for_schema(self, schema: Any) -> ParquetFiles:
        return self if self.schema is not None else attrs.evolve(self, schema=nullable(schema))

    @property
    def ending(self) -> str:
        return ".parquet"

    def told(self, value: Any) -> Any:
        return value if value is None or isinstance(value, (str, int)) else as_text(value)

    def prepare(self, run: SinkRun) -> None:
        super().prepare(run)
        stage = self.stage(run.token)
        with self._blaming("look at"):
            theirs = written(stage, self.ending)
            self._check_written(theirs)
            if stage.committed() and not stage.adds:
                return
            if self.schema is not None:  # in place of that of an earlier driver, which may not have fit the records
                stage.staging.replace(SCHEMA, self.schema.serialize().to_pybytes())
            elif theirs is not None:
                with suppress(FileExistsError):
                    stage.create(SCHEMA, theirs.serialize().to_pybytes())

    def check_result(self, token: Token) -> None:
        super().check_result(token)
        if self.appends:
            return  # to what others change, too
        with self._blaming("look at"):
            self._check_written(written(self.stage(token), self.ending))

    def _check_written(self, theirs: Any) -> None:
        """Raise SinkError if the files that there are have another schema than the given one."""
        if theirs is None or self.schema is None or theirs in (self.schema, read_back(self.schema)):
            return
        raise SinkError(
            f"{type(self).__name__} cannot go on at {self.path!r} with another schema than that of the files of this "
            f"run, which it does not change: they have {show(as_text(theirs))} (got schema="
            f"{show(as_text(self.schema))}). Pass that of the files, or none. For another schema start over: give up "
            f"an unfinished run with abort_save(), and write to another path."
        )

    def write(self, records: Iterator[Any], place: Place) -> Any:
        if self.rejects and place.reject is None:
            raise InvalidValueError(
                f"{type(self).__name__} on_error='tag' needs a run with an output 'bad' for what does not fit."
            )
        return super().write(records, place)

    def write_segment(self, records: Iterator[Any], place: Place, segment: Segment) -> None:
        _Writer(self, records, place, segment).write()

    def schema_in(self, stage: Stage) -> Any:
        """Return the schema of the files of a run, None if it is not known yet."""
        return self.schema or proposed(stage)

    def storable(self, schema: Any) -> Any:
        """Return a schema that was found as the files shall have it; raise Misfit if they cannot."""
        return schema

    def ended(self, segment: Segment, footer: Any) -> None:
        """Take note of the footer of a file that is complete."""

    def files_of_nothing(self, stage: Stage) -> dict[str, int]:
        """Write a file without rows, so that readers find the schema, if one was given."""
        if self.schema is None:
            return {}
        with suppress(FileExistsError):
            stage.create(_EMPTY, without_rows(self.schema, compression=self.compression))
        return {_EMPTY: len(stage.read(_EMPTY) or b"")}


class _Writer:
    """Writes one segment: batches of records become record batches, these row groups, and those files."""

    def __init__(self, sink: ParquetFiles, records: Iterator[Any], place: Place, segment: Segment) -> None:
        self._sink = sink
        self._batches = Batches(records)
        self._place = place
        self._segment = segment
        with segment.blaming():
            self._schema = sink.schema_in(segment.stage)
        self._pending: list[Any] = []  # tables of the next row group
        self._pending_bytes = 0
        self._file: Any = None

    def write(self) -> None:
        try:
            records = self._first_records() if self._schema is None else self._batches.take()
            while records:
                self._batches.weighed(len(records), self._add_all(records))
                records = self._batches.take()
            self._end_file()
        except BaseException:
            if self._file is not None:
                with suppress(Exception):  # it writes a footer, into a file that is removed next
                    self._file.close()
            raise

    # The schema

    def _first_records(self) -> list[Any]:
        """Return the first records, when a schema is agreed on."""
        sample = self._sample()
        if sample:
            try:
                self._schema = self._agreed(schema_of_most(sample))
            except Misfit as misfit:
                self._refuse(sample[0], 0, misfit)
        return sample

    def _sample(self) -> list[Any]:
        """Return enough records to find a schema, but not too many bytes of them."""
        sample: list[Any] = []
        size = 0
        while len(sample) < _SAMPLE_RECORDS and size < _SAMPLE_BYTES and (some := self._batches.take()):
            sample += some
            try:
                more = sum(table.nbytes for table in tables_of(some, schema_of_most(some)))
            except Misfit:
                break
            self._batches.weighed(len(some), more)
            size += more
        return sample

    def _agreed(self, schema: Any) -> Any:
        """Return the schema of all attempts: the one that was proposed first."""
        schema = self._sink.storable(schema)
        with self._segment.blaming():
            try:
                self._segment.stage.create(SCHEMA, schema.serialize().to_pybytes())
            except FileExistsError:
                return proposed(self._segment.stage)
        return schema

    # Records

    def _add_all(self, records: list[Any]) -> int:
        """Take up records; return the size of those that fit."""
        first = self._batches.taken - len(records)
        size = 0
        for tables, run in runs(records):
            size += self._add(run, first, as_table if tables else as_batch)
            first += len(run)
        return size

    def _add(self, records: list[Any], first: int, convert: Callable[[list[Any], Any], Any]) -> int:
        """Take up records, in halves if some do not fit, down to single ones."""
        try:
            table = convert(records, self._schema)
        except Misfit as misfit:
            if len(records) == 1:
                self._refuse(records[0], first, misfit)
                return 0
            half = len(records) // 2
            return self._add(records[:half], first, convert) + self._add(records[half:], first + half, convert)
        self._pending.append(table if convert is as_table else arrow.Table.from_batches([table]))
        size: int = table.nbytes
        self._pending_bytes += size
        if self._pending_bytes >= self._sink.row_group_bytes:
            self._end_row_group()
        return size

    def _refuse(self, record: Any, number: int, misfit: Misfit) -> None:
        """Raise BadRecordError, or put the record into the output for such."""
        if self._sink.rejects:
            assert self._place.reject is not None
            self._place.reject(record)
            return
        field = f" in field {misfit.path!r}" if misfit.path else ""
        error = BadRecordError(
            f"{type(self._sink).__name__} cannot write record {number} of this segment:{field} {show(misfit.value)} "
            f"{misfit.flaw}. {self._sink.advice}"
        )
        error.number = number
        raise error from misfit

    # Files

    def _end_row_group(self) -> None:
        if not self._pending:
            return
        table = arrow.concat_tables(self._pending)
        rows = max(1, table.num_rows * self._sink.row_group_bytes // max(self._pending_bytes, 1))
        self._pending, self._pending_bytes = [], 0
        file = self._segment.file
        with self._segment.blaming():
            if self._file is None:
                self._file = parquet.ParquetWriter(file, self._schema, compression=self._sink.compression)
            self._file.write_table(table, row_group_size=rows)
        if self._segment.size >= self._sink.target_bytes:
            self._end_file()

    def _end_file(self) -> None:
        self._end_row_group()
        if self._file is not None:
            with self._segment.blaming():
                self._file.close()
            self._sink.ended(self._segment, self._file.writer.metadata)
            self._file = None
            self._segment.end_file()

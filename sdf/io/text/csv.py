"""ReadCsv: the rows of CSV files, read by Python's own parser.

A part that starts in the middle sees where a line starts, but not whether that is inside a quoted field. So each line
must be a row by itself; a line that is not is an error. This is safe: all lines before the first row that spans lines
are whole rows, so the part that owns that row parses it correctly and raises. The run then fails, and nothing that
later parts read wrongly is used.
"""

from __future__ import annotations

import copy
import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any

from sdf import TaggedOutput
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError, show
from sdf.io.files.file_fn import FileRange
from sdf.io.text.csv_batches import CsvColumns, Misfit, Texts
from sdf.io.text.csv_lines import UNREADABLE, CsvLines
from sdf.io.text.csv_options import as_names, check_signs
from sdf.io.text.lines import as_encoding, as_errors
from sdf.io.text.text_fn import TextFn

__all__ = ["ReadCsv"]

_LONGEST_FIELD = 2**31 - 1  # the largest limit that the parser accepts on every platform
_CHUNK_BYTES = 1 << 15  # parsed at once: parsing a whole cell before its first row is used takes a fifth longer
_ROWS_OF_BATCH = 1 << 12  # that Python's parser gives; pyarrow's batches are cells


class ReadCsv(TextFn):
    """Reads CSV. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of a cell of the file.

    A row ends in LF or CRLF. With column names, rows are dicts, blank lines are skipped as by ``csv.DictReader``, and a
    row whose number of fields differs from the number of names is bad. Without, rows are lists, and a blank line is an
    empty list, as by ``csv.reader``. All fields are strings.

    Args:
        header: True: the first row of the file names its columns. A sequence of names: the file has no such row.
            False: rows are lists.
        columns: give only these; None: all. A file that lacks one is an error.
        batches: yield `pyarrow.RecordBatch` of strings, with one for each cell, instead of rows; several times as fast.
        separator: the character between fields.
        quotechar: the character around a field that holds separators; None if there are no quotes.
        doublequote: a quote inside a quoted field is written twice.
        escapechar: removes the special meaning of the character after it.
        comment: lines that begin with this character are left out, also before the header; None: there are none.
        skipinitialspace: spaces after a separator do not belong to the field.
        quoted_newlines: quoted fields may hold newlines. Then only reading from the start shows where rows start: each
            file is read in one piece, and the report says so. False: such a field is an error.
        encoding: encoding of the text. A UTF-8 byte order mark at the start of a file is dropped. UTF-16 and UTF-32 are
            refused: the byte of a line feed may be part of a character there.
        errors: as for `ReadLines`.
        options: as for `TextFn`: ``with_position``, ``with_block_id``, ``on_error``, ``max_record_bytes``,
            ``compression``, ``index_dir``, ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        ReadError: when it runs, for a row that cannot be read. Also with ``on_error="tag"``, if it is then unknown
            where the next row starts, or what the columns are.

    Source: RFC 4180; the dialects of Python's csv module, always ``strict``.
    """

    _restriction: FileRange  # of an attempt; see process()
    _header_end = 0
    _schema: Any = None  # of the batches; see for_schema()
    _texts: Texts | None = None

    def __init__(
        self,
        *,
        header: bool | Sequence[str] = True,
        columns: Sequence[str] | None = None,
        batches: bool = False,
        separator: str = ",",
        quotechar: str | None = '"',
        doublequote: bool = True,
        escapechar: str | None = None,
        comment: str | None = None,
        skipinitialspace: bool = False,
        quoted_newlines: bool = False,
        encoding: str = "utf-8",
        errors: str = "strict",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if quoted_newlines:
            self.read_whole("quoted_newlines")
        check_signs(separator=separator, quotechar=quotechar, escapechar=escapechar, comment=comment)
        self.comment = comment
        self.header = header is True
        self.names = None if isinstance(header, bool) else as_names(header, "header must be True, False")
        self.columns = None if columns is None else as_names(columns, "columns must be None")
        if (columns is not None or batches) and header is False:
            raise InvalidValueError(
                "ReadCsv columns and batches need names of columns (got header=False): name them in header=['a', 'b']."
            )
        if batches and self.with_position:
            raise InvalidValueError("ReadCsv batches hold many rows, which have no one position: drop with_position.")
        self.batches = batches
        self.dialect: dict[str, Any] = {
            "delimiter": separator,
            "quotechar": quotechar,
            "doublequote": doublequote,
            "escapechar": escapechar,
            "skipinitialspace": skipinitialspace,
            "quoting": csv.QUOTE_NONE if quotechar is None else csv.QUOTE_MINIMAL,
            "strict": True,
        }
        self.quoted_newlines = quoted_newlines
        if not isinstance(encoding, str):
            raise InvalidTypeError(f"ReadCsv encoding must be a name such as 'utf-8' (got {show(encoding)}).")
        self.encoding = as_encoding(encoding, self.delimiter, "ReadCsv")
        self.errors = as_errors(errors, "ReadCsv")
        self._parser = CsvLines(self.dialect, self.encoding, self.errors, comment)
        if self.names is not None and not set(self.columns or ()) <= set(self.names):
            raise _not_in_header(self.columns, self.names)

    @classmethod
    def option_names(cls) -> set[str]:
        return super().option_names() - {"delimiter"}  # rows end in LF or CRLF

    def for_schema(self, schema: Any, texts: Texts) -> ReadCsv:
        """Return a reader of batches for a table; called by `data_source` for each read.

        A text that does not cast is an error that names its row, or makes the row bad, as ``on_error`` says.

        Args:
            schema: the `pyarrow.Schema` of the table; its columns are read by name, without names in place of a header
                also by position.
            texts: casts the texts of a column to its type.
        """
        for field in schema:
            if not texts.casts_to(field.type):
                raise InvalidValueError(
                    f"column {field.name!r} of type {field.type} cannot be read from text, which is all that ReadCsv "
                    f"gives. Name a type of numbers, truth values, dates, times or strings."
                )
        own = type(self).process is ReadCsv.process and type(self).records is ReadCsv.records
        if not own or self.with_position or self.with_block_id:
            return self
        reader = copy.copy(self)
        if self.names is None and not self.header:
            reader.names = tuple(schema.names)
        else:
            reader.columns = tuple(schema.names)
            if self.names is not None and not set(schema.names) <= set(self.names):
                raise _not_in_header(schema.names, self.names)
        reader.batches, reader._schema, reader._texts = True, schema, texts
        return reader

    def setup(self) -> None:
        # The parser's limit, 131,072 characters a field, is per process; max_record_bytes is checked here, per row.
        csv.field_size_limit(max(csv.field_size_limit(), min(self.max_record_bytes, _LONGEST_FIELD)))

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        restriction: FileRange = tracker.current_restriction()
        attempt = copy.copy(self)  # it stores the column names of this file
        if not self.quoted_newlines:
            attempt._restriction = restriction
            return super(ReadCsv, attempt).process(element, tracker)
        rows = attempt._rows_of(restriction) if tracker.try_claim(0) else ()
        path = restriction.file.path
        outputs = attempt._careful_batches(path, rows) if self.batches else attempt._outputs(path, rows)
        return self.named(element, restriction, 0, outputs) if self.with_block_id else outputs

    def records(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        if offset == 0 and not self.has_text(path, data):
            return ()
        if self.header:
            end = self._end_of_header(path, offset, data)
            offset, data = max(offset, end), data[max(0, end - offset) :]
        parse = self._batches if self.batches else self._chunks
        if self.comment is None:
            return parse(path, offset, data)
        return chain.from_iterable(parse(path, *lines) for lines in self._parser.without_comments(offset, data))

    def _end_of_header(self, path: str, offset: int, data: bytes) -> int:
        """Return the offset after the line that names the columns; read it, from the file if it is not in the data."""
        if offset == 0 and self.comment is None:
            self._header_end = data.find(b"\n") + 1 or len(data)
            self.names = self._names_in(path, 0, data[: self._header_end])
        elif self.names is None:
            at, line = self._first_line()
            self._header_end = at + len(line)
            self.names = self._names_in(path, at, line) if line else ()
        return self._header_end

    def _batches(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        """Return the batch of the lines of a cell; several, and bad rows, if that is not known to be right."""
        columns, names = self._columns_of_batches()
        try:
            text = self._parser.text(offset, data).encode()
        except UnicodeError:
            text = b""
        found = columns.parsed(text, names, self.dialect) if text else None
        if found is not None:
            batch, misfits = columns.cast(found)
            if not misfits:
                return (batch,)
        return self._careful_batches(path, self._parser.one_by_one(path, offset, data, self._parser.rows(offset, data)))

    def _careful_batches(self, path: str, rows: Iterable[tuple[int, Iterable[bytes], Any]]) -> Iterator[Any]:
        """Yield batches for rows, or for errors in place of rows, each with its offset and its lines; and bad rows."""
        good: list[tuple[int, bytes, list[str]]] = []
        for at, lines, row in rows:
            flaw = self._flaw_of(row)
            if flaw is not None:
                yield self.bad(path, at, b"".join(lines).removesuffix(b"\n"), flaw)
            elif row:
                good.append((at, b"".join(lines), row))
            if len(good) == _ROWS_OF_BATCH:
                yield from self._batch_of(path, good)
                good = []
        if good:
            yield from self._batch_of(path, good)

    def _batch_of(self, path: str, good: list[tuple[int, bytes, list[str]]]) -> Iterator[Any]:
        """Yield the batch of parsed rows, each with its offset and its lines, and bad rows where one does not cast."""
        columns, names = self._columns_of_batches()
        batch, misfits = columns.cast(columns.of_rows([row for _, _, row in good], names))
        for number, misfit in sorted(misfits.items()):
            yield self._misfit(path, *good[number][:2], misfit)
        if misfits:
            fit = [row for number, (_, _, row) in enumerate(good) if number not in misfits]
            batch, _ = columns.cast(columns.of_rows(fit, names))
        if batch.num_rows:
            yield batch

    def _columns_of_batches(self) -> tuple[CsvColumns, tuple[str, ...]]:
        """Return the columns of batches, and the names of all columns of the file."""
        names = self.names or ()  # known, as there is a row
        return CsvColumns(self.columns or names, self._schema, self._texts), names

    def _misfit(self, path: str, at: int, line: bytes, misfit: Misfit) -> TaggedOutput:
        if self.on_error == "tag":
            return self.bad(path, at, line.removesuffix(b"\n"), ValueError(str(misfit)))
        raise ReadError(
            f"{path} at byte {at}: {misfit} (in {show(line)}). If that text stands for null, name it in the option "
            f"nullValue of the read; its option mode='PERMISSIVE' makes null of all that is no value of its column."
        )

    def _chunks(self, path: str, offset: int, data: bytes) -> Iterator[Any]:
        start = 0
        while start < len(data):
            end = data.find(b"\n", start + _CHUNK_BYTES) + 1 or len(data)
            yield from self._lines(path, offset + start, data[start:end])
            start = end

    def _lines(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        """Return the outputs for lines, each of which should be a row."""
        names, rows = self.names, self._parser.rows(offset, data)
        if rows is not None and not self.with_position:
            if names is None:
                return rows
            if set(map(len, rows)) <= {0, len(names)}:
                records = map(dict, map(zip, repeat(names), filter(None, rows)))
                return records if self.columns is None else map(self._chosen, records)
        return self._outputs(path, self._parser.one_by_one(path, offset, data, rows))

    def _rows_of(self, restriction: FileRange) -> Iterator[tuple[int, Iterable[Any], Any]]:
        """Yield the rows of a whole file, each with its offset and its bytes, which hold until the next one."""
        path, longest = restriction.file.path, self.max_record_bytes
        start = end = 0  # offsets of the part of the present row that was read
        read = bytearray()  # of the present row: if a quote is missing these may be many lines

        def lines() -> Iterator[str]:
            nonlocal start, end
            while line := file.readline(longest + 1):
                if not read and self._parser.is_comment(end, line):
                    start = end = end + len(line)
                    continue
                read.extend(line)
                end += len(line)
                if end - start > longest:
                    raise ReadError(
                        f"{path} at byte {start}: this row has more than {longest} bytes. If no quote is missing, "
                        f"allow more with max_record_bytes."
                    )
                yield self._parser.text(end - len(line), line)

        with self.open_text(restriction) as file:
            if not self.has_text(path, file.peek()):
                return
            try:
                for row in csv.reader(lines(), **self.dialect):
                    if self.header and self.names is None:
                        self.names = self._as_columns(path, row)
                    else:
                        yield start, (read,), row
                    read.clear()
                    start = end
            except UNREADABLE as error:
                head = bytes(read[:200])
                raise ReadError(
                    f"{path} at byte {start}: {self.flaw(error)} (in {show(head)}). {self.advice(error, start, head)}"
                    f"With quoted_newlines this leaves open where the next row starts, so it is an error whatever "
                    f"on_error says."
                ) from error

    def _outputs(self, path: str, rows: Iterable[tuple[int, Iterable[bytes], Any]]) -> Iterator[Any]:
        """Yield the outputs for rows, or for errors in place of rows, each with its offset and its lines."""
        for at, lines, row in rows:
            names, flaw = self.names, self._flaw_of(row)
            if flaw is not None:
                yield self.bad(path, at, b"".join(lines).removesuffix(b"\n"), flaw)
            elif names is None or row:
                record = row if names is None else self._chosen(dict(zip(names, row, strict=True)))
                yield ((path, at), record) if self.with_position else record

    def _flaw_of(self, row: Any) -> Exception | None:
        """Return what is wrong with a row, or the error in place of one; None for good and blank rows."""
        if isinstance(row, Exception):
            return row
        if self.names is None or len(row) in (0, len(self.names)):
            return None
        return ValueError(f"expected {len(self.names)} fields, found {len(row)}")

    def _chosen(self, record: dict[str, str]) -> dict[str, str]:
        return record if self.columns is None else {name: record[name] for name in self.columns}

    def flaw(self, error: Exception) -> str:
        return str(error).partition(" - do you need")[0]  # a question to those who open files for the parser

    def advice(self, error: Exception, offset: int, data: bytes) -> str:
        if isinstance(error, csv.Error) and b"\r" in data.removesuffix(b"\n").removesuffix(b"\r"):
            return (
                "A row ends in LF or CRLF, and here is a CR alone. If all rows end so convert the file, as with "
                "tr '\\r' '\\n'; if fields hold CRs quote them. "
            )
        return super().advice(error, offset, data)

    def _first_line(self) -> tuple[int, bytes]:
        """Return the first line that is no comment, and its offset."""
        at = 0
        with self.open_text(self._restriction) as file:
            while self._parser.is_comment(at, line := file.readline(self.max_record_bytes + 1)):
                at += len(line)
        if len(line) > self.max_record_bytes:
            raise ReadError(
                f"{self._restriction.file.path}: its first line has more than {self.max_record_bytes} bytes. If it "
                f"should have, allow more with max_record_bytes."
            )
        return at, line

    def _names_in(self, path: str, at: int, line: bytes) -> tuple[str, ...]:
        row = self._parser.row(path, at, line.removesuffix(b"\n"))
        if isinstance(row, Exception):
            raise ReadError(
                f"{path}: its first line, which should name the columns, cannot be read: {self.flaw(row)}. "
                f"{self.advice(row, 0, line)}".rstrip()
            ) from row
        return self._as_columns(path, row)

    def _as_columns(self, path: str, row: list[str]) -> tuple[str, ...]:
        if not row or len(set(row)) < len(row) or any("\0" in name for name in row):
            raise ReadError(
                f"{path}: its first line must name each column, no two alike, without NULs (got {show(row)}). If it is "
                f"a row like the others pass header=['a', 'b', ...] or header=False to ReadCsv."
            )
        lacking = [name for name in self.columns or () if name not in row]
        if lacking:
            raise ReadError(f"{path} has no column {lacking[0]!r}; it has {show(row)}.")
        return tuple(row)


def _not_in_header(columns: Any, names: Sequence[str]) -> InvalidValueError:
    return InvalidValueError(
        f"ReadCsv columns must be names in header, {show(list(names))} (got {show(list(columns))})."
    )

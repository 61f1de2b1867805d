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
from itertools import accumulate, repeat
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, ReadError, show
from sdf.io.files.file_fn import FileBlock, FileRange
from sdf.io.text.lines import as_encoding, as_errors
from sdf.io.text.text_fn import TextFn

__all__ = ["ReadCsv"]

_BOM = "\ufeff"
_LONGEST_FIELD = 2**31 - 1  # the largest limit that the parser accepts on every platform
_CHUNK_BYTES = 1 << 15  # parsed at once: parsing a whole cell before its first row is used takes a fifth longer
_UNREADABLE = (UnicodeDecodeError, csv.Error)


class ReadCsv(TextFn):
    """Reads CSV. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of a cell of the file.

    A row ends in LF or CRLF. With column names, rows are dicts, blank lines are skipped as by ``csv.DictReader``, and a
    row whose number of fields differs from the number of names is bad. Without, rows are lists, and a blank line is an
    empty list, as by ``csv.reader``. All fields are strings.

    Args:
        header: True: the first row of the file names its columns. A sequence of names: the file has no such row.
            False: rows are lists.
        separator: the character between fields.
        quotechar: the character around a field that holds separators; None if there are no quotes.
        doublequote: a quote inside a quoted field is written twice.
        escapechar: removes the special meaning of the character after it.
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

    def __init__(
        self,
        *,
        header: bool | Sequence[str] = True,
        separator: str = ",",
        quotechar: str | None = '"',
        doublequote: bool = True,
        escapechar: str | None = None,
        skipinitialspace: bool = False,
        quoted_newlines: bool = False,
        encoding: str = "utf-8",
        errors: str = "strict",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if quoted_newlines and self.block_size is not None:
            raise InvalidValueError("ReadCsv block_size is of no use with quoted_newlines: files are not split then.")
        _check_signs(separator=separator, quotechar=quotechar, escapechar=escapechar)
        self.header = header is True
        self.names = None if isinstance(header, bool) else _as_names(header)
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

    @classmethod
    def option_names(cls) -> set[str]:
        return super().option_names() - {"delimiter"}  # rows end in LF or CRLF

    def setup(self) -> None:
        # The parser's limit, 131,072 characters a field, is per process; max_record_bytes is checked here, per row.
        csv.field_size_limit(max(csv.field_size_limit(), min(self.max_record_bytes, _LONGEST_FIELD)))

    def get_initial_restriction(self, element: Any) -> FileRange:
        if not self.quoted_newlines:
            return super().get_initial_restriction(element)
        if isinstance(element, FileBlock):
            raise InvalidValueError(
                f"ReadCsv with quoted_newlines reads files from their start, not blocks of them (got {show(element)}). "
                f"Leave out FileBlocks."
            )
        return attrs.evolve(self.in_one_piece(element), note="csv: quoted newlines, read in one piece")

    def restriction_size(self, element: Any, restriction: FileRange) -> float | None:
        return restriction.file.size if self.quoted_newlines else super().restriction_size(element, restriction)

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        restriction: FileRange = tracker.current_restriction()
        attempt = copy.copy(self)  # it stores the column names of this file
        if not self.quoted_newlines:
            attempt._restriction = restriction
            return super(ReadCsv, attempt).process(element, tracker)
        rows = attempt._rows_of(restriction) if tracker.try_claim(0) else ()
        outputs = attempt._outputs(restriction.file.path, rows)
        return self.named(element, restriction, 0, outputs) if self.with_block_id else outputs

    def records(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        if self.header and offset == 0:
            end = data.find(b"\n") + 1 or len(data)
            self.names = self._names_in(path, data[:end])
            offset, data = end, data[end:]
        elif self.header and self.names is None:
            self.names = self._names_in(path, self._first_line())
        return self._chunks(path, offset, data)

    def _chunks(self, path: str, offset: int, data: bytes) -> Iterator[Any]:
        start = 0
        while start < len(data):
            end = data.find(b"\n", start + _CHUNK_BYTES) + 1 or len(data)
            yield from self._lines(path, offset + start, data[start:end])
            start = end

    def _lines(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        """Return the outputs for lines, each of which should be a row."""
        names, rows = self.names, self._parse(offset, data)
        if rows is not None and not self.with_position:
            if names is None:
                return rows
            if set(map(len, rows)) <= {0, len(names)}:
                return map(dict, map(zip, repeat(names), filter(None, rows)))
        return self._outputs(path, self._one_by_one(path, offset, data, rows))

    def _parse(self, offset: int, data: bytes) -> list[list[str]] | None:
        """Return the rows of all lines; None if a line is no row by itself, so that each has to be parsed alone."""
        try:
            lines = self._text(offset, data).split("\n")
            if not lines[-1]:
                lines.pop()  # the text ended in a newline
            rows = list(csv.reader(lines, **self.dialect))
        except _UNREADABLE:
            return None
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        return rows if len(rows) == len(lines) == count else None

    def _one_by_one(
        self, path: str, offset: int, data: bytes, rows: list[list[str]] | None
    ) -> Iterator[tuple[int, tuple[bytes], Any]]:
        """Return for each line its offset, the line, and its row or the error that parsing it raised."""
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        starts = list(accumulate((len(line) + 1 for line in lines), initial=offset))  # and the end of the last
        given = map(self._row, repeat(path), starts, lines) if rows is None else rows
        return zip(starts, zip(lines, strict=True), given, strict=False)

    def _row(self, path: str, offset: int, line: bytes) -> list[str] | Exception:
        """Return the row of a line, or the error that parsing it raised.

        Raises:
            ReadError: if the row goes on in the next line.
        """
        try:
            row: list[str] = next(csv.reader(_one_line(self._text(offset, line)), **self.dialect))
        except _UNREADABLE as error:
            return error
        except _GoesOnError:
            raise ReadError(
                f"{path} at byte {offset}: this row does not end with its line, since a quoted field holds a newline "
                f"or a quote is missing (in {show(line)}). If fields may hold newlines pass quoted_newlines=True to "
                f"ReadCsv; files are not split then."
            ) from None
        return row

    def _rows_of(self, restriction: FileRange) -> Iterator[tuple[int, list[bytes], Any]]:
        """Yield the rows of a whole file, each with its offset and its lines."""
        path, longest = restriction.file.path, self.max_record_bytes
        start = end = 0  # offsets of the part of the present row that was read
        row_lines: list[bytes] = []

        def lines() -> Iterator[str]:
            nonlocal end
            while line := file.readline(longest + 1):
                row_lines.append(line)
                end += len(line)
                if end - start > longest:
                    raise ReadError(
                        f"{path} at byte {start}: this row has more than {longest} bytes. If no quote is missing, "
                        f"allow more with max_record_bytes."
                    )
                yield self._text(end - len(line), line)

        with self.open_text(restriction) as file:
            try:
                for row in csv.reader(lines(), **self.dialect):
                    if self.header and self.names is None:
                        self.names = self._as_columns(path, row)
                    else:
                        yield start, row_lines, row
                    row_lines.clear()
                    start = end
            except _UNREADABLE as error:
                read = b"".join(row_lines)[:200]
                raise ReadError(
                    f"{path} at byte {start}: {error} (in {show(read)}). {self.advice(error, start, read)}"
                    f"With quoted_newlines this leaves open where the next row starts, so it is an error whatever "
                    f"on_error says."
                ) from error

    def _outputs(self, path: str, rows: Iterable[tuple[int, Iterable[bytes], Any]]) -> Iterator[Any]:
        """Yield the outputs for rows, or for errors in place of rows, each with its offset and its lines."""
        for at, lines, row in rows:
            names = self.names
            if isinstance(row, Exception):
                flaw = row
            elif names is None or len(row) == len(names):
                record = row if names is None else dict(zip(names, row, strict=False))
                yield ((path, at), record) if self.with_position else record
                continue
            elif row:
                flaw = ValueError(f"expected {len(names)} fields, found {len(row)}")
            else:
                continue
            yield self.bad(path, at, b"".join(lines).removesuffix(b"\n"), flaw)

    def _text(self, offset: int, data: bytes) -> str:
        text = data.decode(self.encoding, self.errors)
        return text.removeprefix(_BOM) if offset == 0 else text

    def _first_line(self) -> bytes:
        with self.open_text(self._restriction) as file:
            line: bytes = file.readline(self.max_record_bytes + 1)
        if len(line) > self.max_record_bytes:
            raise ReadError(
                f"{self._restriction.file.path}: its first line has more than {self.max_record_bytes} bytes. If it "
                f"should have, allow more with max_record_bytes."
            )
        return line

    def _names_in(self, path: str, line: bytes) -> tuple[str, ...]:
        row = self._row(path, 0, line.removesuffix(b"\n"))
        if isinstance(row, Exception):
            raise ReadError(
                f"{path}: its first line, which should name the columns, cannot be read: {row}. "
                f"{self.advice(row, 0, line)}".rstrip()
            ) from row
        return self._as_columns(path, row)

    def _as_columns(self, path: str, row: list[str]) -> tuple[str, ...]:
        if not row or len(set(row)) < len(row):
            raise ReadError(
                f"{path}: its first line must name each column, no two alike (got {show(row)}). If it is a row "
                f"like the others pass header=['a', 'b', ...] or header=False to ReadCsv."
            )
        return tuple(row)


class _GoesOnError(Exception):
    """The parser asks for the next line."""


def _one_line(line: str) -> Iterator[str]:
    yield line
    raise _GoesOnError


def _as_names(header: Any) -> tuple[str, ...]:
    strings = isinstance(header, Sequence) and not isinstance(header, str) and all(isinstance(n, str) for n in header)
    if not strings:
        raise InvalidTypeError(f"ReadCsv header must be True, False or a list of names (got {show(header)}).")
    if not header or len(set(header)) < len(header):
        raise InvalidValueError(f"ReadCsv header must name each column, no two alike (got {show(header)}).")
    return tuple(header)


def _check_signs(**signs: str | None) -> None:
    """Raise unless each special character of CSV is one character, no end of a line, and differs from the others."""
    for name, sign in signs.items():
        if sign is None and name != "separator":
            continue
        if not isinstance(sign, str):
            raise InvalidTypeError(f"ReadCsv {name} must be a character (got {show(sign)}).")
        if len(sign) != 1 or sign in "\r\n":
            raise InvalidValueError(f"ReadCsv {name} must be one character, not the end of a line (got {sign!r}).")
    given = [sign for sign in signs.values() if sign is not None]
    if len(set(given)) < len(given):
        raise InvalidValueError(f"ReadCsv needs different characters for {', '.join(signs)} (got {show(given)}).")

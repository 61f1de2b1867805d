"""Lines of CSV as rows, by Python's parser: all lines of a text at once, or one after the other."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping
from itertools import accumulate, repeat
from typing import Any

from sdf.errors import ReadError, show

__all__ = ["UNREADABLE", "CsvLines"]

UNREADABLE = (UnicodeDecodeError, csv.Error)
_BOM = "\ufeff"


class CsvLines:
    """Parses lines of which each should be a row.

    Args:
        dialect: as for `csv.reader`.
        encoding: encoding of the text.
        errors: as for `bytes.decode`.
        comment: what lines that are no rows begin with; None if all are.
    """

    def __init__(self, dialect: Mapping[str, Any], encoding: str, errors: str, comment: str | None) -> None:
        self._dialect = dialect
        self._encoding = encoding
        self._errors = errors
        self._comment = None if comment is None else comment.encode(encoding)

    def is_comment(self, offset: int, line: bytes) -> bool:
        """Return whether a line of a file is a comment; at its start a byte order mark may come first."""
        if self._comment is None:
            return False
        return (line.removeprefix(codecs.BOM_UTF8) if offset == 0 else line).startswith(self._comment)

    def without_comments(self, offset: int, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the lines between comments, with the offset of the first."""
        begin = at = 0
        while at < len(data):
            end = data.find(b"\n", at) + 1 or len(data)
            if self.is_comment(offset + at, data[at:end]):
                if begin < at:
                    yield offset + begin, data[begin:at]
                begin = end
            at = end
        if begin < len(data):
            yield offset + begin, data[begin:]

    def rows(self, offset: int, data: bytes) -> list[list[str]] | None:
        """Return the rows of all lines; None if a line is no row by itself, so that each has to be parsed alone."""
        try:
            lines = self.text(offset, data).split("\n")
            if not lines[-1]:
                lines.pop()  # the text ended in a newline
            rows = list(csv.reader(lines, **self._dialect))
        except UNREADABLE:
            return None
        count = data.count(b"\n") + (not data.endswith(b"\n"))
        return rows if len(rows) == len(lines) == count else None

    def one_by_one(
        self, path: str, offset: int, data: bytes, rows: list[list[str]] | None
    ) -> Iterator[tuple[int, tuple[bytes], Any]]:
        """Return for each line its offset, the line, and its row or the error that parsing it raised."""
        lines = data.split(b"\n")
        if not lines[-1]:
            lines.pop()
        starts = list(accumulate((len(line) + 1 for line in lines), initial=offset))  # and the end of the last
        given = map(self.row, repeat(path), starts, lines) if rows is None else rows
        return zip(starts, zip(lines, strict=True), given, strict=False)

    def row(self, path: str, offset: int, line: bytes) -> list[str] | Exception:
        """Return the row of a line, or the error that parsing it raised.

        Raises:
            ReadError: if the row goes on in the next line; also if it may, where a flaw ends parsing before that shows.
        """
        try:
            row: list[str] = next(csv.reader(_one_line(self.text(offset, line)), **self._dialect))
        except UNREADABLE as error:
            if not self._may_go_on(line):
                return error
        except _GoesOnError:
            pass
        else:
            return row
        raise ReadError(
            f"{path} at byte {offset}: this row does not end with its line, since a quoted field holds a newline "
            f"or a quote is missing (in {show(line)}). If fields may hold newlines pass quoted_newlines=True to "
            f"ReadCsv; files are not split then."
        )

    def _may_go_on(self, line: bytes) -> bool:
        """Return whether an unreadable line may end in a quoted field. A lone CR may be a letter or a line end."""
        text = line.decode(self._encoding, "replace").replace("\0", " ").replace("\n", "\r")
        lenient = {**self._dialect, "strict": False}
        try:
            for part in (text.replace("\r", " "), *text.split("\r")):
                next(csv.reader(_one_line(part), **lenient))
        except (_GoesOnError, csv.Error):
            return True
        return False

    def text(self, offset: int, data: bytes) -> str:
        text = data.decode(self._encoding, self._errors)
        return text.removeprefix(_BOM) if offset == 0 else text


class _GoesOnError(Exception):
    """The parser asks for the next line."""


def _one_line(line: str) -> Iterator[str]:
    yield line
    raise _GoesOnError

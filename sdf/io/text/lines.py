"""ReadLines: the lines of text files, as strings or as bytes."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Iterator
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.io.text.text_fn import TextFn

__all__ = ["ReadLines", "as_encoding", "as_errors"]

_BOM = codecs.BOM_UTF8


class ReadLines(TextFn):
    """Reads lines. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of a cell of the file.

    A line ends in LF or CRLF (a lone CR is data), or in ``delimiter`` if that is given. Blank lines are records. The
    last line of a file may lack its end.

    Args:
        delimiter: the bytes that end a record; None for LF and CRLF.
        encoding: encoding of the text; the lines are strings, and a UTF-8 byte order mark at the start of a file is
            dropped. UTF-16 and UTF-32 are refused: the byte of a line feed may be part of a character there. None: the
            lines are bytes, as they are in the file.
        errors: what becomes of bytes that are no text, as `bytes.decode` takes it. ``"strict"``: such a line is a bad
            record. ``"replace"``: they become U+FFFD. ``"backslashreplace"`` and ``"surrogateescape"`` keep them.
        options: as for `TextFn`: ``with_position``, ``with_block_id``, ``on_error``, ``max_record_bytes``,
            ``compression``, ``index_dir``, ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.

    Source: semantics of TextInputFormat in Apache Hadoop and of ReadFromText in Apache Beam.
    """

    def __init__(
        self,
        *,
        delimiter: bytes | None = None,
        encoding: str | None = "utf-8",
        errors: str = "strict",
        **options: Any,
    ) -> None:
        super().__init__(delimiter=b"\n" if delimiter is None else delimiter, **options)
        self.strip_cr = delimiter is None
        who = type(self).__name__
        self.encoding = None if encoding is None else as_encoding(encoding, self.delimiter, who)
        self.errors = as_errors(errors, who)
        if self.encoding is None and errors != "strict":
            raise InvalidValueError(f"{who} errors is of no use with encoding=None: the lines are bytes then.")

    def records(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        encoding = self.encoding
        if offset == 0 and encoding is not None and not self.has_text(path, data):
            return ()
        if encoding == "utf-8" and offset == 0 and data.startswith(_BOM):
            return self._carefully(path, offset, data)
        if self.with_position or (
            encoding not in (None, "utf-8", "ascii", "iso8859-1") or not self.delimiter.isascii()
        ):
            return self._carefully(path, offset, data)
        if encoding is None:
            return self._split(data, self.delimiter, b"\r", b"\r\n", b"\n")
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            return self._carefully(path, offset, data)
        return self._split(text, self.delimiter.decode(), "\r", "\r\n", "\n")

    def _split(self, data: Any, delimiter: Any, cr: Any, crlf: Any, lf: Any) -> list[Any]:
        """Split text, or bytes, that holds whole records."""
        if self.strip_cr and cr in data:
            data = data.replace(crlf, lf)
        lines: list[Any] = data.split(delimiter)
        if not lines[-1]:
            lines.pop()  # it ended in a delimiter
        return lines

    def _carefully(self, path: str, offset: int, data: bytes) -> Iterator[Any]:
        """Yield one record after the other, with its position if wanted, or a `BadRecord` in its place."""
        lines = data.split(self.delimiter)
        last = lines.pop()
        for place, line in enumerate([*lines, last] if last else lines):
            at, offset = offset, offset + len(line) + len(self.delimiter)
            record: Any = line
            if self.strip_cr and place < len(lines) and line.endswith(b"\r"):
                record = line[:-1]
            if self.encoding is not None:
                if at == 0 and self.encoding == "utf-8":
                    record = record.removeprefix(_BOM)
                try:
                    record = record.decode(self.encoding, self.errors)
                except UnicodeDecodeError as error:
                    yield self.bad(path, at, line, error)
                    continue
            yield ((path, at), record) if self.with_position else record


def as_encoding(encoding: Any, delimiter: bytes, who: str) -> str:
    """Return Python's name of an encoding; raise if the bytes of a delimiter may be part of a character in it."""
    if not isinstance(encoding, str):
        raise InvalidTypeError(f"{who} encoding must be a name such as 'utf-8', or None (got {show(encoding)}).")
    try:
        name = codecs.lookup(encoding).name.removesuffix("-sig")  # the mark is dropped once per file, not per line
        line_feed = "\n".encode(name)
        every_byte = bytes(range(256)).decode(name, "replace")
    except (LookupError, UnicodeError) as error:
        raise InvalidValueError(
            f"{who} encoding must be one of text that Python knows (got {encoding!r}): {error}."
        ) from error
    if name.startswith(("utf-16", "utf-32", "utf-7", "iso2022", "hz")) or line_feed != b"\n":
        raise InvalidValueError(
            f"{who} cannot split text in {encoding!r}: the byte of a line feed may be part of a letter there, or "
            f"what a byte means depends on those before it. Convert the files to UTF-8."
        )
    if name != "utf-8" and len(every_byte) < 256 and delimiter[0] >= 0x30:  # letters of several bytes, all >= 0x30
        raise InvalidValueError(
            f"{who} cannot split text in {encoding!r} at {delimiter!r}: its first byte may be part of a letter "
            f"there. Choose a delimiter that begins with a byte below 0x30, or convert the files to UTF-8."
        )
    return name


def as_errors(errors: Any, who: str) -> str:
    """Return the option ``errors``; raise unless `bytes.decode` takes it."""
    try:
        b"\xff".decode("ascii", errors)
    except UnicodeDecodeError:
        pass  # "strict", or a handler of the user's that raises, too
    except (LookupError, TypeError) as error:  # there is none of that name, or only one for encoding
        raise InvalidValueError(
            f"{who} errors must be 'strict', 'replace', 'backslashreplace' or another name of what Python does with "
            f"bytes that are no text (got {show(errors)}): {error}."
        ) from error
    return errors  # type: ignore[no-any-return]

"""ReadJsonLines: the values of files that hold one JSON value per line."""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from sdf.errors import InvalidTypeError, show
from sdf.io.text.text_fn import TextFn

__all__ = ["ReadJsonLines"]

_UNREADABLE = (ValueError, RecursionError)  # a UnicodeDecodeError is a ValueError


class ReadJsonLines(TextFn):
    """Reads JSON lines. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of a cell of the file.

    A line ends in LF or CRLF; other line ends of Unicode are data. Blank lines are skipped. The text is UTF-8; a byte
    order mark at the start of a file is dropped.

    Args:
        loads: a function that turns the text of a line into a value, or raises ValueError; ``orjson.loads`` will do. It
            must be picklable.
        delimiter: the bytes that end a value, such as ``b"\\x1e"`` where it is not a line.
        options: as for `TextFn`: ``with_position``, ``with_block_id``, ``on_error``, ``max_record_bytes``,
            ``compression``, ``index_dir``, ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        ReadError: when it runs, for a line that is not UTF-8 or not JSON.

    Source: https://jsonlines.org
    """

    def __init__(self, *, loads: Callable[[str], Any] = json.loads, **options: Any) -> None:
        super().__init__(**options)
        if not callable(loads):
            raise InvalidTypeError(f"ReadJsonLines loads must be a function such as json.loads (got {show(loads)}).")
        self.loads = loads

    def flaw(self, error: Exception) -> str:
        if not isinstance(error, json.JSONDecodeError):
            return super().flaw(error)
        return f"{error.msg} at character {error.pos}"  # str(error) has line and column too

    def advice(self, error: Exception, offset: int, data: bytes) -> str:
        if isinstance(error, json.JSONDecodeError) and error.pos >= len(error.doc.rstrip()) > 0:
            return "Each line must be a whole JSON value; ReadJson reads a file that is one array. "
        return super().advice(error, offset, data)

    def encoding_advice(self) -> str:
        return (
            "JSON lines are UTF-8: convert the file, or read it with ReadLines(encoding='latin-1'), say, and map "
            "json.loads over the lines. "
        )

    def records(self, path: str, offset: int, data: bytes) -> Iterable[Any]:
        if self.with_position or not self.delimiter.isascii():
            return self._carefully(path, offset, data)
        try:
            lines = _text(offset, data).split(self.delimiter.decode())
        except UnicodeDecodeError:
            return self._carefully(path, offset, data)
        return self._quickly(path, offset, data, lines)

    def _quickly(self, path: str, offset: int, data: bytes, lines: list[str]) -> Iterator[Any]:
        """Yield the values of lines; from the first line that `loads` rejects (it may be blank), go on carefully."""
        rest = iter(lines)
        try:
            yield from map(self.loads, filter(None, rest))
        except _UNREADABLE:
            done = data.split(self.delimiter)[: len(lines) - len(list(rest)) - 1]
            size = sum(len(line) + len(self.delimiter) for line in done)
            yield from self._carefully(path, offset + size, data[size:])

    def _carefully(self, path: str, offset: int, data: bytes) -> Iterator[Any]:
        """Yield one value after the other, with its position if wanted, or a `BadRecord` in its place."""
        for line in data.split(self.delimiter):
            at, offset = offset, offset + len(line) + len(self.delimiter)
            try:
                text = _text(at, line)
                if not text.strip(" \t\r\n"):
                    continue
                value = self.loads(text)
            except _UNREADABLE as error:
                yield self.bad(path, at, line, error)
            else:
                yield ((path, at), value) if self.with_position else value


def _text(offset: int, data: bytes) -> str:
    """Return bytes of a file as text; raise UnicodeDecodeError, a ValueError, if they are not UTF-8."""
    return (data.removeprefix(codecs.BOM_UTF8) if offset == 0 else data).decode()

"""The syntax of a WARC record: a line with the version, headers, an empty line, the content, two line ends."""

from __future__ import annotations

import io
import re

import attrs

from sdf.errors import show

__all__ = ["START", "START_BYTES", "WarcRecord", "read_content", "read_head", "skip_line_ends"]

START = re.compile(rb"WARC/\d{1,3}\.\d{1,3}\r?\n")
START_BYTES = 16  # of the longest first line
_MOST_HEAD_BYTES = 1 << 20
_LINE_ENDS = (b"\r", b"\n")


@attrs.frozen
class WarcRecord:
    """A record of a WARC file.

    Attributes:
        version: such as ``"1.0"``.
        headers: names and values, in the order of the file; a name may occur several times.
        content: the bytes after the headers, as they are: of a response, HTTP's status line and headers too.
    """

    version: str
    headers: tuple[tuple[str, str], ...]
    content: bytes = attrs.field(repr=lambda content: show(content, 80))

    def get(self, name: str, default: str | None = None) -> str | None:
        """Return the first header of a name, in any case of its letters, such as ``get("WARC-Target-URI")``."""
        wanted = name.lower()
        return next((value for known, value in self.headers if known.lower() == wanted), default)


def read_head(text: io.BufferedReader) -> tuple[WarcRecord, int]:
    """Return the record that begins here, without its content, and the size of that; the text is then at the content.

    Raises:
        ValueError: saying what is wrong, if none does.
    """
    first = text.readline(START_BYTES)
    if not START.fullmatch(first):
        raise ValueError(f"it should begin with a line such as WARC/1.0, but begins with {show(first)}")
    lines: list[bytes] = []
    left = _MOST_HEAD_BYTES
    while (line := text.readline(left)).endswith(b"\n") and line.strip(b"\r\n"):
        left -= len(line)
        if line[:1] in (b" ", b"\t") and lines:  # the line before it goes on
            lines[-1] += b" " + line.strip()
        elif b":" in line:
            lines.append(line.strip())
        else:  # at once: what only begins as a record does may go on for long
            raise ValueError(f"its header {show(line.strip())} has no colon")
    if not line.endswith(b"\n"):
        raise ValueError("its headers do not end" + (f" within {_MOST_HEAD_BYTES} bytes" if left <= len(line) else ""))
    record = WarcRecord(first[5:].decode().strip(), tuple(map(_header, lines)), b"")
    sizes = sorted({value for name, value in record.headers if name.lower() == "content-length"})
    if len(sizes) != 1 or not (sizes[0].isascii() and sizes[0].isdigit()):
        said = " and ".join(map(show, sizes)) or "missing"
        raise ValueError(f"its header Content-Length must be a number of bytes, but is {said}")
    return record, int(sizes[0])


def _header(line: bytes) -> tuple[str, str]:
    name, _, value = line.partition(b":")
    return _text(name.strip()), _text(value.strip())


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:  # what old crawlers wrote
        return data.decode("latin-1")


def read_content(text: io.BufferedReader, size: int, most: int) -> bytes:
    """Return the content of a record.

    Raises:
        ValueError: if it is longer than ``most``, or not all there.
    """
    if size > most:
        raise ValueError(
            f"its content has {size} bytes, more than max_record_bytes={most}; pass more if it is that long"
        )
    content = text.read(size)
    if len(content) < size:
        raise ValueError(f"its content should have {size} bytes, but ends after {len(content)}")
    return content


def skip_line_ends(text: io.BufferedReader) -> None:
    """Pass over line ends; not all writers put two after a record."""
    while text.peek(1)[:1] in _LINE_ENDS:
        text.read(1)

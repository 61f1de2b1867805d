"""XML elements of one name: where they begin and end, found from any byte on.

A start tag of the name is where an element begins, whatever is around it. So where elements begin does not depend on
where one begins to read: from the middle of a file nobody sees whether that is in a comment, in a CDATA section or in
another element of the name. What an element holds is read from its start on: there comments, CDATA sections and
processing instructions are known, and an end tag in one of them is none. An element without an end before the next
start tag is no whole one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from sdf.errors import ReadError
from sdf.io.text.delimited import Stream

__all__ = ["ElementText", "Tag", "too_long"]

_SPACE = rb"[ \t\r\n]"
_CHUNK_BYTES = 1 << 16
_IN_TAG = re.compile(rb"""(?:[^<>"']+|"[^"<]*"|'[^'<]*'){0,100}""")


class Tag:
    """The name of an element, as it is written in files.

    Attributes:
        look_bytes: how many bytes show that a start tag begins.
    """

    def __init__(self, name: str) -> None:
        escaped = re.escape(name.encode())
        self.look_bytes = len(name.encode()) + 2
        self._begin = re.compile(b"<" + escaped + b"(?=" + _SPACE + b"|[/>])")
        self._mark = re.compile(  # an end tag; or what may hold one, without its end if that is missing
            b"</" + escaped + _SPACE + rb"*>|<!--(?:.*?-->)?|<!\[CDATA\[(?:.*?\]\]>)?|<\?(?:.*?\?>)?", re.DOTALL
        )

    def starts(self, data: bytes, start: int, stop: int) -> list[int]:
        """Return where elements begin in ``[start, stop)``."""
        return [found.start() for found in self._begin.finditer(data, start, stop + self.look_bytes - 1)]

    def start_tag(self, data: bytes, start: int, stop: int) -> int | None:
        """Return where the start tag of the element that begins at ``start`` ends; None if it does not end."""
        at, before = start + self.look_bytes - 1, start
        while at > before:  # in small steps: the pattern keeps a way back for each part of a step
            before, at = at, _IN_TAG.match(data, at, stop).end()  # type: ignore[union-attr]
        return at + 1 if data.startswith(b">", at, stop) else None

    def end(self, data: bytes, start: int, stop: int) -> int | None:
        """Return where the element that begins at ``start`` ends; None if it does not end before ``stop``."""
        at = self.start_tag(data, start, stop)
        if at is None or data.startswith(b"/>", at - 2):
            return at
        for mark in self._mark.finditer(data, at, stop):
            if data.startswith(b"</", mark.start()):
                return mark.end()
            if not data.startswith(b">", mark.end() - 1):
                break  # a comment, say, that does not end
        return None

    def elements(self, data: bytes) -> Iterator[tuple[int, int, bool]]:
        """Yield where each element begins, where it ends, or else the next begins, and whether it ends."""
        starts = self.starts(data, 0, len(data))
        for start, stop in zip(starts, [*starts[1:], len(data)], strict=True):
            end = self.end(data, start, stop)
            yield start, stop if end is None else end, end is not None


class ElementText:
    """The text of a part as a stream, in which the elements of one piece after the other are found.

    Args:
        stream: a stream whose next byte has position ``at``.
        at: the position of the next byte.
        tag: the name of the elements.
        longest: the most bytes that an element may have.
        path: path of the file, for error messages.
    """

    def __init__(self, stream: Stream, at: int, tag: Tag, longest: int, path: str) -> None:
        self._stream = stream
        self._at = at  # of the first byte of `_data`
        self._data = b""
        self._tag = tag
        self._longest = longest
        self._path = path

    def peek(self, size: int) -> bytes:
        """Return the first bytes, before any piece is read."""
        self._fill(self._at + size)
        return self._data[:size]

    def goes_on_at(self, offset: int) -> bool:
        """Return whether the text does not end before or at a byte."""
        self._fill(offset + 1)
        return offset < self._at + len(self._data)

    def starting_in(self, start: int, stop: int) -> Iterator[tuple[int, bytes]]:
        """Yield the bytes from the first to the last element that start in ``[start, stop)``, and where they begin.

        Pieces must follow one another. An element that does not end goes on to the next start tag.
        """
        if start - self._at > len(self._data) // 2:  # not at each piece: long elements would be copied often
            self._data = self._data[start - self._at :]
            self._at = start
        self._fill(stop + self._tag.look_bytes - 1)
        starts = self._tag.starts(self._data, start - self._at, stop - self._at)
        if starts:
            end = self._end(starts[-1])
            yield self._at + starts[0], self._data[starts[0] : end]

    def _end(self, start: int) -> int:
        """Return where the element that begins at ``start`` of the data ends, or else the next begins or the file ends.

        Raises:
            ReadError: if that is not known after as many bytes as an element may have.
        """
        while True:
            size = len(self._data)
            after = self._tag.starts(self._data, start + 1, size)
            end = self._tag.end(self._data, start, after[0] if after else size)
            if end is not None:
                return end
            if after:
                return after[0]
            if size - start > self._longest:
                raise too_long(self._path, self._at + start, self._longest)
            self._fill(self._at + size + max(_CHUNK_BYTES, size - start))
            if len(self._data) == size:
                return size

    def _fill(self, stop: int) -> None:
        missing = stop - self._at - len(self._data)
        if missing > 0:
            self._data += self._stream.read(missing)


def too_long(path: str, at: int, longest: int) -> ReadError:
    """Return the error of an element that is longer than it may be."""
    return ReadError(
        f"{path}: the element that begins at byte {at} has more than {longest} bytes. If the tag is right, allow more "
        f"with max_record_bytes."
    )

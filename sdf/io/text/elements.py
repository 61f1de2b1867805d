"""XML elements of one name: where they begin and end, found from any byte on.

A start tag of the name is where an element begins, wherever one begins to read. So none may be hidden in a comment, in
a CDATA section, in a processing instruction or in a DOCTYPE: a part that begins in the middle of one would not see it.
A hidden start tag is an error, and that is safe. The first part knows from the start of the file on what is hidden, and
each other part from its first start tag on. Up to that tag the part before looks, but no further than a cell: between
records that lie farther apart a hidden tag may go unnoticed where a part begins. Else, of all start tags, the first
that is hidden is seen as such; the run then fails, and nothing that other parts read wrongly is used.

What an element holds is read from its start on, so end tags may be hidden. An element without an end before the next
start tag is no whole one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from sdf.errors import ReadError
from sdf.io.text.delimited import Stream

__all__ = ["ElementText", "Tag", "too_long"]

_SPACE = rb"[ \t\r\n]"
_CHUNK_BYTES = 1 << 16
_MARKS = (b"<!", b"<?")
_OPENING = re.compile(rb"<\?|(<!--)|(<!\[CDATA\[)|(<!DOCTYPE[^\[>]*\[)|(<!DOCTYPE)")
_CLOSING = (b"?>", b"-->", b"]]>", b"]>", b">")
_LOOK_BYTES = 16  # more than show which markup begins, or where it ends
_GAP_BYTES = 1 << 18  # how far a part looks behind its end for the first start tag; records lie closer
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
        starts, _ = Markup(0).shown(data, 0, self.starts(data, 0, len(data)), len(data))
        for start, stop in zip(starts, [*starts[1:], len(data)], strict=True):
            end = self.end(data, start, stop)
            yield start, stop if end is None else end, end is not None


class Markup:
    """Knows from a byte on, which is in no markup, what is hidden in markup that holds no elements.

    Args:
        at: position of that byte.
    """

    def __init__(self, at: int) -> None:
        self._at = at  # up to here it is known
        self.closing = b""  # what ends the markup at that byte; b"" if there is none
        self.begin = at  # of that markup

    def shown(self, data: bytes, offset: int, starts: list[int], stop: int) -> tuple[list[int], Any]:
        """Return the start tags that are not hidden; and the first that is, with where its markup begins, or None.

        Args:
            data: bytes of the text, up to ``stop`` and at least `LOOK_BYTES` further, or to the end.
            offset: position of the first of them.
            starts: all start tags before ``stop`` from the known byte on, as places in ``data``.
            stop: a place in ``data``, up to which all is known then.
        """
        at = self._at - offset
        if not self.closing and not any(data.find(mark, at, stop + 1) >= 0 for mark in _MARKS):
            self._at = max(self._at, offset + stop)
            return starts, None
        shown: list[int] = []
        hidden = None
        for start in starts:
            self._go_on(data, offset, start)
            if not self.closing:
                shown.append(start)
            elif hidden is None:
                hidden = start, self.begin
        self._go_on(data, offset, stop)
        return shown, hidden

    def _go_on(self, data: bytes, offset: int, stop: int) -> None:
        at = self._at - offset
        while at < stop:
            if self.closing:
                end = data.find(self.closing, at, stop + len(self.closing) - 1)
                if end < 0:
                    at = max(at, stop - len(self.closing) + 1)
                    break
                at = end + len(self.closing)
                self.closing = b""
            else:
                found = _OPENING.search(data, at)
                if found is None or found.start() >= stop:
                    at = stop
                else:
                    self.begin, at = offset + found.start(), found.end()
                    self.closing = _CLOSING[found.lastindex or 0]
        self._at = offset + at


class ElementText:
    """The text of a part as a stream, in which the elements of one piece after the other are found.

    Args:
        stream: a stream whose next byte has position ``at``.
        at: the position of the next byte.
        tag: the name of the elements.
        longest: the most bytes that an element may have.
        path: path of the file, for error messages.
        is_first: whether ``at`` is the start of the file.
        may_hide: whether start tags may be hidden; only if the text is the whole file.
    """

    def __init__(
        self, stream: Stream, at: int, tag: Tag, longest: int, path: str, *, is_first: bool, may_hide: bool
    ) -> None:
        self._stream = stream
        self._at = at  # of the first byte of `_data`
        self._data = b""
        self._tag = tag
        self._longest = longest
        self._path = path
        self._may_hide = may_hide
        self._markup = Markup(at) if is_first else None  # None: nothing is known before the first start tag

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
        passed = start - self._at - _LOOK_BYTES
        if passed > len(self._data) // 2:  # not at each piece: long elements would be copied often
            self._data = self._data[passed:]
            self._at += passed
        if starts := self._starts(start, stop):
            end = self._end(starts[-1])
            yield self._at + starts[0], self._data[starts[0] : end]

    def check_after(self, stop: int) -> None:
        """Look for the first start tag at or after the end of the last piece; raise ReadError if it is hidden."""
        for at in range(stop, stop + _GAP_BYTES, _CHUNK_BYTES):
            if self._markup is None or self._starts(at, at + _CHUNK_BYTES) or not self.goes_on_at(at + _CHUNK_BYTES):
                break

    def check_end(self) -> None:
        """Raise ReadError if the file ends inside markup, which would hide every later record."""
        if self._markup is not None and self._markup.closing:
            raise ReadError(
                f"{self._path}: what begins at byte {self._markup.begin} does not end in "
                f"{self._markup.closing.decode()!r}. The file is damaged or cut off."
            )

    def _starts(self, start: int, stop: int) -> list[int]:
        """Return the places in the data of the elements that begin in ``[start, stop)``."""
        self._fill(stop + max(self._tag.look_bytes, _LOOK_BYTES))
        stop = min(stop, self._at + len(self._data))
        starts = self._tag.starts(self._data, start - self._at, stop - self._at)
        if self._markup is None:
            if not starts:
                return starts
            self._markup = Markup(self._at + starts[0])
        shown, hidden = self._markup.shown(self._data, self._at, starts, stop - self._at)
        if hidden is None or self._may_hide:
            return shown
        raise ReadError(
            f"{self._path} at byte {self._at + hidden[0]}: this start tag lies in a comment, a CDATA section, a "
            f"processing instruction or a DOCTYPE, which begins at byte {hidden[1]}. A task that reads a part "
            f"of the file cannot see that: pass hidden_tags=True to ReadXml. sdf does not split files then."
        )

    def _end(self, start: int) -> int:
        """Return where the element that begins at ``start`` of the data ends, or else the next begins or the file ends.

        Raises:
            ReadError: if that is not known after as many bytes as an element may have.
        """
        while True:
            size = len(self._data)
            after, _ = Markup(start).shown(self._data, 0, self._tag.starts(self._data, start + 1, size), size)
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

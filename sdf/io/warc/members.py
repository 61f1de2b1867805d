"""WARC records in gzip members: where the members begin in a file.

Where a member ends shows only when it is decompressed. A part that begins in the middle looks for bytes that begin a
member, and decompresses the first line, which must be one such as ``WARC/1.0``. The record of a crawled ``.warc.gz``
holds such members too: what cannot be compressed is stored as it is, in blocks of at most 65,535 bytes with a few bytes
between. So a chain of such inner members breaks before that. The part trusts the first member that it finds if members
follow each other for longer, or to the end of the file, all with the right checksums. If not, it decompresses the file
from its start; that is rare. One case is not detected: bytes that somebody puts into a record on purpose, such that
they stand for a long chain of members both as they are and inside of the compressed data around them.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Iterator
from typing import Any

import attrs

from sdf.errors import ReadError, show
from sdf.io.files.pinned import FileInfo
from sdf.io.files.search import occurrences
from sdf.io.warc.records import START, START_BYTES, WarcRecord, read_content, read_head, skip_line_ends

__all__ = ["Members"]

_MAGIC = b"\x1f\x8b\x08"
_STORED_BYTES = 1 << 16  # more than deflate stores in a block as it is
_CHUNK_BYTES = 1 << 20
_INPUT_BYTES = 1 << 14
_BUFFER_BYTES = 1 << 16
_DAMAGED = (zlib.error, EOFError)


class Members:
    """The gzip members of a file. Position: the first byte of a member.

    Args:
        file: the open file.
        info: its path and size.
        most: the most bytes in the content of a record.
    """

    def __init__(self, file: io.BufferedReader, info: FileInfo, most: int) -> None:
        self._file = file
        self._info = info
        self._most = most
        self.end = 0  # where the member after the last that was read begins

    def first(self, start: int, stop: int) -> int:
        """Return the position of the first member in ``[start, stop)``; ``stop`` or more if there is none."""
        if start == 0:
            return 0
        found = self._find(start, stop)
        if found < stop and not self._goes_on(found):
            found = 0
            while found < start:
                found = self._after(found)
        return found

    def records(self, at: int) -> Iterator[WarcRecord]:
        """Yield the records of the member at a position; then `end` is set."""
        member = _Member(self._file, at)
        text: io.BufferedReader = io.BufferedReader(member, _BUFFER_BYTES)
        has_more = True
        while has_more:
            try:
                head, size = read_head(text)
                content = read_content(text, size, self._most)
                skip_line_ends(text)
                has_more = text.peek(1) != b""
            except (*_DAMAGED, ValueError) as error:
                raise self._broken(at, str(error)) from error
            if not has_more:
                self._check(at, member.end)
            yield attrs.evolve(head, content=content)
        self.end = member.end

    def _after(self, at: int) -> int:
        """Return where the member after the one at a position begins."""
        try:
            end = _end(self._file, at)
        except _DAMAGED as error:
            raise self._broken(at, str(error)) from error
        self._check(at, end)
        return end

    def _check(self, at: int, end: int) -> None:
        """Raise ReadError unless a record begins where a member ends: a part that looks for one would not miss it."""
        if end < self._info.size and not self._begins(end):
            self._file.seek(end)
            raise self._broken(at, f"no record follows it, at byte {end}, but {show(self._file.read(START_BYTES))}")

    def _find(self, start: int, stop: int) -> int:
        """Return the first position in ``[start, stop)`` where a record seems to begin; ``stop`` if there is none."""
        found = occurrences(self._file, _MAGIC, start, stop)
        return next(filter(self._begins, found), stop)

    def _begins(self, at: int) -> bool:
        """Return whether the text of a member begins at a position, with a record."""
        try:
            return (
                START.fullmatch(io.BufferedReader(_Member(self._file, at), START_BYTES).readline(START_BYTES))
                is not None
            )
        except _DAMAGED:
            return False

    def _goes_on(self, at: int) -> bool:
        """Return whether members follow each other from a position on for longer than inner members can."""
        end = min(at + _STORED_BYTES, self._info.size)
        try:
            while at < end:
                at = _end(self._file, at)
        except _DAMAGED:
            return False
        return at >= end

    def _broken(self, at: int, flaw: str) -> ReadError:
        return ReadError(
            f"{self._info.path}: the WARC record in the gzip member at byte {at} cannot be read: {flaw}. The file is "
            f"damaged or cut off, or a member of it does not hold whole records; 'warcio recompress' writes such a "
            f"file again."
        )


class _Member(io.RawIOBase):
    """The text of the gzip member at a position, as a file; at its end, ``end`` is set."""

    def __init__(self, file: io.BufferedReader, at: int) -> None:
        self._file = file
        self._at = at  # of the next byte to decompress
        self._data = b""
        self._inflating: Any = zlib.decompressobj(31)
        self.end = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._inflating.eof:
            if not self._data:
                self._file.seek(self._at)
                self._data = self._file.read(_INPUT_BYTES)
                self._at += len(self._data)
                if not self._data:
                    raise EOFError("the file ends before this member does")
            text = self._inflating.decompress(self._data, len(buffer))  # verifies the checksum at the end
            self._data = self._inflating.unconsumed_tail
            if self._inflating.eof:
                self.end = self._at - len(self._inflating.unused_data)
            if text:
                buffer[: len(text)] = text
                return len(text)
        return 0


def _end(file: io.BufferedReader, at: int) -> int:
    """Return where the gzip member at a position ends; raise zlib.error or EOFError if it is damaged."""
    member = _Member(file, at)
    while member.read(_CHUNK_BYTES):
        pass
    return member.end

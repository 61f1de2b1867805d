"""Records that end in a delimiter, read from a stream of bytes: whole ones, however long the last of them is."""

from __future__ import annotations

from typing import Any, Protocol

from sdf.errors import InvalidTypeError, InvalidValueError, ReadError, show

__all__ = ["Delimited", "Stream", "check_delimiter"]

_CHUNK_BYTES = 1 << 16


class Stream(Protocol):
    """What records are read from: an open file, or what is like one."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes; fewer only at the end."""

    def readline(self, size: int, /) -> bytes:
        """Return the bytes up to the next LF and with it, at most so many."""


class Delimited:
    """Reads whole records, each of which ends in a delimiter or with the file.

    Args:
        file: a stream that stands at ``at``.
        at: the position of the next byte.
        delimiter: ends a record.
        longest: how many bytes a record may have, with its delimiter.
        path: for messages.
    """

    def __init__(self, file: Stream, at: int, delimiter: bytes, longest: int, path: str) -> None:
        self._file = file
        self._delimiter = delimiter
        self._longest = longest
        self._path = path
        self._unread = b""
        self.at = at

    def _read(self, size: int) -> bytes:
        data = self._unread[:size]
        self._unread = self._unread[size:]
        if len(data) < size:
            data += self._file.read(size - len(data))
        self.at += len(data)
        return data

    def read(self, end: int) -> bytes:
        """Return the records that start before ``end``, from where it stands, which must be the start of one."""
        data = self._read(end - self.at)
        if data and not data.endswith(self._delimiter):
            data += self._rest(data)
        if len(data) > self._longest:
            self._check_lengths(data)
        return data

    def _rest(self, data: bytes) -> bytes:
        """Return what is missing of the last record; of one that is too long, what shows that it is."""
        if self._delimiter == b"\n":
            rest = self._file.readline(self._longest + 1)
            self.at += len(rest)
            return rest
        overlap = len(self._delimiter) - 1
        text = bytearray(data[max(0, len(data) - overlap) :])  # one that grows in place: records may be long
        known = len(text)
        while chunk := self._read(_CHUNK_BYTES):
            searched = max(0, len(text) - overlap)
            text += chunk
            found = text.find(self._delimiter, searched)
            if found >= 0:
                end = found + len(self._delimiter)
                self._unread = bytes(text[end:]) + self._unread
                self.at -= len(text) - end
                del text[end:]
                break
            if len(text) - known > self._longest:
                break
        return bytes(text[known:])

    def _check_lengths(self, data: bytes) -> None:
        """Raise if one of some records is too long, wherever in them it is: else it would depend on the split."""
        start = 0
        while len(data) - start > self._longest:
            found = data.rfind(self._delimiter, start, start + self._longest)
            if found < 0:
                raise ReadError(
                    f"{self._path}: the record that begins at byte {self.at - len(data) + start} has more than "
                    f"{self._longest} bytes. If the delimiter is right, allow more with max_record_bytes."
                )
            start = found + len(self._delimiter)


def check_delimiter(delimiter: Any, who: str) -> None:
    """Raise unless a delimiter is some bytes of which no two can overlap.

    Raises:
        InvalidTypeError: if it is not bytes.
        InvalidValueError: if it is empty, or begins as it ends.
    """
    if not isinstance(delimiter, bytes):
        raise InvalidTypeError(f"{who} delimiter must be bytes, such as b'\\n' (got {show(delimiter)}).")
    if not delimiter:
        raise InvalidValueError(f"{who} delimiter must not be empty.")
    for size in range(1, len(delimiter)):
        if delimiter.startswith(delimiter[-size:]):
            raise InvalidValueError(
                f"{who} delimiter {delimiter!r} begins as it ends, with {delimiter[-size:]!r}: two of them can "
                f"overlap, and where a record starts would depend on where one begins to read. Choose another, or read "
                f"the file in one piece with your own DoFn."
            )

"""Reads records that end in a delimiter from a stream of bytes: always whole records, however long the last one is."""

from __future__ import annotations

from typing import Any, Protocol

from sdf.errors import InvalidTypeError, InvalidValueError, ReadError, show

__all__ = ["Delimited", "Stream", "check_delimiter"]

_CHUNK_BYTES = 1 << 16


class Stream(Protocol):
    """An open file, or an object like one, to read records from."""

    def read(self, size: int, /) -> bytes:
        """Return ``size`` bytes; fewer only at the end."""

    def readline(self, size: int, /) -> bytes:
        """Return the bytes up to and including the next LF, at most ``size``."""


class Delimited:
    """Reads whole records, each of which ends in a delimiter or with the file.

    Args:
        file: a stream whose next byte has position ``at``.
        at: the position of the next byte.
        delimiter: the bytes that end a record.
        longest: the most bytes that a record may have, with its delimiter.
        path: path of the file, for error messages.
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
        """Return the records that start in ``[at, end)``; a record must start at ``at``."""
        data = self._read(end - self.at)
        if data and not data.endswith(self._delimiter):
            data += self._rest(data)
        if len(data) > self._longest:
            self._check_lengths(data)
        return data

    def _rest(self, data: bytes) -> bytes:
        """Return the missing end of the last record; if the record is too long, enough bytes to detect that."""
        if self._delimiter == b"\n":
            rest = self._file.readline(self._longest + 1)
            self.at += len(rest)
            return rest
        overlap = len(self._delimiter) - 1
        text = bytearray(data[max(0, len(data) - overlap) :])  # a bytearray grows in place: records may be long
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
        """Raise if any of the records is too long; if only the last were checked, the result would depend on splits."""
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
    """Raise unless a delimiter is bytes that cannot overlap with another copy of themselves.

    Raises:
        InvalidTypeError: if it is not bytes.
        InvalidValueError: if it is empty, or if it begins with the bytes that it ends with.
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

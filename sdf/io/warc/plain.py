"""WARC records that are not compressed: where they begin in a file.

Only a walk from the start of a file, from header to header, shows for certain where records begin: the content of a
record may be anything, another WARC file too. A part that begins in the middle looks for a line such as ``WARC/1.0``
instead. It trusts the first one if records follow from there on, each right after the other as the standard wants it,
for 1 MiB or to the end of the file. If not, it walks from the start of the file; that is rare.

So a record whose content would be trusted as well must not be in a file. The part that reads such a record sees that,
and raises, whether the file was split or not; with ``walk`` all parts walk.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

import attrs

from sdf.errors import ReadError
from sdf.io.files.pinned import FileInfo
from sdf.io.files.search import occurrences
from sdf.io.files.signatures import signature
from sdf.io.warc.records import START, START_BYTES, WarcRecord, read_content, read_head, skip_line_ends

__all__ = ["PlainRecords"]

_BELIEVED_BYTES = 1 << 20  # records that follow each other for so many bytes are trusted
_MARK = b"WARC/"
_TRAILER = b"\r\n\r\n"


class PlainRecords:
    """The records of a file. Position: the first byte of a record.

    Args:
        file: the open file.
        info: its path and size.
        most: the most bytes in the content of a record.
        walk: always find the first record of a part by a walk from the start of the file.
    """

    def __init__(self, file: io.BufferedReader, info: FileInfo, most: int, walk: bool) -> None:
        self._file = file
        self._info = info
        self._most = most
        self._walk = walk
        self.end = 0  # where the record after the last that was read begins

    def first(self, start: int, stop: int) -> int:
        """Return the position of the first record in ``[start, stop)``; ``stop`` or more if there is none."""
        if start == 0:
            return 0
        found = self._find(start, stop)
        if found < stop and (self._walk or not self._goes_on(found, {})):
            found = 0
            while found < start:
                self._file.seek(found)
                _, size = self._head(found)
                end = self._file.tell() + size
                if end > self._info.size:
                    raise self._broken(found, "the file ends inside of its content")
                self._file.seek(end)
                found = self._after(found)
        return found

    def records(self, at: int) -> Iterator[WarcRecord]:
        """Yield the record at a position; then `end` is set."""
        self._file.seek(at)
        head, size = self._head(at)
        begin = self._file.tell()
        try:
            content = read_content(self._file, size, self._most)
        except ValueError as error:
            raise self._broken(at, str(error)) from error
        self.end = self._after(at)
        if not self._walk:
            self._check_inside(at, begin, content)
        yield attrs.evolve(head, content=content)

    def _head(self, at: int) -> tuple[WarcRecord, int]:
        try:
            return read_head(self._file)
        except ValueError as error:
            raise self._broken(at, str(error)) from error

    def _after(self, at: int) -> int:
        """Return where the next record begins; the file is where the content of the one at ``at`` ends.

        That a record does begin there is checked at once: another part, which looks for one, would not miss it.
        """
        skip_line_ends(self._file)
        following = self._file.tell()
        if following < self._info.size and not self._begins(following):
            raise self._broken(at, f"no record follows it, at byte {following}")
        return following

    def _check_inside(self, at: int, begin: int, content: bytes) -> None:
        """Raise ReadError if a part that begins inside a record would trust what it finds there."""
        broken: dict[int, int] = {}
        for inside in _starts(content):
            if self._goes_on(begin + inside, broken):
                raise ReadError(
                    f"{self._info.path}: the WARC record at byte {at} holds WARC records itself, at byte "
                    f"{begin + inside}, which a part that begins there would take for records of the file. Pass "
                    f"walk=True: each part then walks from the start of the file."
                )

    def _find(self, start: int, stop: int) -> int:
        """Return the first position in ``[start, stop)`` where a record seems to begin; ``stop`` if there is none."""
        found = occurrences(self._file, _MARK, start, stop)
        return next(filter(self._begins, found), stop)

    def _begins(self, at: int) -> bool:
        self._file.seek(at)
        return START.fullmatch(self._file.readline(START_BYTES)) is not None

    def _goes_on(self, at: int, broken: dict[int, int]) -> bool:
        """Return whether records follow each other from a position on, each ended as the standard wants it.

        Args:
            at: the position.
            broken: where earlier chains led, and at which position they broke; those of this chain are added, so that
                no record is looked at twice.
        """
        end = min(at + _BELIEVED_BYTES, self._info.size)
        passed = []
        while at < end:
            passed.append(at)
            following = None if at in broken else self._following(at)
            if following is None:
                broken.update(dict.fromkeys(passed, broken.get(at, at)))
                return broken[at] >= end
            at = following
        return True

    def _following(self, at: int) -> int | None:
        """Return where the record at a position ends, if it ends as the standard wants it; else None."""
        self._file.seek(at)
        try:
            _, size = read_head(self._file)
        except ValueError:
            return None
        end = self._file.tell() + size + len(_TRAILER)
        if end > self._info.size:  # no file system seeks to where a wild number leads
            return None
        self._file.seek(end - len(_TRAILER))
        return end if self._file.read(len(_TRAILER)) == _TRAILER else None

    def _broken(self, at: int, flaw: str) -> ReadError:
        self._file.seek(0)
        known = signature(self._file.read(START_BYTES)) if at == 0 else ""
        if known and "gzip" not in known:
            known = (
                f"{known.partition(':')[0]}, and ReadWarc reads plain files and gzip with a member for each record: "
                f"unpack it, and write it with 'warcio recompress'."
            )
        advice = known or "The file is damaged or cut off."
        return ReadError(f"{self._info.path}: the WARC record at byte {at} cannot be read: {flaw}. {advice}")


def _starts(data: bytes) -> Iterator[int]:
    """Yield where a first line of a record such as ``WARC/1.0`` seems to begin."""
    at = data.find(_MARK)
    while at >= 0:
        if START.match(data, at):
            yield at
        at = data.find(_MARK, at + 1)

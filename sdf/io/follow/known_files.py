"""The local files that `WatchFiles` has yielded, so that it yields each once, whatever its name is later.

A file keeps its inode number when it is renamed, and has one number under all its links. But each device has its own
numbers, and a new file may get the number of a deleted one. The generation of the number tells them apart, if the file
system has that. Also, a file with a new name counts as a known one only if it begins with the known first bytes and is
no shorter, or is unchanged since the last scan. A file that kept its name and number counts as known: if it was
truncated, its reader sees that. A listing may miss a file that is being renamed, so a file is forgotten only after
several scans in a row have missed it.

Rotation may compress a file and delete it. So a compressed file whose text begins as a known file does is the copy of
that one, and the reader of that one finds what it has not read yet (`sdf.io.follow.copies`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

import attrs

from sdf.io.compressed.compression import named_kind
from sdf.io.files.file_systems import reaching
from sdf.io.files.pinned import FileInfo
from sdf.io.follow.clock import seconds_since
from sdf.io.follow.compressed_text import text_of
from sdf.io.follow.copies import stem
from sdf.io.follow.generation import generation
from sdf.io.stored import stored

__all__ = ["KnownFile", "compare"]

_KNOWN_BYTES = 1024
_GIVEN_BYTES = 64  # as many as `TailLines` keeps of a file that it reads
_FORGOTTEN = 3


@stored
@attrs.frozen
class KnownFile:
    """A file that was yielded.

    Attributes:
        file: the file at the last scan that found it.
        size: number of its first bytes, or of its text's if it is compressed, that ``digest`` covers.
        digest: hash of those bytes.
        missed: number of scans in a row that have missed it.
        generation: of its inode number; 0 if unknown.
    """

    file: FileInfo
    size: int
    digest: bytes
    missed: int = 0
    generation: int = 0

    @property
    def lasting(self) -> tuple[str, int, bytes, int]:
        """The attributes that stay the same while the file grows."""
        return self.file.path, self.size, self.digest, self.missed

    def is_at(self, file: FileInfo) -> bool:
        """Return whether a file has this one's name; if the file was written anew, its reader sees that."""
        return self.file.path == file.path

    def may_have(self, number: int) -> bool:
        """Return whether a file with this one's number is not a later file, as far as its generation tells."""
        return 0 in (number, self.generation) or number == self.generation

    def has_become(self, file: FileInfo, data: bytes) -> bool:
        """Return whether a file of another name may be this one: it has the known first bytes and is no shorter."""
        return self.file.size <= file.size and self._begins(data)

    def is_copied(self, file: FileInfo, data: bytes) -> bool:
        """Return whether a compressed file may be the copy of this one: its name and its text begin as this one's."""
        return stem(file.path) == stem(self.file.path) and self._begins(data)

    def _begins(self, data: bytes) -> bool:
        return 0 < self.size <= len(data) and _digest(data[: self.size]) == self.digest


def compare(
    seen: tuple[KnownFile, ...], there: Iterable[FileInfo], *, stalled_seconds: float
) -> tuple[tuple[tuple[FileInfo, KnownFile, bytes], ...], tuple[KnownFile, ...]]:
    """Return the new files of a listing, each with its first few bytes, and the files that are known after it.

    Args:
        seen: the files that were known before.
        there: the listing.
        stalled_seconds: a compressed file of which little can be read is damaged if nobody has written to it for so
            long; before, it may not be complete yet.
    """
    before: dict[str | None, list[KnownFile]] = {}
    for one in seen:
        before.setdefault(one.file.version, []).append(one)
    listed = list(there)
    at_home = {(file.path, file.version) for file in listed}
    found, known, packed = [], [], []
    for files in _links(listed):
        same = before.get(files[0].version, [])
        old, file = next(((one, file) for one in same for file in files if one.is_at(file)), (None, files[0]))
        moved = [one for one in same if (one.file.path, one.file.version) not in at_home]
        if old is None:
            old = next((one for one in moved if not one.missed and _is_unchanged(one.file, file)), None)
        if old is not None and _is_unchanged(old.file, file) and (old.size or not file.size):
            known.append(attrs.evolve(old, file=file, missed=0))
        else:
            head = _head(file, stalled_seconds)
            if head is None:
                continue  # the next listing has it
            data, number = head
            old = None if old is None or not old.may_have(number) else old
            if not (data or old or named_kind(file.path)):
                continue  # it is given with its first byte
            if old is None:
                fits = (one for one in moved if one.has_become(file, data) or _is_unchanged(one.file, file))
                old = next((one for one in fits if one.may_have(number)), None)
            now = KnownFile(file, len(data), _digest(data), generation=number)
            if old is None and named_kind(file.path):
                packed.append((file, now, data))
                continue
            if old is None:
                found.append((file, now, data[:_GIVEN_BYTES]))
            known.append(now)
        if old is not None:
            same.remove(old)
    gone = list(chain.from_iterable(before.values()))
    for file, now, data in packed:
        if not any(one.is_copied(file, data) for one in (*seen, *known)):
            found.append((file, now, data[:_GIVEN_BYTES]))
        known.append(now)
    missed = (attrs.evolve(one, missed=one.missed + 1) for one in gone if one.missed + 1 < _FORGOTTEN)
    return tuple(sorted(found, key=lambda one: one[0].path)), (*known, *missed)


def _links(there: Iterable[FileInfo]) -> Iterator[list[FileInfo]]:
    """Yield all names of each file. Names with one inode number are links to a file, or files of different devices."""
    numbers: dict[str | None, list[FileInfo]] = {}
    for file in there:
        numbers.setdefault(file.version, []).append(file)
    for files in numbers.values():
        devices: dict[int, list[FileInfo]] = {}
        for file in files if len(files) > 1 else ():
            with suppress(FileNotFoundError, NotADirectoryError):  # it was renamed since the listing
                devices.setdefault(os.stat(file.path.removeprefix("file://")).st_dev, []).append(file)
        yield from devices.values() if len(files) > 1 else (files,)


def _is_unchanged(old: FileInfo, file: FileInfo) -> bool:
    return (old.size, old.mtime) == (file.size, file.mtime)


def _head(file: FileInfo, stalled_seconds: float) -> tuple[bytes, int] | None:
    """Return the first bytes of a file, or of its text if it is compressed, and the generation of its number.

    None if the file is missing, another one has its name by now, or it is compressed and not complete yet.
    """
    kind = named_kind(file.path)
    try:
        with reaching(file.path, "WatchFiles"), open(file.path.removeprefix("file://"), "rb") as opened:
            now = os.fstat(opened.fileno())
            if str(now.st_ino) != file.version:
                return None
            number = generation(opened)
            if not kind:
                return opened.read(_KNOWN_BYTES), number
            text, is_certain = text_of(opened, kind, _KNOWN_BYTES, file.path, "WatchFiles")
            age = seconds_since(now.st_ctime)  # None: another clock has set it, so its reader waits for its end
            is_ready = (is_certain and text) or age is None or age > stalled_seconds
            return (text, number) if is_ready else None
    except FileNotFoundError:
        return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()

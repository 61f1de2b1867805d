"""Local files that are given once, whatever their names are: what `WatchFiles` knows of them from scan to scan.

A file has a number, which stays when it is renamed, and is the same under all its links. But each device has numbers of
its own, and that of a file that has gone is given to the next one. So what has another name than before must have the
first bytes that were known and be no shorter, or be unchanged since the last scan; what has kept its name may have been
cut short, which whoever follows it sees. A listing may miss a file that is renamed meanwhile, so a file is forgotten
only after some scans in a row.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain

import attrs

from sdf.io.files.pinned import FileInfo, reaching

__all__ = ["KnownFile", "compare"]

_KNOWN_BYTES = 1024
_FORGOTTEN = 3


@attrs.frozen
class KnownFile:
    """A file that was given.

    Attributes:
        file: as it was when this was made.
        size: how many of its first bytes are known.
        digest: of those bytes.
        missed: in how many scans in a row it was not found.
    """

    file: FileInfo
    size: int
    digest: bytes
    missed: int = 0

    @property
    def lasting(self) -> tuple[str, int, bytes, int]:
        """What a growing file does not change from scan to scan."""
        return self.file.path, self.size, self.digest, self.missed

    def is_at(self, file: FileInfo) -> bool:
        """Tell whether it has the name of a file; whoever follows it sees whether that was made anew."""
        return self.file.path == file.path

    def has_become(self, file: FileInfo, data: bytes) -> bool:
        """Tell whether a file of another name may be this one, by its first bytes and as it has not got shorter."""
        is_there = 0 < self.size <= len(data) and self.file.size <= file.size
        return is_there and _digest(data[: self.size]) == self.digest


def compare(
    seen: tuple[KnownFile, ...], there: Iterable[FileInfo]
) -> tuple[tuple[FileInfo, ...], tuple[KnownFile, ...]]:
    """Return the files of a listing that are new, and what is known after it."""
    before: dict[str | None, list[KnownFile]] = {}
    for one in seen:
        before.setdefault(one.file.version, []).append(one)
    listed = list(there)
    at_home = {(file.path, file.version) for file in listed}
    found, known = [], []
    for files in _links(listed):
        same = before.get(files[0].version, [])
        old, file = next(((one, file) for one in same for file in files if one.is_at(file)), (None, files[0]))
        moved = [one for one in same if (one.file.path, one.file.version) not in at_home]
        if old is None:
            old = next((one for one in moved if not one.missed and _is_unchanged(one.file, file)), None)
        if old is not None and _is_unchanged(old.file, file) and (old.size or not file.size):
            known.append(attrs.evolve(old, file=file, missed=0))
        else:
            data = _head(file)
            if data is None:  # it was renamed since the listing: the next one will have it
                continue
            if old is None:
                fits = (one for one in moved if one.has_become(file, data) or _is_unchanged(one.file, file))
                old = next(fits, None)
            if old is None:
                found.append(file)
            known.append(KnownFile(file, len(data), _digest(data)))
        if old is not None:
            same.remove(old)
    left = chain.from_iterable(before.values())
    missed = (attrs.evolve(one, missed=one.missed + 1) for one in left if one.missed + 1 < _FORGOTTEN)
    return tuple(found), (*known, *missed)


def _links(there: Iterable[FileInfo]) -> Iterator[list[FileInfo]]:
    """Yield all names of each file: of one number are links to it, and files of other devices."""
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


def _head(file: FileInfo) -> bytes | None:
    """Return the first bytes of a file, None if another has its name by now."""
    try:
        with reaching(file.path, "WatchFiles"), open(file.path.removeprefix("file://"), "rb") as opened:
            if str(os.fstat(opened.fileno()).st_ino) != file.version:
                return None
            return opened.read(_KNOWN_BYTES)
    except FileNotFoundError:
        return None


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()

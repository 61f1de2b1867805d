"""Local files that are given once, whatever their names are: what `WatchFiles` knows of them from scan to scan.

A file has a number, which stays when it is renamed, and is the same under all its links. But the number of a file that
has gone is given to the next one. So what has another name than before must have the first bytes that were known and be
no shorter, or be unchanged since the last scan; what has kept its name may have been cut short, which whoever follows
it sees. A listing may miss a file that is renamed meanwhile, so a file is forgotten only after some scans in a row.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable

import attrs

from sdf.io.pinned import FileInfo, reaching

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
        """Tell whether it has still the name of a file."""
        return self.file.path == file.path and not self.missed

    def has_become(self, file: FileInfo, data: bytes) -> bool:
        """Tell whether a file of another name may be this one, by its first bytes and as it has not got shorter."""
        is_there = 0 < self.size <= len(data) and self.file.size <= file.size
        return is_there and _digest(data[: self.size]) == self.digest


def compare(
    seen: tuple[KnownFile, ...], there: Iterable[FileInfo]
) -> tuple[tuple[FileInfo, ...], tuple[KnownFile, ...]]:
    """Return the files of a listing that are new, and what is known after it."""
    before = {one.file.version: one for one in seen}
    links: dict[str | None, list[FileInfo]] = {}
    for file in there:
        links.setdefault(file.version, []).append(file)
    found, known = [], []
    for version, files in links.items():
        old = before.get(version)
        file = next((one for one in files if old is not None and old.is_at(one)), files[0])
        if old is not None and not old.missed and _is_unchanged(old.file, file):
            known.append(attrs.evolve(old, file=file))
            del before[version]
            continue
        data = _head(file)
        if data is None:  # it was renamed since the listing: the next one will have it
            continue
        if old is None or not (old.is_at(file) or old.has_become(file, data) or _is_unchanged(old.file, file)):
            found.append(file)
        known.append(KnownFile(file, len(data), _digest(data)))
        before.pop(version, None)
    missed = (attrs.evolve(one, missed=one.missed + 1) for one in before.values() if one.missed + 1 < _FORGOTTEN)
    return tuple(found), (*known, *missed)


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

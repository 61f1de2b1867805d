"""Finds the copy of a file that was followed, in its directory or right below, and reads bytes of both.

Rotation may compress a file and delete it, or copy it and cut it short. What was not read of it is in the copy then. A
copy has the first bytes of the file and, at the same place, the bytes that were read last. Short files may agree in
that by chance. So the name of a copy must also begin as the file's does, up to the first dot or hyphen, and it is no
older than the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from os.path import basename, dirname, splitext
from typing import Any

import attrs

from sdf.errors import ReadError
from sdf.io.compressed.compression import named_kind
from sdf.io.files.file_systems import file_system, is_local
from sdf.io.files.pinned import FileInfo
from sdf.io.follow.compressed_text import CompressedText
from sdf.io.follow.generation import generation
from sdf.io.follow.tail_parts import Tail

__all__ = ["find_copy", "is_same", "listed", "may_be", "read_bytes", "rotated_after", "stem", "was_read"]


def _head(at: Tail) -> bytes:
    """Return the first bytes of a file as they were read, or else as they were when it was found."""
    return at.head or (b"" if at.file.watch is None else at.file.watch.head)


def listed(fs: Any, inner: str, real: str) -> Iterator[Any]:
    """Yield the entries of files beside a file, which itself is left out, and of those in the directories right below.

    Args:
        fs: the file system.
        inner: path of the file in it.
        real: path with links resolved: a link's target is renamed there, even if the link has changed; "" if unknown.
    """
    below = []
    folders = dict.fromkeys(dirname(path) for path in (inner, real) if path)
    for entry in chain.from_iterable(_entries(fs, folder) for folder in folders):
        if entry["type"] == "directory":
            below.append(entry["name"])
        elif entry["type"] == "file" and entry["name"] != inner:
            yield entry
    for name in below:  # such as archive/
        with suppress(PermissionError):
            yield from (entry for entry in _entries(fs, name) if entry["type"] == "file")


def may_be(entry: Any, file: FileInfo) -> bool:
    """Return whether an entry of a directory may be a file: it has its number, and both or neither are compressed.

    A compressed copy may get the number of a deleted file that was not compressed.
    """
    return str(entry.get("ino")) == file.version and named_kind(entry["name"]) == named_kind(file.path)


def was_read(entry: Any, at: Tail, fs: Any) -> bool:
    """Return whether an entry is the file that was read before the present one, not a later one with its number."""
    if at.before is None or not may_be(entry, attrs.evolve(at.file, version=at.before)):
        return False
    try:
        with fs.open(entry["name"], "rb") as opened:
            number = generation(opened)
            is_later = 0 not in (number, at.before_generation) and number != at.before_generation
            return not is_later and read_bytes(opened, 0, len(at.before_head)) == at.before_head
    except FileNotFoundError:  # renamed since it was listed
        return True


def rotated_after(entry: Any, entries: Iterable[Any]) -> list[Any]:
    """Return the entries of a directory's files that were rotated after a file of it, in order.

    Such files have its name but for digits, and were last written no earlier. A compressed file counts only after
    another one: the rotation that compresses the older of two files may give the copy a new time.

    Args:
        entry: the file, or its copy, as it is named now.
        entries: files of its directory, and of those near it.
    """
    named, packed = _but_digits(entry["name"]), named_kind(entry["name"])
    later = {
        found["ino"]: found
        for found in entries
        if _but_digits(found["name"]) == named
        and not (named_kind(found["name"]) and not packed)
        and found["mtime"] >= entry["mtime"]
        and found["ino"] != entry["ino"]
    }
    return sorted(later.values(), key=lambda found: float(found["mtime"]))


def _but_digits(path: str) -> str:
    """Return the name of a file without directory and compression, and with 0 for each number."""
    name = basename(path)
    return re.sub(r"\d+", "0", splitext(name)[0] if named_kind(name) else name)


def find_copy(at: Tail, storage_options: Mapping[str, Any], *, compressed: bool) -> tuple[Any, int, Any] | None:
    """Return the open copy of a local file, its size and its entry; None if there is none. Of several, the longest.

    Args:
        at: how far the file was read.
        storage_options: for fsspec.
        compressed: whether a file with a name such as ``a.log.gz`` is compressed.
    """
    fs, inner = file_system(at.file.path, storage_options, "TailLines")
    head = _head(at)
    if not head or not is_local(fs, "TailLines"):
        return None
    best: tuple[Any, int, Any] | None = None
    for entry in listed(fs, inner, at.file.real):
        is_older = not at.ends and int(entry["mtime"]) < int(at.file.mtime or 0)  # what was read is known by its bytes
        name = entry["name"]
        if is_older or stem(name) != stem(inner):
            continue
        with suppress(FileNotFoundError, PermissionError):  # renamed since it was listed; or nobody's copy for us
            opened = fs.open(name, "rb")
            kind = named_kind(name) if compressed else ""
            text = CompressedText(opened, kind, name, "TailLines") if kind else opened
            size = _size_as_copy(text, entry["size"], head, at)
            if size is None or (best is not None and size <= best[1]):
                text.close()
                continue
            if best is not None:
                best[0].close()
            best = text, size, entry
    return best


def _size_as_copy(text: Any, size: int, head: bytes, at: Tail) -> int | None:
    """Return the size of a text if it can be the copy of a file that was read so far; None if it cannot."""
    with suppress(ReadError):  # damaged, or not complete yet
        if read_bytes(text, 0, len(head)) == head:
            size = text.size() if isinstance(text, CompressedText) else size
            return size if is_same(text, size, at, may_be_short=True) else None
    return None


def stem(path: str) -> str:
    """Return what the names of a file and of its copies have in common: ``app`` for ``/logs/app.log-20261125.gz``."""
    return re.split("[.-]", basename(path))[0]


def is_same(opened: Any, size: int, at: Tail, *, may_be_short: bool = False) -> bool:
    """Return whether a file has the first bytes, and the last read bytes, of the file that was read.

    A copy may be short: the end of a part that was read may have been written after the copy was made.
    """
    inside = at.start - at.base
    stop = at.stop - at.base if at.ends else 0
    head = _head(at)
    return (
        size >= inside
        and read_bytes(opened, 0, len(head)) == head
        and read_bytes(opened, inside - len(at.last), inside) == at.last
        and ((may_be_short and size < stop) or read_bytes(opened, stop - len(at.ends), stop) == at.ends)
    )


def read_bytes(opened: Any, start: int, stop: int) -> bytes:
    """Return the bytes ``[start, stop)`` of an open file, as far as they are there."""
    opened.seek(start)
    data: bytes = opened.read(stop - start)
    return data


def _entries(fs: Any, folder: str) -> list[Any]:
    """Return the entries of a directory; none if it is missing."""
    try:
        entries: list[Any] = fs.ls(folder, detail=True)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return entries

"""Ballots: how a file is created once on a disk without hard links, whoever else creates it and whatever crashes.

Such a disk refuses to create a file that exists, but it cannot publish a file that is already written. So a reader may
find a file that its writer has not ended, and perhaps never will. A file is therefore *sealed*: it begins with its
length and its checksum. A *torn* file does not fit them, and counts as not written.

Nobody can tell whether the writer of a torn file still lives, and no rename or removal would stop it. So writers decide
by ballots. Ballot 0 is the file itself, ballot n a file beside it. A writer

1. takes the next ballot: it creates that file exclusively;
2. looks for the highest whole ballot, and adopts its content; if no ballot is whole, it proposes its own content;
3. writes the content, sealed, and syncs it;
4. sees that nobody has taken the ballot after it. Then the content is decided.

Every later writer finds decided content in step 2. A writer that was overtaken learns that in step 4, however late. A
file without a seal was published whole, by a link or a rename: it is decided, and so disks of both kinds agree.

The disk must show what was closed to whoever opens the file then, and who takes a ballot exists for all. Some mounts
keep sizes for a second. So a writer that has overtaken a torn ballot waits for longer than that before step 2.

Source: "Disk Paxos" (Gafni and Lamport), where a ballot belongs to one process; here to whoever creates its file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import random
import time
from contextlib import suppress
from pathlib import Path

__all__ = ["BALLOT", "create", "publishable", "read", "remove", "size"]

BALLOT = ".ballot-"
_SEAL = b"#sdf sealed "  # no file of sdf begins so by itself: they are JSON, compressed, or a token
_DOUBT_SECONDS = 1.5  # FUSE keeps a size for one second by default
_LOOK_SECONDS = 0.05


def create(path: Path, data: bytes) -> None:
    """Write a file that must not exist yet; its directory exists.

    Raises:
        FileExistsError: if it does, or another writer is faster.
    """
    taken, waits_for, until = False, 0, 0.0
    while True:
        found, ballots, is_decided = _look(path)
        if is_decided:
            if taken and found == data:  # another writer has adopted it
                return
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
        if ballots != waits_for:  # the writer may still be at work; not all that wait take a ballot at the same time
            waits_for, until = ballots, time.monotonic() + random.uniform(1, 3) * _DOUBT_SECONDS
        if ballots and time.monotonic() < until:
            time.sleep(_LOOK_SECONDS)
            continue
        with suppress(FileExistsError):
            taken = _propose(path, ballots, data) or taken


def _propose(path: Path, ballot: int, data: bytes) -> bool:
    """Take a ballot, and write into it; raise FileExistsError if it is taken."""
    with open(_ballot(path, ballot), "xb") as file:
        if ballot:
            time.sleep(_DOUBT_SECONDS)
            found, *_ = _look(path)
            data = data if found is None else found
        file.write(_sealed(data))
        file.flush()
        os.fsync(file.fileno())
    return True


def read(path: Path) -> bytes | None:
    """Return the content of a file, None if there is none, or only torn ones."""
    while True:
        found, _, is_decided = _look(path)
        if is_decided or found is None:
            return found
        with suppress(FileExistsError):  # a whole ballot below a torn one: whose it is has to be decided
            create(path, found)


def size(path: Path) -> int | None:
    """Return the size of the content of a file, None if there is none; a file without a seal is not read."""
    try:
        with open(path, "rb") as file:
            if not _is_sealed(file.read(len(_SEAL))):
                return os.fstat(file.fileno()).st_size
    except FileNotFoundError:
        return None
    found = read(path)
    return None if found is None else len(found)


def remove(path: Path) -> None:
    """Remove a file with its ballots, if there is one."""
    ballot = 0
    with suppress(FileNotFoundError):
        while True:
            os.unlink(_ballot(path, ballot))
            ballot += 1


def publishable(data: bytes) -> bytes:
    """Return content as a file may hold it that is published whole: sealed if it could be taken for a torn file."""
    return _sealed(data) if _is_sealed(data) else data


def _sealed(data: bytes) -> bytes:
    """Return content with its seal before it."""
    return b"%s%d %s\n%s" % (_SEAL, len(data), hashlib.sha256(data).hexdigest().encode(), data)


def _unsealed(content: bytes) -> bytes | None:
    """Return the content of a file, None if it is torn."""
    if not _is_sealed(content):
        return content
    data = content.partition(b"\n")[2]
    return data if content == _sealed(data) else None


def _is_sealed(content: bytes) -> bool:
    """Tell whether a file is sealed, or torn before that can be told: a crash may leave zeros."""
    begin = content[: len(_SEAL)]
    return _SEAL.startswith(begin) or not begin.strip(b"\0")


def _look(path: Path) -> tuple[bytes | None, int, bool]:
    """Return the content of the highest whole ballot, how many ballots are taken, and whether that is decided."""
    found, ballots, is_decided = None, 0, False
    with suppress(FileNotFoundError):
        while True:
            with open(_ballot(path, ballots), "rb") as file:
                content = file.read()
            data = _unsealed(content)
            ballots, is_decided = ballots + 1, data is not None
            found = found if data is None else data
            if not _is_sealed(content):
                break
    return found, ballots, is_decided


def _ballot(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}{BALLOT}{number}") if number else path

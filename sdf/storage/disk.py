"""Disk: files that are there whole or not at all, whatever crashes. A journal on a disk goes through nothing else.

A file is written under a temporary name, synced, published under its own name, and its directory is synced. There are
two ways to publish: `create` fails if the name is taken, so of two writers one loses; `replace` does not.

Some mounts of object stores have no hard links, so `create` cannot publish by a link. There it decides by
`sdf.storage.ballots` whose the file is. The first link shows which disk this is. A file says itself which way it was
written, and both ways refuse a taken name: so drivers that know a place as different disks cannot both create a file.
Such mounts often do not sync directories either: they keep a name once they have acknowledged it.

A directory that has gone is not made a second time: it was unmounted or removed, and a log would go on elsewhere.

A failed sync is never tried again: the system may have dropped the data, and report success the next time.

Source: durable_rename() and fsync_fname() of PostgreSQL, the latter for directories that cannot be synced; "All
File Systems Are Not Created Equal" (OSDI 2014) for what may survive.
"""

from __future__ import annotations

import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from sdf.storage import ballots

__all__ = ["TEMPORARY", "Disk", "has_links"]

TEMPORARY = ".tmp-"
_NO_LINKS = (errno.EPERM, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK)
_NO_SYNC = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EBADF)


class Disk:
    """Files below a directory, named by paths relative to it. Every error of the system is raised as it is.

    Args:
        root: the directory; the first write makes it if it is not there. A relative one counts from the working
            directory of now, wherever the program goes later.
        makes: False: a directory that is not there is not made, and a write into it raises FileNotFoundError.

    Attributes:
        root: the directory, as an absolute path.
        writer: a name that no other `Disk` has.
    """

    def __init__(self, root: str | os.PathLike[str], *, makes: bool = True) -> None:
        self.root = Path(root).absolute()
        self._makes = makes
        self._has_links = True  # until a link shows the opposite
        self._seen: set[Path] = set()  # the directories that were there when something was written
        self.writer = uuid.uuid4().hex

    def create(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet.

        Raises:
            FileExistsError: if it does; then nothing has changed.
        """
        path = self.root / name
        if self._has_links and self._linked(path, data):
            return
        if self._makes:
            self._make(path.parent)
        ballots.create(path, data)  # it raises too if the name is taken by a whole file
        self._sync(path.parent)

    def _linked(self, path: Path, data: bytes) -> bool:
        """Create a file by a link; return whether it was free, and has links."""
        try:
            with self._written(path, data) as temporary:
                os.link(temporary, path)
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            self._has_links = False
        return self._has_links

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; replace it if it exists."""
        path = self.root / name
        with self._written(path, data) as temporary:
            try:
                os.replace(temporary, path)
            except FileExistsError:  # some mounts rename only onto a free name
                self.remove(name)
                os.replace(temporary, path)

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: if there is none, or only a torn one.
        """
        content = ballots.read(self.root / name)
        if content is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self.root / name))
        return content

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if there is none, or only a torn one."""
        return ballots.size(self.root / name)

    def sizes(self, names: Iterable[str]) -> dict[str, int]:
        """Return the sizes of those files that are there, none of which `create` made: they are not opened.

        Each is asked for by its name, as a listing may lag behind.
        """
        found: dict[str, int] = {}
        for name in names:
            with suppress(FileNotFoundError):
                found[name] = os.stat(self.root / name).st_size
        return found

    def names(self, directory: str) -> list[str]:
        """Return the names of the files in a directory, sorted, without half-written ones; some may be torn."""
        return [name for name in self._all(directory) if TEMPORARY not in name]

    def half_written(self, directory: str) -> list[str]:
        """Return the names of the files in a directory that are half written, by a crash or a writer still at work."""
        return [name for name in self._all(directory) if TEMPORARY in name]

    def _all(self, directory: str) -> list[str]:
        try:
            with os.scandir(self.root / directory) as entries:
                found = [entry.name for entry in entries if ballots.BALLOT not in entry.name and entry.is_file()]
        except FileNotFoundError:
            return []
        return sorted(str(Path(directory, name)) for name in found)

    def remove(self, name: str) -> None:
        """Remove a file, if there is one. It may be there again after a crash."""
        ballots.remove(self.root / name)

    def sync(self, directory: str) -> None:
        """Sync a directory, if there is one: a crash cannot undo the names that a reader finds in it from then on."""
        with suppress(FileNotFoundError):
            self._sync(self.root / directory)

    @contextmanager
    def _written(self, path: Path, data: bytes) -> Iterator[Path]:
        """Write and sync ``data`` under a temporary name; sync the directory when it has been published."""
        if self._makes:
            self._make(path.parent)
        temporary = path.with_name(f"{path.name}{TEMPORARY}{uuid.uuid4().hex}")
        try:
            with open(temporary, "xb") as file:
                file.write(ballots.publishable(data))
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        self._sync(path.parent)

    def _make(self, directory: Path) -> None:
        """Make a directory and its parents, and sync them."""
        if not directory.is_dir():
            if directory in self._seen:
                raise FileNotFoundError(errno.ENOENT, "It was there, and was unmounted or removed", str(directory))
            self._make(directory.parent)
            with suppress(FileExistsError):
                os.mkdir(directory)
            self._sync(directory.parent)
        self._seen.add(directory)
        if self.root in directory.parents:
            self._seen.add(self.root)

    @staticmethod
    def _sync(directory: Path) -> None:
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        except OSError as error:
            if error.errno not in _NO_SYNC:
                raise
        finally:
            os.close(handle)


def has_links(directory: str | os.PathLike[str]) -> bool:
    """Tell whether a directory takes hard links, by trying it out there.

    Raises:
        OSError: if nothing can be written there.
    """
    trial = Path(directory, f"links{TEMPORARY}{uuid.uuid4().hex}")
    twin = trial.with_name(f"{trial.name}-2")
    try:
        open(trial, "xb").close()
        os.link(trial, twin)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return False
    finally:
        for path in (trial, twin):
            with suppress(FileNotFoundError):
                os.unlink(path)
    return True

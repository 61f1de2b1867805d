"""Disk: files that are there whole or not at all, whatever crashes. A journal on a disk goes through nothing else.

A file is written under a temporary name, synced, published under its own name, and its directory is synced. There are
two ways to publish: `create` fails if the name is taken, so of two writers one loses; `replace` does not.

A failed sync is never tried again: the system may have dropped the data, and report success the next time.

Source: durable_rename() of PostgreSQL; "All File Systems Are Not Created Equal" (OSDI 2014) for what may survive.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["TEMPORARY", "Disk"]

TEMPORARY = ".tmp-"


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
        self.writer = uuid.uuid4().hex

    def create(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet.

        Raises:
            FileExistsError: if it does; then nothing has changed.
        """
        with self._written(name, data) as temporary:
            os.link(temporary, self.root / name)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; replace it if it exists."""
        with self._written(name, data) as temporary:
            os.replace(temporary, self.root / name)

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: if there is none.
        """
        return (self.root / name).read_bytes()

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if there is none; the file is not opened."""
        try:
            return (self.root / name).stat().st_size
        except FileNotFoundError:
            return None

    def names(self, directory: str) -> list[str]:
        """Return the names of the files in a directory, sorted, without half-written ones."""
        return [name for name in self._all(directory) if TEMPORARY not in name]

    def half_written(self, directory: str) -> list[str]:
        """Return the names of the files in a directory that are half written, by a crash or a writer still at work."""
        return [name for name in self._all(directory) if TEMPORARY in name]

    def _all(self, directory: str) -> list[str]:
        try:
            with os.scandir(self.root / directory) as entries:
                return sorted(str(Path(directory, entry.name)) for entry in entries if entry.is_file())
        except FileNotFoundError:
            return []

    def remove(self, name: str) -> None:
        """Remove a file, if there is one. It may be there again after a crash."""
        with suppress(FileNotFoundError):
            os.unlink(self.root / name)

    def sync(self, directory: str) -> None:
        """Sync a directory, if there is one: a crash cannot undo the names that a reader finds in it from then on."""
        with suppress(FileNotFoundError):
            self._sync(self.root / directory)

    @contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[Path]:
        """Write and sync ``data`` under a temporary name; sync the directory when it has been published."""
        path = self.root / name
        if self._makes:
            self._make(path.parent)
        temporary = path.with_name(f"{path.name}{TEMPORARY}{uuid.uuid4().hex}")
        try:
            with open(temporary, "xb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            yield temporary
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
        self._sync(path.parent)

    def _make(self, directory: Path) -> None:
        """Make a directory and its parents, and sync them."""
        if directory.is_dir():
            return
        self._make(directory.parent)
        with suppress(FileExistsError):
            os.mkdir(directory)
        self._sync(directory.parent)

    @staticmethod
    def _sync(directory: Path) -> None:
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

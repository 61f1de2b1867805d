"""Remote: what storages have in common that a client reaches over a network.

A reply may get lost. The client sends its write again, and is refused because of its own file. So a file that holds the
very bytes that were to be written counts as created, and what two writers create must differ: it contains the writer's
name, unless it is all the same to both of them whose it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress

from sdf.storage.disk import TEMPORARY

__all__ = ["Remote", "Tried"]


class Remote(ABC):
    """See the module. Files are named by paths relative to a place."""

    def create(self, name: str, data: bytes) -> None:
        """Write a file that must not exist yet.

        Raises:
            FileExistsError: if it does, with other content; then nothing has changed.
        """
        try:
            self._create(name, data)
        except FileExistsError:
            if not self._holds(name, data):
                raise

    def names(self, directory: str) -> list[str]:
        """Return the names of the files in a directory, sorted, without those that `half_written` returns."""
        return [name for name in self._all(directory) if TEMPORARY not in name]

    def half_written(self, directory: str) -> list[str]:
        """Return the names of the files in a directory that a crash has left, or a writer still at work needs."""
        return [name for name in self._all(directory) if TEMPORARY in name]

    def sync(self, directory: str) -> None:
        """Do nothing: what a store has acknowledged, it keeps."""

    def _holds(self, name: str, data: bytes) -> bool:
        with suppress(FileNotFoundError):  # another writer has removed it since
            return self.read(name) == data
        return False

    @abstractmethod
    def read(self, name: str) -> bytes:
        """Return the content of a file; raise FileNotFoundError if there is none."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""

    @abstractmethod
    def _create(self, name: str, data: bytes) -> None:
        """Write a file; raise FileExistsError if it exists, whoever has written it."""

    @abstractmethod
    def _all(self, directory: str) -> list[str]:
        """Return the names of all files in a directory, sorted."""


class Tried(Remote):
    """A `Remote` on a store that may be too old to refuse a second object: it is tried out before the first file."""

    root: str
    writer: str
    _is_exclusive = False

    def _create(self, name: str, data: bytes) -> None:
        self._try_out()
        self._create_at_once(name, data)

    def _try_out(self) -> None:
        """See that the store refuses to create an object twice; old servers and clients overwrite it, and say nothing.

        Raises:
            OSError: if it does not; then nothing has been written.
        """
        if self._is_exclusive:
            return
        trial = f"_trial{TEMPORARY}{self.writer}"
        try:
            for _ in range(2):
                self._create_at_once(trial, b"")
        except FileExistsError:
            self._is_exclusive = True
        self.remove(trial)
        if not self._is_exclusive:
            raise OSError(
                f"{self.root} creates an object that is there already: of two drivers both would go on. Use a store "
                f"that honours If-None-Match, and a recent client of it; or a disk"
            )

    @abstractmethod
    def _create_at_once(self, name: str, data: bytes) -> None:
        """As `_create`, of a store that is not tried out."""

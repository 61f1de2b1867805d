"""Remote: what storages have in common that a client reaches over a network.

A reply may get lost. The client sends its write again, and is refused because of its own file. So a file that holds the
very bytes that were to be written counts as created, and what two writers create must differ: it contains the writer's
name, unless it is all the same to both of them whose it was.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress

from sdf.storage.disk import TEMPORARY

__all__ = ["Remote"]


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
    def _create(self, name: str, data: bytes) -> None:
        """Write a file; raise FileExistsError if it exists, whoever has written it."""

    @abstractmethod
    def _all(self, directory: str) -> list[str]:
        """Return the names of all files in a directory, sorted."""

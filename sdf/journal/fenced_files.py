"""FencedFiles: how a driver writes the files of a checkpoint, so that another driver cannot write the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

from sdf.errors import RUN_DOCTOR, JournalDiskError, JournalError, JournalFencedError
from sdf.journal.chain import blob_name, sha256
from sdf.storage.places import Storage

__all__ = ["FencedFiles", "remove_unused"]


class FencedFiles:
    """The base of what a driver writes in a checkpoint: files that only one driver can create, and blobs.

    Class attributes hold the texts of errors, in which ``{root}`` stands for the checkpoint.
    """

    _UNUSABLE: ClassVar[str]  # with {error}: the storage has failed
    _OVERTAKEN: ClassVar[str]  # another driver was first

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def put(self, data: bytes) -> dict[str, Any]:
        """Store bytes in a file named by their hash, and return the reference to it."""
        reference = {"sha256": sha256(data), "size": len(data)}
        with self._using():
            if self._storage.size(blob_name(reference)) != len(data):
                self._storage.replace(blob_name(reference), data)
        return reference

    def fenced(self) -> JournalFencedError:
        """Return the error for a driver that another one has overtaken."""
        return JournalFencedError(self._OVERTAKEN.format(root=self._storage.root))

    def _create(self, name: str, data: bytes) -> None:
        """Create a file; raise JournalFencedError if another driver has created it."""
        with self._using():
            try:
                self._storage.create(name, data)
            except FileExistsError as error:
                raise self.fenced() from error

    @contextmanager
    def _using(self) -> Iterator[None]:
        """Raise errors of the storage as JournalDiskError, with advice."""
        try:
            yield
        except OSError as error:
            if isinstance(error, JournalError):
                raise
            told = self._UNUSABLE.format(root=self._storage.root, error=error)
            raise JournalDiskError(f"{told} {RUN_DOCTOR}") from error


def remove_unused(
    storage: Storage, used: Iterable[Mapping[str, Any]], directory: str, first: str, others: Iterable[str]
) -> list[str]:
    """Remove the files that crashes have left and no resume needs, and return their names.

    Args:
        storage: the checkpoint.
        used: the references to blobs that stay.
        directory: the directory whose older files no resume needs.
        first: the name of the first file there that stays, or would stay.
        others: further directories in which half-written files may lie.
    """
    keep = {blob_name(reference) for reference in used}
    names = [name for name in storage.names("blobs") if name not in keep]
    names += [name for name in storage.names(directory) if name < first]
    names += [name for each in ("blobs", directory, *others) for name in storage.half_written(each)]
    for name in names:
        storage.remove(name)
    return names

"""StageByPieces: a commit that puts files into the target one by one, and a marker last.

It is for storage that cannot publish a directory at once. A reader that lists during the commit may see a part of it;
a reader that waits for ``_SUCCESS`` does not. The first step of a commit creates a claim on the target, which tells
another driver that what it finds there belongs to this commit. Nothing is overwritten, and a file that is there already
counts as put there.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sdf.sinks.stage import COMMITTED, NONCE, Stage, content_of
from sdf.storage.disk import TEMPORARY

__all__ = ["StageByPieces"]

_CLAIM = "_committing"


class StageByPieces(Stage):
    """See the module."""

    target: Any  # the `Storage` of the target

    def committed(self) -> bool:
        found = content_of(self.target, COMMITTED) == self.mark
        if found:
            self.target.remove(_CLAIM)  # an earlier driver may have died before it did
        return found

    def commit(self, files: Mapping[str, int]) -> None:
        if self.read(NONCE) is None:
            raise self._gone()
        self._check_others(files)
        self._create_own(_CLAIM)
        self._check_others(files)
        self._publish(files)
        self._create_own(COMMITTED)
        self.target.remove(_CLAIM)

    def _is_claimed(self) -> bool:
        """Tell whether a commit by pieces has begun, and has not ended."""
        return content_of(self.target, _CLAIM) == self.mark

    def _check_free(self) -> None:
        found, claim = self._others(()), content_of(self.target, _CLAIM)
        if claim != self.mark and (found or claim is not None):
            raise self._not_empty(found[0] if found else _CLAIM)

    def _publish(self, files: Mapping[str, int]) -> None:
        there, staged = self._sizes(self.target, files), self._sizes(self.staging, files)
        for name, size in files.items():
            found = there.get(name, staged.get(name))
            if found != size:
                raise self._lost(name, size, found)
        self._put([name for name in files if name not in there])
        there = self._sizes(self.target, files)
        for name, size in files.items():
            if there.get(name) != size:
                raise self._lost(name, size, there.get(name))

    @abstractmethod
    def _put(self, names: Iterable[str]) -> None:
        """Put files of staging, which are not there yet, into the target."""

    @abstractmethod
    def _sizes(self, place: Any, names: Collection[str]) -> dict[str, int]:
        """Return the sizes of those files that are in a place."""

    @abstractmethod
    def _names(self) -> Iterable[str]:
        """Return the names in the target, those of directories too; raise SinkError if it is a file."""

    def _create_own(self, name: str) -> None:
        """Create a file of the target that holds the token; raise SinkError if it holds another one."""
        try:
            self.target.create(name, self.mark)
        except FileExistsError as error:
            if content_of(self.target, name) != self.mark:
                raise self._not_empty(name) from error

    def _withdraw(self, files: Mapping[str, int]) -> None:
        if self._is_claimed():
            for name in self._sizes(self.target, files):
                self.target.remove(name)
            self.target.remove(_CLAIM)

    def _check_others(self, files: Collection[str]) -> None:
        """Raise SinkError if the target has anything that this commit does not put there."""
        found = self._others(files)
        if found and content_of(self.target, COMMITTED) is not None:
            raise self._not_empty(COMMITTED)
        if found:
            raise self._not_empty(found[0])

    def _others(self, files: Collection[str]) -> list[str]:
        found = set(self._names()) - {*files, _CLAIM}
        if COMMITTED in found and self._is_claimed() and content_of(self.target, COMMITTED) is None:
            found.remove(COMMITTED)  # torn, by a driver of this run that has died
        return sorted(name for name in found if TEMPORARY not in name)  # with which a storage is tried out

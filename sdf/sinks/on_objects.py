"""ObjectStage: staging on an object store such as S3; the commit copies objects to their final names, a marker last.

A store has no directories to rename, so a reader that lists during the commit may see a part; one that waits for
``_SUCCESS`` does not. The first step of a commit creates a claim on the target, which tells another driver that what
it finds there belongs to this one. Nothing is overwritten, and a copy that is there already counts as made.

An attempt that outlives its run may still write objects into staging. They harm nothing; `clean` removes what is there.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from typing import Any, BinaryIO, cast

from sdf.errors import SinkError
from sdf.sinks.sink import Token
from sdf.sinks.stage import COMMITTED, NONCE, Stage, content_of
from sdf.storage.disk import TEMPORARY
from sdf.storage.objects import Objects, asking
from sdf.storage.places import storage_at

__all__ = ["ObjectStage", "Upload", "objects_at"]

_CLAIM = "_committing"
_COPIES_AT_ONCE = 16
_PART_BYTES = 16 << 20  # S3 takes at most 10,000 parts of at least 5 MiB; this much is held in memory


def objects_at(path: str) -> Objects:
    """Return the objects of a target; a client takes a fifth of a second to make, and must not outlive a fork."""
    return _objects_at(path, os.getpid())


@lru_cache(maxsize=64)
def _objects_at(path: str, process: int) -> Objects:
    return cast(Objects, storage_at(path, "the path of a sink"))


class ObjectStage(Stage):
    """See the module."""

    def __init__(self, path: str, beside: str, token: Token, who: str) -> None:
        super().__init__(path, beside, token, who)
        self._target = objects_at(path)
        self.staging = Objects(self._target.fs, self.where, "the path of a sink")
        self._fs: Any = self._target.fs

    def _check_free(self) -> None:
        found, claim = self._others({}), content_of(self._target, _CLAIM)
        if claim != self.mark and (found or claim is not None):
            raise self._not_empty(found[0] if found else _CLAIM)

    def create(self, name: str, data: bytes) -> None:
        if self.read(NONCE) is None:
            raise FileNotFoundError(f"{self.where} has no {NONCE}")
        self.staging.create(name, data)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        if self.read(NONCE) is None:
            raise FileNotFoundError(f"{self.where} has no {NONCE}")
        upload = Upload(self._fs, f"{self.staging.key}/{name}")
        try:
            yield cast(BinaryIO, upload)
            upload.finish()
        except BaseException:
            upload.discard()
            raise

    def committed(self) -> bool:
        found = content_of(self._target, COMMITTED) == self.mark
        if found:
            self._target.remove(_CLAIM)  # an earlier driver may have died before it did
        return found

    def commit(self, files: Mapping[str, int]) -> None:
        if self.read(NONCE) is None:
            raise self._gone()
        self._check_others(files)
        self._create_own(_CLAIM)
        self._check_others(files)
        self._publish(files)
        self._create_own(COMMITTED)
        self._target.remove(_CLAIM)

    def open_result(self, ending: str) -> AbstractContextManager[BinaryIO] | None:
        name = next((name for name in sorted(self._sizes(self._target)) if name.endswith(ending)), None)
        if name is None:
            return None
        with asking(name):
            return cast(BinaryIO, self._fs.open(f"{self._target.key}/{name}", "rb"))

    def _publish(self, files: Mapping[str, int]) -> None:
        there = self._sizes(self._target)
        staged = self._sizes(self.staging)
        for name, size in files.items():
            found = there.get(name, staged.get(name))
            if found != size:
                raise self._lost(name, size, found)
        with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
            list(pool.map(self._copy, [name for name in files if name not in there]))
        there = self._sizes(self._target)
        for name, size in files.items():
            if there.get(name) != size:
                raise self._lost(name, size, there.get(name))

    def _copy(self, name: str) -> None:
        with asking(name):
            self._fs.copy(f"{self.staging.key}/{name}", f"{self._target.key}/{name}")

    def _create_own(self, name: str) -> None:
        """Create an object of the target that holds the token; raise SinkError if it holds another one."""
        try:
            self._target.create(name, self.mark)
        except FileExistsError as error:
            raise self._not_empty(name) from error

    def _withdraw(self, files: Mapping[str, int]) -> None:
        if content_of(self._target, _CLAIM) == self.mark:
            for name in self._sizes(self._target):
                if name in files:
                    self._target.remove(name)
            self._target.remove(_CLAIM)

    def clean(self) -> None:
        self.staging.remove(NONCE)  # first, so that no attempt begins another object
        with asking(self.where), suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            self._fs.rm(self.staging.key, recursive=True)

    def _check_others(self, files: Mapping[str, int]) -> None:
        """Raise SinkError if the target has anything that this commit does not put there."""
        found = self._others(files)
        if found and content_of(self._target, COMMITTED) is not None:
            raise self._not_empty(COMMITTED)
        if found:
            raise self._not_empty(found[0])

    def _others(self, files: Mapping[str, int]) -> list[str]:
        found = set(self._sizes(self._target)) - {*files, _CLAIM}
        return sorted(name for name in found if TEMPORARY not in name)  # with which a store is tried out

    def _sizes(self, place: Objects) -> dict[str, int]:
        """Return the names below a place, those of directories too, with the sizes of the objects."""
        with asking(str(place.root)):
            self._fs.invalidate_cache()
            try:
                found = self._fs.ls(place.key, detail=True)
            except FileNotFoundError:
                return {}
        sizes = {str(info["name"]).removeprefix(place.key).strip("/"): int(info["size"] or 0) for info in found}
        if sizes.get(""):
            raise SinkError(f"{self.who} makes a directory, but {place.root!r} is an object. Give another path.")
        sizes.pop("", None)  # the mark of a directory
        return sizes


class Upload(io.RawIOBase):
    """A file object to write an object with, which is there, whole, when `finish` has returned, else not at all.

    fsspec's own would complete it when it is closed by an exception.

    Args:
        fs: a file system of fsspec.
        key: the path of the object in it.
    """

    def __init__(self, fs: Any, key: str) -> None:
        self._key = key
        with asking(key):
            self._file = fs.open(key, "wb", block_size=_PART_BYTES, autocommit=False)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with asking(self._key):
            return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())

    def finish(self) -> None:
        """Complete the object."""
        with asking(self._key):
            self._file.close()
            self._file.commit()

    def discard(self) -> None:
        """Throw away what was written."""
        with suppress(Exception):  # it sends the last part; the parts are dropped next
            self._file.close()
        with suppress(Exception):  # another error is being raised; what is left is removed with the staging directory
            self._file.discard()

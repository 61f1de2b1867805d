"""ObjectStage: staging on an object store such as S3; the commit copies objects to their final names, a marker last.

An attempt that outlives its run may still write objects into staging. They harm nothing; `clean` removes what is there.
"""

from __future__ import annotations

import io
import os
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import lru_cache
from typing import Any, BinaryIO, cast

from sdf.errors import SinkError
from sdf.sinks.by_pieces import StageByPieces
from sdf.sinks.sink import Token
from sdf.sinks.stage import NONCE
from sdf.storage.objects import Objects, asking
from sdf.storage.places import storage_at

__all__ = ["ObjectStage", "Upload", "objects_at"]

_COPIES_AT_ONCE = 16
_PART_BYTES = 16 << 20  # S3 takes at most 10,000 parts of at least 5 MiB; this much is held in memory


def objects_at(path: str) -> Objects:
    """Return the objects of a target; a client takes a fifth of a second to make, and must not outlive a fork."""
    return _objects_at(path, os.getpid())


@lru_cache(maxsize=64)
def _objects_at(path: str, process: int) -> Objects:
    return cast(Objects, storage_at(path, "the path of a sink"))


class ObjectStage(StageByPieces):
    """See the module."""

    def __init__(self, path: str, beside: str, token: Token, who: str) -> None:
        super().__init__(path, beside, token, who)
        self.target = objects_at(path)
        self.staging = Objects(self.target.fs, self.where, "the path of a sink")
        self._fs: Any = self.target.fs

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

    def open_result(self, ending: str) -> AbstractContextManager[BinaryIO] | None:
        name = next((name for name in sorted(self._names()) if name.endswith(ending)), None)
        if name is None:
            return None
        with asking(name):
            return cast(BinaryIO, self._fs.open(f"{self.target.key}/{name}", "rb"))

    def _put(self, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_COPIES_AT_ONCE) as pool:
            list(pool.map(self._copy, names))

    def _copy(self, name: str) -> None:
        with asking(name):
            self._fs.copy(f"{self.staging.key}/{name}", f"{self.target.key}/{name}")

    def clean(self) -> None:
        self.staging.remove(NONCE)  # first, so that no attempt begins another object
        with asking(self.where), suppress(FileNotFoundError):
            self._fs.invalidate_cache()
            self._fs.rm(self.staging.key, recursive=True)

    def _names(self) -> Iterable[str]:
        return self._listed(self.target)

    def _sizes(self, place: Objects, names: Collection[str]) -> dict[str, int]:
        return {name: size for name, size in self._listed(place).items() if name in names}

    def _listed(self, place: Objects) -> dict[str, int]:
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

"""WebHdfsStage: staging on HDFS by WebHDFS; the commit renames files to their final names, a marker last.

A worker makes no directory: an attempt that outlives its run cannot bring staging back.
"""

from __future__ import annotations

import io
import socket
import tempfile
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, BinaryIO, cast

from sdf.errors import SinkError
from sdf.sinks.by_pieces import StageByPieces
from sdf.sinks.sink import Token
from sdf.storage.places import storage_at
from sdf.storage.web_hdfs import WebHdfs

__all__ = ["WebHdfsStage"]

_RENAMES_AT_ONCE = 16


class _Spool(io.BufferedRandom):
    """A file that waits on the worker's own disk until it is sent: a connection that breaks would end it anywhere."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            where = f"{tempfile.gettempdir()} of host {socket.gethostname()}"
            raise OSError(error.errno, f"{error.strerror} in {where}, where a file waits until it is sent") from error


class WebHdfsStage(StageByPieces):
    """See the module."""

    def __init__(self, path: str, beside: str, token: Token, who: str) -> None:
        super().__init__(path, beside, token, who)
        self.target = cast(WebHdfs, storage_at(path, "the path of a sink"))
        self.staging = WebHdfs(self.target.fs, self.where)

    def create(self, name: str, data: bytes) -> None:
        self._of_workers().create(name, data)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        with _Spool(tempfile.TemporaryFile(buffering=0)) as file:
            yield cast(BinaryIO, file)
            self._of_workers().upload(name, file)

    def _of_workers(self) -> WebHdfs:
        return WebHdfs(self.target.fs, self.where, makes=False)

    def open_result(self, ending: str) -> BinaryIO | None:
        name = next((name for name in sorted(self._names()) if name.endswith(ending)), None)
        return None if name is None else cast(BinaryIO, self.target.open(name))

    def _put(self, names: Iterable[str]) -> None:
        with ThreadPoolExecutor(_RENAMES_AT_ONCE) as pool:
            list(pool.map(self._move, names))

    def _move(self, name: str) -> None:
        with suppress(FileExistsError, FileNotFoundError):  # another driver does so too; `_publish` looks after it
            self.staging.move(name, self.target)

    def clean(self) -> None:
        self.staging.remove("", whole=True)
        with suppress(OSError):  # the log of a run is there, or another stage
            WebHdfs(self.target.fs, self.beside).remove("")

    def _names(self) -> Iterable[str]:
        found = self.target.listed("")
        if "" in found:
            raise SinkError(f"{self.who} makes a directory, but {self.path!r} is a file. Give another path.")
        return list(found)

    def _sizes(self, place: WebHdfs, names: Collection[str]) -> dict[str, int]:
        return {name: size for name, (_, size) in place.listed("").items() if name in names}

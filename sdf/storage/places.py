"""Places: which storage a path or a URL means, and which of them cannot hold a log.

Credentials and options of an object store are not part of the URL: they come from the environment, as its client reads
it (``AWS_ACCESS_KEY_ID``), and from fsspec's configuration (``FSSPEC_S3_ENDPOINT_URL``, or files in
``~/.config/fsspec``).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import Any, Protocol

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.extras import need
from sdf.storage.disk import Disk
from sdf.storage.objects import Objects
from sdf.storage.web_hdfs import WebHdfs

__all__ = ["Storage", "storage_at"]

_URL = re.compile(r"([A-Za-z][\w+.-]*):(?:/|:)")  # also hdfs:/x, which is no directory, and simplecache::s3://b/x
_FILE = re.compile(r"file:(?://)?(/[^/].*)")
_PLACE = re.compile(r"[^:]*://[^/]+(/(?!/)|$)")  # clients list no key that begins with a slash
_STORES = ("s3", "gs", "gcs", "abfs", "abfss", "az")
_HADOOPS = ("hdfs", "viewfs", "s3a")
_NAME_NODE = re.compile(r"[^:]*://[^/]+:\d+(/(?!/)|$)")
_ELSE = "use an object store (s3://, gs:// or abfs://), or a disk that the driver sees"
_INSTEAD = {
    "dbfs": "use the path under which it is mounted: /dbfs/x for dbfs:/x",
    "s3a": "use s3://",
    "s3n": "use s3://",
    "wasb": "use abfs://",
    "wasbs": "use abfs://",
    "file": "write it as file:///x, or just /x",
}


class Storage(Protocol):
    """Files that are there whole or not at all, named by paths relative to a place; see `Disk` for each operation."""

    root: Any
    writer: str

    def create(self, name: str, data: bytes) -> None: ...
    def replace(self, name: str, data: bytes) -> None: ...
    def read(self, name: str) -> bytes: ...
    def size(self, name: str) -> int | None: ...
    def names(self, directory: str) -> list[str]: ...
    def half_written(self, directory: str) -> list[str]: ...
    def remove(self, name: str) -> None: ...
    def sync(self, directory: str) -> None: ...


def storage_at(
    where: str | os.PathLike[str], who: str, *, beyond: Callable[[str, str], Storage] | None = None
) -> Storage:
    """Return the storage at a place; nothing is read or written yet.

    Args:
        where: a local path, or the URL of a place on an object store, such as ``s3://bucket/state/app``.
        who: names the caller and its argument in messages.
        beyond: returns the storage at a URL of HDFS, such as ``hdfs://host/state``, for this ``who``.

    Raises:
        InvalidTypeError: if it is neither.
        InvalidValueError: if it is a URL of anything else; no directory of that name is made.
        MissingExtraError: if the library for the store is not installed.
    """
    path = os.fspath(where) if isinstance(where, (str, os.PathLike)) else where
    if not isinstance(path, str):
        raise InvalidTypeError(f"{who} must be a path, or a URL such as 's3://bucket/state' (got {show(where)}).")
    local, url = _FILE.fullmatch(path), _URL.match(path)
    if local is not None:
        return Disk(local[1])
    if url is None:
        if not path:
            raise InvalidValueError(f"{who} must not be empty: give a directory, or a URL such as 's3://bucket/state'.")
        return Disk(path)
    scheme = url[1].lower()
    if scheme in _HADOOPS and beyond is not None:
        return beyond(path, who)
    if scheme in ("hdfs", "viewfs"):
        raise InvalidValueError(
            f"{who} cannot be there (got {show(where)}): only the driver of a run has a JVM that reaches it, for the "
            f"checkpoint. Write it as webhdfs://host:9870/x, with the NameNode and its HTTP port; or {_ELSE}."
        )
    if scheme == "webhdfs":
        return _web_hdfs(path, who)
    if scheme not in _STORES:
        raise InvalidValueError(
            f"{who} cannot be there (got {show(where)}): {_INSTEAD.get(scheme, _ELSE)}. It takes a place where of two "
            f"drivers that create a file one is refused."
        )
    if not _PLACE.match(path):  # such as Path("s3://bucket/state"), which drops a slash
        raise InvalidValueError(f"{who} must be like '{scheme}://bucket/state', as a string (got {show(where)}).")
    kind = _client(scheme, who)
    fs = kind(skip_instance_cache=True, use_listings_cache=False, **kind._get_kwargs_from_urls(path))
    return Objects(fs, path, who)


def _web_hdfs(path: str, who: str) -> WebHdfs:
    if not _NAME_NODE.match(path):
        raise InvalidValueError(
            f"{who} must be like 'webhdfs://host:9870/state', as a string, with the NameNode and its HTTP port "
            f"(got {show(path)})."
        )
    need("requests", who)
    kind = need("fsspec.implementations.webhdfs", who).WebHDFS
    return WebHdfs(kind(skip_instance_cache=True, **kind._get_kwargs_from_urls(path)), path)


def _client(scheme: str, who: str) -> Any:
    """Return the class of fsspec's file system for a store."""
    if scheme == "s3":
        return need("s3fs", who).S3FileSystem
    if scheme in ("gs", "gcs"):
        return need("gcsfs", who).GCSFileSystem
    return need("adlfs", who).AzureBlobFileSystem

"""WebHdfs: files on HDFS by the NameNode's HTTP port, which workers reach without a JVM.

A file is written under a temporary name and renamed. The NameNode renames a file in one step, and only onto a free
name unless it is told to overwrite: so of two drivers that create a file one is refused.

fsspec's client brings the session with its credentials. Its own calls do not do: `mv` ignores a refusal, and a read
takes the error of a DataNode for content.

Source: "WebHDFS REST API" in the manual of Hadoop; its NamenodeWebHdfsMethods for renameoptions and createparent.
"""

from __future__ import annotations

import io
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import quote

from sdf.storage.disk import TEMPORARY
from sdf.storage.namenode import AwayError, error_of, patiently
from sdf.storage.remote import Remote

__all__ = ["WebHdfs"]

_SILENCE_SECONDS = 60.0  # after which a request has failed
_REFUSED = 400
_AWAY = ("ConnectionError", "ConnectTimeout", "ReadTimeout", "ChunkedEncodingError")  # of requests


class WebHdfs(Remote):
    """Files below a directory, named by paths relative to it. Every error is an OSError.

    Args:
        fs: fsspec's ``WebHDFS``.
        root: the URL of the directory.
        makes: False: a directory that is not there is not made, and a write into it raises FileNotFoundError.

    Attributes:
        root: the URL of the directory.
        fs: the client.
        writer: a name that no other `WebHdfs` has.
    """

    def __init__(self, fs: Any, root: str, *, makes: bool = True) -> None:
        self.root = root.rstrip("/")
        self.fs = fs
        self.writer = uuid.uuid4().hex
        self._makes = makes

    def _create(self, name: str, data: bytes) -> None:
        self._put(name, data, "NONE")

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; replace it if it exists."""
        self._put(name, data, "OVERWRITE")

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: if there is none.
        """
        return bytes(patiently(lambda: self._asked("GET", "OPEN", name)).content)

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if there is none."""
        with suppress(FileNotFoundError):
            found = patiently(lambda: self._asked("GET", "GETFILESTATUS", name)).json()["FileStatus"]
            return int(found["length"]) if found["type"] == "FILE" else None
        return None

    def listed(self, directory: str) -> dict[str, tuple[bool, int]]:
        """Return what is in a directory, by its name: whether it is a file, and its size in bytes.

        A file is listed as itself, by the name "".
        """
        with suppress(FileNotFoundError):
            found = patiently(lambda: self._asked("GET", "LISTSTATUS", directory)).json()
            found = found["FileStatuses"]["FileStatus"]
            return {str(one["pathSuffix"]): (one["type"] == "FILE", int(one["length"])) for one in found}
        return {}

    def _all(self, directory: str) -> list[str]:
        found = self.listed(directory).items()
        return sorted(f"{directory}/{name}".lstrip("/") for name, (is_file, _) in found if name and is_file)

    def remove(self, name: str, *, whole: bool = False) -> None:
        """Remove a file, or an empty directory, if there is one; a whole directory on demand."""
        patiently(lambda: self._asked("DELETE", "DELETE", name, recursive=str(whole).lower()))

    def upload(self, name: str, file: Any) -> None:
        """Write a file with a name that nobody else has; it is not there if that fails.

        Args:
            name: the name.
            file: the content, as a file that can seek.
        """
        with self._removing(name):
            patiently(lambda: self._write(name, file))

    def open(self, name: str) -> Any:
        """Open a file to read any part of it."""
        return self.fs.open(self._path(name), "rb")

    def move(self, name: str, target: WebHdfs) -> None:
        """Put a file into another directory, which is there.

        Raises:
            FileExistsError: if the name is taken there.
            FileNotFoundError: if there is no such file, as after a reply that was lost.
        """
        there = target._path(name)
        patiently(lambda: self._asked("PUT", "RENAME", name, destination=there, renameoptions="NONE"))

    def _put(self, name: str, data: bytes, options: str) -> None:
        def put() -> None:
            temporary = f"{name}{TEMPORARY}{uuid.uuid4().hex}"
            with self._removing(temporary):
                self._write(temporary, io.BytesIO(data))
                self._asked("PUT", "RENAME", temporary, destination=self._path(name), renameoptions=options)

        patiently(put)

    def _write(self, name: str, file: Any) -> None:
        size, makes = file.seek(0, io.SEEK_END), str(self._makes).lower()
        file.seek(0)
        content = file if size else b""  # requests sends no length of an empty file
        self._asked("PUT", "CREATE", name, content, overwrite="true", createparent=makes)

    @contextmanager
    def _removing(self, name: str) -> Iterator[None]:
        """Remove a file after an error."""
        try:
            yield
        except BaseException:
            with suppress(OSError):  # the first error counts
                self._asked("DELETE", "DELETE", name, recursive="false")
            raise

    def _path(self, name: str) -> str:
        path = self.root.partition("://")[2].partition("/")[2]
        return f"/{path}/{name}".rstrip("/")

    def _asked(self, method: str, operation: str, name: str, data: Any = None, **options: str) -> Any:
        """Return the answer of the NameNode, or of the DataNode to which it sends us.

        Raises:
            OSError: if it is an error; AwayError if asking again may help.
        """
        where, url = f"{self.root}/{name}".rstrip("/"), f"{self.fs.url}{quote(self._path(name))}"
        session, options = self.fs.session, {"op": operation, **options, **self.fs.pars}
        try:
            answer = session.request(method, url, params=options, allow_redirects=False, timeout=_SILENCE_SECONDS)
            if answer.is_redirect:
                answer = session.request(method, answer.headers["Location"], data=data, timeout=_SILENCE_SECONDS)
        except OSError as error:  # as all errors of requests are
            is_away = type(error).__name__ in _AWAY and not _is_unknown_host(error)
            raise (AwayError if is_away else OSError)(f"{where}: {type(error).__name__}: {error}") from error
        if answer.status_code < _REFUSED:
            return answer
        try:
            said = answer.json()["RemoteException"]
            kind, first = str(said["exception"]), str(said["message"]).partition("\n")[0]
        except (ValueError, KeyError, TypeError):  # of a proxy, or of whoever wants other credentials
            kind, first = f"HTTP status {answer.status_code}", str(answer.reason)
        raise error_of(kind, f"{where}: {kind}: {first}")


def _is_unknown_host(error: BaseException | None) -> bool:
    while error is not None and not isinstance(error, socket.gaierror):
        error = error.__cause__ or error.__context__
    return error is not None

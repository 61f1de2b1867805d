"""Objects: files as objects of a store such as S3, each of which is there whole or not at all, as on a `Disk`.

Of two writers that create an object one loses, because the condition goes with the write: the store itself refuses the
second one. That is known only of the file systems that are named here; fsspec's default looks first and writes then.

Source: "How to prevent object overwrites with conditional writes" in the manual of S3, also for the status 409.
"""

from __future__ import annotations

import re
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from importlib.metadata import version
from typing import Any

from sdf.errors import REQUIREMENTS, RUN_DOCTOR, InvalidValueError, MissingExtraError, how_to_install, show
from sdf.extras import class_names
from sdf.storage.remote import Tried

__all__ = ["Objects", "asking"]

_EXCLUSIVE = ("s3fs.core.S3FileSystem", "gcsfs.core.GCSFileSystem", "adlfs.spec.AzureBlobFileSystem")
_PAUSES_SECONDS = (0.1, 0.2, 0.4, 0.8, 1.6)  # before a write that met another one is sent again


class Objects(Tried):
    """Objects whose keys begin with that of a place; named by the rest of their keys. Every error is an OSError.

    Args:
        fs: an instance of one of the file systems in `_EXCLUSIVE`.
        root: the URL of the place.
        who: names the caller in messages.

    Attributes:
        root: the URL of the place.
        fs: the file system, for what only sinks do.
        key: the path of the place in it.
        writer: a name that no other `Objects` has.

    Raises:
        InvalidValueError: if the file system is another one.
        MissingExtraError: if its library is too old to create exclusively.
    """

    def __init__(self, fs: Any, root: str, who: str) -> None:
        classes = class_names(fs)
        known = [name for name in classes if name in _EXCLUSIVE]
        if not known:
            raise InvalidValueError(
                f"{who} must be on a store where of two writers that create a file one is refused (got {show(root)} on "
                f"{classes[0]}, which looks first and writes then). Use a disk, or a place on S3, Google Cloud "
                f"Storage or Azure Blob Storage."
            )
        library = known[0].split(".")[0]
        oldest = REQUIREMENTS[library].split(">=")[1]
        if _numbers(version(library)) < _numbers(oldest):
            raise MissingExtraError(
                f"{who} needs a newer {library}: {version(library)} is installed here, and it overwrites what it "
                f"should create (got {show(root)}). Install it with: {how_to_install(library)}. "
                f"{RUN_DOCTOR}"
            )
        self.root = root.rstrip("/")
        self.writer = uuid.uuid4().hex
        self.fs = fs
        self.key = str(fs._strip_protocol(root)).rstrip("/")

    def _create_at_once(self, name: str, data: bytes) -> None:
        self._put(name, data, "create")

    def replace(self, name: str, data: bytes) -> None:
        """Write an object; replace it if it exists."""
        self._put(name, data, "overwrite")

    def read(self, name: str) -> bytes:
        """Return the content of an object.

        Raises:
            FileNotFoundError: if there is none.
        """
        with self._asking(name):
            self.fs.invalidate_cache()
            return bytes(self.fs.cat_file(self._path(name)))

    def size(self, name: str) -> int | None:
        """Return the size of an object in bytes, None if there is none."""
        with self._asking(name):
            self.fs.invalidate_cache()
            try:
                info = self.fs.info(self._path(name))
            except FileNotFoundError:
                return None
        return int(info["size"]) if info["type"] == "file" else None

    def _all(self, directory: str) -> list[str]:
        with self._asking(directory):
            self.fs.invalidate_cache()
            try:
                found = self.fs.ls(self._path(directory), detail=True)
            except FileNotFoundError:
                return []
        files = [str(info["name"]).rpartition("/")[2] for info in found if info["type"] == "file"]
        return sorted(f"{directory}/{name}".lstrip("/") for name in files if name)  # without: the mark of a directory

    def remove(self, name: str) -> None:
        """Remove an object, if there is one."""
        with self._asking(name), suppress(FileNotFoundError):
            self.fs.rm_file(self._path(name))

    def _put(self, name: str, data: bytes, mode: str) -> None:
        """Write an object; send it again if it met another write of it, which may still come to nothing."""
        for pause_seconds in (*_PAUSES_SECONDS, None):
            try:
                with self._asking(name):
                    self.fs.pipe_file(self._path(name), data, mode=mode)
                return
            except OSError as error:
                if pause_seconds is None or not _is_conflict(error):
                    raise
            time.sleep(pause_seconds)

    def _path(self, name: str) -> str:
        return f"{self.key}/{name}".rstrip("/")

    def _asking(self, name: str) -> AbstractContextManager[None]:
        return asking(f"{self.root}/{name}")


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Raise whatever the client of a store raises as an OSError."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # of botocore, aiohttp, google or azure
        raise OSError(f"{what}: {type(error).__name__}: {error}") from error


def _numbers(text: str) -> list[int]:
    """Return the year and the month of a version."""
    return [int(number) for number in re.findall(r"\d+", text)[:2]]


def _is_conflict(error: OSError) -> bool:
    """Tell whether S3 could not say who was first, since two writes of an object met: it asks to send them again."""
    response = getattr(error.__cause__, "response", None)
    return isinstance(response, dict) and response.get("ResponseMetadata", {}).get("HTTPStatusCode") == 409

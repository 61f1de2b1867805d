"""File systems: `file_system` finds the one of a path, and `reaching` explains its exceptions.

They are those of fsspec: local paths, ``s3://``, ``hdfs://``, ``https://`` and its other protocols. Its file systems
cache listings; here the cache is cleared before each use.
"""

from __future__ import annotations

import functools
import re
import socket
from collections.abc import Mapping
from typing import Any

from sdf.errors import RUN_DOCTOR, MissingExtraError, SdfError, SourceError, without
from sdf.extras import class_names, need

__all__ = ["disk", "file_system", "is_chain", "is_conditional", "is_local", "on_host", "reaching"]

_REFUSED = 400
_OUTERMOST = re.compile("s3a?|gc?s|abfss?|az|adl|(web)?hdfs|https?|sftp|file")  # what comes from them is in no other


def file_system(path: str, storage_options: Mapping[str, Any], who: str) -> tuple[Any, str]:
    """Return the file system of a path, with its cache cleared, and the path inside it.

    Raises:
        MissingExtraError: if the library for the protocol is not installed.
        SourceError: if there is no such protocol, or the file system cannot be reached.
    """
    try:
        if "://" in path:
            fsspec = need("fsspec.core", who)
            with reaching(path, who):
                if "::" not in path or is_chain(path):
                    fs, inner = fsspec.url_to_fs(path, **storage_options)
                else:
                    kind = fsspec.get_filesystem_class(path.partition("://")[0])
                    fs = kind(**{**kind._get_kwargs_from_urls(path), **storage_options})
                    inner = kind._strip_protocol(path)
        else:  # not url_to_fs(): it takes a :: in a name for a chain of two file systems
            fs = need("fsspec.core", who).filesystem("file", **storage_options) if storage_options else disk(who)
            inner = fs._strip_protocol(path)
    except FileNotFoundError as error:  # the archive that holds the file is missing
        raise SourceError(f"{who}: there is no file in which {path!r} could be: {error}.") from error
    if "fsspec.implementations.webhdfs.WebHDFS" in class_names(fs) and not fs.session.hooks["response"]:
        fs.session.hooks["response"].append(functools.partial(_refuse, fs.url))
    fs.invalidate_cache()  # instances are shared and live long; their cached listings may be out of date
    return fs, inner


def _refuse(name_node: str, answer: Any, *args: Any, **options: Any) -> None:
    """Raise OSError for an error of a DataNode, which fsspec takes for content; it raises those of the NameNode."""
    if answer.status_code >= _REFUSED and not answer.url.startswith(name_node):
        raise OSError(f"a DataNode says {answer.status_code} {answer.reason}: {answer.text[:300]}")


def is_chain(path: str) -> bool:
    """Return whether a path goes through several file systems, as in ``zip://a.txt::s3://b/c.zip``.

    What comes from a store goes through no other one: a ``::`` is part of its name.
    """
    return "::" in path and _OUTERMOST.fullmatch(path.partition("://")[0]) is None


@functools.cache  # fsspec takes as long to look for its instance as this host's disk for a file
def disk(who: str = "a reader") -> Any:
    """Return the file system of this host."""
    return need("fsspec.core", who).filesystem("file")


def is_local(fs: Any, who: str) -> bool:
    """Return whether a file system is the local one of this host."""
    return isinstance(fs, need("fsspec.implementations.local", who).LocalFileSystem)


def on_host(fs: Any, who: str) -> str:
    """Return words that name this host, for messages on what it lacks; "" if all hosts see the same files."""
    return f" on host {socket.gethostname()!r}" if is_local(fs, who) else ""


class reaching:  # noqa: N801, reads as a statement
    """Context manager that turns a file system's exceptions into errors that name the path.

    A FileNotFoundError passes if there is no file. No generator: it is entered several times for each small file.

    Raises:
        MissingExtraError: for an ImportError.
        SourceError: for any other exception, such as a missing permission or a server that does not answer.
    """

    __slots__ = ("_path", "_who")

    def __init__(self, path: str, who: str) -> None:
        self._path = path
        self._who = who

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if not isinstance(error, Exception) or isinstance(error, SdfError):
            return
        path, who = self._path, self._who
        if isinstance(error, NotADirectoryError):  # the path's directory has become a file
            raise FileNotFoundError(*error.args) from error
        if isinstance(error, ImportError):
            raise MissingExtraError(
                f"{who} needs a library for {path!r} that is not installed here: {error} (on the driver and on every "
                f"executor). {RUN_DOCTOR}"
            ) from error
        cause: BaseException = error
        if isinstance(error, FileNotFoundError):
            told = error.__cause__  # over HTTP every failure is a FileNotFoundError; the real error is its cause
            refused = isinstance(told, OSError) or getattr(told, "status", 404) not in (404, 410)
            if told is None or not refused or isinstance(told, FileNotFoundError):
                return
            cause = told
        raise SourceError(
            f"{who} cannot reach {path!r}: {type(cause).__name__}: {without(path, str(cause))}. See that the path is "
            f"right, that this user may read it, and that its server answers."
        ) from error


def is_conditional(fs: Any) -> bool:
    """Return whether a file system can ask for bytes on condition that the entity tag is the same."""
    keeps_versions = getattr(fs, "version_aware", False) or getattr(fs, "local_expiry_check", False)
    return "s3fs.core.S3FileSystem" in class_names(fs) and not keeps_versions

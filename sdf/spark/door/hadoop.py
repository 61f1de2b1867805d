"""HadoopFiles: files on HDFS and its kin, by Hadoop's client in the driver's JVM, with Spark's own credentials.

A file is written under a temporary name, synced and renamed. The NameNode renames a file in one step, and only onto a
free name unless it is told to overwrite: so of two drivers that create a file one is refused.

A NameNode that restarts refuses every request for a while. The driver then asks again, for `_PATIENCE_SECONDS`.

The names hold in all versions of Spark; a Connect client has no JVM.
Source: Hadoop's "FileSystem specification" and `FileContext.rename`.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from sdf.errors import InvalidValueError, show
from sdf.spark.door.context import active_context, is_stopped
from sdf.spark.door.errors import FAILURES, GatewayError, JavaError, SparkError, text_of
from sdf.storage.disk import TEMPORARY
from sdf.storage.remote import Remote

__all__ = ["HadoopFiles", "hadoop_files"]

_KNOWN = {"org.apache.hadoop.hdfs.DistributedFileSystem"}
_MOUNTS = "org.apache.hadoop.fs.viewfs.ViewFileSystem"
_AS_OSERROR = {
    "FileAlreadyExistsException": FileExistsError,
    "FileNotFoundException": FileNotFoundError,
    "ParentNotDirectoryException": NotADirectoryError,
    "AccessControlException": PermissionError,
}
_AWAY = (
    "ConnectException",
    "ConnectTimeoutException",
    "EOFException",
    "NoRouteToHostException",
    "RetriableException",
    "SafeModeException",
    "SocketException",  # the connection was reset
    "SocketTimeoutException",
    "StandbyException",
)
_NO_DATA_NODE = "could only be written to 0 of"  # of a NameNode that its DataNodes have not found again
_PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = (0.5, 5.0)  # doubled from the first to the second

T = TypeVar("T")


def hadoop_files(where: str, who: str) -> HadoopFiles:
    """Return the storage at a URL that Hadoop's client reaches, such as ``hdfs://nameservice/state/app``.

    Args:
        where: the URL; without a host it is that of Hadoop's configuration.
        who: names the caller and its argument in messages.

    Raises:
        InvalidValueError: if this process has no SparkContext; if Hadoop knows no such scheme; or if its file system
            may let two drivers create one file.
    """
    sc = active_context()
    if sc is None or is_stopped(sc):
        raise InvalidValueError(
            f"{who} cannot be there (got {show(where)}): Hadoop's client is in the JVM of a SparkContext, and this "
            f"process has none. Make the SparkContext first; with Spark Connect use an object store, or a disk that "
            f"the driver sees."
        )
    jvm = cast("Any", sc._jvm)
    conf = cast("Any", sc._jsc).hadoopConfiguration()
    path = jvm.org.apache.hadoop.fs.Path
    try:
        files = path(where).getFileSystem(conf)
        context = jvm.org.apache.hadoop.fs.FileContext.getFileContext(files.getUri(), conf)
        root = files.makeQualified(path(where)).toString()
        classes = _classes(files)
    except FAILURES as error:
        raise InvalidValueError(
            f"{who} cannot be there (got {show(where)}): Hadoop's client says {_said(error)}. Set what it needs as "
            f"spark.hadoop.* in Spark's configuration, or use another place."
        ) from error
    unknown = sorted(classes - _KNOWN)
    if unknown:
        raise InvalidValueError(
            f"{who} cannot be there (got {show(where)}): of two drivers that create a file one must be refused, and "
            f"that is not known of {', '.join(unknown)}. Use HDFS, an object store (s3://, gs:// or abfs://), or a "
            f"disk that the driver sees."
        )
    rename = jvm.org.apache.hadoop.fs.Options.Rename
    gateway = cast("Any", sc._gateway)
    onto_taken = gateway.new_array(rename, 1)
    onto_taken[0] = rename.OVERWRITE
    return HadoopFiles(jvm, files, context, (gateway.new_array(rename, 0), onto_taken), root)


class HadoopFiles(Remote):
    """Files below a directory, named by paths relative to it. Every error is an OSError.

    Args:
        jvm: Py4J's view of the JVM.
        files: a ``FileSystem``.
        context: its ``FileContext``, whose ``rename`` can refuse a name that is taken.
        renames: the options of a rename onto a free name, and of one that overwrites.
        root: the URL of the directory.

    Attributes:
        root: the URL of the directory.
        writer: a name that no other `HadoopFiles` has.
    """

    def __init__(self, jvm: Any, files: Any, context: Any, renames: tuple[Any, Any], root: str) -> None:
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._bytes_of = jvm.org.apache.commons.io.IOUtils.toByteArray
        self._files = files
        self._context = context
        self._onto_free, self._onto_taken = renames
        self.root = root.rstrip("/")
        self.writer = uuid.uuid4().hex

    def _create(self, name: str, data: bytes) -> None:
        self._put(name, data, self._onto_free)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; replace it if it exists."""
        self._put(name, data, self._onto_taken)

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Raises:
            FileNotFoundError: if there is none.
        """

        def content() -> bytes:
            stream = self._files.open(self._path(name))
            try:
                return bytes(self._bytes_of(stream))
            finally:
                stream.close()

        return self._asked(name, content)

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes, None if there is none."""
        with suppress(FileNotFoundError):
            status = self._asked(name, lambda: self._files.getFileStatus(self._path(name)))
            return int(status.getLen()) if status.isFile() else None
        return None

    def remove(self, name: str) -> None:
        """Remove a file, if there is one."""
        self._asked(name, lambda: self._files.delete(self._path(name), False))

    def _all(self, directory: str) -> list[str]:
        def found() -> list[str]:
            statuses = self._files.listStatus(self._path(directory))
            return [str(status.getPath().getName()) for status in statuses if status.isFile()]

        with suppress(FileNotFoundError):
            return sorted(f"{directory}/{name}".lstrip("/") for name in self._asked(directory, found))
        return []

    def _put(self, name: str, data: bytes, options: Any) -> None:
        def write() -> None:
            temporary = self._path(f"{name}{TEMPORARY}{uuid.uuid4().hex}")
            try:
                out = self._files.create(temporary, False)
                try:
                    out.write(bytearray(data))
                    out.hsync()
                finally:
                    out.close()
                self._context.rename(temporary, self._path(name), options)
            except Exception:
                with suppress(GatewayError):  # the first error counts
                    self._files.delete(temporary, False)
                raise

        self._asked(name, write)

    def _path(self, name: str) -> Any:
        return self._path_of(f"{self.root}/{name}".rstrip("/"))

    def _asked(self, name: str, ask: Callable[[], T]) -> T:
        """Return an answer; ask again while the NameNode is away.

        Raises:
            OSError: for any other error of Hadoop's client, or if the NameNode stays away.
        """
        ends = time.monotonic() + _PATIENCE_SECONDS
        pause_seconds, longest_seconds = _PAUSE_SECONDS
        while True:
            try:
                return ask()
            except FAILURES as error:
                kind = _kind(error)
                is_away = kind in _AWAY or _NO_DATA_NODE in text_of(error)
                if not is_away or time.monotonic() > ends:
                    raise _AS_OSERROR.get(kind, OSError)(f"{self.root}/{name}: {_said(error)}") from error
            except GatewayError as error:
                raise OSError(f"{self.root}/{name}: the JVM of the SparkContext gives no answer: {error}") from error
            time.sleep(pause_seconds * random.uniform(0.5, 1.0))
            pause_seconds = min(2 * pause_seconds, longest_seconds)


def _classes(files: Any) -> set[str]:
    """Return the class of a file system; of one that mounts others those of all of them."""
    names = {str(files.getClass().getName())}
    if names <= {_MOUNTS, f"{_MOUNTS}OverloadScheme"}:
        return {name for child in files.getChildFileSystems() for name in _classes(child)}
    return names


def _kind(error: JavaError | SparkError) -> str:
    """Return the name of Java's exception; of one from a server that of the server's."""
    if not isinstance(error, JavaError):
        return type(error).__name__
    found = error.java_exception
    name = str(found.getClass().getSimpleName())
    return str(found.getClassName()).rpartition(".")[2].rpartition("$")[2] if name == "RemoteException" else name


def _said(error: JavaError | SparkError) -> str:
    first = text_of(error).partition("\n")[0]
    return f"{_kind(error)}: {first}"

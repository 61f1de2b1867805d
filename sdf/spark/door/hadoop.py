"""HadoopFiles: files on HDFS and its kin, by Hadoop's client in the driver's JVM, with Spark's own credentials.

A file is written under a temporary name, synced and renamed. The NameNode renames a file in one step, and only onto a
free name unless it is told to overwrite: so of two drivers that create a file one is refused. S3 renames nothing; there
the condition goes with the write.

The names hold in all versions of Spark; a Connect client has no JVM.
Source: Hadoop's "FileSystem specification" and `FileContext.rename`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from sdf.errors import InvalidValueError, show
from sdf.spark.door.context import active_context, is_stopped
from sdf.spark.door.errors import FAILURES, GatewayError, JavaError, SparkError, text_of
from sdf.storage.disk import TEMPORARY
from sdf.storage.namenode import AwayError, error_of, patiently
from sdf.storage.remote import Remote, Tried

__all__ = ["HadoopFiles", "hadoop_files"]

_KNOWN = {"org.apache.hadoop.hdfs.DistributedFileSystem"}
_S3A = {"org.apache.hadoop.fs.s3a.S3AFileSystem"}
_IF_FREE = "fs.option.create.conditional.overwrite"  # since Hadoop 3.4.2
_NEEDS = "Hadoop 3.4.2 or later has them, unless fs.s3a.create.conditional.enabled is false"
_CONFLICT = "ConditionalRequestConflict"  # of two writes that met: S3 asks to send them again
_MOUNTS = "org.apache.hadoop.fs.viewfs.ViewFileSystem"

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
        kind = S3AFiles if classes == _S3A and files.hasPathCapability(path(root), _IF_FREE) else HadoopFiles
    except FAILURES as error:
        raise InvalidValueError(
            f"{who} cannot be there (got {show(where)}): Hadoop's client says {_said(error)}. Give Spark what it "
            f"needs, as spark.hadoop.* or spark.jars.packages (org.apache.hadoop:hadoop-aws for s3a://), or use "
            f"another place."
        ) from error
    unknown = sorted(classes - _KNOWN) if kind is HadoopFiles else []
    if unknown:
        more = f" without conditional writes ({_NEEDS})" if classes == _S3A else ""
        raise InvalidValueError(
            f"{who} cannot be there (got {show(where)}): of two drivers that create a file one must be refused, and "
            f"that is not known of {', '.join(unknown)}{more}. Use HDFS, an object store (s3://, gs:// or abfs://), "
            f"or a disk that the driver sees."
        )
    rename = jvm.org.apache.hadoop.fs.Options.Rename
    gateway = cast("Any", sc._gateway)
    onto_taken = gateway.new_array(rename, 1)
    onto_taken[0] = rename.OVERWRITE
    return kind(jvm, files, context, (gateway.new_array(rename, 0), onto_taken), root)


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

    def _asked(self, name: str, ask: Callable[[], T], error_of: Callable[[str, str], OSError] = error_of) -> T:
        """Return an answer; ask again while the NameNode is away.

        ``error_of`` says what an exception of Java's means.

        Raises:
            OSError: for any other error of Hadoop's client, or if the NameNode stays away.
        """

        def answer() -> T:
            try:
                return ask()
            except FAILURES as error:
                raise error_of(_kind(error), f"{self.root}/{name}: {_said(error)}") from error
            except GatewayError as error:
                raise OSError(f"{self.root}/{name}: the JVM of the SparkContext gives no answer: {error}") from error

        return patiently(answer)


class S3AFiles(Tried, HadoopFiles):
    """Files on S3, by Hadoop's client: it writes an object on the condition that there is none, and S3 decides."""

    def _create_at_once(self, name: str, data: bytes) -> None:
        self._put(name, data, self._onto_free)

    def _put(self, name: str, data: bytes, options: Any) -> None:
        def write() -> None:
            path = self._path(name)
            if options is self._onto_taken:
                out = self._files.create(path, True)
            else:
                out = self._files.createFile(path).recursive().must(_IF_FREE, True).build()
            out.write(bytearray(data))
            out.close()  # which writes the object: never after an error

        self._asked(name, write, _error_of_s3a)


def _error_of_s3a(kind: str, message: str) -> OSError:
    """Return what an exception means when an object is written on a condition."""
    if kind == "RemoteFileChangedException":
        return FileExistsError(message)
    return AwayError(message) if _CONFLICT in message else error_of(kind, message)


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

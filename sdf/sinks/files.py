"""FileSink: what the sinks that write files have in common.

Workers write files of their own into a `Stage`, and name them in their messages; the commit makes exactly the named
ones visible. A name has a random part, so that no attempt ever meets the file of another.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, SdfError, SinkError, show
from sdf.numbers import as_integer, is_integer
from sdf.sinks.on_disk import DiskStage
from sdf.sinks.on_objects import ObjectStage
from sdf.sinks.on_web_hdfs import WebHdfsStage
from sdf.sinks.segments import Segment
from sdf.sinks.sink import Place, Sink, SinkRun, Token
from sdf.sinks.stage import Stage
from sdf.storage.disk import Disk
from sdf.storage.places import storage_at

__all__ = ["TARGET_BYTES", "FileSink", "as_count", "as_path", "as_target_bytes", "files_of", "is_on_hdfs"]

TARGET_BYTES = 512 << 20


def is_on_hdfs(path: str) -> bool:
    """Return whether a path is a URL of HDFS, by whichever client."""
    return path.startswith(("hdfs:", "viewfs:", "webhdfs:"))


def as_path(value: Any) -> str:
    """Return a target as an absolute path or a URL, without a slash at its end."""
    storage = storage_at(value, "the path of a sink")
    path = os.path.abspath(storage.root) if isinstance(storage, Disk) else str(storage.root)
    if not isinstance(storage, Disk) and set("*?[") & set(path):
        raise InvalidValueError(
            f"the path of a sink on an object store must not have any of '*', '?', '[', which stand for patterns there "
            f"(got {value!r})."
        )
    parent, _, name = path.rpartition("/")
    if not name or parent.endswith(":/"):
        raise InvalidValueError(f"the path of a sink must name a directory below the root or bucket (got {value!r}).")
    return path


def as_target_bytes(value: Any) -> int:
    """Return a size at which a file ends."""
    return as_count(value, "target_bytes of a sink")


def as_count(value: Any, what: str, unit: str = "bytes") -> int:
    """Return a number of bytes, say; raise unless it is an integer >= 1."""
    size = as_integer(value)
    if not is_integer(size):
        raise InvalidTypeError(f"{what} must be an integer, a number of {unit} (got {show(value)}).")
    if size < 1:
        raise InvalidValueError(f"{what} must be >= 1 (got {size}).")
    return int(size)


@attrs.frozen
class FileSink(Sink):
    """Base of the sinks that write files.

    Attributes:
        path: the target.
        target_bytes: begin a new file when one has this size.
        untold: the options that do not belong to the identity; of the class.
    """

    untold: ClassVar[tuple[str, ...]] = ()

    path: str = attrs.field(converter=as_path)
    target_bytes: int = attrs.field(default=TARGET_BYTES, kw_only=True, converter=as_target_bytes)

    @property
    def takes_retries(self) -> bool:
        return True

    @property
    @abstractmethod
    def ending(self) -> str:
        """The ending of the files' names, with its dot."""

    @abstractmethod
    def write_segment(self, records: Iterator[Any], place: Place, segment: Segment) -> None:
        """Write the records of a segment into its files."""

    def files_of_nothing(self, stage: Stage) -> dict[str, int]:
        """Write the files, with their sizes, of a result without records: none."""
        return {}

    def identity(self) -> Any:
        names = [field.name for field in attrs.fields(type(self)) if field.name not in self.untold]
        return {"sink": type(self).__name__, **{name: self.told(getattr(self, name)) for name in names}}

    def told(self, value: Any) -> Any:
        """Return an option as JSON data."""
        return value

    def beside(self) -> str | None:
        parent, _, name = self.path.rpartition("/")
        return f"{parent}/_{name}.sdf"

    def prepare(self, run: SinkRun) -> None:
        with self._blaming("prepare"):
            self.stage(run.token).prepare(run)

    def write(self, records: Iterator[Any], place: Place) -> Any:
        stage = self.stage(place.token)
        with self._blaming("write"):
            stage.check(place.tag)
        with Segment(stage, place.name, self.ending, lambda: self._blaming("write")) as segment:
            self.write_segment(records, place, segment)
        return segment.message()

    def commit(self, messages: Sequence[Any], token: Token) -> None:
        stage, files = self.stage(token), files_of(messages)
        with self._blaming("commit"):
            if stage.adds:
                stage.add(files)
            elif not stage.committed():  # then staging may have gone
                stage.commit(files or self.files_of_nothing(stage))

    def abort(self, messages: Sequence[Any], token: Token) -> None:
        with self._blaming("abort"):
            self.stage(token).abort(files_of(messages))

    def check_result(self, token: Token) -> None:
        with self._blaming("look at"):
            if not self.appends and not self.stage(token).committed():
                raise SinkError(
                    f"{type(self).__name__}: this run is done, but its result is not at {self.path!r} any more: it was "
                    f"removed, moved or replaced. To run again, remove the checkpoint, too."
                )

    def clean(self, token: Token) -> None:
        with self._blaming("clean"):
            self.stage(token).clean()

    def stage(self, token: Token) -> Stage:
        """Return the staging directory of a commit."""
        beside = self.beside()
        assert beside is not None
        return self.stage_in(self.path, beside, token)

    def stage_in(self, path: str, beside: str, token: Token) -> Stage:
        """Return the staging directory of a commit to a target, in a directory."""
        kind = WebHdfsStage if path.startswith("webhdfs:") else ObjectStage if "://" in path else DiskStage
        return kind(path, beside, token, type(self).__name__)

    @contextmanager
    def _blaming(self, what: str) -> Iterator[None]:
        """Turn an error of the storage into a SinkError that says how to go on."""
        try:
            yield
        except SdfError:
            raise
        except self._failures() as error:
            raise SinkError(
                f"{type(self).__name__} cannot {what} {self.path!r}: {type(error).__name__}: {self._reason(error)}. "
                f"What is committed in the checkpoint stays valid: see that the storage has room, is writable and "
                f"answers, and run again to resume."
            ) from error

    def _failures(self) -> tuple[type[Exception], ...]:
        """Return the classes of the errors of the storage."""
        return (OSError,)

    def _reason(self, error: Exception) -> str:
        """Return what an error of the storage says."""
        return str(error)


def files_of(messages: Sequence[Any]) -> dict[str, int]:
    """Return the files that messages name, with their sizes.

    Raises:
        SinkError: if a file is named twice: its records would have been counted twice.
    """
    files: dict[str, int] = {}
    for message in messages:
        for name, size in () if message is None else message["names"]:
            if name in files:
                raise SinkError(f"two messages name the file {name!r}: the log of this run is damaged.")
            files[name] = size
    return files

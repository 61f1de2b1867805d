"""Files: the elements that name a file, and the part of it that a work item reads.

A file may change while a run reads it, and a run may read a part again. So a reader first records the state of the file
(`FileInfo`). Every restriction (`FileRange`) carries it: a task that opens the file later gets the bytes of that state,
or an error. Bytes appended since belong to a later read.
"""

from __future__ import annotations

import io
import os
import zlib
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from typing import Any

import attrs

from sdf import OffsetRange, OffsetRangeTracker, RestrictionTracker
from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.io.connector import Connector
from sdf.io.files.match import MatchFiles
from sdf.io.files.pinned import FileInfo, check_file, is_guarded, look_up, open_file
from sdf.io.options import as_options, as_size
from sdf.numbers import as_integer, is_integer

__all__ = ["FileBlock", "FileFn", "FileRange", "OpenedFn"]


@attrs.frozen
class FileBlock:
    """A part of a file, as `FileBlocks` gives it; an element of every reader.

    Attributes:
        file: the file that the block is a part of.
        start: offset of its first byte.
        stop: offset after its last byte.
        previous: id of the block before it; None for the first block.

    Raises:
        InvalidTypeError, InvalidValueError: unless the block lies in the file.
    """

    file: FileInfo
    start: int
    stop: int
    previous: str | None = None

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.file, FileInfo):
            raise InvalidTypeError(
                f"FileBlock file must be a FileInfo, as MatchFiles gives it (got {show(self.file)})."
            )
        for name, value in (("start", self.start), ("stop", self.stop)):
            offset = as_integer(value)
            if not is_integer(offset):
                raise InvalidTypeError(
                    f"FileBlock {name} must be an integer, the offset of a byte (got {show(value)})."
                )
            object.__setattr__(self, name, offset)
        if not 0 <= self.start <= self.stop <= self.file.size:
            raise InvalidValueError(
                f"FileBlock must have 0 <= start <= stop <= {self.file.size}, the size of {self.path} (got start="
                f"{self.start}, stop={self.stop})."
            )

    @property
    def path(self) -> str:
        """The path of the file."""
        return self.file.path

    @property
    def file_size(self) -> int:
        """The size of the file in bytes."""
        return self.file.size

    @property
    def is_last(self) -> bool:
        """Whether the block ends where the file ends."""
        return self.stop == self.file.size

    @property
    def id(self) -> str:
        """A name for the block: the same if the same file is split in the same way, another if the file has changed."""
        pinned = f"{self.file.size},{self.file.mtime},{self.file.version}"
        return f"{self.path}@{zlib.crc32(pinned.encode()):08x}:{self.start}-{self.stop}"


@attrs.frozen
class FileRange(OffsetRange):
    """Positions ``[start, stop)`` of a pinned file: the restriction of all readers of files.

    Attributes:
        file: the state of the file when the restriction was made.
        codec: the meaning of positions and how to read from one, such as ``"bzip2"``; ``""`` for byte offsets.
        note: a remark for the report of the run.
    """

    stop: int  # a file has an end
    file: FileInfo
    codec: str = ""
    note: str = ""


class FileFn(Connector):
    """Base of readers of files: elements, pinning, the first split. A subclass defines `process`.

    An element is a path, a `FileInfo`, which `MatchFiles` yields, or a `FileBlock`, which `FileBlocks` yields.

    Args:
        block_size: split each file at the start of the run into parts of so many bytes; None leaves all splits to the
            runner, which makes them by what it measures.
        storage_options: arguments for the file system, as fsspec takes them.
    """

    def __init__(self, *, block_size: int | None = None, storage_options: Mapping[str, Any] | None = None) -> None:
        self.block_size = None if block_size is None else as_size(block_size, f"{type(self).__name__} block_size")
        self.storage_options = as_options(storage_options, type(self).__name__)
        self._kept = _KeptFile()

    def finish_bundle(self) -> None:
        self._kept.close()

    def teardown(self) -> None:
        self._kept.close()

    def get_initial_restriction(self, element: Any) -> FileRange:
        if isinstance(element, FileBlock):
            return FileRange(element.start, element.stop, element.file)
        file = self.file_of(element)
        return FileRange(0, file.size, file)

    def split_restriction(self, element: Any, restriction: FileRange) -> Iterator[FileRange]:
        if self.block_size is None:
            yield restriction
            return
        step = self.block_size
        for start in range(restriction.start, restriction.stop, step):
            yield attrs.evolve(restriction, start=start, stop=min(start + step, restriction.stop))

    def create_tracker(self, element: Any, restriction: FileRange) -> RestrictionTracker:
        return OffsetRangeTracker(restriction, partial(self.block_from, element, restriction))

    def block_from(self, element: Any, restriction: FileRange, position: int) -> int:
        """Return where the first block at or after a position begins, as far as that is known without reading the file.

        The default is the position itself: a block may begin anywhere. Override it if more is known.
        """
        return position

    def block_of(self, element: Any, restriction: FileRange, offset: int) -> FileBlock:
        """Return the block that holds a byte: the element, or a part of ``block_size`` bytes of it; else the file.

        Where positions are no bytes of the file, as in compressed files, it is the element or the file.
        """
        start, stop = (element.start, element.stop) if isinstance(element, FileBlock) else (0, restriction.file.size)
        if self.block_size is not None and restriction.codec == "":
            start += (offset - start) // self.block_size * self.block_size
            stop = min(start + self.block_size, stop)
        return FileBlock(restriction.file, start, stop)

    def remark(self, element: Any, restriction: FileRange) -> str:
        return restriction.note

    def path_matcher(self) -> MatchFiles:
        """Return a DoFn that turns paths and patterns into elements of this one."""
        return MatchFiles(storage_options=self.storage_options)

    def file_of(self, element: Any) -> FileInfo:
        """Return the file that an element names; for a path, as the file is now.

        Raises:
            InvalidTypeError: if the element is no path, `FileInfo` or `FileBlock`.
            SourceError: if there is no such file.
        """
        if isinstance(element, FileBlock):
            return element.file
        if isinstance(element, FileInfo):
            return element
        if isinstance(element, (str, os.PathLike)):
            return look_up(os.fspath(element), self.storage_options, type(self).__name__)
        raise InvalidTypeError(
            f"{type(self).__name__} reads a path, a FileInfo or a FileBlock (got {show(element)}). Let MatchFiles list "
            f"the files, or map your elements to paths."
        )

    @contextmanager
    def open(self, restriction: FileRange) -> Iterator[io.BufferedReader]:
        """Open the file of a restriction, for a ``with`` statement; see `open_file`.

        The next part that a task runs is often of the same file, which is then still open, if it is not compressed.

        Raises:
            SourceChangedError: also at the end, if the file changed meanwhile: the bytes read may mix both versions. On
                S3 they cannot (`open_file`), so nobody looks again.
        """
        kept = self._kept.take(restriction.file)
        with ExitStack() as closing:
            file = kept or open_file(restriction.file, self.storage_options)
            closing.callback(file.close)
            try:
                yield file
            except Exception:  # a changed file may be its cause
                check_file(restriction.file, self.storage_options)
                raise
            if not is_guarded(file):
                check_file(restriction.file, self.storage_options)
            if restriction.codec == "" and not file.closed:
                closing.pop_all()
                self._kept.keep(restriction.file, file)


class OpenedFn(FileFn):
    """Base of readers that open the file of each part that is not empty. A subclass defines `_read`."""

    def process(self, element: Any, tracker: Any) -> Iterable[Any]:
        return chain.from_iterable(self._opened(tracker))  # one generator step for each record would cost 4 % of Avro

    def _opened(self, tracker: Any) -> Iterator[Iterable[Any]]:
        restriction: FileRange = tracker.current_restriction()
        if restriction.start < restriction.stop:
            with self.open(restriction) as file:
                yield from self._read(file, restriction, tracker)

    @abstractmethod
    def _read(self, file: io.BufferedReader, part: Any, tracker: Any) -> Iterator[Iterable[Any]]:
        """Claim the blocks of a part, and yield their records, some at a time; what may fail comes before a yield."""


class _KeptFile:
    """Keeps the file that a reader had open last, for the next part of it. A copy, in another process, keeps none."""

    def __init__(self) -> None:
        self._kept: list[tuple[FileInfo, io.BufferedReader]] = []

    def __reduce__(self) -> Any:
        return _KeptFile, ()

    def take(self, file: FileInfo) -> io.BufferedReader | None:
        """Return the file that is kept, at its start, if it is this one; else close it and return None."""
        while self._kept:
            kept, opened = self._kept.pop()
            if kept == file:
                opened.seek(0)
                return opened
            opened.close()
        return None

    def keep(self, file: FileInfo, opened: io.BufferedReader) -> None:
        """Keep an open file in place of the one before it."""
        self.close()
        self._kept.append((file, opened))

    def close(self) -> None:
        """Close the file that is kept."""
        while self._kept:
            self._kept.pop()[1].close()

"""WatchFiles: the files that a path, a directory or a pattern names, and those that appear later.

A scan is a block; its position is its number. A scan compares the listing with the files seen before, one by one. So it
misses neither a late file nor one of the same second, and a clock that is set back does no harm. The residual carries
the files seen, the primary the files that its scan found: a replay of the primary yields the same files.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar

import attrs

from sdf import UNBOUNDED
from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.io.connector import Connector
from sdf.io.files.file_fn import FileBlock
from sdf.io.files.file_systems import file_system, is_local
from sdf.io.files.match import MatchFiles, pattern_root
from sdf.io.files.pinned import FileInfo, Watch
from sdf.io.follow.growing import GrowingTracker
from sdf.io.follow.known_files import KnownFile, compare
from sdf.io.options import as_seconds
from sdf.io.stored import stored

__all__ = ["Scan", "ScanFn", "ScanTracker", "Scans", "WatchFiles"]

_STALLED = 8  # scan intervals


@stored
@attrs.frozen
class Scans:
    """The scans ``[start, stop)`` of an element.

    Attributes:
        start: number of the first scan.
        stop: number after the last one, or UNBOUNDED.
        seen: the files seen before the first scan.
        found: the files that the first scan found; None before it is made.
        ended: whether no scan is needed any more.
    """

    start: int
    stop: Any = UNBOUNDED
    seen: tuple[Any, ...] = ()
    found: tuple[Any, ...] | None = None
    ended: bool = False


@attrs.frozen
class Scan:
    """A scan that was made: its number, the outputs it found, and the files seen by now. The position of a claim."""

    number: int
    found: tuple[Any, ...]
    seen: tuple[Any, ...]

    def after(self, scans: Scans) -> Scans:
        """Return what remains of some scans after this one."""
        return attrs.evolve(scans, start=self.number + 1, seen=self.seen, found=None)


class ScanTracker(GrowingTracker):
    """Tracks scans. Another task cannot make the present scan, so only later scans can be split off."""

    _unread = "scan {} of {} was not made"
    _spent: ClassVar[dict[str, Any]] = {"seen": ()}  # to replay it, `found` is enough

    def try_claim(self, position: Scan) -> bool:
        if not position.number < self._part.stop:
            self._refused = True
            return False
        self._next = position.after(self._part)
        if self._part.found is None:
            self._part = attrs.evolve(self._part, found=position.found)
        return True


class ScanFn(Connector):
    """Base of the connectors that scan a source again and again. A subclass defines `scan`."""

    scans = True

    def create_tracker(self, element: Any, restriction: Scans) -> ScanTracker:
        return ScanTracker(restriction)

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        scans: Scans = tracker.current_restriction()
        if scans.found is None:
            yield from self.scan(element, scans, tracker)
        elif tracker.try_claim(Scan(scans.start, scans.found, ())):  # a replay: yield the same again
            yield from scans.found

    @abstractmethod
    def scan(self, element: Any, scans: Any, tracker: Any) -> Iterator[Any]:
        """Make the next scan, claim it if it has news, yield what it found, and defer the scans after it."""


class WatchFiles(ScanFn):
    """Watches for files, in streams. Element: a path, a directory or a pattern. Gives `FileInfo`, sorted by path.

    Files that disappear are forgotten, so the state is as large as the listing. With ``"ignore"``, a local file is
    forgotten when three scans in a row have missed it, and the scan reads its first bytes to recognize it. While the
    local directory itself is missing (a volume is not mounted), nothing is forgotten.

    Args:
        interval_seconds: seconds from one scan to the next.
        modified: how to treat a changed file. ``"reread"`` yields it again. ``"tail"`` yields the appended bytes as a
            `FileBlock`, which may end inside of a record, and the whole file if it was replaced or has shrunk.
            ``"ignore"`` yields each file once, under whatever name or link, and a new file that takes its place: for
            `TailLines`. It waits until a file has a first byte. A compressed file is not yielded if it begins, both
            name and text, as a file that was yielded: it is the copy that rotation makes of it. Another copy is
            another file: leave copies of rotated files out of the pattern.
        missing_ok: wait if nothing is found; False: raise an error.
        recursive, regex, hidden, storage_options: as for `MatchFiles`.

    Source: the directory scanner of Apache Apex Malhar's file splitter, which compares times only.
    """

    def __init__(
        self, *, interval_seconds: float = 5.0, modified: str = "reread", missing_ok: bool = True, **options: Any
    ) -> None:
        if modified not in ("reread", "tail", "ignore"):
            raise InvalidValueError(f"WatchFiles modified must be 'reread', 'tail' or 'ignore' (got {show(modified)}).")
        self.interval_seconds = as_seconds(interval_seconds, "WatchFiles interval_seconds")
        self.modified = modified
        self._match = MatchFiles(missing_ok=missing_ok, **options)

    @classmethod
    def option_names(cls) -> set[str]:
        return super().option_names() | MatchFiles.option_names()

    def get_initial_restriction(self, element: Any) -> Scans:
        if not isinstance(element, (str, os.PathLike)):
            raise InvalidTypeError(f"WatchFiles watches a path, a directory or a pattern (got {show(element)}).")
        return Scans(0)

    def scan(self, element: Any, scans: Scans, tracker: Any) -> Iterator[FileInfo | FileBlock]:
        there = tuple(self._match.list(os.fspath(element)))
        known = tuple(one if isinstance(one, KnownFile) else KnownFile(one, 0, b"") for one in scans.seen)
        before = tuple(one.file for one in known)
        root = self._root(element, {one.path for one in (*before, *there)})
        if root is not None and not there and not os.path.exists(root):  # the files in it may still exist
            tracker.defer_remainder(self.interval_seconds)
            return
        found: tuple[Any, ...]
        seen: tuple[Any, ...]
        if self.modified == "ignore" and root is not None:
            new, seen = compare(known, there, stalled_seconds=_STALLED * self.interval_seconds)
            found = tuple(
                attrs.evolve(
                    file,
                    real=os.path.realpath(file.path.removeprefix("file://")),
                    watch=Watch(root, self.interval_seconds, head, known_as.generation),
                )
                for file, known_as, head in new
            )
            is_new = [one.lasting for one in known] != [one.lasting for one in seen]
        else:
            found, seen = tuple(self._changes(before, there)), there
            is_new = bool(found or {file.path for file in before} - {file.path for file in there})
        if is_new and tracker.try_claim(Scan(scans.start, found, seen)):
            yield from found
        tracker.defer_remainder(self.interval_seconds)

    def _root(self, element: Any, paths: set[str]) -> str | None:
        """Return the watched directory; None if the file system is not local.

        An element without a pattern is a directory, unless a file with that path is there now or was there before.
        """
        path = os.fspath(element)
        fs, inner = file_system(path, self._match.storage_options, "WatchFiles")
        if not is_local(fs, "WatchFiles"):
            return None
        pattern = None if os.path.lexists(inner) else pattern_root(fs, inner)
        if pattern is not None:
            return pattern
        return os.path.dirname(inner) if {path, inner} & paths else inner

    def _changes(self, seen: tuple[FileInfo, ...], there: tuple[FileInfo, ...]) -> Iterator[FileInfo | FileBlock]:
        before = {file.path: file for file in seen}
        versions = {file.version for file in seen if file.version is not None}
        for file in there:
            old = before.get(file.path)
            if self.modified == "ignore":
                if file.version not in versions and (old is None or old.version != file.version):
                    yield file
                continue
            replaced = old is not None and (old.version != file.version or file.size < old.size)
            if old is None or replaced or (old != file and self.modified == "reread"):
                yield file
            elif self.modified == "tail" and file.size > old.size:
                yield FileBlock(file, old.size, file.size)

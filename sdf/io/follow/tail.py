"""TailLines: follows a file that grows, line by line, in streams.

A position is the number of bytes before it, counted over all files that had the name. If a file is replaced (by log
rotation) or truncated, the first byte of the new file has the next position. A block is some whole lines. Only reading
shows how long it is, so a claim names both its ends. A line that has no end yet is left for later.

`sdf.io.follow.file_states` finds out where a file is now and whether it has ended.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import attrs

from sdf import UNBOUNDED, MonotonicWatermark, RestrictionTracker
from sdf.errors import InvalidValueError, ReadError, SourceChangedError, show
from sdf.io.compressed.compression import named_kind
from sdf.io.files.file_fn import FileBlock, FileRange
from sdf.io.files.pinned import FileInfo
from sdf.io.follow.copies import read_bytes
from sdf.io.follow.file_states import FileState, Finder
from sdf.io.follow.tail_parts import Piece, Tail, TailTracker
from sdf.io.options import as_seconds
from sdf.io.text.lines import ReadLines
from sdf.io.timestamps import Timestamp, as_timestamp, observed, watermark_of

__all__ = ["TailLines"]

_PIECE_BYTES = 1 << 20
_LEAST_PART_BYTES = 4 << 20  # of a backlog, while it is not known how fast tasks read it
_KNOWN_BYTES = 64  # bytes that identify a file, at its start and before the next position

log = logging.getLogger("sdf.io.tail")


class TailLines(ReadLines):
    """Follows files line by line, in streams. Element: a path, `FileInfo`, or `FileBlock` to begin at its start.

    Yields a line when its end is there. For a path, the name is followed: if another file takes it, the reader first
    finishes the old file, if it has another name in the same directory or right below. When that has been quiet for a
    while, the bytes left are its last line, and the reader goes on with the new file. For a `FileInfo`, which
    `WatchFiles` yields, only that file is followed, until it was renamed and has been quiet, or has been missing for a
    while. A file that gets shorter is read again from its start. The log reports bytes that may be lost.

    Args:
        poll_seconds: seconds to wait if nothing is new.
        rotated_seconds: a renamed file has ended after so many seconds without a write. A missing `FileInfo` has ended
            after eight looks spread over that time. If `WatchFiles` yielded it, the eight looks are a scan interval
            apart, and none counts while the watched directory is missing.
        fail_on_data_loss: whether it is an error if bytes that a batch has read are gone when it comes again. False: go
            on with what is there. Bytes that may have been lost before they were read are no error; the journal, the
            summary and a warning tell of both.
        timestamp: a function from a record to its time, such as seconds since the epoch. The highest so far is the
            watermark of a file: records should come in that order, and late ones are given all the same.
        compression: ``"infer"``, or None if names such as ``a.log.gz`` mean nothing. A compressed `FileInfo` is read
            once, when it is complete; a compressed path is an error.
        with_block_id, index_dir, block_size: an error: a file that grows has no blocks and no index.
        options: as for `ReadLines`.

    Source: `tail -F`; rotation as logrotate does it.
    """

    def __init__(
        self,
        *,
        poll_seconds: float = 1.0,
        rotated_seconds: float = 10.0,
        fail_on_data_loss: bool = True,
        timestamp: Timestamp | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.poll_seconds = as_seconds(poll_seconds, "TailLines poll_seconds")
        self.rotated_seconds = as_seconds(rotated_seconds, "TailLines rotated_seconds")
        self.fail_on_data_loss = fail_on_data_loss
        self.timestamp = as_timestamp(timestamp, "TailLines timestamp")
        for name, default in (("with_block_id", False), ("block_size", None), ("index_dir", None)):
            if getattr(self, name) != default:
                raise InvalidValueError(f"TailLines has no {name}: a file that grows has no blocks and no index.")
        if self.compression not in ("infer", None):
            raise InvalidValueError(
                f"TailLines compression must be 'infer' or None (got {show(self.compression)}): a file that grows is "
                f"not compressed."
            )

    def get_initial_restriction(self, element: Any) -> Tail:  # type: ignore[override]
        start = element.start if isinstance(element, FileBlock) else 0
        file = self.file_of(element)
        kind = self._kind(FileRange(start, file.size, file))
        if kind and not isinstance(element, FileInfo):
            raise InvalidValueError(
                f"TailLines cannot follow a {kind} file (got {file.path!r}): it does not grow. Let WatchFiles find it, "
                f"or read it with ReadLines; where only the name says so, pass compression=None."
            )
        known = 0 if file.watch is None else file.watch.generation
        return Tail(start, UNBOUNDED, 0, self._finder(element).located(file), generation=known)

    def create_watermark_estimator(self, element: Any, restriction: Any) -> MonotonicWatermark | None:
        return watermark_of(self.timestamp)

    def split_restriction(self, element: Any, restriction: Any) -> Iterator[Any]:
        yield restriction

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return TailTracker(restriction)

    def remark(self, element: Any, restriction: Any) -> str:
        return ""

    def peek(self, element: Any, restriction: Tail) -> Any:
        """Return number, size and time of a local file that has its name; None for others, which must be looked for."""
        path = restriction.file.path.removeprefix("file://")
        waits = restriction.moved or restriction.missed or restriction.after or named_kind(path)  # then time matters
        if waits or restriction.is_empty or not os.path.isabs(path):
            return None
        try:
            there = os.stat(path)
        except OSError:
            return None
        is_same = str(there.st_ino) == restriction.file.version
        return (there.st_ino, there.st_size, there.st_mtime_ns) if is_same else None

    def backlog(self, element: Any, restriction: Tail) -> tuple[None, int | None]:
        """Return the bytes of a local file that has its name; those of other files are not known."""
        seen = self.peek(element, restriction)
        return None, None if seen is None else max(0, seen[1] - (restriction.start - restriction.base))

    def split_backlog(self, element: Any, restriction: Tail, parts: int, length: int | None) -> list[Tail]:
        """Cut the unread bytes of a local file, which has its name, at ends of lines."""
        seen = self.peek(element, restriction)
        there = 0 if seen is None else seen[1] - (restriction.start - restriction.base)
        step = length or max(_LEAST_PART_BYTES, -(-there // parts))
        if restriction.stop is not UNBOUNDED or there <= step:
            return [restriction]
        with self._finder(element).look(restriction) as state:
            if state.ended or state.lost or state.rest.file is not restriction.file:
                return [restriction]
            return self._cut(restriction, state, step, parts)

    def _cut(self, at: Tail, state: FileState, step: int, parts: int) -> list[Tail]:
        """Return parts of an open file, about ``step`` bytes each."""
        known = at.generation or state.generation
        cut, inside, head = [at], at.start - at.base, read_bytes(state.file, 0, _KNOWN_BYTES)
        for target in range(inside + step, min(inside + step * parts, state.size), step):
            data = read_bytes(state.file, target, target + _PIECE_BYTES)
            here = target + data.find(self.delimiter) + len(self.delimiter)
            if self.delimiter in data and at.base + here > cut[-1].start:
                last = read_bytes(state.file, max(0, here - _KNOWN_BYTES), here)
                cut[-1] = attrs.evolve(cut[-1], until=at.base + here)
                cut.append(attrs.evolve(at, start=at.base + here, head=head, last=last, generation=known))
        return cut

    def truncate(self, element: Any, restriction: Tail) -> Tail | None:
        """Keep the bytes that are there now, also in the files to read next, and a last line without its end."""
        if restriction.ended or restriction.stop is not UNBOUNDED:
            return restriction
        finder = self._finder(element)
        with finder.look(restriction) as state:
            end, after = max(restriction.start, restriction.base + state.size), []
        if state.lost:
            log.warning("%s %s; if there was more than was read, that is lost", restriction.file.path, state.lost)
        stop = end
        for file in state.rest.after:
            with finder.look(Tail(stop, UNBOUNDED, stop, file)) as there:
                after.append(attrs.evolve(file, size=there.size))
            stop += there.size
        return attrs.evolve(restriction, stop=stop, after=tuple(after)) if restriction.start < stop else None

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        at: Tail = tracker.current_restriction()
        if not at.is_empty:
            with self._finder(element).look(at) as state:
                yield from observed(self._process(at, state, tracker), tracker, self.timestamp)

    def _finder(self, element: Any) -> Finder:
        return Finder(
            self.storage_options,
            self.rotated_seconds,
            by_name=isinstance(element, (str, os.PathLike)),
            compressed=self.compression is not None,
        )

    def _process(self, at: Tail, state: FileState, tracker: Any) -> Iterator[Any]:
        growing = at.stop is UNBOUNDED
        inside = at.start - at.base
        end = state.size if growing else at.stop - at.base - sum(file.size for file in at.after)
        until = None if at.until is None else at.until - at.base  # another task goes on there
        ends = state.ended and (until is None or end < until)
        end = end if until is None else min(end, until)
        there = end
        if state.size < end > inside:
            there = max(inside, state.size)
            self._check_loss(at, there, end)
        rest = state.rest if growing else at
        while inside < there:
            data = self._lines(at.file.path, state.file, inside, there, to_the_end=not growing or ends)
            if not data:
                break
            head = rest.head + data[: max(0, _KNOWN_BYTES - inside)] if len(rest.head) == inside else rest.head
            last = (rest.last + data[-_KNOWN_BYTES:])[-_KNOWN_BYTES:]
            start = rest.start
            known = rest.generation or state.generation
            rest = attrs.evolve(rest, start=start + len(data), head=head, last=last, generation=known)
            if not tracker.try_claim(Piece(start, rest)):
                return
            yield from self.records(at.file.path, inside, data)
            inside += len(data)
        if there < end:  # what is lost counts as read
            start, rest = rest.start, attrs.evolve(rest, start=rest.start + end - inside)
            if not tracker.try_claim(Piece(start, rest, f"{at.file.path}: bytes {inside} to {end} have gone")):
                return
            inside = end
        if inside == until:
            tracker.defer_remainder()
            return
        here, after, has_read = rest.start, rest.after, rest.start > at.start
        if not growing and (not after or inside < end):
            return
        if growing and not state.ended:
            if has_read or rest == at or tracker.try_claim(Piece(here, rest)):
                tracker.defer_remainder(self.poll_seconds)
            return
        lost = f"{at.file.path} {state.lost} after byte {inside}; if there was more, that is lost" if state.lost else ""
        if not after:
            if tracker.try_claim(Piece(here, attrs.evolve(rest, ended=True), lost)):
                tracker.defer_remainder()  # so that this part has a stop, and a replay reads the same
        elif has_read:
            tracker.defer_remainder()  # a part never lies in two files
            return
        else:
            following = attrs.evolve(
                Tail(here, at.stop, here, after[0], after=after[1:]),
                before=at.file.version,
                before_generation=at.generation,
                before_head=at.head,
            )
            if tracker.try_claim(Piece(here, following, lost)):
                tracker.defer_remainder()
        if growing and lost:
            log.warning("%s", lost)

    def _check_loss(self, at: Tail, there: int, end: int) -> None:
        """Raise if it is an error that a file which was read up to ``end`` has only ``there`` bytes now; else warn."""
        flaw = f"{at.file.path}: bytes up to {end} were planned to be read, but only {there} of that file are there"
        if self.fail_on_data_loss:
            raise SourceChangedError(
                f"{flaw}. Keep rotated files for as long as a stream may have to read them again; restore the file, or "
                f"pass fail_on_data_loss=False to go on with what is there."
            )
        log.warning("%s; this stream goes on with them", flaw)

    def _lines(self, path: str, opened: Any, start: int, end: int, *, to_the_end: bool) -> bytes:
        """Return some whole lines, b"" if there is none; with ``to_the_end``, also the last bytes, as a line."""
        size = _PIECE_BYTES
        while True:
            data = read_bytes(opened, start, min(end, start + size))
            if to_the_end and start + len(data) == end:
                return data
            if self.delimiter in data:
                return data[: data.rfind(self.delimiter) + len(self.delimiter)]
            if len(data) > self.max_record_bytes:
                raise ReadError(
                    f"{path} at byte {start}: a line has more than {self.max_record_bytes} bytes so far. If the "
                    f"delimiter is right, allow more with max_record_bytes."
                )
            if start + size >= end:
                return b""
            size *= 2  # a long line: read no more of the file than it needs

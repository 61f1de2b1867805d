"""ReadAvro: the records of Avro files, block by block; fastavro decodes them.

An Avro file is a header (schema, codec, a sync marker of 16 random bytes), then blocks. A block is a record count, a
byte count, so many bytes, and the marker. Only a walk from the header, block by block, shows for certain where blocks
begin. A part that begins in the middle looks for the marker instead. It trusts a marker if blocks with no marker inside
follow, each right after the other, for 1 MiB or to the end of the file. If not, a record may hold the marker (such as
in a copy of this file), or a block may be damaged. Then the part walks from the header; that is rare. A record may hold
copied blocks that go on for more than 1 MiB, or end exactly where the block around them ends. A part that begins in
such a block would trust them. Whoever reads the block knows where it ends, and raises if a part begins in it.
"""

from __future__ import annotations

import io
import zlib
from bisect import bisect_right, insort
from collections.abc import Iterable, Iterator
from itertools import chain, islice, repeat
from typing import Any, BinaryIO

from sdf import TaggedOutput
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError, show
from sdf.extras import need
from sdf.io.files.file_fn import FileRange, OpenedFn
from sdf.io.files.pinned import FileInfo
from sdf.io.files.search import occurrences
from sdf.io.text.text_fn import BadRecord

__all__ = ["ReadAvro"]

_MARKER_BYTES = 16
_MOST_BAD_BYTES = 1 << 20
_AT_ONCE = 64  # records
_BELIEVED_BYTES = 1 << 20  # blocks that follow each other for so many bytes are trusted
_WALKED: dict[FileInfo, list[int]] = {}  # by this process, where blocks begin: parts of a file walk one after another
_WALKED_FILES = 8
_NO_BLOCK = "what is there does not end in the sync marker of the file"


class ReadAvro(OpenedFn):
    """Reads Avro records. Element: a path, `FileInfo` or `FileBlock`. Position: the first byte of an Avro block.

    A record is the value that fastavro returns, a dict in most files. A part owns the Avro blocks that start in it.
    Memory holds one block, and with ``on_error="tag"`` its records. An empty file has no records.

    Args:
        reader_schema: resolve the records to this schema, by Avro's rules; None: read them as they were written.
        walk: find the first Avro block of each part by going from block to block from the start of the file. Needed
            only for files with records that hold blocks of the same file: without it, those may raise an error.
        with_position: yield ``((path, offset of the Avro block), record)`` instead of ``record``.
        on_error: ``"raise"``, or ``"tag"`` to yield an Avro block that cannot be read as a `BadRecord` with the tag
            ``bad``, and none of its records. If the end of the block is lost, ``data`` is the bytes up to the next
            block, at most 1 MiB.
        options: as for `FileFn`: ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        MissingExtraError: if fastavro is not installed.
        ReadError: when it runs, if a file is not Avro, if its codec needs a library that is not installed, or if a
            block cannot be read.

    Source: the Avro specification, "Object Container Files".
    """

    def __init__(
        self,
        *,
        reader_schema: Any = None,
        walk: bool = False,
        with_position: bool = False,
        on_error: str = "raise",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if on_error not in ("raise", "tag"):
            raise InvalidValueError(f"ReadAvro on_error must be 'raise' or 'tag' (got {show(on_error)}).")
        if not isinstance(walk, bool):
            raise InvalidTypeError(f"ReadAvro walk must be True or False (got {show(walk)}).")
        self.reader_schema = _as_schema(reader_schema)
        self.walk = walk
        self.with_position = with_position
        self.on_error = on_error

    def _read(self, file: io.BufferedReader, part: FileRange, tracker: Any) -> Iterator[Iterable[Any]]:
        avro = _AvroFile(file, part.file, self.reader_schema, self.walk)
        at = avro.first(part.start, part.stop)
        begin, block = at, None
        while tracker.try_claim(at):
            begin, block = at, avro.read(at)
            yield from self._records(part.file.path, avro, at, block)
            at = avro.after(at, block)
        if not self.walk and block is not None:
            avro.check_parts_in(begin, block, tracker.current_restriction().stop)

    def _records(self, path: str, avro: _AvroFile, at: int, block: bytes | None) -> Iterator[Iterable[Any]]:
        """Yield the records of a block in small lists; with ``on_error="tag"`` all of them, or the block as bad."""
        lists: Iterable[list[Any]] = avro.decode(block)
        try:
            if self.on_error == "tag":
                lists = [list(chain.from_iterable(lists))]
            for records in lists:
                yield zip(repeat((path, at)), records) if self.with_position else records
        except Exception as error:  # fastavro raises any exception type for damaged bytes
            avro.check_codec()
            flaw = f"{type(error).__name__}: {error}"
            if self.on_error == "raise":
                raise ReadError(
                    f"{path}: the Avro block at byte {at} cannot be read: {flaw}. To go on without such blocks pass "
                    f"on_error='tag', and tags=('bad',) to the runner."
                ) from error
            data = avro.slice(at, min(avro.after(at, block), at + _MOST_BAD_BYTES)) if block is None else block
            yield (TaggedOutput("bad", BadRecord(path, at, data, flaw)),)


class _AvroFile:
    """An open Avro file; its header has been read.

    Args:
        file: the open file, at its start.
        info: its path and size.
        reader_schema: as for `ReadAvro`.
        walk: as for `ReadAvro`.

    Raises:
        ReadError: if the file is not Avro.
    """

    def __init__(self, file: io.BufferedReader, info: FileInfo, reader_schema: Any, walk: bool) -> None:
        self._fastavro = need("fastavro", "ReadAvro")
        self._file = file
        self._source = _Source(file)
        self._reader_schema = reader_schema
        self._walk = walk
        self.info = info
        if not self._fastavro.is_avro(file):
            raise ReadError(f"{info.path} is not an Avro file: it does not begin with b'Obj\\x01'.")
        self._read_header()
        self._first = file.tell()
        self._marker = self.slice(self._first - _MARKER_BYTES, self._first)

    def _read_header(self) -> None:
        self._file.seek(0)
        self._source.file = self._file
        try:
            self._blocks = self._fastavro.block_reader(self._source, self._reader_schema)
        except Exception as error:
            raise ReadError(
                f"{self.info.path}: its Avro header cannot be read: {type(error).__name__}: {error}."
            ) from error
        self._source.file = io.BytesIO()  # the blocks are supplied one by one, by decode()

    def slice(self, start: int, stop: int) -> bytes:
        """Return the bytes ``[start, stop)``."""
        self._file.seek(start)
        return self._file.read(stop - start)

    def read(self, at: int) -> bytes | None:
        """Return the block at an offset, with its marker; None if no block is there."""
        self._file.seek(at)
        try:
            count, size = (self._fastavro.schemaless_reader(self._file, "long", None) for _ in range(2))
        except (EOFError, IndexError):
            return None
        end = self._file.tell() + size + _MARKER_BYTES
        if count < 0 or size < 0 or end > self.info.size:
            return None
        block = self.slice(at, end)
        return block if block.endswith(self._marker) else None

    def after(self, at: int, block: bytes | None) -> int:
        """Return the offset of the block after the one at ``at``; after the last, the size of the file.

        If no block is at ``at``, the next one begins after the first marker that a block follows.
        """
        if block is not None:
            return at + len(block)
        size = self.info.size
        following = self._find(at + 1, size)
        while following < size and self.read(following) is None:
            following = self._find(following + 1, size)
        return following

    def first(self, start: int, stop: int) -> int:
        """Return the offset of the first block that begins in ``[start, stop)``; ``stop`` or more if none does."""
        at = self._find(start, stop)
        if self._first < at < stop and (self._walk or not self._goes_on(at)):
            at = self._walk_to(start)
        return at

    def _walk_to(self, start: int) -> int:
        """Return the first block at or after an offset, by a walk from the header, or where such a walk came before."""
        if self.info not in _WALKED:
            while len(_WALKED) >= _WALKED_FILES:
                del _WALKED[next(iter(_WALKED))]
            _WALKED[self.info] = [self._first]
        known = _WALKED[self.info]
        at = known[bisect_right(known, max(start, self._first)) - 1]
        while at < start:
            at = self.after(at, self.read(at))
            if at >= known[-1] + _BELIEVED_BYTES:
                insort(known, at)
        return at

    def check_parts_in(self, at: int, block: bytes, stop: int) -> None:
        """Raise ReadError if a part that begins in a block, at ``stop`` or later, would take its content for blocks."""
        inside = block.find(self._marker, max(0, stop - at - _MARKER_BYTES))
        while 0 <= inside < len(block) - _MARKER_BYTES:
            copy = at + inside + _MARKER_BYTES
            if self._goes_on(copy):
                raise ReadError(
                    f"{self.info.path}: the Avro block at byte {at} holds a copy of blocks of this very file, at byte "
                    f"{copy}, which a part that begins there would take for blocks of the file. Pass walk=True: each "
                    f"part then goes from block to block from the start of the file."
                )
            inside = block.find(self._marker, inside + 1)

    def _goes_on(self, at: int) -> bool:
        """Return whether blocks follow each other from an offset on, each with no marker except the one at its end."""
        end = min(at + _BELIEVED_BYTES, self.info.size)
        while at < end:
            block = self.read(at)
            if block is None or block.index(self._marker) < len(block) - _MARKER_BYTES:
                return False
            at += len(block)
        return True

    def _find(self, start: int, stop: int) -> int:
        """Return the first offset in ``[start, stop)`` right after a marker; ``stop`` if there is none."""
        begin = max(start, self._first) - _MARKER_BYTES
        found = occurrences(self._file, self._marker, begin, stop - _MARKER_BYTES)
        return next(found, stop - _MARKER_BYTES) + _MARKER_BYTES

    def decode(self, block: bytes | None) -> Iterator[list[Any]]:
        """Yield the records of a block in lists short enough to stay in the CPU cache; raise any exception type.

        One fastavro reader decodes all blocks in its own loop; this is the fastest way. It does not look whether a
        block's count and checksum agree with its bytes.
        """
        if block is None:
            raise ValueError(_NO_BLOCK)
        self._source.following = io.BytesIO(block)
        try:
            opened: Any = next(self._blocks)
            if opened.codec == "snappy":
                _check_snappy(block[:-_MARKER_BYTES], opened.bytes_.getvalue())
            records = iter(opened)
            while some := list(islice(records, _AT_ONCE)):
                yield some
            if opened.bytes_.read(1):
                raise ValueError(f"it holds more than the {opened.num_records} records that it counts")
        except Exception:
            self._read_header()  # makes a new reader: an iterator that has raised is exhausted
            raise

    def check_codec(self) -> None:
        """Raise ReadError if fastavro lacks the codec on this host: then the block is not damaged."""
        codec = self._blocks.codec
        if codec not in self._fastavro.read.BLOCK_READERS:
            raise ReadError(f"{self.info.path}: its header names the codec {codec!r}, which fastavro does not know.")
        try:
            self._fastavro.writer(io.BytesIO(), "null", [None], codec=codec)
        except Exception as error:
            raise ReadError(
                f"{self.info.path}: fastavro cannot read the codec {codec!r} here: {error}. Install what it needs on "
                f"every executor."
            ) from error


def _check_snappy(packed: bytes, text: bytes) -> None:
    """Raise ValueError unless the last four bytes of a block are the CRC-32 of its text."""
    found, expected = zlib.crc32(text), int.from_bytes(packed[-4:], "big")
    if found != expected:
        raise ValueError(f"its CRC-32 is {found:#010x}, but should be {expected:#010x}")


class _Source:
    """The stream that fastavro reads: the file's header, then one block after the other."""

    def __init__(self, file: BinaryIO) -> None:
        self.file = file
        self.following: BinaryIO = file  # read next, when `file` is at its end

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        if not data and size:
            self.file = self.following
            data = self.file.read(size)
        return data

    def tell(self) -> int:
        return self.file.tell()


def _as_schema(schema: Any) -> Any:
    """Return the schema unchanged; raise unless it is None or fastavro can parse it."""
    fastavro = need("fastavro", "ReadAvro")
    if schema is not None:
        try:
            fastavro.parse_schema(schema)
        except Exception as error:
            raise InvalidValueError(
                f"ReadAvro reader_schema must be an Avro schema (got {show(schema)}): {type(error).__name__}: {error}."
            ) from error
    return schema

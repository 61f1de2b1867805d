"""zstd: finds the frames of a file and decompresses them, block by block.

Reading can start where a frame begins. A frame begins with a magic number and has blocks of at most 128 KiB of text;
each says how long it is, so one leads to the next, and the last one to the next frame. Skippable frames are passed
over: they hold other data, such as the seek table of the seekable format, or the sizes that pzstd writes.

The magic number may also lie inside of a block, for one in a file that was compressed twice. So a reader that starts
inside of a file looks from where it is back by `_BACK_BYTES`, and follows every chain that could pass there: from each
byte that may be the header of a block, from each that may begin a frame. The true chain is among them. The others break
soon, since few bytes look like a header. If only one is left, it is the true one. If others are, the reader looks back
farther, at last to the start of the file, from where only one chain leads.

A chain cannot be met inside of a skippable frame that is longer than what is searched for chains. So such a frame is an
error, unless it is the seek table at the end of the file. The reader of the frame before it raises that.

Source: RFC 8878; the Zstandard Seekable Format.
"""

from __future__ import annotations

import heapq
import io
import re
from typing import Any

from sdf.errors import ReadError
from sdf.extras import need
from sdf.io.compressed.blocks import NOT_PACKED, CompressedBlocks
from sdf.io.files.search import occurrences

__all__ = ["ZSTD_WINDOW_BYTES", "ZstdFrames"]

ZSTD_WINDOW_BYTES = 1 << 31  # the largest that zstd --long can ask for; a file's own window is held while it is read

_MAGIC = b"\x28\xb5\x2f\xfd"
_SKIPPABLE = re.compile(rb"[\x50-\x5f]\x2a\x4d\x18")
_ANY_MAGIC = re.compile(_SKIPPABLE.pattern + b"|" + re.escape(_MAGIC))
_SEEK_TABLE_END = b"\xb1\xea\x92\x8f"
_HEAD_BYTES = 18  # of the longest header of a frame
_BLOCK_BYTES = 1 << 17  # the most in a block, in the file and in the text
_BLOCK_HEAD = re.compile(rb"(?=(..[\x00-\x10]))", re.DOTALL)  # of longer blocks the third byte is higher
_CHECKSUM_BYTES = 4
_SKIPPED_BYTES = 1 << 20  # the most in a skippable frame in the middle of a file
_BACK_BYTES = 1 << 20
_ANY_CHECKSUM = (0, _CHECKSUM_BYTES)  # only the header of a frame says whether there is one

# Where a chain goes on, and what it expects there: a block of a frame whose checksum may have so many bytes, or a frame
_Link = tuple[int, tuple[int, ...]]
_FRAME: tuple[int, ...] = ()


class ZstdFrames(CompressedBlocks):
    """The blocks of a zstd file. Position: the first byte of a frame, or of a later block in it, which is no start."""

    shift = 17
    besides = f", or {NOT_PACKED['zstd']}"

    def __init__(self, file: io.BufferedReader, size: int, path: str) -> None:
        super().__init__(file, size, path)
        zstandard = need("zstandard", "a reader")
        self._error: type[Exception] = zstandard.ZstdError
        self._decompressor = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        self._frame: Any = None  # decompresses the frame that the next block belongs to
        self._checksum = 0  # bytes of it after that frame
        self._position = 0

    def at_or_after(self, start: int, stop: int) -> int:
        first = self._frame_after(0)
        if start <= first:
            self._position = first
        else:
            self._position = self._find(start, stop)
        self.is_first = self._position == first
        return self._position

    def is_one_frame(self, most_bytes: int) -> bool | None:
        """Return whether the file has no frame after its first; None if that has more than so many bytes."""
        at = self._frame_after(0)
        stop = at + most_bytes
        if at < self.size:
            size, checksum = self._frame_head(at)
            at += size
            last = 0
            while not last:
                if at > stop:
                    return None
                at, last = self._block(at, checksum)
            at = self._frame_after(at)
        return at == self.size

    def read(self) -> tuple[bytes, int]:
        at = self._position
        begin = at
        if self.is_start:
            self._frame = self._decompressor.decompressobj()
            size, self._checksum = self._frame_head(at)
            at += size
        end, last = self._block(at, self._checksum)
        try:
            text = self._frame.decompress(self._read(begin, end - begin))
        except self._error as error:
            self._damaged(begin, str(error), error)
        self.is_start = bool(last)
        self._position = self._frame_after(end) if last else end
        return text, self._position

    def _frame_head(self, at: int) -> tuple[int, int]:
        """Return the size of the header of the frame at a byte, and of the frame's checksum."""
        found = _frame_head(self._read(at, _HEAD_BYTES))
        return self._damaged(at, "this header of a frame is none that is known") if found is None else found

    def _block(self, at: int, checksum: int) -> tuple[int, int]:
        """Return where the block at a byte ends, and whether it is the last of its frame, with the checksum then."""
        found = _block(at, self._read(at, 3))
        if found is None:
            self._damaged(at, "no block begins here")
        end, last = found
        if last:
            end += checksum
        if end > self.size:
            self._damaged(at, "this block is not all there")
        return end, last

    def _frame_after(self, at: int) -> int:
        """Return the first byte of the first frame with text, at a byte where a frame begins or the file ends."""
        while at < self.size:
            head = self._read(at, 8)
            if head.startswith(_MAGIC):
                return at
            if not _SKIPPABLE.match(head):
                self._damaged(at, "no zstd frame begins here")
            end = at + 8 + int.from_bytes(head[4:], "little")
            if len(head) < 8 or end > self.size:
                self._damaged(at, "this skippable frame is not all there")
            if end - at - 8 > _SKIPPED_BYTES and not self._is_seek_table(end):
                raise ReadError(
                    f"{self._path} at byte {at}: a skippable frame of {end - at} bytes. Where the frames after one of "
                    f"more than {_SKIPPED_BYTES} bytes begin is not known to who reads a part of the file. Write the "
                    f"file again without it: zstd -dc FILE | pzstd > NEW.zst."
                )
            at = end
        return at

    def _is_seek_table(self, end: int) -> bool:
        return end == self.size and self._read(end - 4, 4) == _SEEK_TABLE_END

    def _find(self, start: int, stop: int) -> int:
        """Return where the first frame in ``[start, stop)`` begins; ``stop`` if none does. See the module's text."""
        start = next(occurrences(self._file, _MAGIC, start, stop), stop)
        back = _BACK_BYTES
        while start < stop:
            begin = start - back - _SKIPPED_BYTES - 8
            chains = self._chains(begin, start - back) if begin > 0 else [(0, _FRAME)]
            found = self._first_frame(chains, start, stop)
            if found is not None:
                return found
            if begin <= 0:
                self._damaged(start, "no unbroken chain of frames leads here")
            back *= 4
        return stop

    def _chains(self, begin: int, at: int) -> list[_Link]:
        """Return where the chains go on that come from ``[begin, at)`` to ``at`` or beyond."""
        data = self._read(begin, at - begin + _HEAD_BYTES)
        blocks = at - begin - _BLOCK_BYTES - 3 - _CHECKSUM_BYTES  # an earlier one ends before `at`
        found = [(magic.start(), _FRAME) for magic in _ANY_MAGIC.finditer(data, 0, at - begin + 3)]
        found += [(head.start(), _ANY_CHECKSUM) for head in _BLOCK_HEAD.finditer(data, blocks, at - begin + 2)]
        links = (self._links(begin + i, expected, data[i : i + _HEAD_BYTES]) for i, expected in found)
        return [link for each in links for link in each if link[0] >= at]

    def _first_frame(self, chains: list[_Link], start: int, stop: int) -> int | None:
        """Follow chains up to a frame in ``[start, stop)``; return where it begins, ``stop`` if no chain has one.

        None if it is not known: there are other chains, or all are broken.
        """
        heapq.heapify(chains)
        while chains:
            link = heapq.heappop(chains)
            position, expected = link
            if position >= stop:
                return stop
            if chains and chains[0] == link:
                continue  # where chains meet, they go on as one
            head = self._read(position, _HEAD_BYTES)
            if position >= start and expected == _FRAME and head.startswith(_MAGIC):
                return None if any(map(self._goes_on, chains)) else position
            for after in self._links(position, expected, head):
                heapq.heappush(chains, after)
        return None

    def _goes_on(self, link: _Link) -> bool:
        position, expected = link
        return position == self.size or bool(self._links(position, expected, self._read(position, _HEAD_BYTES)))

    def _links(self, at: int, expected: tuple[int, ...], head: bytes) -> list[_Link]:
        """Return where a chain may go on from a byte, where ``head`` is; nothing if it breaks."""
        links: list[_Link] = []
        if expected != _FRAME:
            block = _block(at, head[:3])
            if block is not None:
                end, last = block
                links = [(end + checksum, _FRAME) for checksum in expected] if last else [(end, expected)]
        elif _SKIPPABLE.match(head):
            links = [(at + 8 + int.from_bytes(head[4:8], "little"), _FRAME)]
        else:
            frame = _frame_head(head)
            if frame is not None:
                links = [(at + frame[0], (frame[1],))]
        return [link for link in links if link[0] <= self.size]


def _frame_head(data: bytes) -> tuple[int, int] | None:
    """Return the size of a frame's header, and of the frame's checksum; None if the data begin with no header."""
    if not data.startswith(_MAGIC) or len(data) < 5 or data[4] & 8:
        return None
    flags = data[4]
    single = flags >> 5 & 1  # the frame has one segment: no byte for the window, but one for the size of the text
    size = 5 + 1 - single + (0, 1, 2, 4)[flags & 3] + (single, 2, 4, 8)[flags >> 6]
    return size, _CHECKSUM_BYTES if flags & 4 else 0


def _block(at: int, head: bytes) -> tuple[int, int] | None:
    """Return where a block ends, and whether it is the last of its frame; None if the three bytes are no header."""
    bits = int.from_bytes(head, "little")
    size, kind = bits >> 3, bits >> 1 & 3
    if len(head) < 3 or kind == 3 or size > _BLOCK_BYTES:
        return None
    return at + 3 + (1 if kind == 1 else size), bits & 1

"""The compression of a file: what positions in its restriction mean, and how its text is opened.

codec           positions                               parts
``""``          bytes of the file                       anywhere
``bzip2``       the byte in which a block begins        at the blocks
``bgzf``        the first byte of a block               at the blocks
``zstd frames`` the first byte of a frame               at the frames
``gzip index``  bytes of the text, found by an index    anywhere
``gzip``        0 of ``[0, 1)``                         one
``zstd``        0 of ``[0, 1)``                         one

The offset that ``with_position`` and `BadRecord` give is the record's offset in the text, except for ``bzip2``,
``bgzf`` and ``zstd frames``: a part does not know how much text the blocks before it hold. There the offset is made of
the position of the record's block and the place of the record in the block's text: ``(block << 26) + place`` for bzip2,
``(block << 16) + place`` for BGZF, ``(block << 17) + place`` for the blocks in zstd frames. Such offsets increase, but
count bytes neither of the file nor of the text. The first record of a file has offset 0.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, ReadError, how_to_install, show
from sdf.extras import need
from sdf.io.compressed.bgzf import BgzfBlocks, block_size, has_end_marker
from sdf.io.compressed.blocks import CompressedBlocks
from sdf.io.compressed.bzip2 import Bzip2Blocks
from sdf.io.compressed.gzip_index import SeekIndices, has_short_text, indexed_text
from sdf.io.compressed.unpacked import unpack
from sdf.io.compressed.zstd import ZstdFrames
from sdf.io.files.file_fn import FileFn, FileRange
from sdf.io.files.file_systems import is_chain

__all__ = ["BLOCKS", "GZIP_INDEX", "CompressedFn", "named_kind"]

GZIP_INDEX = "gzip index"
ZSTD_FRAMES = "zstd frames"
BLOCKS: dict[str, type[CompressedBlocks]] = {
    "bzip2": Bzip2Blocks,
    "bgzf": BgzfBlocks,
    ZSTD_FRAMES: ZstdFrames,
}
_ONE_PIECE = ("gzip", "zstd")
_COMPRESSIONS = ("infer", "bzip2", "bgzf", "gzip", "zstd", None)
_UNPACKED_AS = {"bzip2": "bzip2", "zstd": "zstd", ZSTD_FRAMES: "zstd"}
_SUFFIXES = {".bz2": "bzip2", ".gz": "gzip", ".bgz": "gzip", ".zst": "zstd"}
_BGZF_HEAD_BYTES = 18
_LOOK_BYTES = 256 << 20  # how far one looks for the end of the first frame, to know whether there are others


def named_kind(path: str) -> str:
    """Return the kind of compression that the end of a name stands for; "" if it stands for none.

    In a chain of URLs, such as ``tar://a.csv.gz::s3://logs/a.tar``, it is the name of the first file, the innermost.
    """
    links = path.split("::")[:-1] if is_chain(path) else []  # one without a path, such as simplecache, is no file
    inner = next((link for link in links if link.partition("://")[2]), path)
    return _SUFFIXES.get(os.path.splitext(inner)[1].lower(), "")


class CompressedFn(FileFn):
    """Readers of files that may be compressed. A subclass defines `process`, which reads by the codec of a restriction.

    Args:
        compression: ``"bzip2"``, ``"bgzf"``, ``"gzip"``, ``"zstd"``, None for files that are read as they are, or
            ``"infer"``: by the end of the name, ``.bz2``, ``.gz``, ``.bgz`` or ``.zst``. A gzip file whose first block
            is BGZF (gzip in blocks) is then read as BGZF.
        index_dir: where the seek indices of gzip files are kept, for this run and later ones: a path, or a URL, which
            is opened with ``storage_options``. None: a directory of this user's in the temporary directory of each
            host. On a cluster each host then makes its own index when it first reads a part of the file. Nothing is
            ever deleted there.
        block_size: split each file at the start of the run into parts of so many bytes, of the text for a gzip file, of
            the file for others; None leaves all splits to the runner, which makes them by what it measures.
        options: as for `FileFn`: ``storage_options``.

    Attributes:
        cell_bytes: the most text that `process` claims at once.
    """

    cell_bytes = 0

    def __init__(self, *, compression: str | None = "infer", index_dir: str | None = None, **options: Any) -> None:
        super().__init__(**options)
        who = type(self).__name__
        if compression not in _COMPRESSIONS:
            raise InvalidValueError(f"{who} compression must be one of {_COMPRESSIONS} (got {show(compression)}).")
        if index_dir is not None and not isinstance(index_dir, (str, os.PathLike)):
            raise InvalidTypeError(f"{who} index_dir must be a path or a URL, or None (got {show(index_dir)}).")
        self.compression = compression
        self.index_dir = None if index_dir is None else os.fspath(index_dir)

    def get_initial_restriction(self, element: Any) -> FileRange:
        plain = super().get_initial_restriction(element)
        kind = self._kind(plain)
        if not kind or plain.start == plain.stop:
            return plain
        with self.open(attrs.evolve(plain, codec=kind)) as file:
            if self.compression == "infer" and kind == "gzip" and block_size(file.read(_BGZF_HEAD_BYTES)) is not None:
                kind = "bgzf"
            if kind == "bgzf" and plain.stop == plain.file.size and not has_end_marker(file, plain.stop):
                return attrs.evolve(plain, codec=kind, note="bgzf: no end marker, the file may be cut off")
            if kind in BLOCKS:
                return attrs.evolve(plain, codec=kind)
            if kind == "zstd":
                return self._of_zstd(plain, file)
            if (plain.start, plain.stop) != (0, plain.file.size):
                raise InvalidValueError(
                    f"{type(self).__name__} cannot read a block of a {kind} file (got {show(element)}): nothing begins "
                    f"at a given byte there. Leave out FileBlocks; bzip2, BGZF and zstd files have blocks of their own."
                )
            return self._of_gzip(plain, file)

    def _kind(self, plain: FileRange) -> str:
        if self.compression != "infer":
            return self.compression or ""
        return named_kind(plain.file.path)

    def _of_gzip(self, plain: FileRange, file: io.BufferedReader) -> FileRange:
        if self.block_size is None and has_short_text(plain.file, file, self.cell_bytes):
            return attrs.evolve(plain, start=0, stop=1, codec="gzip")  # an index could not split it either
        try:
            index, note = self._indices().get(plain.file, file)
        except MissingExtraError:
            return self._whole(plain, "gzip", f"; to split it: {how_to_install('rapidgzip')}")
        if index is None:
            return attrs.evolve(self._whole(plain, "gzip"), note=note)
        text, size = indexed_text(file, index, plain.file.path, type(self).__name__)
        with text:
            return attrs.evolve(plain, stop=size, codec=GZIP_INDEX, note=note)

    def _of_zstd(self, plain: FileRange, file: io.BufferedReader) -> FileRange:
        many = attrs.evolve(plain, codec=ZSTD_FRAMES)
        if (plain.start, plain.stop) != (0, plain.file.size):
            return many  # a block of the file; most hold no first frame
        need("zstandard", type(self).__name__)
        is_one = ZstdFrames(file, plain.file.size, plain.file.path).is_one_frame(_LOOK_BYTES)
        if is_one is None:
            return attrs.evolve(many, note=f"zstd: its first frame has more than {_LOOK_BYTES >> 20} MiB")
        return self._whole(plain, "zstd", ", for it is one frame; pzstd writes many") if is_one else many

    def _whole(self, plain: FileRange, kind: str, remark: str = "") -> FileRange:
        return attrs.evolve(plain, start=0, stop=1, codec=kind, note=f"{kind}: read in one piece{remark}")

    def _indices(self) -> SeekIndices:
        return SeekIndices(self.index_dir, self.storage_options, type(self).__name__)

    def in_one_piece(self, element: Any) -> FileRange:
        """Return an indivisible restriction for a whole file; `open_text` reads it, whatever its compression."""
        plain = super().get_initial_restriction(element)
        kind = self._kind(plain) if plain.file.size else ""  # an empty file has no compression header
        return attrs.evolve(plain, start=0, stop=1, codec=kind)

    def restriction_size(self, element: Any, restriction: FileRange) -> float | None:
        if type(restriction) is not FileRange:  # of a file that is followed
            return super().restriction_size(element, restriction)
        size = restriction.stop - restriction.start
        return size * restriction.file.size if restriction.codec in _ONE_PIECE else size

    @contextmanager
    def open_text(self, restriction: FileRange) -> Iterator[io.BufferedReader]:
        """Open the text of the whole file at its start, for a ``with`` statement, whatever part the restriction is."""
        with self.open(restriction) as file:
            if restriction.codec == "":
                yield file
            else:
                with self.unpack(restriction, file) as text:
                    yield text

    def unpack(self, restriction: FileRange, file: io.BufferedReader) -> io.BufferedReader:
        """Return the text of a compressed file that is open at its start."""
        return unpack(file, _UNPACKED_AS.get(restriction.codec, "gzip"), restriction.file.path, type(self).__name__)

    def indexed_text(self, restriction: FileRange, file: io.BufferedReader) -> tuple[io.BufferedReader, int]:
        """Return the text of a gzip file as a seekable file, and its size; make the index again if it is missing."""
        index, note = self._indices().get(restriction.file, file)
        if index is None:
            raise ReadError(
                f"{restriction.file.path}: the seek index was deleted and cannot be built again. {note}. Protect "
                f"index_dir from cleanup."
            )
        return indexed_text(file, index, restriction.file.path, type(self).__name__)

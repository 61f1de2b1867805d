"""ReadTar: the files in tar archives; Python's tarfile reads the headers.

Only a walk from the start of an archive, from header to header, shows for certain where members begin: a member may be
an archive itself. So every part walks up to where it begins. It reads the headers only, and passes over the contents.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Iterable, Iterator
from typing import Any

from sdf.errors import ReadError
from sdf.io.files.file_fn import FileRange, OpenedFn
from sdf.io.files.pinned import FileInfo
from sdf.io.options import as_size

__all__ = ["ReadTar"]

_CHUNK_BYTES = 1 << 20
_CONTINUED = b"M"
_NO_FILES = (b"D", b"V")  # GNU's directories and labels of volumes; other unknown types are files, as for GNU tar


class ReadTar(OpenedFn):
    """Reads tar archives. Element: a path, `FileInfo` or `FileBlock`. Gives ``(name, content)``, a string and bytes.

    Position: the first byte of a member's header. A part owns the members that start in it; to find the first, it reads
    the headers of all before it, at some 15 µs each. Memory holds one member. Members that are no files, such as
    directories and symbolic links, are passed over. A hard link is given as the file that it stands for: then memory
    also holds the names of all members before. An empty file has no members. The archive must not be compressed.

    A name that occurs twice is given twice. Names are UTF-8; other bytes in them become lone surrogates.

    Args:
        with_position: yield ``((path, offset of the header), (name, content))`` instead of ``(name, content)``.
        max_member_bytes: a longer member is an error: memory holds a whole member.
        options: as for `FileFn`: ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        ReadError: when it runs, if a file is not a tar archive, is damaged, is cut off, is one of several volumes, or
            holds another archive behind its end.
    """

    def __init__(
        self,
        *,
        with_position: bool = False,
        max_member_bytes: int = 1 << 28,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.with_position = with_position
        self.max_member_bytes = as_size(max_member_bytes, "ReadTar max_member_bytes")

    def _read(self, file: io.BufferedReader, part: FileRange, tracker: Any) -> Iterator[Iterable[Any]]:
        archive = _Archive(file, part.file)
        members = (one for one in archive.members() if one.offset >= part.start and _is_file(one))
        for member in tracker.claims(members, position=lambda member: member.offset):
            output = member.name, archive.content(member, self.max_member_bytes)
            yield (((part.file.path, member.offset), output) if self.with_position else output,)


class _Archive:
    """An open tar archive.

    Args:
        file: the open file, at its start.
        info: its path and size.
    """

    def __init__(self, file: io.BufferedReader, info: FileInfo) -> None:
        self._file = file
        self._info = info
        self._tar: Any = None
        self._known: dict[str, tarfile.TarInfo] | None = None  # files by name, from the first hard link on

    def members(self) -> Iterator[tarfile.TarInfo]:
        """Yield all members in order.

        Raises:
            ReadError: if what follows them is no end of an archive; tarfile would take a damaged header for one.
        """
        at = 0
        try:
            self._tar = tarfile.TarFile(fileobj=self._file, encoding="utf-8")
            while member := self._tar.next():
                at = member.offset
                if member.type == _CONTINUED:
                    raise self._broken(at, "it goes on from another volume; join the volumes first")
                self._tar.members.clear()  # it would keep them all
                if self._known is not None and _is_file(member):
                    self._known[member.name] = self._target(member)
                yield member
        except tarfile.TarError as error:
            raise self._broken(at, str(error)) from error
        self._check_end(self._tar.offset)

    def content(self, member: tarfile.TarInfo, most: int) -> bytes:
        """Return the content of a member that is a file, or a hard link to one."""
        member = self._target(member)
        if member.size > most:
            raise self._broken(
                member.offset,
                f"it has {member.size} bytes, more than max_member_bytes={most}; pass more if it is that long",
            )
        try:
            with self._tar.extractfile(member) as opened:
                content: bytes = opened.read()
        except tarfile.TarError as error:
            raise self._broken(member.offset, str(error)) from error
        return content

    def _target(self, member: tarfile.TarInfo) -> tarfile.TarInfo:
        """Return the file that a member stands for: another one if it is a hard link, else itself."""
        if not member.islnk():
            return member
        if self._known is None:
            before, self._known = _Archive(self._file, self._info), {}
            before._known = self._known
            self._file.seek(0)
            for each in before.members():
                if each.offset >= member.offset:
                    break
        target = self._known.get(member.linkname)
        if target is None:
            raise self._broken(member.offset, f"it is a link to {member.linkname!r}, and no such file comes before it")
        return target

    def _check_end(self, at: int) -> None:
        """Raise ReadError unless an archive ends at a position: there is a block of zeros, and nothing else follows."""
        self._file.seek(at)
        data = self._file.read(tarfile.BLOCKSIZE)
        if len(data) < tarfile.BLOCKSIZE:
            raise self._broken(at, "there should be a member, or the block of zeros that ends an archive")
        if any(data):
            raise self._broken(at, "neither a header begins here nor the block of zeros that ends an archive")
        while data := self._file.read(_CHUNK_BYTES):
            if any(data):
                raise self._broken(at, "the archive ends here, but something follows; write appended archives apart")

    def _broken(self, at: int, flaw: str) -> ReadError:
        self._file.seek(0)
        is_packed = self._file.read(2) in (b"\x1f\x8b", b"BZ", b"\x28\xb5", b"\xfd7")
        advice = "seems to be compressed: unpack it first" if is_packed else "is damaged or cut off, or no tar archive"
        return ReadError(f"{self._info.path}: the member at byte {at} cannot be read: {flaw}. The file {advice}.")


def _is_file(member: tarfile.TarInfo) -> bool:
    unknown = member.type not in tarfile.SUPPORTED_TYPES and member.type not in _NO_FILES
    return member.isreg() or member.islnk() or unknown

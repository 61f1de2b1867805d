"""The log of a saved run: numbered entries, each created exclusively, so that one driver at a time can write.

An entry holds records, which are JSON lists; `sdf.saving.log_records` says what they mean. It names the hash of the
entry before it and the driver that wrote it. All drivers share one sequence of numbers. A driver takes over by creating
the next entry. A driver that finds its number taken by another one has lost, and stops.

Every `_PACKED` entries are packed into one file, so that a resume reads few files, and are then removed. If a crash
prevents that, the next driver does it. A driver that was overtaken long ago could create one of those numbers again;
the pack of that number tells it that it has lost.

    log/00000000000000000700.json     the entries that are not packed yet
    packs/00000000000000000000        the entries 0 to 511, compressed
    blobs/<sha256 of the content>     the elements
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from sdf.errors import JournalCorruptError, JournalError, show
from sdf.journal.chain import canonical, checked_blob, sha256
from sdf.journal.fenced_files import FencedFiles, remove_unused
from sdf.storage.places import Storage

__all__ = ["VERSION", "RunLog", "damaged"]

VERSION = 1
_PACKED = 512


class RunLog(FencedFiles):
    """The log in a checkpoint. Call `read` first, once; then `append`.

    Args:
        storage: the checkpoint.
        driver: a name that no other driver has.
        clock: returns the time, in milliseconds since the epoch.

    Attributes:
        root: the checkpoint, for messages.
        next_number: the number of the next entry.
        time: the time of the last entry; 0 if there is none.
    """

    _UNUSABLE = (
        "the checkpoint of the saved run in {root} cannot be used: {error}. What is committed stays so: see "
        "that it can be reached and written, and has room, and make the same call again."
    )
    _OVERTAKEN = (
        "another driver has taken over the saved run in {root}: this one stops, so that no record is saved twice. Run "
        "one driver for each checkpoint; to see what is saved, python -m sdf.journal show {root}"
    )

    def __init__(self, storage: Storage, *, driver: str, clock: Callable[[], int]) -> None:
        super().__init__(storage)
        self._driver = driver
        self._clock = clock
        self.root = storage.root
        self.next_number = 0
        self.time = 0
        self._before: str | None = None
        self._packs = 0  # the number of packs

    def read(self) -> Iterator[Any]:
        """Yield the records of all entries, in order, each entry checked against the one before it.

        Raises:
            JournalCorruptError: at the first entry that is missing, damaged or does not follow.
            JournalError: if this sdf does not know the version of an entry.
        """
        with self._using():
            if self._storage.names("blocks"):
                raise JournalError(f"{self.root} is the checkpoint of a stream. Use another one for a saved run.")
            for directory in ("packs", "log", "blobs"):  # a driver that died may not have synced it
                self._storage.sync(directory)
        while True:  # again if a driver that is still at work has packed what was to be read next
            while self._is_packed(self.next_number):
                yield from self._read_pack(self.next_number // _PACKED)
            yield from self._read_entries()
            pack = _pack_name(self.next_number // _PACKED)
            with self._using():
                later = [name for name in self._storage.names("packs") if name > pack]
            if not self._is_packed(self.next_number):
                break
        if later:
            raise self._corrupt(pack, "it is missing, but later ones are there")

    def _is_packed(self, number: int) -> bool:
        with self._using():
            return self._storage.size(_pack_name(number // _PACKED)) is not None

    def _read_entries(self) -> Iterator[Any]:
        """Yield the records of the entries that are not packed, up to one that was packed meanwhile."""
        while True:
            following = _entry_name(self.next_number)
            content = self._content(following)
            if content is not None:
                yield from self._entry(content, following)
                continue
            with self._using():  # a listing may lag behind
                later = any(name > following for name in self._storage.names("log"))
                if later and not self._is_packed(self.next_number) and self._storage.size(following) is None:
                    raise self._corrupt(following, "it is missing, but later ones are there")
                if not later or self._is_packed(self.next_number):
                    return

    def _read_pack(self, pack: int) -> Iterator[Any]:
        name = _pack_name(pack)
        content = self._content(name)
        try:
            entries = zlib.decompress(content or b"").splitlines()
        except zlib.error as error:
            raise self._corrupt(name, "it is not what sdf writes") from error
        if len(entries) != _PACKED:
            raise self._corrupt(name, f"it holds {len(entries)} entries instead of {_PACKED}")
        for entry in entries[self.next_number % _PACKED :]:
            yield from self._entry(entry, name)
        self._packs = pack + 1

    def _content(self, name: str) -> bytes | None:
        """Return what is in a file, None if there is none."""
        with self._using(), suppress(FileNotFoundError):
            return self._storage.read(name)
        return None

    def _entry(self, content: bytes, name: str) -> list[Any]:
        try:
            data = json.loads(content)
            if data["v"] != VERSION:
                raise JournalError(
                    f"{self.root}/{name} has version {show(data['v'])}, but this release of sdf reads version "
                    f"{VERSION}. Use the release that wrote it."
                )
            number, before, time = data["number"], data["before"], data["time"]
            records: list[Any] = data["records"]
        except (ValueError, KeyError, TypeError) as error:
            raise self._corrupt(name, "it is not what sdf writes") from error
        if number != self.next_number or before != self._before:
            raise self._corrupt(name, f"entry {number} does not follow entry {self.next_number - 1}")
        self._follow(content, time)
        return records

    def _follow(self, content: bytes, time: int) -> None:
        self._before, self.time = sha256(content), time
        self.next_number += 1

    def now(self) -> int:
        """Return milliseconds since the epoch, but never less than the time of the last entry.

        So a due time in the log never moves further away.
        """
        return max(self._clock(), self.time)

    def append(self, records: Sequence[Any]) -> None:
        """Write an entry; on return it is durable.

        Raises:
            JournalFencedError: if another driver has written an entry since; nothing of this one counts.
            JournalDiskError: if it cannot be written.
        """
        number = self.next_number
        time = self.now()
        content = canonical(
            {
                "before": self._before,
                "driver": self._driver,
                "number": number,
                "records": records,
                "time": time,
                "v": VERSION,
            }
        )
        self._create(_entry_name(number), content)
        with self._using():
            if self._storage.size(_pack_name(number // _PACKED)) is not None:
                self._storage.remove(_entry_name(number))
                raise self.fenced()
        self._follow(content, time)
        while self.next_number // _PACKED > self._packs:
            self._pack(self._packs)

    def _pack(self, pack: int) -> None:
        """Put entries into one file; only when that is durable, remove them."""
        names = [_entry_name(number) for number in range(pack * _PACKED, (pack + 1) * _PACKED)]
        entries = [content for name in names if (content := self._content(name)) is not None]
        if len(entries) < _PACKED:  # a driver that has taken over since has packed them
            raise self.fenced()
        with self._using():
            self._storage.replace(_pack_name(pack), zlib.compress(b"\n".join(entries)))
            for name in names:
                self._storage.remove(name)
        self._packs = pack + 1

    def get(self, reference: Any) -> bytes:
        """Return the bytes that a record refers to; raise JournalCorruptError if they are missing or changed."""
        return checked_blob(self._storage, reference, self._corrupt)

    def remove_unused(self, used: Iterable[Any]) -> list[str]:
        """Remove blobs that no record refers to, packed entries and half-written files; return their names."""
        return remove_unused(self._storage, used, "log", _entry_name(self._packs * _PACKED), ("packs",))

    def _corrupt(self, name: str, flaw: str) -> JournalCorruptError:
        return damaged(f"{self.root}/{name}", flaw)


def damaged(place: object, flaw: str) -> JournalCorruptError:
    """Return the error for what is wrong with a log, or a file of it."""
    return JournalCorruptError(
        f"{place}: {flaw}. A crash cannot cause this; restore the checkpoint from a copy, or begin anew with another "
        f"one and an empty target."
    )


def _entry_name(number: int) -> str:
    return f"log/{number:020d}.json"


def _pack_name(pack: int) -> str:
    return f"packs/{pack:020d}"

"""Remaining: all that a stream has still to do, by id; and how the journal stores it: a snapshot, then deltas.

Work keeps its id, and its line in the journal, until a batch reads some of it. So a commit writes what the batch has
changed, and nothing of all the rest. It is a line for each part that was added, and the ids of those that are gone. A
delta is merged with the ones before it that are not much larger. So there are never more than some ten of them, a line
is written again a few times only, and a resume reads few files, however long the stream has run.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import attrs

from sdf.errors import JournalError, show
from sdf.journal.pending import Pending, from_json, to_json

__all__ = ["Remaining", "RemainingPart"]

_VERSION = 4
_WHOLE = (2, 3)  # versions without ids, all in one file; 2 named all types by their modules at that time
_ID_BYTES = 8
_HEAD_BYTES = 80


@attrs.define(eq=False)
class RemainingPart:
    """Some remaining work, as this driver knows it. What changes while it is not read is not in the journal.

    Attributes:
        part: as the journal has it.
        line: that in bytes.
        due: earliest time to run it, in milliseconds since the epoch.
        delay: how long it last asked to wait, in milliseconds.
        since: when this work or its predecessor last read something, or this driver began; as ``due``.
        watermark: state that the watermark estimator is restored from.
        seen: as of `Pending`.
        is_behind: whether the last task had too little time for all that was there, or none of this driver has run it.
        tried: whether it was run, and gave nothing, since the last batch that was committed.
        found: what a scan beside the batches has read of it, to be given by the next batch, and what is left then.
    """

    part: Pending
    line: bytes
    due: int
    delay: int
    since: int
    watermark: Any
    seen: Any
    is_behind: bool
    tried: bool = False
    found: tuple[Pending, Pending | None] | None = None

    @property
    def id(self) -> int:
        assert self.part.id is not None
        return self.part.id

    @property
    def now(self) -> Pending:
        """The part, with its present watermark."""
        same = self.watermark is self.part.watermark
        return self.part if same else attrs.evolve(self.part, watermark=self.watermark)


@attrs.frozen
class _Level:
    """A file of the checkpoint: the ids of the parts in it, those that it says are gone, and its size in bytes."""

    reference: Mapping[str, Any]
    added: frozenset[int]
    gone: frozenset[int]
    size: int


class Remaining:
    """The remaining work of a stream; see the module's docstring. Iterating gives it in the order of ids."""

    def __init__(self) -> None:
        self._work: dict[int, RemainingPart] = {}
        self._next = 0
        self._levels: list[_Level] = []
        self._added: set[int] = set()  # since it was last stored
        self._gone: set[int] = set()

    def __len__(self) -> int:
        return len(self._work)

    def __iter__(self) -> Iterator[RemainingPart]:
        return iter(self._work.values())

    def __getitem__(self, number: int) -> RemainingPart:
        return self._work[number]

    def add(self, parts: Iterable[Pending], now: int) -> None:
        """Add parts, each under the next id; ``now`` is the time in milliseconds since the epoch."""
        for part in parts:
            self._enter(attrs.evolve(part, id=self._next), now)
            self._added.add(self._next)
            self._next += 1

    def remove(self, ids: Iterable[int]) -> None:
        """Remove work."""
        for number in ids:
            del self._work[number]
            if number in self._added:
                self._added.remove(number)
            else:
                self._gone.add(number)

    def _enter(self, part: Pending, now: int, line: bytes | None = None) -> None:
        assert part.id is not None
        line = _line(to_json(part)) if line is None else line
        self._work[part.id] = RemainingPart(
            part, line, part.due, max(0, part.due - now), now, part.watermark, part.seen, part.due <= now
        )

    # In the journal.

    def store(self, put: Callable[[bytes], dict[str, Any]], committed: Sequence[Pending]) -> list[dict[str, Any]]:
        """Store what has changed.

        Args:
            put: stores bytes in a file and returns the reference to it.
            committed: the parts for which `on_commit` is to be called.

        Returns:
            The references to all files that hold the remaining work, in order.
        """
        added, gone = self._added, self._gone
        if self._levels and not added and not gone and not committed:
            return [dict(level.reference) for level in self._levels]
        levels = list(self._levels)
        size = self._size(added, gone)
        while levels and levels[-1].size <= 2 * size:
            last = levels.pop()
            gone = (gone - last.added) | last.gone
            added = {number for number in last.added if number in self._work} | added
            size = self._size(added, gone)
        if not levels:
            added, gone = set(self._work), set()
        head = {"committed": [to_json(part) for part in committed], "next": self._next, "v": _VERSION}
        lines = [_line({**head, "gone": sorted(gone)}), *(self._work[number].line for number in sorted(added))]
        data = b"".join(lines)
        levels.append(_Level(put(data), frozenset(added), frozenset(gone), len(data)))
        self._levels, self._added, self._gone = levels, set(), set()
        return [dict(level.reference) for level in levels]

    def _size(self, added: Iterable[int], gone: Iterable[int]) -> int:
        return _HEAD_BYTES + sum(len(self._work[number].line) for number in added) + _ID_BYTES * len(list(gone))

    @classmethod
    def load(
        cls, get: Callable[[Mapping[str, Any]], bytes], references: Sequence[Mapping[str, Any]], now: int
    ) -> tuple[Remaining, list[Pending]]:
        """Return what `store` stored: the remaining work, and the parts for which `on_commit` is to be called.

        Args:
            get: returns the bytes that a reference refers to.
            references: as `store` returned them.
            now: the time when it was stored, in milliseconds since the epoch.

        Raises:
            JournalError: if this sdf does not read its version.
            JournalCorruptError: if it holds a value that cannot be made here.
        """
        remaining = cls()
        lines: dict[int, tuple[dict[str, Any], bytes]] = {}
        files: list[tuple[Mapping[str, Any], set[int], set[int], int]] = []
        head: dict[str, Any] = {}
        for reference in references:
            data = get(reference)
            first, *rest = data.splitlines(keepends=True)
            head = json.loads(first)
            if head["v"] in _WHOLE:
                parts = [from_json(json.loads(line)) for line in rest]
                remaining.add((attrs.evolve(part, id=None) for part in parts), now)
                return remaining, [from_json(part) for part in head["committed"]]
            if head["v"] != _VERSION:
                raise JournalError(
                    f"the checkpoint of this stream has version {show(head['v'])}, but this release of sdf reads "
                    f"version {_VERSION}. Use the release that wrote it."
                )
            for number in head["gone"]:
                lines.pop(number, None)
            parsed = [(json.loads(line), line) for line in rest]
            added = {one["id"]: (one, line) for one, line in parsed}
            lines.update(added)
            files.append((reference, set(added), set(head["gone"]), len(data)))
        for one, line in lines.values():
            remaining._enter(from_json(one), now, line)
        remaining._next = head["next"]
        remaining._levels = [
            _Level(reference, frozenset(added & lines.keys()), frozenset(gone), size)
            for reference, added, gone, size in files
        ]
        return remaining, [from_json(part) for part in head["committed"]]


def _line(data: Mapping[str, Any]) -> bytes:
    return json.dumps(data, sort_keys=True, separators=(",", ":")).encode() + b"\n"

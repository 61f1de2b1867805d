"""How `process` claims: ``claims()`` for all trackers, and claims of offsets that usually take no lock.

*try_claim of offsets.* Only one thread claims. It first writes its claim, then reads the fence (how far it may claim).
A split first lowers the fence, then reads the last claim. So at least one of the two sees the other. A split that a
claim has overtaken is undone. A claim at or past the fence takes the lock, and so waits for the outcome of the split.

*claims() of offsets.* The thread of `process` takes a chunk of positions under the lock, as one iterator in C that
counts down what is left. To deliver a position runs no Python. A split exhausts that iterator first; from then on
nothing of the chunk is delivered. Then the count says exactly how far `process` is, and the split cuts behind that.
`process` meets the end of the chunk, waits for the lock, and takes the next chunk up to the new stop. So what is
claimed is exactly what was delivered, and nothing is claimed ahead.

Both need Python's global lock, which gives all threads one order of these steps.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, compress, repeat
from operator import length_hint
from threading import Lock
from typing import Any

from sdf.errors import ClaimError
from sdf.model.claims import IN_USE, claims_of, positions_of
from sdf.model.restrictions import OffsetRange

__all__ = ["Delivers", "OffsetClaims"]

_MOST_POSITIONS = 1 << 20  # of a chunk: list(tracker.claims()) holds Python's global lock for about 15 ms


class Delivers:
    """Mixin of what `process` holds: ``claims()``; no other claim is allowed while that is in use.

    Attributes:
        delivering: whether ``claims()`` is in use.
        closing: whether its blocks have ended.
    """

    delivering = False
    closing = False

    try_claim: Callable[[Any], bool]
    current_restriction: Callable[[], Any]
    _closing: Callable[[], Any]
    _fault: Callable[[str], ClaimError]

    def claims(
        self, blocks: Iterable[Any] | None = None, *, position: Callable[[Any], Any] | None = None
    ) -> Iterator[Any]:
        """See `RestrictionTracker.claims`."""
        if self.delivering:
            raise self._fault(f"tracker.claims() {IN_USE}")
        own = vars(self).get("try_claim")

        def end() -> Any:
            self.closing = True
            return self._closing()

        def ended() -> None:
            self.delivering = False
            if own is None:
                del self.try_claim
            else:
                self.try_claim = own

        found = claims_of(self.try_claim, self.current_restriction, blocks, position, end)
        self.closing = False  # it was only asked whether there is an end
        self._forbid()
        return chain.from_iterable(_Iterators(iter([found]).__next__, ended))

    def _forbid(self) -> None:
        """Let no claim be made but by the iterator that is delivering."""

        def refuse(position: Any) -> bool:
            raise self._fault(f"try_claim({position!r}) {IN_USE}")

        self.try_claim = refuse
        self.delivering = True

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "the tracker in process() cannot be iterated over. Iterate over its claims: for position in "
            "tracker.claims()"
        )


class _Iterators:
    """Gives one iterator after the other, and tells when nobody uses it any more, also if nobody ever did.

    No generator: if two threads ask `chain`, it frees a generator that still runs.
    """

    def __init__(self, following: Callable[[], Iterator[Any]], ended: Callable[[], None]) -> None:
        self._following = following
        self._ended = ended

    def __iter__(self) -> _Iterators:
        return self

    def __next__(self) -> Iterator[Any]:
        return self._following()

    def __del__(self) -> None:
        self._ended()


class OffsetClaims:
    """Mixin before `Delivers` and the class of a tracker of offsets that `process` holds."""

    _start: int
    _stop: Any
    _last: Any
    _record: Any
    _refused: bool
    _lock: Lock
    _claim_unusual: Callable[[Any], bool]
    _at_fence: Callable[[Any], bool]
    _fence: Any  # that of the tracker, lowered while a split is being tried
    _edge: Callable[[], None]
    _fault: Callable[[str], ClaimError]
    _forbid: Callable[[], None]
    delivering: bool
    _chunk: tuple[Any, Any, int] | None = None  # positions, their countdown, and the end of the chunk

    def try_claim(self, position: Any) -> bool:
        if type(position) is int and position > self._last and position >= self._record and not self._refused:
            self._last = position
            if position < self._fence:
                return True
            with self._lock:
                return self._at_fence(position)
        return self._claim_unusual(position)

    def _cut(self, stop: int) -> bool:
        before, self._fence = self._fence, min(self._fence, stop)
        if max(self._last, self._record) >= stop:
            self._fence = before
            return False
        self._stop = stop
        return True

    def claims(
        self, blocks: Iterable[Any] | None = None, *, position: Callable[[Any], Any] | None = None
    ) -> Iterator[Any]:
        started = self._last >= self._start
        if blocks is not None or position is not None or started or "try_claim" in vars(self):  # it may be observed
            found: Iterator[Any] = super().claims(blocks, position=position)  # type: ignore[misc]
            return found
        positions_of(OffsetRange(self._start, self._stop))
        self._forbid()
        return chain.from_iterable(_Iterators(self.next_chunk, self.end_chunks))

    def try_return_record_at(self, is_at_split_point: bool, record_start: Any) -> bool:
        if self.delivering and self._chunk is not None:
            raise self._fault(f"try_return_record_at({is_at_split_point}, {record_start!r}) {IN_USE}")
        answer: bool = super().try_return_record_at(is_at_split_point, record_start)  # type: ignore[misc]
        return answer

    def next_chunk(self) -> Iterator[int]:
        """Return the next positions to deliver; raise StopIteration if the rest is others'."""
        with self._lock:
            self._last = self._reached(stopping=True)  # another thread may have just taken a chunk
            first = self._last + 1
            count = min(self._stop - first, _MOST_POSITIONS)
            if count <= 0:
                raise StopIteration
            if first == self._start:
                self._fence = self._stop
                self._edge()
            positions, ones = iter(range(first, first + count)), repeat(True, count)
            self._chunk = positions, ones, first + count
            return compress(positions, ones)

    def end_chunks(self) -> None:
        """Allow other claims. Waits for no lock: Python may call it in a thread that holds this tracker's."""
        self.delivering = False
        self.try_claim = self._claim_again  # type: ignore[method-assign]

    def _claim_again(self, position: Any) -> bool:
        with self._lock:
            self._last, self._chunk = self._reached(), None
        if vars(self)["try_claim"] == self._claim_again:
            del self.try_claim
        return OffsetClaims.try_claim(self, position)

    def _reached(self, *, stopping: bool = False) -> Any:
        chunk = self._chunk
        if chunk is None:
            return self._last
        positions, ones, end = chunk
        if stopping:
            positions.__setstate__(sys.maxsize)
        last = end - length_hint(ones) - 1
        if stopping:
            self._last = last
        return last

"""ListObjects: the objects of a bucket on S3, listed by ranges of keys.

A range is cut only where a key follows (`sdf.io.objects.keys`), at a text and a zero byte: S3 then lists from after
that text on. What is cut before it runs, on the driver, is cut without a look at the store, and may have no keys.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from sdf import ByteKeyRange, ByteKeyRangeTracker, OffsetRange, Progress, RestrictionTracker
from sdf.errors import InvalidValueError, SourceError
from sdf.io.files.file_systems import file_system
from sdf.io.files.match import MatchFiles
from sdf.io.files.pinned import FileInfo, as_file_info
from sdf.io.objects.keys import Keys, Page
from sdf.io.options import as_size

__all__ = ["ListObjects"]

_MOST_KEYS = 1000  # that S3 gives in one answer
_LOWEST, _SIGNS = ord(" "), 95  # the printable characters of ASCII, of which most keys are made
_EXPRESS = "--x-s3"  # ends the names of buckets whose keys S3 does not give in order


class ListObjects(MatchFiles):
    """Lists millions of objects. Element: a bucket on S3, or a directory in it. Gives `FileInfo`, as `MatchFiles` does.

    Position: a key, from behind the directory on. A part asks S3 for a page of keys after the other, from its first key
    on. It is split where keys are, and only if more than a page of them is left. Objects that come or go meanwhile may
    be listed or not. A name that ends in ``/`` marks a directory, and is left out. Patterns are for `MatchFiles`.

    Anywhere but on S3, also on Google Cloud Storage, on Azure and in directory buckets (``--x-s3``), a directory is
    listed in one piece, as `MatchFiles` does it.

    Args:
        regex: only objects whose whole name, without its directory, matches this regular expression.
        hidden: do not leave out names that begin with ``_`` or ``.``, nor what is in directories named so.
        missing_ok: yield nothing if nothing is found; False: raise an error.
        page_size: keys in a page, at most 1000.
        storage_options: arguments for the file system, as fsspec takes them.

    Raises:
        InvalidTypeError, InvalidValueError: for an option, or an element, of the wrong type or value.
        SourceError: when it runs, if a directory has no objects and ``missing_ok`` is not set, or cannot be listed.
    """

    _takes = "a bucket or a directory"

    def __init__(
        self,
        *,
        regex: str | None = None,
        hidden: bool = False,
        missing_ok: bool = False,
        page_size: int = _MOST_KEYS,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(regex=regex, hidden=hidden, missing_ok=missing_ok, storage_options=storage_options)
        self.page_size = as_size(page_size, "ListObjects page_size")
        if self.page_size > _MOST_KEYS:
            raise InvalidValueError(
                f"ListObjects page_size must be <= {_MOST_KEYS} (got {self.page_size}): S3 gives no more at a time."
            )

    def get_initial_restriction(self, element: Any) -> OffsetRange | ByteKeyRange:  # type: ignore[override]
        whole = super().get_initial_restriction(element)
        keys = self._keys(element)
        if keys is None:
            return whole
        if not self.missing_ok and not keys.page("", 1).keys:
            raise SourceError(f"ListObjects: {element!r} has no objects. Pass missing_ok=True if that may be.")
        return ByteKeyRange()

    def split_restriction(self, element: Any, restriction: Any) -> Iterator[Any]:
        keys = self._keys(element)
        if keys is None:
            yield restriction
            return
        after, upto = _ends(restriction)
        start = restriction.start
        for cut in keys.cuts(keys.page(after, self.page_size), upto):
            yield ByteKeyRange(start, _after(cut))
            start = _after(cut)
        yield ByteKeyRange(start, restriction.stop)

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        if not isinstance(restriction, ByteKeyRange):
            return super().create_tracker(element, restriction)
        return KeysTracker(restriction)

    def process(self, element: Any, tracker: Any) -> Iterator[FileInfo]:
        restriction, keys = tracker.current_restriction(), self._keys(element)
        if keys is None:
            yield from super().process(element, tracker)
            return
        for page in keys.pages(_ends(restriction)[0], self.page_size):
            for key, entry in zip(page.keys, page.entries, strict=True):
                position = Position(key.encode(), keys, page)
                if position < restriction.start:
                    continue
                if not tracker.try_claim(position):
                    return
                if not key.endswith("/") and self._wanted(key, "", ""):
                    yield as_file_info(keys.url + key, entry)
        tracker.try_claim(b"")

    def _keys(self, element: Any) -> Keys | None:
        """Return the keys of a directory on S3; None if it is elsewhere, or its keys come in no order."""
        fs, inner = file_system(os.fspath(element), self.storage_options, "ListObjects")
        if "s3" not in (fs.protocol if isinstance(fs.protocol, tuple) else (fs.protocol,)):
            return None
        bucket, _, directory = inner.strip("/").partition("/")
        if bucket.endswith(_EXPRESS):
            return None
        return Keys(fs, bucket, directory and f"{directory}/")


class Position(bytes):
    """A key, with the page that it is in, so that the tracker knows what lies ahead."""

    keys: Keys
    page: Page

    def __new__(cls, key: bytes, keys: Keys, page: Page) -> Position:
        position = super().__new__(cls, key)
        position.keys, position.page = keys, page
        return position


class KeysTracker(RestrictionTracker):
    """Tracks keys as `ByteKeyRangeTracker` does, and splits where keys are.

    A split leaves alone the page that is being given, and asks the store what lies behind it. So each part has keys.
    What nobody has begun is cut without the store, by the characters of its ends: the driver may not reach it.
    """

    def __init__(self, restriction: ByteKeyRange) -> None:
        self._keys = ByteKeyRangeTracker(restriction)
        self._at: Position | None = None  # the last key claimed

    def current_restriction(self) -> Any:
        return self._keys.current_restriction()

    def try_claim(self, position: bytes) -> bool:
        if not self._keys.try_claim(bytes(position)):
            return False
        self._at = position if isinstance(position, Position) else None
        return True

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[ByteKeyRange, ByteKeyRange] | None:
        if fraction_of_remainder == 0:
            return self._keys.try_split(0)
        start, stop = whole = self.current_restriction()
        if not self._keys.started:
            cut = _after(_between(*_ends(whole), fraction_of_remainder))
            if not start < cut or (stop and not cut < stop):
                return None
            self._keys = ByteKeyRangeTracker(ByteKeyRange(start, cut))
        else:
            cuts = [] if self._at is None else self._at.keys.cuts(self._at.page, _ends(whole)[1])
            cut = _after(cuts[min(int(len(cuts) * fraction_of_remainder), len(cuts) - 1)]) if cuts else b""
            if not self._keys.try_split_at_position(cut):
                return None
        return self.current_restriction(), ByteKeyRange(cut, stop)

    def check_done(self) -> None:
        self._keys.check_done()

    def _closing(self) -> bytes:
        return b""

    def progress(self) -> Progress:
        return Progress(0, None)  # nobody knows how many keys are left; a runner takes it for as long again


def _after(text: str) -> bytes:
    """Return the position right after a text."""
    return text.encode() + b"\x00"


def _ends(restriction: ByteKeyRange) -> tuple[str, str | None]:
    """Return a text that lies before all keys of a range, and one that no key of it exceeds, None for no end.

    They are the closest ones for ranges that were cut here.
    """
    after, upto = map(_before, restriction)
    return after, upto if restriction.stop else None


def _before(end: bytes) -> str:
    """Return the longest text that ends before the last byte of a position, and is the beginning of it."""
    try:
        return end[:-1].decode()
    except UnicodeDecodeError as error:
        return end[: error.start].decode()


def _between(after: str, upto: str | None, fraction: float | Fraction) -> str:
    """Return the text at a fraction of the way between two, if all printable characters are as frequent."""
    length = max(len(after), len(upto or "")) + 4
    low, high = (_number(text, length) for text in (after, upto or "~" * length))
    number, signs = low + int((high - low) * Fraction(fraction)), []
    for _ in range(length):
        number, sign = divmod(number, _SIGNS)
        signs.append(chr(_LOWEST + sign))
    return "".join(reversed(signs)).rstrip()


def _number(text: str, length: int) -> int:
    """Return a text as a number whose digits are printable characters; any other one counts as the closest."""
    number = 0
    for sign in text.ljust(length):
        number = number * _SIGNS + min(max(ord(sign) - _LOWEST, 0), _SIGNS - 1)
    return number

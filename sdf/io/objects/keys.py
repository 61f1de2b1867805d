"""The keys of a directory on S3: pages of them, and where they can be cut so that both sides have keys.

S3 gives keys in the order of their UTF-8, which is that of Python's strings, from after any text on (``StartAfter``).
So a range of keys is a pair of texts: those after one text, up to and with the other. Keys are told without the
directory that all of them begin with.

Keys are uneven: most bytes never occur, and the first thirty characters may be the same in all. So a cut is looked for
in the store, by questions for the next key after a text, many of them at a time.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import attrs

from sdf.errors import SourceError
from sdf.extras import need
from sdf.io.files.file_systems import reaching

__all__ = ["Keys", "Page"]

_AT_ONCE = 15  # questions; one round of them tells where in 16 characters all keys cease to be alike
_GUESSED = 8  # characters to ask for, if the page has fewer
_PRINTABLE = [chr(number) for number in range(0x21, 0x7F)]
_LAST = chr(0x10FFFF)
_SURROGATES = range(0xD800, 0xE000)  # code points that are no characters


@attrs.frozen
class Page:
    """One answer of S3.

    Attributes:
        keys: at least one, unless it is the only page.
        entries: what S3 says of the object of each, with its size also as fsspec calls it.
        more: whether there are more keys after them.
    """

    keys: Sequence[str]
    entries: Sequence[dict[str, Any]]
    more: bool


class Keys:
    """The objects in a directory of a bucket.

    Args:
        fs: an s3fs file system.
        bucket: its name.
        directory: "" for all of the bucket, or a text that ends in "/".

    Attributes:
        url: of the directory, so that a key follows.
    """

    def __init__(self, fs: Any, bucket: str, directory: str) -> None:
        self._fs = fs
        self._bucket = bucket
        self._directory = directory
        self.url = f"s3://{bucket}/{directory}"

    def page(self, after: str, size: int) -> Page:
        """Return the first keys after a text."""
        page: Page = self._wait(self._page, after, size)
        return page

    def pages(self, after: str, size: int) -> Iterator[Page]:
        """Yield the pages after a text; each is asked for when it is needed."""
        more = True
        while more:
            page = self.page(after, size)
            yield page
            more, after = page.more, page.keys[-1] if page.more else ""

    def cuts(self, page: Page, upto: str | None) -> list[str]:
        """Return texts, in order, that cut the keys after a page in parts; none if there are none to cut.

        Each part has keys, the first the page, too. The parts are those that the first character makes in which the
        keys after the page differ, if the page has all characters that occur there.

        Args:
            page: the page before.
            upto: the last text of the range, None for no end.
        """
        if not page.more or (upto is not None and page.keys[-1] >= upto):
            return []
        cuts: list[str] = self._wait(self._cuts, page.keys, upto)
        return cuts

    async def _cuts(self, keys: Sequence[str], upto: str | None) -> list[str]:
        async def next_after(text: str) -> str | None:
            """Return the first key after a text in the range, None if there is none."""
            found = (await self._page(text, 1)).keys
            return found[0] if found and (upto is None or found[0] <= upto) else None

        last = keys[-1]
        ends = 0  # characters that the ends of the range have in common, and so all keys between
        while upto is not None and last[: ends + 1] == upto[: ends + 1] and ends < len(last):
            ends += 1
        first, alike = await asyncio.gather(next_after(last), _alike(last, ends, next_after))
        if first is None:
            return []
        if first[: alike + 1] != last[: alike + 1]:  # the page ends where a character does, so more may be alike
            alike = await _alike(first, ends, next_after)
        common, own = first[:alike], first[alike : alike + 1]
        known = _spread([sign for sign in sorted(set("".join(keys))) if sign > own])
        other = [sign for sign in _PRINTABLE if sign > own and sign not in known]
        texts = {common + sign for sign in (*known, *_spread(other, max(0, _GUESSED - len(known))))}
        texts.add(_following(common + own) if own else first)
        found = await _ask(next_after, sorted(texts))
        return list({key: text for text, key in found.items() if key is not None}.values())

    async def _page(self, after: str, size: int) -> Page:
        await _read_times_fast(self._fs)
        start = {"StartAfter": self._directory + after} if self._directory + after else {}
        answer = await self._fs._call_s3(
            "list_objects_v2", Bucket=self._bucket, Prefix=self._directory, MaxKeys=size, **start, **self._fs.req_kw
        )
        entries = answer.get("Contents", [])
        for entry in entries:
            entry["size"] = entry["Size"]  # as fsspec calls it
        cut = len(self._directory)
        return Page([entry["Key"][cut:] for entry in entries], entries, bool(entries) and answer["IsTruncated"])

    def _wait(self, ask: Callable[..., Awaitable[Any]], *given: Any) -> Any:
        """Return the answer of the store.

        Raises:
            SourceError: if there is no such bucket, or it cannot be reached.
        """
        try:
            with reaching(self.url, "ListObjects"):
                return need("fsspec.asyn", "ListObjects").sync(self._fs.loop, ask, *given)
        except FileNotFoundError as error:
            raise SourceError(f"ListObjects: there is no bucket {self._bucket!r}.") from error


async def _read_times_fast(fs: Any) -> None:
    """Let the client read times as Python does: reading them took three quarters of the time of a page."""
    await fs.set_session()
    otherwise = importlib.import_module("botocore.utils").parse_timestamp  # s3fs, which is there, needs it

    def parse(text: Any) -> Any:
        try:
            return datetime.fromisoformat(text.replace("Z", "+00:00"))
        except (AttributeError, ValueError):
            return otherwise(text)

    fs.session.get_component("response_parser_factory").set_parser_defaults(timestamp_parser=parse)


async def _alike(key: str, low: int, next_after: Callable[[str], Awaitable[str | None]]) -> int:
    """Return how many characters the keys after ``key`` have in common with it; it is known that ``low`` are."""
    high = len(key) + 1
    while high - low > 1:
        lengths = _spread(range(low + 1, high))
        found = await _ask(next_after, [_following(key[:length]) for length in lengths])
        differ = [length for length in lengths if found[_following(key[:length])] is not None]
        high = min(differ, default=high)
        low = max((length for length in lengths if length < high), default=low)
    return low


async def _ask(next_after: Callable[[str], Awaitable[str | None]], texts: Iterable[str]) -> dict[str, str | None]:
    """Return the next key after each text, all asked for at once."""
    texts = list(texts)
    return dict(zip(texts, await asyncio.gather(*map(next_after, texts)), strict=True))


def _spread(values: Sequence[Any], most: int = _AT_ONCE) -> list[Any]:
    """Return at most so many of some values, evenly spread."""
    many = len(values)
    return [values[number * many // most] for number in range(most)] if many > most else list(values)


def _following(text: str) -> str:
    """Return the lowest text of the same length that is greater; the same text if there is none."""
    number = ord(text[-1]) + 1
    return text if text[-1] == _LAST else text[:-1] + chr(_SURROGATES.stop if number in _SURROGATES else number)

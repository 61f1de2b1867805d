"""ReadJson: the elements of files that hold one JSON array.

Whether a byte lies in a string, and how deep in brackets, shows only from the start of the file: a string may hold
anything. So the file is looked through once, before it is split, for places between elements. That needs no parsing: in
a piece of the file whose state at its start is known, quotes that are not escaped divide what is in strings from what
is not, and counting the brackets outside gives the state at its end. All of this is done by functions on bytes, at some
hundred megabytes a second. The places, at most a thousand, are part of the restriction.

Every block between two places is parsed as an array of its own. So a file that is no JSON array cannot be read without
an error, whatever was found in it: arrays that can all be parsed make an array when they are put together.
"""

from __future__ import annotations

import codecs
import io
import json
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import repeat
from typing import Any

import attrs

from sdf import OffsetRangeTracker, RestrictionTracker
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError, show
from sdf.io.files.file_fn import FileBlock, FileRange, OpenedFn
from sdf.io.files.pinned import FileInfo

__all__ = ["JsonRange", "ReadJson"]

_BLOCK_BYTES = 1 << 20
_MOST_BLOCKS = 1000
_PIECE_BYTES = 1 << 18  # what is looked through at once, which stays in the CPU cache
_WHITESPACE = b" \t\r\n"
_TOKENS = re.compile(rb'"[^"]*(?:"|\Z)|[\[\]{},]')  # a string that goes on in the next piece ends with this one
_OTHERS = bytes(set(range(256)) - set(b'"[]{}'))


@attrs.frozen
class JsonRange(FileRange):
    """Positions ``[start, stop)`` of a file that holds a JSON array.

    Attributes:
        edges: where blocks begin, each right after the array's bracket or a comma between two elements; then where the
            array's last bracket is.
    """

    edges: tuple[int, ...] = ()

    def block_from(self, position: int) -> int:
        """Return where the first block at or after a position begins; if there is none, the size of the file."""
        number = bisect_left(self.edges, position)
        return self.edges[number] if number < len(self.edges) - 1 else self.file.size


class ReadJson(OpenedFn):
    """Reads JSON arrays. Element: a path or `FileInfo` of a file that is one array. Gives its elements.

    Position: the first byte of a block: about 1 MiB of elements, or a thousandth of a larger file. Memory holds one
    block. Before a file is split, one task looks it through for the places between blocks; the report says how long
    that took. A file with one value a line is for `ReadJsonLines`, which needs no such look. The text is UTF-8, not
    compressed; an empty file has no elements.

    Args:
        loads: a function that turns the text of an array into a list, or raises ValueError; ``orjson.loads`` will do.
            It must be picklable.
        with_position: yield ``((path, offset of the block), value)`` instead of ``value``.
        options: as for `FileFn`: ``block_size``, ``storage_options``.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value; when it runs, for a `FileBlock`.
        ReadError: when it runs, if a file is not one JSON array in UTF-8.
    """

    def __init__(
        self,
        *,
        loads: Callable[[str], Any] = json.loads,
        with_position: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        if not callable(loads):
            raise InvalidTypeError(f"ReadJson loads must be a function such as json.loads (got {show(loads)}).")
        self.loads = loads
        self.with_position = with_position

    def get_initial_restriction(self, element: Any) -> FileRange:
        plain = super().get_initial_restriction(element)
        if isinstance(element, FileBlock):
            raise InvalidValueError(
                f"ReadJson cannot read a block of a file (got {show(element)}): where elements begin shows only from "
                f"the start. Leave out FileBlocks."
            )
        if plain.file.size == 0:
            return plain
        started = time.perf_counter()
        with self.open(plain) as file:
            edges = _edges(file, plain.file)
        note = f"JSON array: looked through in {time.perf_counter() - started:.1f} s"
        return JsonRange(plain.start, plain.stop, plain.file, note=note, edges=edges)

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return OffsetRangeTracker(restriction, getattr(restriction, "block_from", None))

    def _read(self, file: io.BufferedReader, part: JsonRange, tracker: Any) -> Iterator[Iterable[Any]]:
        path, edges = part.file.path, part.edges
        numbers = range(bisect_left(edges, part.start), len(edges) - 1)
        for number in tracker.claims(numbers, position=lambda number: edges[number]):
            at = edges[number]
            file.seek(at)
            is_last = number == len(edges) - 2
            values = self._values(path, at, file.read(edges[number + 1] - at - (not is_last)), len(edges) > 2)
            yield zip(repeat((path, at)), values) if self.with_position else values

    def _values(self, path: str, at: int, data: bytes, is_part: bool) -> Any:
        """Return the elements of a block; raise ReadError if it is not one element after the other."""
        try:
            if is_part and not data.strip(_WHITESPACE):
                raise ValueError("there should be an element")
            return self.loads(f"[{data.decode()}]")
        except json.JSONDecodeError as error:
            at += len(error.doc[1 : error.pos].encode())
            raise _damaged(path, at, error.msg) from error
        except UnicodeDecodeError as error:
            raise _damaged(path, at + error.start, str(error)) from error
        except (ValueError, RecursionError) as error:
            raise _damaged(path, at, str(error)) from error


def _damaged(path: str, at: int, flaw: str) -> ReadError:
    return ReadError(f"{path} at byte {at}: {flaw}. The file is damaged, or no JSON array in UTF-8.")


def _edges(file: io.BufferedReader, info: FileInfo) -> tuple[int, ...]:
    """Return the edges of the blocks of an array.

    Raises:
        ReadError: if the file is no array, or not all of one.
    """
    at = _first(file, info)
    end = _last(file, info)
    step = max(_BLOCK_BYTES, info.size // _MOST_BLOCKS)
    edges = [at]
    depth, in_string = 1, False
    file.seek(at)
    while at < end:
        data = _piece(file, min(_PIECE_BYTES, end - at))
        if b"\\" in data:
            data = data.replace(rb"\\", b"__").replace(rb"\"", b"__")  # now every quote begins or ends a string
        if at >= edges[-1] + step:
            comma = _comma(data, depth, in_string)
            if comma is not None:
                edges.append(at + comma + 1)
        parts = data.translate(None, _OTHERS).split(b'"')
        outside = b"".join(parts[in_string::2])
        depth += sum(map(outside.count, (b"[", b"{"))) - sum(map(outside.count, (b"]", b"}")))
        in_string ^= len(parts) % 2 == 0
        at += len(data)
    if in_string or depth != 1:
        raise _damaged(info.path, end, "this bracket does not end the array")
    return (*edges, end)


def _piece(file: io.BufferedReader, size: int) -> bytes:
    """Return the next bytes; never half of a backslash and what it escapes."""
    data = file.read(size)
    if (len(data) - len(data.rstrip(b"\\"))) % 2:
        data += file.read(1)
    return data


def _comma(data: bytes, depth: int, in_string: bool) -> int | None:
    """Return the place of the first comma between elements of the array; None if there is none.

    Args:
        data: a piece without escaped quotes.
        depth: the number of brackets that are open before it.
        in_string: whether it begins in a string.
    """
    start = data.find(b'"') + 1 if in_string else 0
    if in_string and not start:
        return None
    for token in _TOKENS.finditer(data, start):
        if token[0] in (b"[", b"{"):
            depth += 1
        elif token[0] in (b"]", b"}"):
            depth -= 1
        elif token[0] == b"," and depth == 1:
            return token.start()
    return None


def _first(file: io.BufferedReader, info: FileInfo) -> int:
    """Return the place after the bracket that opens the array."""
    file.seek(0)
    head = file.read(_PIECE_BYTES + len(codecs.BOM_UTF8))
    text = head.removeprefix(codecs.BOM_UTF8).lstrip(_WHITESPACE)
    while not text and (head := file.read(_PIECE_BYTES)):
        text = head.lstrip(_WHITESPACE)
    if text.startswith(b"["):
        return file.tell() - len(text) + 1
    raise ReadError(
        f"{info.path} should be a JSON array, but begins with {show(text[:20])} instead of '['. ReadJsonLines reads a "
        f"value from each line; compressed files must be unpacked first."
    )


def _last(file: io.BufferedReader, info: FileInfo) -> int:
    """Return the place of the bracket that closes the array."""
    begin, text = info.size, b""
    while begin and not text:
        end, begin = begin, max(0, begin - _PIECE_BYTES)
        file.seek(begin)
        text = file.read(end - begin).rstrip(_WHITESPACE)
    if text.endswith(b"]"):
        return begin + len(text) - 1
    raise ReadError(
        f"{info.path} should be a JSON array, but ends with {show(text[-20:])} instead of ']'. The file is cut off, or "
        f"no array; ReadJsonLines reads a value from each line."
    )

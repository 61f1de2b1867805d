"""Pairs sorted by key, in Parquet files of small row groups: any part of a key's pairs can be read alone.

The files are sorted among each other, too, so the row groups of all files have one order, and a number in it. A key
that has many pairs fills many row groups, also of several files. The pairs of a key begin in one row group.

    file 0: | a a b | b b b |   file 1: | b b b | b c d |      row groups 0 to 3; b begins in 0 and ends in 3
"""

from __future__ import annotations

import itertools
import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import Any

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, SourceError, show
from sdf.extras import need

__all__ = ["Group", "Pairs", "SortedFile", "check_key", "rows_of", "write_sorted"]

_MOST_ROWS, _LEAST_ROWS = 20_000, 50  # of a row group
_ROW_GROUPS = 32  # of a file, at least: what a slot can give away while it reads a file
_BYTES = 16 << 20  # of the values of a row group, about
_MOST_HOT = 5

Pair = tuple[Any, Any]


@attrs.frozen
class Group:
    """A key that fills more than one row group: the key, and how many row groups it fills or touches."""

    key: Any
    row_groups: int


@attrs.frozen
class SortedFile:
    """A file: its path, the rows of each row group, and the first and last key of each."""

    path: str
    rows: tuple[int, ...]
    ends: tuple[tuple[Any, Any], ...]


@attrs.frozen(repr=False)
class Pairs:
    """All pairs, sorted by key: the element that `ReadGroups` reads.

    Attributes:
        files: paths of the files in order, each with its number of row groups.
        count: number of pairs.
        hot: the keys that fill most row groups, the fullest first; only those of half a file or more.
        storage_options: for fsspec.
    """

    files: tuple[tuple[str, int], ...]
    count: int
    hot: tuple[Group, ...] = ()
    storage_options: Mapping[str, Any] = attrs.field(factory=dict)

    def __repr__(self) -> str:
        where = self.files[0][0].rsplit("/", 1)[0] if self.files else ""
        return f"Pairs({where!r}, {self.count:,} pairs in {self.row_groups:,} row groups)"

    @classmethod
    def of(cls, files: Iterable[SortedFile], storage_options: Mapping[str, Any]) -> Pairs:
        """Return the pairs of sorted files, in their order."""
        there = [file for file in files if file.rows]
        ends = [ends for file in there for ends in file.ends]
        hot: list[Group] = []
        for first, last in ends:
            if hot and hot[-1].key == first:
                hot[-1] = attrs.evolve(hot[-1], row_groups=hot[-1].row_groups + 1)
            if first != last or not hot or hot[-1].key != last:
                hot.append(Group(last, 1))
        least = max(2.0, len(ends) / (2 * len(there))) if there else 0.0
        fullest = sorted((group for group in hot if group.row_groups >= least), key=lambda group: -group.row_groups)
        count = sum(sum(file.rows) for file in there)
        return cls(
            tuple((file.path, len(file.rows)) for file in there), count, tuple(fullest[:_MOST_HOT]), storage_options
        )

    @property
    def row_groups(self) -> int:
        """How many row groups there are."""
        return sum(number for _, number in self.files)

    def reader(self) -> closing[Reader]:
        """Return a context manager for what reads row groups."""
        return closing(Reader(self))


class Reader:
    """Reads row groups by their numbers; keeps the file of the last one open."""

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._starts = list(itertools.accumulate((number for _, number in pairs.files), initial=0))
        self._opened: tuple[str, Any, Any] | None = None

    def close(self) -> None:
        if self._opened is not None:
            self._opened[2].close()
        self._opened = None

    def read(self, number: int) -> list[Pair]:
        """Return the pairs of a row group; a value is still pickled."""
        table = self._table(number, None)
        return list(zip(_keys(table), table.column("value").to_pylist(), strict=True))

    def last_key(self, number: int) -> Any:
        """Return the last key of a row group."""
        table = self._table(number, "key")
        return _keys(table.slice(table.num_rows - 1))[0]

    def _table(self, number: int, prefix: str | None) -> Any:
        file, inside = self._at(number)
        names = [name for name in file.schema_arrow.names if prefix is None or name.startswith(prefix)]
        return file.read_row_group(inside, columns=names, use_threads=False)

    def _at(self, number: int) -> tuple[Any, int]:
        place = max(at for at, start in enumerate(self._starts[:-1]) if start <= number)
        path = self._pairs.files[place][0]
        if self._opened is None or self._opened[0] != path:
            self.close()
            fs, inner = need("fsspec", "ReadGroups").core.url_to_fs(path, **self._pairs.storage_options)
            try:
                opened = fs.open(inner, "rb")
            except FileNotFoundError as error:
                raise SourceError(
                    f"ReadGroups: {path} is not there. The files of group_by_key() must be there until all who use the "
                    f"groups are done, on every host under the same name."
                ) from error
            self._opened = path, need("pyarrow.parquet", "ReadGroups").ParquetFile(opened), opened
        return self._opened[1], number - self._starts[place]


def _keys(table: Any) -> list[Any]:
    """Return the keys of the rows of a table."""
    columns = [table.column(name).to_pylist() for name in table.column_names if name.startswith("key")]
    return list(zip(*columns, strict=True)) if "key_0" in table.column_names else columns[0]


def check_key(key: Any, kinds: Any = None) -> Any:
    """Return the type of a key: of a tuple, those of its fields. Raise unless it can be one, as the keys before are.

    Raises:
        InvalidTypeError: if it is not a string, bytes, an integer or a tuple of these, or of another type than others.
    """
    parts = key if isinstance(key, tuple) else (key,)
    found = tuple(type(part) for part in parts)
    if not parts or any(kind not in (str, bytes, int) for kind in found):
        raise InvalidTypeError(
            f"group_by_key() keys must be strings, bytes, integers, or tuples of these (got {show(key)}). Map other "
            f"keys to one of these first."
        )
    kind = (isinstance(key, tuple), found)
    if kinds not in (None, kind):
        raise InvalidTypeError(f"group_by_key() keys must all have the same type (got {show(key)} among others).")
    return kind


def _is_big(part: str | bytes | int) -> bool:
    return isinstance(part, int) and not -(1 << 63) <= part < 1 << 63


def rows_of(pairs: int, files: int) -> int:
    """Return how many rows a row group is to have, of so many pairs in so many files."""
    return min(_MOST_ROWS, max(_LEAST_ROWS, pairs // (files * _ROW_GROUPS)))


def write_sorted(pairs: Iterable[Pair], folder: str, storage_options: Mapping[str, Any], rows_each: int) -> SortedFile:
    """Write sorted pairs, whose values are pickled, into a new file; return it. Without pairs there is none.

    Args:
        pairs: the pairs, sorted by key.
        folder: the directory to write to.
        storage_options: for fsspec.
        rows_each: rows of a row group.
    """
    arrow, parquet = need("pyarrow", "group_by_key"), need("pyarrow.parquet", "group_by_key")
    fs, inner = need("fsspec", "group_by_key").core.url_to_fs(folder, **storage_options)
    name = f"{uuid.uuid4().hex}.parquet"
    rows: list[int] = []
    ends: list[tuple[Any, Any]] = []
    kind: Any = None
    writer: Any = None
    file: Any = None
    try:
        for some in _row_groups(pairs, rows_each):
            for key, _ in some:
                kind = check_key(key, kind)
            keys = list(zip(*(key for key, _ in some), strict=True)) if kind[0] else [[key for key, _ in some]]
            named = {f"key_{number}" if kind[0] else "key": values for number, values in enumerate(keys)}
            try:
                table = arrow.table({**named, "value": arrow.array([value for _, value in some], arrow.large_binary())})
            except OverflowError as error:
                big = next(key for key, _ in some if any(_is_big(part) for part in (key if kind[0] else (key,))))
                raise InvalidValueError(
                    f"group_by_key() integers of keys must fit into 64 bits (got {show(big)}). Make strings of them."
                ) from error
            except UnicodeEncodeError as error:
                raise InvalidValueError(
                    f"group_by_key() strings of keys must be encodable as UTF-8 (got {show(error.object)}). Make "
                    f"bytes of them: key.encode(errors='surrogatepass')."
                ) from error
            if writer is None:
                fs.makedirs(inner, exist_ok=True)
                file = fs.open(f"{inner}/{name}", "wb")
                writer = parquet.ParquetWriter(file, table.schema, compression="zstd")
            writer.write_table(table, row_group_size=len(some))
            rows.append(len(some))
            ends.append((some[0][0], some[-1][0]))
    finally:
        if writer is not None:
            writer.close()
            file.close()
    return SortedFile(f"{folder}/{name}", tuple(rows), tuple(ends))


def _row_groups(pairs: Iterable[Pair], rows_each: int) -> Iterator[list[Pair]]:
    some: list[Pair] = []
    size = 0
    for pair in pairs:
        some.append(pair)
        size += len(pair[1])
        if len(some) == rows_each or size >= _BYTES:
            yield some
            some, size = [], 0
    if some:
        yield some


def pickled(value: Any) -> bytes:
    """Return a value as `write_sorted` takes it."""
    return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)

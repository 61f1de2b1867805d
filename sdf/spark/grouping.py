"""group_by_key: sorts pairs onto storage so that `ReadGroups` can split also the values of one key.

Spark's own grouping sends all pairs of a key to one task, so one hot key holds up the job. Here a pair has a salt, and
goes by (key, salt) to one of many files, each with a like share of the pairs. A first job samples where to cut.
"""

from __future__ import annotations

import os
import random
import uuid
import zlib
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import RUN_DOCTOR, InvalidTypeError, InvalidValueError, SinkError, show
from sdf.extras import need
from sdf.grouping.sorted_pairs import Pairs, SortedFile, check_key, pickled, rows_of, write_sorted
from sdf.numbers import as_integer, is_integer
from sdf.spark.elements import check_rdd
from sdf.spark.jobs import explaining
from sdf.spark.payload import Marked

__all__ = ["group_by_key"]

_SAMPLES = 200  # for each file: the largest file then has about a fifth more than the mean
_SALTS = 1 << 32

Salted = tuple[Any, int]  # a key, and a number by which pairs of that key are told apart


def group_by_key(
    pairs: RDD[Any],
    *,
    path: str,
    key: str | None = None,
    files: int | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> RDD[Any]:
    """Group pairs by key on storage; ``run_sdf(groups, ReadGroups(fn))`` then runs a function over each group.

    The pairs of one key may lie in many files, each about as long as the others. So a key that has most of the pairs
    holds up neither the grouping nor, with ``ReadGroups(fn, parts=True)``, the function. The pairs are computed twice:
    ``cache()`` them if that is expensive.

    Args:
        pairs: (key, value); a key is a string, bytes, an integer, or a tuple of these. All keys have one type. Or a
            DataFrame, with ``key``.
        path: a directory, or a URL such as ``s3://bucket/tmp``, that the driver and all executors reach. The files lie
            in a new directory in it; remove it when nobody uses the groups any more.
        key: of a DataFrame, the name of the column; the values are rows as dicts.
        files: number of files; None: as many as the pairs have partitions, or slots if there are more.
        storage_options: for fsspec.

    Returns:
        An RDD of one element, for `sdf.io.ReadGroups`.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments, pairs or keys.
        MissingExtraError: if pyarrow or fsspec is not installed; they are in the extra ``parquet``.
        SinkError: if the driver does not see what the executors wrote.
        StageError: if a job fails.
    """
    is_frame = hasattr(pairs, "columns")
    if is_frame and key is None:
        raise InvalidTypeError("group_by_key() needs the column to group a DataFrame by: pass key='its name'.")
    if key is not None and not is_frame:
        raise InvalidTypeError(
            f"group_by_key() key is for DataFrames (got {show(pairs)}): an RDD has pairs (key, value). Leave it out."
        )
    if key is not None:
        pairs = _pairs_of(pairs, key)
    check_rdd(pairs, "group_by_key()")
    if not isinstance(path, str) or not path:
        raise InvalidTypeError(f"group_by_key() path must be a directory or a URL (got {show(path)}).")
    wanted = as_integer(files)
    if wanted is not None and (not is_integer(wanted) or wanted < 1):
        raise InvalidValueError(f"group_by_key() files must be an integer >= 1, or None (got {show(files)}).")
    if storage_options is not None and not isinstance(storage_options, Mapping):
        raise InvalidTypeError(f"group_by_key() storage_options must be a mapping (got {show(storage_options)}).")
    need("pyarrow.parquet", "group_by_key")
    fsspec = need("fsspec.core", "group_by_key")
    sc, run_id, options = pairs.context, uuid.uuid4().hex, dict(storage_options or {})
    number = wanted or max(pairs.getNumPartitions(), sc.defaultParallelism)
    base = path if "://" in path else os.path.abspath(path)
    folder = f"{base.rstrip('/')}/groups-{run_id}"
    fs, inner = fsspec.url_to_fs(folder, **options)
    try:
        with explaining("group_by_key()", run_id):
            sampled = pairs.mapPartitionsWithIndex(Marked(run_id, partial(_sample, _SAMPLES * number))).collect()
            kinds = [sample.kind for sample in sampled if sample.kind is not None]
            if any(kind != kinds[0] for kind in kinds):
                raise InvalidTypeError(f"group_by_key() keys must all have the same type (got {show(kinds)}).")
            cuts = _cuts(sampled, number)
            repeated = frozenset().union(*(sample.repeated for sample in sampled))
            salted = pairs.mapPartitionsWithIndex(Marked(run_id, partial(_salt, repeated)))
            in_order = salted.repartitionAndSortWithinPartitions(number, _Place(cuts))
            rows_each = rows_of(sum(sample.count for sample in sampled), number)
            write = Marked(run_id, partial(_write, folder, options, rows_each))
            written = in_order.mapPartitionsWithIndex(write).collect()
    except Exception:
        with suppress(OSError):  # the error of the job says more
            fs.rm(inner, recursive=True)
        raise
    fs.invalidate_cache()
    names = {name.rsplit("/", 1)[-1] for name in fs.ls(inner, detail=False)} if fs.exists(inner) else set()
    lost = [file.path for file in written if file.rows and file.path.rsplit("/", 1)[-1] not in names]
    if lost:
        raise SinkError(
            f"group_by_key(): executors wrote {len(lost)} files that this driver does not see, such as {lost[0]!r}. "
            f"Give a path that all hosts share, such as a URL of an object store (got path={path!r}). {RUN_DOCTOR}"
        )
    return sc.parallelize([Pairs.of(written, options)], 1)


def _pairs_of(frame: Any, key: str) -> RDD[Any]:
    """Return the rows of a DataFrame as pairs."""
    columns = list(getattr(frame, "columns", ()))
    if key not in columns:
        raise InvalidValueError(
            f"group_by_key() key must name a column of a DataFrame (got {key!r}; it has {columns})."
        )
    if len(set(columns)) < len(columns):
        raise InvalidValueError(f"group_by_key() needs columns with names of their own (got {columns}).")
    rows: RDD[Any] = frame.rdd
    return rows.map(lambda row: (row[key], row.asDict(recursive=True)))


@attrs.frozen
class _Sampled:
    """Some pairs of a partition: the type of its keys, the number of its pairs, and some of these with a salt.

    Attributes:
        repeated: checksums of values that some of them have in common.
    """

    kind: Any
    count: int
    some: list[Salted]
    repeated: frozenset[int]


def _sample(most: int, partition: int, pairs: Iterable[Any]) -> Iterator[_Sampled]:
    """Take as many pairs of a partition, each as likely as any other."""
    choose = random.Random(partition)
    some: list[Salted] = []
    values: list[Any] = []
    kind, count = None, 0
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InvalidTypeError(f"group_by_key() needs pairs (key, value) (got {show(pair)}).")
        kind = check_key(pair[0], kind)
        count += 1
        if len(some) < most:
            some.append((pair[0], choose.randrange(_SALTS)))
            values.append(pair[1])
        elif (at := choose.randrange(count)) < most:
            some[at] = (pair[0], choose.randrange(_SALTS))
            values[at] = pair[1]
    seen = Counter(zlib.crc32(pickled(value)) for value in values)
    yield _Sampled(kind, count, some, frozenset(checksum for checksum, times in seen.items() if times > 1))


def _cuts(sampled: list[_Sampled], number: int) -> list[Salted]:
    """Return where to cut the sorted pairs into files of about the same number of pairs."""
    weighed = sorted((one, sample.count / len(sample.some)) for sample in sampled for one in sample.some)
    whole = sum(weight for _, weight in weighed)
    cuts: list[Salted] = []
    passed = 0.0
    for one, weight in weighed:
        passed += weight
        if len(cuts) + 1 < number and passed >= whole * (len(cuts) + 1) / number:
            cuts.append(one)
    return cuts


def _salt(repeated: frozenset[int], partition: int, pairs: Iterable[Any]) -> Iterator[tuple[Salted, bytes]]:
    """Give a pair its salt: a checksum of its value, so that Spark may run it again and find it in the same file.

    Pairs whose value is repeated are numbered, too. It does not matter which of them has which number.
    """
    times: Counter[int] = Counter()
    for key, value in pairs:
        data = pickled(value)
        checksum = zlib.crc32(data)
        salt = zlib.crc32(data, partition)
        if checksum in repeated:
            times[checksum] += 1
            salt = zlib.crc32(times[checksum].to_bytes(8, "big"), salt)
        yield (key, salt), data


@attrs.define
class _Place:
    """Tells the file of a key with its salt."""

    _cuts: list[Salted]

    def __call__(self, salted: Salted) -> int:
        return bisect_right(self._cuts, salted)


def _write(
    folder: str, options: Mapping[str, Any], rows_each: int, partition: int, pairs: Iterable[tuple[Salted, bytes]]
) -> Iterator[SortedFile]:
    """Write the sorted pairs of a partition, and give the file."""
    sorted_pairs = ((salted[0], data) for salted, data in pairs)
    yield write_sorted(sorted_pairs, folder, options, rows_each)

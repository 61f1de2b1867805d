"""DeltaFiles: the Parquet files of one commit to a Delta table, from staging to where the table's files are."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import date
from typing import Any

from sdf.errors import SinkError
from sdf.extras import need
from sdf.sinks.on_objects import objects_at
from sdf.sinks.parquet import SCHEMA
from sdf.sinks.sink import SinkRun
from sdf.sinks.stage import NONCE, Stage, nonce_of
from sdf.sinks.uploads import asking
from sdf.storage.disk import Disk
from sdf.storage.objects import Objects

__all__ = ["DeltaFiles", "stats_of"]

_AT_ONCE = 16  # requests to an object store
_LONGEST = 32  # texts in statistics, in characters, as of other writers


class DeltaFiles:
    """The files of one commit.

    Args:
        path: the path or URL of the table.
        stage: where workers put the files.
    """

    def __init__(self, path: str, stage: Stage) -> None:
        self._path = path
        self._stage = stage
        token = stage.token
        self._key = hashlib.sha256(repr((token.app, token.version)).encode()).hexdigest()[:16]
        self._staging: Any
        self._target: Any
        if "://" in path:
            self._target = objects_at(path)
            self._staging = Objects(self._target.fs, stage.where, "the path of DeltaTable")
        else:
            self._target, self._staging = Disk(path), Disk(stage.where)

    def published(self, name: str) -> str:
        """Return the name that a file has among the table's: no other commit has it."""
        return f"part-{self._key}-{name}"

    def begin(self, run: SinkRun) -> None:
        """Make staging; raise SinkError if it is that of another output."""
        with suppress(FileExistsError):
            self._staging.create(NONCE, nonce_of(run.token, run.tag))
        self._stage.check(run.tag)

    def propose(self, schema: Any) -> None:
        """Make this the schema of all files, unless an earlier driver has made one."""
        with suppress(FileExistsError):
            self._staging.create(SCHEMA, schema.serialize().to_pybytes())

    def schema(self) -> Any:
        """Return the schema of the files, None if it is not known yet."""
        arrow = need("pyarrow", "DeltaTable")
        data = self._stage.read(SCHEMA)
        return None if data is None else arrow.ipc.read_schema(arrow.py_buffer(data))

    def publish(self, sizes: Mapping[str, int], *, anew: bool) -> None:
        """Put files, given by their sizes, where the table's are; raise SinkError if one is not what was written.

        Args:
            anew: also those that are there, which makes them young: a driver that died long ago may have put them
                there, and a VACUUM removes what no version names by its age.
        """
        if self._stage.read(NONCE) is None:
            raise SinkError(
                f"DeltaTable cannot commit {self._stage.token} to {self._path!r}: the table does not hold it, and the "
                f"staging directory {self._stage.where!r} is not there. Both were removed, or the path is another one "
                f"than before. Start over with a new checkpoint."
            )
        staged, there = self._staged(sizes), self._there(sizes)
        for name, size in sizes.items():
            found = there.get(name, staged.get(name))
            if found != size:
                raise self._lost(name, size, found)
        self._put([name for name in sizes if name not in there or (anew and name in staged)])

    def restore(self, sizes: Mapping[str, int]) -> None:
        """Publish again what was removed before the version that names it was there, if staging still is."""
        staged, there = self._staged(sizes), self._there(sizes)
        self._put([name for name, size in sizes.items() if name not in there and staged.get(name) == size])

    def withdraw(self, names: Iterable[str]) -> None:
        """Remove published files that no version names."""
        self._for_all(names, lambda name: self._target.remove(self.published(name)))

    def _staged(self, names: Iterable[str]) -> dict[str, int]:
        """Return which files are in staging, with their sizes."""
        return self._found(self._staging, "", names)

    def _there(self, names: Iterable[str]) -> dict[str, int]:
        """Return which files are published, with their sizes."""
        return self._found(self._target, self.published(""), names)

    @staticmethod
    def _found(place: Any, prefix: str, names: Iterable[str]) -> dict[str, int]:
        if isinstance(place, Disk):
            sizes = {name: place.size(f"{prefix}{name}") for name in names}
            return {name: size for name, size in sizes.items() if size is not None}
        with asking(place.root):  # one request for a thousand files
            place.fs.invalidate_cache()
            found = place.fs.find(place.key, detail=True, prefix=prefix)
        start = len(f"{place.key}/{prefix}")
        return {str(info["name"])[start:]: int(info["size"]) for info in found.values()}

    def _put(self, names: Iterable[str]) -> None:
        self._for_all(names, self._link if isinstance(self._target, Disk) else self._copy)
        self._target.sync("")

    def _link(self, name: str) -> None:
        published = self._target.root / self.published(name)
        with suppress(FileExistsError):
            os.link(self._staging.root / name, published)
        os.utime(published)

    def _copy(self, name: str) -> None:
        with asking(name):
            self._target.fs.copy(f"{self._staging.key}/{name}", f"{self._target.key}/{self.published(name)}")

    def _lost(self, name: str, size: int, found: int | None) -> SinkError:
        what = "is not there" if found is None else f"has {found} bytes"
        return SinkError(
            f"DeltaTable cannot commit {self._stage.token} to {self._path!r}: the file {name!r} of {size} bytes "
            f"{what}, neither in the table's directory nor in {self._stage.where!r}. Nothing was added. It was written "
            f"and then removed or changed by somebody else; restore it and run again, or start over with a new "
            f"checkpoint."
        )

    @staticmethod
    def _for_all(names: Iterable[str], function: Callable[[str], None]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(function, names))


def stats_of(footer: Any) -> dict[str, Any]:
    """Return the statistics of a Parquet file as Delta has them: rows, nulls and the ends of the simplest columns."""
    low: dict[str, Any] = {}
    high: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for number in range(footer.num_columns):
        name = footer.schema.column(number).path
        groups = [footer.row_group(group).column(number) for group in range(footer.num_row_groups)]
        stats = [group.statistics for group in groups]
        if name not in footer.schema.to_arrow_schema().names or not all(one and one.has_null_count for one in stats):
            continue  # nested, or unknown
        nulls[name] = sum(one.null_count for one in stats)
        ends = [(one.min, one.max) for one in stats if one.has_min_max]
        unknown = any(not one.has_min_max and one.num_values for one in stats)
        if ends and not unknown and all(map(_is_simple, (value for pair in ends for value in pair))):
            low[name] = _as_json(min(pair[0] for pair in ends))
            high[name] = _as_json(max(pair[1] for pair in ends))
    return {"numRecords": footer.num_rows, "minValues": low, "maxValues": high, "nullCount": nulls}


def _is_simple(value: Any) -> bool:
    """Tell whether statistics mean the same to everybody: not so for NaN, times and long texts."""
    return type(value) in (int, date) or (type(value) is str and len(value) <= _LONGEST)


def _as_json(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value

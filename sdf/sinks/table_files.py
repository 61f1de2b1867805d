"""TableFiles: the Parquet files of one commit to a table, from staging to where the files of the table are."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from sdf.errors import SinkError
from sdf.sinks.on_objects import objects_at
from sdf.sinks.schema import SCHEMA, proposed
from sdf.sinks.sink import SinkRun
from sdf.sinks.stage import NONCE, Stage, nonce_of
from sdf.storage.disk import TEMPORARY, Disk, has_links
from sdf.storage.objects import asking

__all__ = ["TableFiles"]

_AT_ONCE = 16  # requests to an object store
_COPIED_BYTES = 1 << 20  # at once, of each file


class TableFiles:
    """The files of one commit.

    Args:
        path: the path or URL of the directory in which the files of the table are.
        stage: where workers put the files.
    """

    def __init__(self, path: str, stage: Stage) -> None:
        self._path = path
        self._who = stage.who
        self._stage = stage
        token = stage.token
        self._key = hashlib.sha256(repr((token.app, token.version)).encode()).hexdigest()[:16]
        self._staging: Any = stage.staging
        self._target: Any = objects_at(path) if "://" in path else Disk(path)

    def published(self, name: str) -> str:
        """Return the name that a file has among the table's: no other commit has it."""
        return f"part-{self._key}-{name}"

    def begin(self, run: SinkRun) -> None:
        """Make staging; raise SinkError if it is that of another output."""
        with suppress(FileExistsError):
            self._staging.create(NONCE, nonce_of(run.token, run.tag))
        self._stage.check(run.tag)

    def propose(self, schema: Any) -> None:
        """Make this the schema of all files that are written from now on.

        An earlier driver may have stopped because its schema did not fit the records.
        """
        self._staging.replace(SCHEMA, schema.serialize().to_pybytes())

    def any_written(self) -> bool:
        """Return whether staging has files for the table."""
        return not {NONCE, SCHEMA} >= set(self._staging.names(""))

    def schema(self) -> Any:
        """Return the schema of the files, None if it is not known yet."""
        return proposed(self._stage)

    def publish(self, sizes: Mapping[str, int], *, anew: bool) -> None:
        """Put files, given by their sizes, where the table's are; raise SinkError if one is not what was written.

        Args:
            anew: also those that are there, which makes them young: a driver that died long ago may have put them
                there, and a VACUUM removes what no version names by its age.
        """
        if self._stage.read(NONCE) is None:
            raise SinkError(
                f"{self._who} cannot commit {self._stage.token} to {self._path!r}: the table does not hold it, and the "
                f"staging directory {self._stage.where!r} is not there. Both were removed, or the path is another one "
                f"than before. Start over with a new checkpoint."
            )
        staged, there = self._look(sizes)
        for name, size in sizes.items():
            found = there.get(name, staged.get(name))
            if found != size:
                raise self._lost(name, size, found)
        self._put([name for name in sizes if name not in there or (anew and name in staged)])

    def restore(self, sizes: Mapping[str, int]) -> None:
        """Publish again what was removed before the version that names it was there, if staging still is."""
        staged, there = self._look(sizes)
        self._put([name for name, size in sizes.items() if name not in there and staged.get(name) == size])

    def withdraw(self, names: Iterable[str]) -> None:
        """Remove published files that no version names."""
        self._for_all(names, lambda name: self._target.remove(self.published(name)))

    def _look(self, names: Iterable[str]) -> tuple[dict[str, int], dict[str, int]]:
        """Return which files are in staging, and which are published, with their sizes."""
        return self._found(self._staging, "", names), self._found(self._target, self.published(""), names)

    @staticmethod
    def _found(place: Any, prefix: str, names: Iterable[str]) -> dict[str, int]:
        if isinstance(place, Disk):
            sizes = place.sizes(f"{prefix}{name}" for name in names)
            return {name.removeprefix(prefix): size for name, size in sizes.items()}
        with asking(place.root):  # one request for a thousand files
            place.fs.invalidate_cache()
            found = place.fs.find(place.key, detail=True, prefix=prefix)
        start = len(f"{place.key}/{prefix}")
        return {str(info["name"])[start:]: int(info["size"]) for info in found.values()}

    def _put(self, names: Sequence[str]) -> None:
        if isinstance(self._target, Disk):
            os.makedirs(self._target.root, exist_ok=True)
            Disk(self._target.root.parent).sync("")
            links = not names or has_links(self._staging.root)  # without names staging may have gone
            self._for_all(names, self._link if links else self._copy_on_disk)
        else:
            self._for_all(names, self._copy)
        self._target.sync("")

    def _link(self, name: str) -> None:
        published = self._target.root / self.published(name)
        with suppress(FileExistsError):
            os.link(self._staging.root / name, published)
        os.utime(published)

    def _copy_on_disk(self, name: str) -> None:
        """Copy a file, where there are no links; staging keeps its own for `restore`."""
        temporary = self._staging.root / f"{name}{TEMPORARY}{uuid.uuid4().hex}"
        with open(self._staging.root / name, "rb") as staged, open(temporary, "xb") as file:
            shutil.copyfileobj(staged, file, _COPIED_BYTES)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self._target.root / self.published(name))

    def _copy(self, name: str) -> None:
        with asking(name):
            self._target.fs.copy(f"{self._staging.key}/{name}", f"{self._target.key}/{self.published(name)}")

    def _lost(self, name: str, size: int, found: int | None) -> SinkError:
        what = "is not there" if found is None else f"has {found} bytes"
        return SinkError(
            f"{self._who} cannot commit {self._stage.token} to {self._path!r}: the file {name!r} of {size} bytes "
            f"{what}, neither in the table's directory nor in {self._stage.where!r}. Nothing was added. It was written "
            f"and then removed or changed by somebody else; restore it and run again, or start over with a new "
            f"checkpoint."
        )

    @staticmethod
    def _for_all(names: Iterable[str], function: Callable[[str], None]) -> None:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            list(pool.map(function, names))

"""DiskStage: staging on a local or network disk; the commit is one rename of a directory where there are hard links.

Order of a commit: the named files are linked into a directory ``commit`` within staging, with the marker; then that is
synced, and renamed to the target. Links leave the files where they are as well, so a loss of power at any point leaves
each in one of the two. The system renames a directory only over one that is empty, so nothing is overwritten.

A disk without links is likely a mount of an object store, which copies a directory that is renamed file by file. There
the commit renames the files, and puts a marker last (`sdf.sinks.by_pieces`). A commit that began so goes on so.

A worker makes no directory: an attempt that outlives its run cannot bring staging back.
"""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import BinaryIO

from sdf.errors import SinkError
from sdf.sinks.by_pieces import StageByPieces
from sdf.sinks.sink import Token
from sdf.sinks.stage import COMMITTED, NONCE
from sdf.storage.ballots import BALLOT
from sdf.storage.disk import Disk, has_links

__all__ = ["DiskStage"]

_COMMIT = "commit"
_PAUSES_SECONDS = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0)  # before a directory whose listing lags behind is removed again


class DiskStage(StageByPieces):
    """See the module."""

    def __init__(self, path: str, beside: str, token: Token, who: str) -> None:
        super().__init__(path, beside, token, who)
        self.staging = Disk(self.where)
        self.target = Disk(path)

    def _secure(self) -> None:
        for directory in (os.path.dirname(self.path), self.beside, self.where):
            _sync(directory)  # an earlier driver may have died before it did

    def create(self, name: str, data: bytes) -> None:
        Disk(self.where, makes=False).create(name, data)

    @contextmanager
    def open(self, name: str) -> Iterator[BinaryIO]:
        path = os.path.join(self.where, name)
        file = open(path, "xb")  # noqa: SIM115, it is closed below before it is removed
        try:
            yield file
            file.flush()
            os.fsync(file.fileno())
            file.close()
            _sync(self.where)
        except BaseException:
            with suppress(OSError):  # it writes what is buffered, and the disk may be full
                file.close()
            self.remove(name)
            raise

    def committed(self) -> bool:
        try:
            found = super().committed()
        except NotADirectoryError:
            return False
        if found:
            _sync(os.path.dirname(self.path))  # an earlier driver may have died before it did
        return found

    def commit(self, files: Mapping[str, int]) -> None:
        self._check_free()
        staging, commit = Disk(self.where, makes=False), os.path.join(self.where, _COMMIT)
        if staging.size(NONCE) is None:
            raise self._gone()
        if self._is_claimed() or not has_links(self.where):
            super().commit(files)
            return
        with suppress(FileExistsError):
            os.mkdir(commit)
        with suppress(FileExistsError):
            staging.create(COMMITTED, str(self.token).encode())
        for name, size in files.items():
            self._link(name, size)
        self._link(COMMITTED, len(str(self.token).encode()))
        others = sorted(set(os.listdir(commit)) - set(files) - {COMMITTED})
        if others:
            raise SinkError(
                f"{self.who} cannot commit {self.token} to {self.path!r}: {commit!r} has {others[0]!r}, which this "
                f"commit does not name. Nothing was committed. Remove what sdf did not write there, and run again."
            )
        _sync(commit)
        try:
            os.rename(commit, self.path)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):  # it was made since it was looked at
                self._check_free()
            raise
        _sync(os.path.dirname(self.path))

    def _put(self, names: Iterable[str]) -> None:
        move = os.link if has_links(self.where) else os.rename  # onto a name that is free, as file names are random
        for name in names:
            with suppress(FileExistsError, FileNotFoundError):  # another driver does so too; `_publish` looks after it
                move(os.path.join(self.where, name), os.path.join(self.path, name))
        _sync(self.path)

    def _sizes(self, place: Disk, names: Collection[str]) -> dict[str, int]:
        return place.sizes(names)

    def _names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.path) if BALLOT not in name]
        except FileNotFoundError:
            return []
        except NotADirectoryError as error:
            raise SinkError(f"{self.who} makes a directory, but {self.path!r} is a file. Give another path.") from error

    def _is_claimed(self) -> bool:
        with suppress(NotADirectoryError):
            return super()._is_claimed()
        return False

    def open_result(self, ending: str) -> BinaryIO | None:
        name = next((name for name in sorted(self._names()) if name.endswith(ending)), None)
        return None if name is None else open(os.path.join(self.path, name), "rb")

    def _link(self, name: str, size: int) -> None:
        """Put a file of staging into the commit, unless it is there; raise SinkError if it is not what was written."""
        target = os.path.join(self.where, _COMMIT, name)
        try:
            os.link(os.path.join(self.where, name), target)
        except FileExistsError:
            pass
        except FileNotFoundError as error:
            raise self._lost(name, size, None) from error
        found = os.stat(target).st_size
        if found != size:
            os.unlink(target)
            raise self._lost(name, size, found)

    def clean(self) -> None:
        gone = f"{self.where}.removed"  # renamed first, so that nothing is put there while it is being removed
        _remove_tree(gone)
        with suppress(FileNotFoundError):
            os.rename(self.where, gone)
        _remove_tree(gone)
        with suppress(OSError):  # the log of a run is there, or another stage
            os.rmdir(self.beside)

    def _check_free(self) -> None:
        if os.path.islink(self.path) or os.path.ismount(self.path):
            raise SinkError(
                f"{self.who} makes the directory {self.path!r} by renaming another, but there is a link or a mount "
                f"point. Give the path of a directory within it."
            )
        super()._check_free()


def _remove_tree(path: str) -> None:
    """Remove a directory, if there is one; again if its listing lags behind, or another driver is at it too."""
    for pause_seconds in (*_PAUSES_SECONDS, None):
        try:
            shutil.rmtree(path)
            return
        except OSError as error:
            if not os.path.lexists(path):
                return
            if pause_seconds is None or error.errno not in (errno.ENOTEMPTY, errno.ENOENT):
                raise
        time.sleep(pause_seconds)


def _sync(directory: str) -> None:
    Disk(directory).sync("")

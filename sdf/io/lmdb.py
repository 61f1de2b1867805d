"""ReadLmdb: the records of LMDB environments, by ranges of keys.

LMDB forbids opening an environment twice in a process. A process may have several DoFns that read the same environment,
or one that runs a part while another waits. So readers share the open environment, and the last reader closes it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

from sdf import ByteKeyRange
from sdf.errors import InvalidTypeError, SourceError, show
from sdf.extras import need
from sdf.io.connector import Connector
from sdf.io.options import as_size

__all__ = ["ReadLmdb"]

_READ_ALL = """
import json, lmdb, sys
with lmdb.open(sys.argv[1], max_dbs=128, **json.loads(sys.argv[2])) as environment, environment.begin() as reading:
    names = [name for name, value in reading.cursor() if len(value) == 48]  # of a named database
    for name in names:
        try:
            database = environment.open_db(name, reading, create=False)
        except lmdb.Error:
            continue
        for _ in reading.cursor(database):
            pass
"""
_MOST_DATABASES = 128  # named databases that may be open at a time in one environment
_opened: dict[str, tuple[Any, int]] = {}  # by real path: the environment, and how many read it
_opening = Lock()


class ReadLmdb(Connector):
    """Reads LMDB. Element: a path, or ``(path, name)`` of a named database. Gives ``(key, value)``, both bytes.

    Position: the first ``block_prefix_bytes`` bytes of a key, or all of a shorter key. All keys with the same such
    prefix are one block. If a key has several values, all are in its block. The unnamed database of an environment
    with named databases holds their names.

    The range of keys is pinned when the run is planned. Each part sees the database as it is when the part begins: do
    not write while a run reads.

    Args:
        block_prefix_bytes: length of the key prefix that makes a block; None makes each key a block, and claims then
            cost more than reads. Choose a prefix that some hundred keys share, with enough different prefixes to split.
        with_position: yield ``((element, key), value)`` instead of ``(key, value)``.
        lock: False opens without LMDB's lock file, for a file system where it cannot be written. Then nobody may write
            while a run reads.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type or value.
        SourceError: when it runs, if there is no such environment or database, or its keys are not in byte order.
    """

    def __init__(
        self, *, block_prefix_bytes: int | None = None, with_position: bool = False, lock: bool = True
    ) -> None:
        if block_prefix_bytes is not None:
            block_prefix_bytes = as_size(block_prefix_bytes, "ReadLmdb block_prefix_bytes")
        self.block_prefix_bytes = block_prefix_bytes
        self.with_position = with_position
        self.lock = lock

    def get_initial_restriction(self, element: Any) -> ByteKeyRange:
        with self._cursor(element) as cursor:
            if not cursor.last():
                return ByteKeyRange(b"", b"\x00")
            stop = cursor.key() + b"\x00"
            cursor.first()
            return ByteKeyRange(self._block(cursor.key()), stop)

    def process(self, element: Any, tracker: Any) -> Iterator[Any]:
        with self._cursor(element) as cursor:
            block = None
            for key, value in self._from(cursor, tracker.current_restriction().start):
                if block is None or self._block(key) != block:
                    block = self._block(key)
                    if not tracker.try_claim(block):
                        return
                yield ((element, key), value) if self.with_position else (key, value)
        tracker.try_claim(b"")

    def _block(self, key: bytes) -> bytes:
        return key[: self.block_prefix_bytes]

    def _from(self, cursor: Any, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Return the records from the first block at or after a position on."""
        found = cursor.set_range(start)
        if found and self._block(cursor.key()) < start:
            following = _after(self._block(cursor.key()))
            found = following is not None and cursor.set_range(following)
        return cursor.iternext() if found else iter(())

    @contextmanager
    def _cursor(self, element: Any) -> Iterator[Any]:
        """Return a context manager for a cursor, which sees the database as it is now."""
        path, name = _split(element)
        lmdb = need("lmdb", "ReadLmdb")
        with _environment(lmdb, path, self.lock) as environment:
            try:
                database = environment.open_db(None if name is None else name.encode(), create=False)
            except (lmdb.NotFoundError, lmdb.IncompatibleError, lmdb.BadValsizeError) as error:  # an ordinary key, ""
                raise SourceError(f"ReadLmdb: there is no database {name!r} in {path!r}.") from error
            with environment.begin(database) as reading:
                flags = database.flags(reading)
                if flags["integerkey"] or flags["reverse_key"]:
                    raise SourceError(
                        f"ReadLmdb: {show(element)} was made with "
                        f"{'integerkey' if flags['integerkey'] else 'reverse_key'}, so its keys are not in the order "
                        f"of their bytes, and it cannot be split by ranges of them. Read it with your own DoFn."
                    )
                with reading.cursor() as cursor:
                    yield cursor


def _split(element: Any) -> tuple[str, str | None]:
    path, name = element if isinstance(element, tuple) and len(element) == 2 else (element, None)
    if not isinstance(path, (str, os.PathLike)) or not (name is None or isinstance(name, str)):
        raise InvalidTypeError(f"ReadLmdb reads a path, or (path, name) of a named database (got {show(element)}).")
    return os.fspath(path), name


def _after(prefix: bytes) -> bytes | None:
    """Return the lowest key that is greater than all keys with a prefix; None if there is none."""
    shorter = prefix.rstrip(b"\xff")
    return shorter[:-1] + bytes([shorter[-1] + 1]) if shorter else None


@contextmanager
def _environment(lmdb: Any, path: str, lock: bool) -> Iterator[Any]:
    """Return a context manager for the open environment of a path; see the module's docstring."""
    name = os.path.realpath(path)
    with _opening:
        environment, readers = _opened.get(name, (None, 0))
        if environment is None:
            environment = _open(lmdb, path, lock)
        _opened[name] = environment, readers + 1
    try:
        yield environment
    finally:
        with _opening:
            _, readers = _opened.pop(name)
            if readers > 1:
                _opened[name] = environment, readers - 1
            else:
                environment.close()


def _open(lmdb: Any, path: str, lock: bool) -> Any:
    if not os.path.exists(path):
        raise SourceError(f"ReadLmdb: there is no environment {path!r} on host {socket.gethostname()!r}.")
    options = {"subdir": os.path.isdir(path), "readonly": True, "create": False, "lock": lock}
    try:
        environment = lmdb.open(path, max_dbs=_MOST_DATABASES, **options)
    except lmdb.Error as error:
        raise SourceError(
            f"ReadLmdb cannot open {path!r} ({error}). It must be an environment that this process does not hold open "
            f"itself; where no lock file can be written, pass lock=False."
        ) from error
    _check_size(path, options, environment)
    return environment


def _check_size(path: str, options: dict[str, Any], environment: Any) -> None:
    """Raise SourceError if pages are missing that the environment needs: to read one would end the process.

    A file may be shorter than its last page says, if the pages at its end are free. So such a file is tried, by another
    process, which reads all of it.
    """
    file = os.path.join(path, "data.mdb") if options["subdir"] else path
    found, expected = os.path.getsize(file), (environment.info()["last_pgno"] + 1) * environment.stat()["psize"]
    if found < expected and subprocess.run([sys.executable, "-c", _READ_ALL, path, json.dumps(options)]).returncode < 0:
        environment.close()
        raise SourceError(
            f"ReadLmdb cannot read {path!r}: {file!r} is cut off. It has {found} bytes, and should have {expected}."
        )

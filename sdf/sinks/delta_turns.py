"""Turns: which run may add the next version to a Delta table on a disk without hard links.

delta-rs publishes a version by a link. Without links it looks whether the version exists, and then renames a file onto
it. Of two that do so at once both succeed, and the table has one of the two: 27 of 60 versions were left in a trial.

So a run first creates a file that names it, exclusively; only the run that is named there may add that version. It
removes the file once the version exists, as delta-rs then refuses to add it again. If a run dies in its turn, the same
call goes on with it. Nobody else can tell that it is dead, so other runs wait, and then raise.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sdf.errors import SinkError
from sdf.sinks.sink import Token
from sdf.sinks.stage import content_of
from sdf.storage.disk import Disk

__all__ = ["give_back", "turn"]

_WAIT_SECONDS = 60.0
_LOOK_SECONDS = 0.1


@contextmanager
def turn(table: str, version: int, token: Token) -> Iterator[bool]:
    """Wait for the turn to add a version to a table; yield whether the version is still to be added.

    Raises:
        SinkError: if another run has the turn and does not add the version.
    """
    storage, name = Disk(f"{table}/_sdf"), f"turns/{version:020d}"
    added = Path(table, "_delta_log", f"{version:020d}.json")
    mine, owner = str(token).encode(), b""
    until = time.monotonic() + _WAIT_SECONDS
    while owner != mine:
        try:
            storage.create(name, mine)
            owner = mine
        except FileExistsError:
            owner = content_of(storage, name) or b""  # it may have been removed since
            if owner != mine and added.exists():
                yield False
                return
            if owner not in (b"", mine) and time.monotonic() > until:
                raise SinkError(
                    f"DeltaTable cannot add {token} to {table!r}: the run {owner.decode()} has begun to add version "
                    f"{version}, and has not done so for {_WAIT_SECONDS:.0f} s. The disk has no hard links, so runs "
                    f"take turns. Make the call of that run again, which adds it. If nobody needs that run any more "
                    f"and no process of it is left, remove {str(storage.root / name)!r}."
                ) from None
            time.sleep(0 if owner == mine else _LOOK_SECONDS)
    yield True
    if added.exists():
        storage.remove(name)


def give_back(table: str, token: Token) -> None:
    """Give back the turns of a run that has ended, or has been given up."""
    storage = Disk(f"{table}/_sdf")
    for name in storage.names("turns"):
        if content_of(storage, name) == str(token).encode():
            storage.remove(name)

"""What the driver and the workers try: a file at a place, the driver's port, PyArrow. Nothing that they make stays."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeVar

from sdf.errors import RUN_DOCTOR, InvalidValueError, MissingExtraError, SdfError, SinkError
from sdf.spark.door.arrow import arrow_hindrance
from sdf.spark.door.hadoop import hadoop_files
from sdf.spark.live.link import Address, connect
from sdf.storage.disk import TEMPORARY, Disk
from sdf.storage.places import storage_at

__all__ = ["PLACE_SECONDS", "answers", "attempt", "trial_at"]

T = TypeVar("T")

_HALF_SECONDS = 5.0  # for the driver's host to answer, and again for the driver
PLACE_SECONDS = 10.0  # for a store to answer


def attempt(seconds: float, function: Callable[[], T]) -> tuple[T | None, str]:
    """Return what a function gives, and why it fails, "" if it does not; one that takes longer is left alone."""
    given: list[tuple[T | None, str]] = [(None, f"no answer within {seconds:.0f} s")]

    def run() -> None:
        try:
            given.append((function(), ""))
        except Exception as error:  # of any kind, as of the client of a store: `doctor` shows it
            why = f"{error}" if isinstance(error, SdfError) else f"{type(error).__name__}: {error}"
            given.append((None, why.removesuffix(f" {RUN_DOCTOR}")))

    thread = threading.Thread(target=run, name="sdf-doctor", daemon=True)
    thread.start()
    thread.join(seconds)
    return given[-1]


def answers(
    address: tuple[str, int, bytes, bytes] | None, root: str | None, run: str, nonce: bytes, place_seconds: float
) -> dict[str, str | None]:
    """Return the answers of this worker, as `Worker` has them.

    Args:
        address: the fields of an `Address`; None if there is none.
        root: the place, None if the driver cannot write there.
        run, nonce: as for `trial_at`.
        place_seconds: how long to wait for the place.
    """
    port = (
        None
        if address is None
        else attempt(2 * _HALF_SECONDS, lambda: connect(Address(*address), _HALF_SECONDS, _HALF_SECONDS)[0].close())[1]
    )
    place = None if root is None else attempt(place_seconds, lambda: _look(root, run, nonce))[1]
    return {"port": port, "place": place, "arrow": arrow_hindrance()}


def _look(root: str, run: str, nonce: bytes) -> None:
    """See that this is the driver's place, and write there."""
    storage = storage_at(root, "doctor() path")
    with suppress(FileNotFoundError, NotADirectoryError):
        if storage.read(_name(run)) == nonce:
            mine = f"{_name(run)}-{storage.writer}"
            try:
                storage.create(mine, nonce)
            finally:
                storage.remove(mine)
            return
    raise SinkError("another place than the driver's: its file is not there")


@contextmanager
def trial_at(path: str | os.PathLike[str], run: str, nonce: bytes) -> Iterator[tuple[str | None, str]]:
    """Keep a file at a place; remove it at the end, and the directories that were made for it.

    ``run`` names the file, and ``nonce`` is in it. Gives the root of the place; or None, and why no file can be there.
    Raises InvalidTypeError for what is no path at all.
    """
    try:
        storage = storage_at(path, "doctor() path", beyond=hadoop_files)
    except (InvalidValueError, MissingExtraError) as error:
        yield None, str(error).removesuffix(f" {RUN_DOCTOR}")
        return
    on_disk = [storage.root, *storage.root.parents] if isinstance(storage, Disk) else []
    missing = [directory for directory in on_disk if not os.path.lexists(directory)]
    try:
        _, why = attempt(PLACE_SECONDS, lambda: storage.create(_name(run), nonce))
        yield None if why else str(storage.root), why
    finally:
        attempt(PLACE_SECONDS, lambda: storage.remove(_name(run)))
        for directory in missing:
            with suppress(OSError):  # it was not made, or somebody else uses it by now
                os.rmdir(directory)


def _name(run: str) -> str:
    """Return a name that no listing of a `Storage` gives."""
    return f"_trial{TEMPORARY}{run}"

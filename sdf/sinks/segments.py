"""Segment: the files that one segment writes, one after the other. Batches: its records, some megabytes at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from itertools import islice
from typing import Any, BinaryIO

from sdf.sinks.stage import Stage

__all__ = ["Batches", "Segment"]

_BATCH_BYTES = 4 << 20
_BATCH_RECORDS = 1 << 14  # larger batches gain nothing: tried with short strings and with dicts, to Parquet
_FIRST_RECORDS = 64


class Segment:
    """The files of one segment: one is open at a time. They are kept if the context ends without an exception.

    Attributes:
        notes: what else its message holds.

    Args:
        stage: where they are.
        name: what their names begin with.
        ending: what their names end with.
        blaming: makes the context manager that turns errors of the storage into SinkError.
    """

    def __init__(
        self, stage: Stage, name: str, ending: str, blaming: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.stage = stage
        self.blaming = blaming
        self.notes: dict[str, Any] = {}
        self._name = name
        self._ending = ending
        self._names: list[list[Any]] = []
        self._opened: tuple[AbstractContextManager[BinaryIO], BinaryIO] | None = None

    def __enter__(self) -> Segment:
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        if kind is None:
            self.end_file()
            return
        with suppress(OSError):  # what cannot be removed now is removed with the staging directory
            if self._opened is not None:
                self._opened[0].__exit__(kind, error, traceback)
                self._names.pop()
            for name, _ in self._names:
                self.stage.remove(name)

    @property
    def file(self) -> BinaryIO:
        """The file that is open; opens the next one if none is."""
        if self._opened is None:
            name = f"{self._name}-{len(self._names)}{self._ending}"
            context = self.stage.open(name)
            with self.blaming():
                self._opened = context, context.__enter__()
            self._names.append([name, 0])
        return self._opened[1]

    @property
    def size(self) -> int:
        """The size of the open file in bytes, so far."""
        return 0 if self._opened is None else self._opened[1].tell()

    def write(self, data: bytes) -> None:
        """Write to the open file."""
        file = self.file
        with self.blaming():
            file.write(data)

    def end_file(self) -> None:
        """Make the open file durable and close it, if one is open."""
        if self._opened is None:
            return
        context, file = self._opened
        self._names[-1][1] = file.tell()
        with self.blaming():
            context.__exit__(None, None, None)
        self._opened = None

    def message(self) -> Any:
        """Return the message of the segment, None if it has no file."""
        if not self._names:
            return None
        return {
            "files": len(self._names),
            "bytes": sum(size for _, size in self._names),
            "names": self._names,
            **self.notes,
        }


class Batches:
    """Takes records in batches of some megabytes: their number follows the size of the batch before.

    Args:
        records: the records.
    """

    def __init__(self, records: Iterator[Any]) -> None:
        self._records = records
        self._most = _FIRST_RECORDS
        self.taken = 0

    def take(self) -> list[Any]:
        """Return the next records, none at the end."""
        batch = list(islice(self._records, self._most))
        self.taken += len(batch)
        return batch

    def weighed(self, count: int, size: int) -> None:
        """Take note that ``count`` records made ``size`` bytes."""
        fitting = _BATCH_BYTES * count // max(size, 1)
        self._most = max(1, min(fitting, 4 * self._most, _BATCH_RECORDS))

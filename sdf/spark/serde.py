"""Pickles all that a run sends between driver and workers, with PySpark's own pickler.

A class defined in ``__main__`` or in a notebook is pickled by value. Only the pickler that sent the class recognises it
when it comes back. With two picklers (PySpark has its own copy of cloudpickle) one class would become two unequal ones.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from functools import partial
from typing import Any

from sdf.errors import SdfError, UnpicklableError, show
from sdf.serialization import pickling
from sdf.serialization.pickling import TooLongError
from sdf.spark.door.pickling import Pickler, serializer_with
from sdf.spark.door.pickling import dumps as _dumps

__all__ = ["dump_records", "dumps", "dumps_at_most", "loads", "of_records"]

loads = pickle.loads


def dumps(value: Any, what: str) -> bytes:
    """Return ``value`` pickled; raise UnpicklableError, with ``what`` as its name, if that fails."""
    return pickling.dumps(value, what, _dumps)


def dumps_at_most(value: Any, what: str, most_bytes: int) -> bytes:
    """Return ``value`` pickled; raise TooLongError if that takes more bytes, before it has all of them."""
    return pickling.dumps(value, what, partial(_dump_at_most, most_bytes))


def _dump_at_most(most_bytes: int, value: Any) -> bytes:
    file = _Limited(most_bytes)
    Pickler(file).dump(value)
    return file.getvalue()


class _Limited(io.BytesIO):
    def __init__(self, most_bytes: int) -> None:
        super().__init__()
        self._most_bytes = most_bytes

    def write(self, data: Any) -> int:
        if self.tell() + len(data) > self._most_bytes:
            raise TooLongError(f"pickled it takes more than {self._most_bytes:,} bytes.")
        return super().write(data)


def dump_records(records: Sequence[Any], who: str) -> bytes:
    """Return records pickled together.

    Raises:
        UnpicklableError: naming the DoFn, ``who``, and the first record that does not pickle.
    """
    try:
        return _dumps(records)
    except SdfError:
        raise
    except Exception as error:
        raise UnpicklableError(
            f"{who}.process() gave a record that cannot leave the Python worker, since it does not pickle: "
            f"{show(_unpicklable(records))} ({type(error).__name__}: {error}). Yield plain values: what was read from "
            f"a file, a connection or a client, not the thing itself."
        ) from error


def _unpicklable(records: Sequence[Any]) -> Any:
    for record in records:
        try:
            _dumps(record)
        except Exception:  # of any kind: this is the record
            return record
    return records


def of_records(serializer: Any, who: str) -> Any:
    """Return a SparkContext's serializer, with errors that name the DoFn; unchanged if it is not PySpark's default."""
    return serializer_with(serializer, partial(dump_records, who=who))

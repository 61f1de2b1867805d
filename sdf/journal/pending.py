"""Pending: a part of a stream's work, and how the journal stores it: as JSON where `describe` can, else pickled."""

from __future__ import annotations

import base64
import importlib
import io
import json
import pickle
import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import attrs
import cloudpickle

from sdf.errors import JournalCorruptError, show
from sdf.journal.chain import sha256
from sdf.model.restrictions import UNBOUNDED
from sdf.serialization import pickling
from sdf.serialization.stored_types import located, module_of, stored_name, tag
from sdf.serialization.values import ValuesError, describe, read

__all__ = ["Pending", "from_data", "from_json", "steady", "to_data", "to_json"]

_BIG_CHARACTERS = 1 << 16


@attrs.frozen
class Pending:
    """A part of an element that a stream has still to do.

    Attributes:
        step: index in the chain of the DoFn that runs the part.
        element: the element.
        restriction: the part of the element.
        watermark: state that the watermark estimator is restored from; None for none.
        due: earliest time to run the part, in milliseconds since the epoch; 0 for at once.
        held: the watermark before the element was made; no record of the part is older. None for none.
        seen: what `DoFn.peek` returned before the part was last run, if it then waited for news; else None.
        trial: if it has failed, what is known of it (`sdf.quarantine.trials`); else None.
        id: of remaining work, or of the one that this is a piece of; None for a part that is not stored yet.
    """

    step: int
    element: Any
    restriction: Any
    watermark: Any = None
    due: int = 0
    held: Any = None
    seen: Any = None
    trial: Any = None
    id: int | None = None


def to_data(value: Any) -> Any:
    """Return a value as JSON data; `from_data` gives it back."""
    try:
        description = describe(value, _name)
        text = json.dumps(description, allow_nan=False)
    except Exception:  # of any kind: the value is pickled instead
        return ["pickle", base64.b64encode(_pickled(value)).decode()]
    if len(text) > _BIG_CHARACTERS:  # such as all files that a scan has seen: much alike
        return ["packed", base64.b64encode(zlib.compress(text.encode(), 1)).decode()]
    return description


def steady(value: Any) -> Any:
    """Return JSON data that every process makes of equal values, to compare them by; a hash if they are long.

    A pickle is not such data, as its bytes depend on the process: of a value that must be pickled it is only the type.
    """
    kind = f"a {type(value).__name__}"
    try:
        data = _in_order(describe(value, _name))
        text = json.dumps(data)
    except Exception:  # of any kind: the value has no description
        return kind
    if len(text) > _BIG_CHARACTERS or "NaN" in text or "Infinity" in text:  # the latter two are not JSON
        return f"{kind} with the hash {sha256(text.encode())[:32]}"
    return data


def _in_order(data: Any) -> Any:
    """Return described data with dicts and sets in one order: what comes from a set has no rule for its order."""
    if not isinstance(data, list):
        return data
    kind, *parts = map(_in_order, data) if data else (None,)
    if kind == "filled":  # a subclass of dict
        made, entries, (_, *pairs) = parts
        return [kind, made, entries, sorted(pairs, key=json.dumps)]
    return [kind, *(sorted(parts, key=json.dumps) if kind in ("dict", "set", "frozenset") else parts)]


def _pickled(value: Any) -> bytes:
    """Return a value pickled, with classes by name if possible: a class of `__main__` then comes back as itself."""
    try:
        return _dumped(_ByName, value)
    except Exception:  # such as a class without an importable name: pickled by value
        return pickling.dumps(value, f"{show(value)}, for the journal,", partial(_dumped, _ByValue))


class _Tagged:
    """Pickles the types of sdf by their tags."""

    def persistent_id(self, value: Any) -> str | None:
        if value is UNBOUNDED:
            return tag(type(value).__module__, "UNBOUNDED")
        return tag(value.__module__, value.__qualname__) if isinstance(value, type) else None


class _ByName(_Tagged, pickle.Pickler):
    pass


class _ByValue(_Tagged, cloudpickle.Pickler):  # type: ignore[misc]
    pass


def _dumped(pickler: Callable[[Any], Any], value: Any) -> bytes:
    file = io.BytesIO()
    pickler(file).dump(value)
    return file.getvalue()


class _Unpickler(pickle.Unpickler):
    def persistent_load(self, pid: Any) -> Any:
        return _named(pid)

    def find_class(self, module_name: str, global_name: str) -> Any:
        return super().find_class(module_of(module_name), global_name)


def from_data(data: Any) -> Any:
    """Return the value that `to_data` described.

    Raises:
        JournalCorruptError: if it cannot be made, for instance because its class is gone.
    """
    try:
        if isinstance(data, list) and data and data[0] == "pickle":
            return _Unpickler(io.BytesIO(base64.b64decode(data[1]))).load()
        if isinstance(data, list) and data and data[0] == "packed":
            return read(json.loads(zlib.decompress(base64.b64decode(data[1]))), _named)
        return read(data, _named)
    except Exception as error:
        raise JournalCorruptError(
            f"the journal holds {show(data)}, which cannot be made into a value here: {type(error).__name__}: {error}. "
            f"Resume with the program, and the versions of its libraries, that wrote it."
        ) from error


def _name(value: Any, name: str) -> str:
    """Return the stored name of a value; raise ValuesError if importing the name gives something else."""
    stored = stored_name(value.__module__, name)
    if _named(stored) is not value:
        raise ValuesError(f"{stored} is something else than {show(value)}.")
    return stored


def _named(name: str) -> Any:
    """Return the value with a stored name, from any module: a journal is trusted as the program is."""
    module, path = located(name)
    value = sys.modules.get(module) or importlib.import_module(module)  # the latter is slow
    for step in path.split("."):
        value = getattr(value, step)
    return value


_VALUES = ("element", "restriction", "watermark", "held", "seen")


def to_json(work: Pending) -> dict[str, Any]:
    """Return pending work as JSON data."""
    values = {name: to_data(getattr(work, name)) for name in _VALUES}
    if work.trial is not None:
        values["trial"] = to_data(work.trial)
    return {"id": work.id, "step": work.step, "due": work.due, **values}


def from_json(data: dict[str, Any]) -> Pending:
    """Return the pending work that `to_json` described, of an older sdf too."""
    values = {name: from_data(data[name]) for name in (*_VALUES, "trial") if name in data}
    return Pending(id=data.get("id"), step=data["step"], due=data["due"], **values)

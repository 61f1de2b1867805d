"""The identity of a saved run: what a call must have in common with the one that began it, to go on with it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sdf.errors import UnpicklableError
from sdf.journal.pending import to_data
from sdf.limits.rate_limit import RateLimit
from sdf.model.dofn import DoFn
from sdf.saving.outputs import told
from sdf.sinks.sink import Sink
from sdf.spark import serde

__all__ = ["identity_of"]


def identity_of(fn: DoFn, side_inputs: Mapping[str, Any], sinks: list[tuple[str, Sink]]) -> dict[str, Any]:
    """Return what the run is made of, as JSON data by what it is called in messages."""
    fields = _fields(fn)
    return {
        "the DoFn": f"{type(fn).__module__}.{type(fn).__qualname__}",
        "the DoFn's fields": {name: _described(value, fn, type(fn).__name__) for name, value in sorted(fields.items())},
        "side inputs": {
            name: _described(value, value, f"side input {name!r}")
            for name, value in sorted(side_inputs.items())
            if not isinstance(value, RateLimit)
        },
        "the sinks": {name: told(one) for name, one in sinks},
    }


def _fields(fn: DoFn) -> dict[str, Any]:
    slots = [name for kind in type(fn).__mro__ for name in getattr(kind, "__slots__", ())]
    return {**getattr(fn, "__dict__", {}), **{name: getattr(fn, name) for name in slots if hasattr(fn, name)}}


def _described(value: Any, whole: Any, who: str) -> Any:
    """Return a value as JSON data if that is always the same for equal values, else only its type.

    Raises:
        UnpicklableError: naming ``who``, which is what ``whole`` is called, if that does not pickle.
    """
    try:
        data = to_data(value)
    except UnpicklableError:
        serde.dumps(whole, who)  # says where in it
        raise
    pickled = isinstance(data, list) and data and data[0] == "pickle"
    return f"a {type(value).__name__}" if pickled else _ordered(data)


def _ordered(data: Any) -> Any:
    """Return described data with what is in sets and dicts in one order: that of a set differs between processes."""
    if not isinstance(data, list):
        return data
    kind, *parts = map(_ordered, data) if data else (None,)
    return [kind, *(sorted(parts, key=json.dumps) if kind in ("set", "frozenset", "dict") else parts)]

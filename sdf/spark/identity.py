"""The identity of a saved run: what a call must have in common with the one that began it, to go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sdf.journal.pending import steady
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
    """Return what to compare a value by, as `steady` does.

    Raises:
        UnpicklableError: naming ``who``, which is what ``whole`` is called, if that does not pickle.
    """
    data = steady(value)
    if isinstance(data, str) and data == f"a {type(value).__name__}":
        serde.dumps(whole, who)  # says where in it
    return data

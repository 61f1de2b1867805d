"""Counts records by type and content: two equal in both count as the same record, even if ``==`` says otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from sdf.errors import show
from sdf.model.dofn import TaggedOutput
from sdf.serialization import pickling

__all__ = ["Records", "key_of"]

Records = Counter[Hashable]


def key_of(output: Any) -> Hashable:
    """Return a key to count an output by: equal for outputs of equal type and content."""
    if isinstance(output, TaggedOutput):
        return (TaggedOutput, output.tag, key_of(output.value))
    kind = type(output)
    if isinstance(output, (list, tuple)):
        return (kind, tuple(map(key_of, output)))
    if isinstance(output, dict):
        return (kind, frozenset((key_of(key), key_of(value)) for key, value in output.items()))
    if isinstance(output, (set, frozenset)):
        return (kind, frozenset(map(key_of, output)))
    if isinstance(output, float) and output != output:
        return (kind, "nan")
    if getattr(kind, "__eq__", None) is object.__eq__ and hasattr(output, "__dict__") and not isinstance(output, type):
        return (kind, key_of(vars(output)))
    try:
        hash(output)
    except TypeError:
        return (kind, pickling.dumps(output, f"record {show(output)}"))
    return (kind, output)

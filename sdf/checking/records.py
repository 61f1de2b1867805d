"""Counts records by type and content: two equal in both count as the same record, even if ``==`` says otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Any

from sdf.errors import OutputError, show
from sdf.model.dofn import TaggedOutput
from sdf.serialization import pickling

__all__ = ["Records", "check_unchanged", "key_of"]

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
    if getattr(kind, "__eq__", None) is object.__eq__ and not isinstance(output, type):
        content = [getattr(output, name, None) for name in _slots(kind)]
        if isinstance(output, BaseException):
            content.append(output.args)
        if content or hasattr(output, "__dict__"):
            return (kind, key_of(content), key_of(getattr(output, "__dict__", {})))
    try:
        hash(output)
    except TypeError:
        return (kind, pickling.dumps(output, f"record {show(output)}"))
    return (kind, output)


def check_unchanged(held: list[tuple[Any, Hashable]]) -> None:
    """Raise OutputError if one of the outputs, each with its key of before, has another content now; forget them."""
    for output, key in held:
        if key_of(output) != key:
            raise OutputError(
                f"process() changed an output after it gave it; now it is {show(output)}. Runners keep records for a "
                f"while and send them together, so that all of them would have the last content: give a new object, "
                f"and new objects in it, each time"
            )
    held.clear()


def _slots(kind: type) -> list[str]:
    """Return the names in ``__slots__`` of a class and its bases."""
    declared = (getattr(one, "__slots__", ()) for one in kind.__mro__)
    names = [name for slots in declared for name in ([slots] if isinstance(slots, str) else slots)]
    return [name for name in names if name not in ("__dict__", "__weakref__")]

"""Whether a call has the elements of a run in the log: each as often, in any order, since tables change the order."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sdf.errors import show_both
from sdf.journal.pending import steady

__all__ = ["difference", "is_same"]


def difference(before: Iterable[Any], now: Sequence[Any]) -> tuple[str, str] | None:
    """Return what was in the log, and what a call has in its place; None if they have the same elements.

    Most elements are found by their hash. Others are compared by how the log holds them, and then in their order.
    """
    old, new = list(before), list(now)
    if len(old) != len(new):
        return f"{len(old):,} elements", f"{len(new):,}"
    for key in (_by_value, lambda element: json.dumps(steady(element))):
        old, new = _unmatched(old, new, key)
    for one, other in zip(old, new, strict=True):
        if not is_same(one, other):
            before_it, now_it = show_both(one, other)
            return f"element {before_it}", f"{now_it} in its place"
    return None


def is_same(before: Any, now: Any) -> bool:
    """Tell whether an element of the log is an element of a call."""
    try:
        same = bool(before == now)
    except Exception:  # of any kind: to compare two arrays gives no bool
        same = False
    return same or steady(before) == steady(now)


def _unmatched(old: list[Any], new: list[Any], key: Callable[[Any], Any]) -> tuple[list[Any], list[Any]]:
    """Return the elements that are left when those with equal keys are taken out in pairs."""
    keys = list(map(key, new))
    waiting = Counter(keys)
    left = []
    for one in old:
        name = key(one)
        if waiting[name] > 0:
            waiting[name] -= 1
        else:
            left.append(one)
    others = []
    for one, name in zip(new, keys, strict=True):
        if waiting[name] > 0:
            waiting[name] -= 1
            others.append(one)
    return left, others


def _by_value(element: Any) -> Any:
    try:
        hash(element)
        element == element  # noqa: B015, a class may forbid it
    except Exception:  # of any kind: such an element is compared in another way
        return object()
    return element

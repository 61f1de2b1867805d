"""stored: for classes whose values are in journals, so that they may get attributes that an older sdf did not write."""

from __future__ import annotations

from typing import Any, TypeVar

__all__ = ["stored"]

Kind = TypeVar("Kind", bound=type)


def stored(kind: Kind) -> Kind:
    """Let an attrs class give an attribute its default value if what it is read from lacks it."""
    set_state = kind.__setstate__  # type: ignore[attr-defined]

    def with_defaults(self: Any, state: Any) -> None:
        set_state(self, state)
        for field in kind.__attrs_attrs__:  # type: ignore[attr-defined]
            if not hasattr(self, field.name):
                object.__setattr__(self, field.name, field.default)

    kind.__setstate__ = with_defaults  # type: ignore[attr-defined]
    return kind

"""Options that are objects: checked fields for numbers of any kind, and the errors for unknown options."""

from __future__ import annotations

import difflib
import functools
import math
from collections.abc import Callable
from typing import Any, TypeVar

import attrs

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.numbers import as_integer, as_number, is_integer, is_number

__all__ = ["count", "options", "positive"]

T = TypeVar("T")

_options: dict[str, list[str]] = {}  # option names, by the name of the class


def options(kind: type[T]) -> type[T]:
    """Let an attrs class raise InvalidTypeError for an unknown option; the error lists the known ones."""
    _options[kind.__name__] = [field.name for field in attrs.fields(kind)]  # type: ignore[arg-type]
    kind.__init__ = _telling(kind.__name__, kind.__init__)  # type: ignore[method-assign]
    return kind


def _telling(who: str, init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def telling(self: Any, *given: Any, **options: Any) -> None:
        known = ", ".join(_options[who])
        if given:
            raise InvalidTypeError(
                f"{who} takes no option without its name (got {show(given[0], 80)}). Its options are {known}."
            )
        for name, value in options.items():
            if name not in _options[who]:
                raise InvalidTypeError(
                    f"{who} has no option {name!r} (got {name}={show(value, 80)}). {_meant(name, _options[who])}"
                    f"Its options are {known}."
                )
        init(self, **options)

    return telling


def _meant(name: str, names: list[str]) -> str:
    others = [other for other, options in _options.items() if name in options]
    if others:
        return f"{others[0]} has it. "
    close = difflib.get_close_matches(name.lower(), names, n=1)
    return f"Did you mean {close[0]}=? " if close else ""


def positive(default: float | None, *, below: float = math.inf) -> Any:
    """Return a field for a positive, finite number; None is valid if it is the default."""
    what = "a positive number" if below == math.inf else f"a positive number below {below:g}"
    return _field(default, as_number, lambda value: is_number(value) and 0 < value < below, what)


def count(default: int | None, *, least: int = 1) -> Any:
    """Return a field for an integer, at least ``least``; None is valid if it is the default."""
    fits = lambda value: is_integer(value) and value >= least  # noqa: E731
    return _field(default, as_integer, fits, f"an integer >= {least}")


def _field(default: Any, converter: Any, fits: Callable[[Any], bool], what: str) -> Any:
    def check(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
        if not fits(value) and not (value is None and default is None):
            who, wanted = type(instance).__name__, f"{what}, or None" if default is None else what
            raise InvalidValueError(f"{who} {attribute.name} must be {wanted} (got {show(value)}).")

    return attrs.field(default=default, converter=converter, validator=check)

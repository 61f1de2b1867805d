"""Checks for the options of ReadCsv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show

__all__ = ["as_names", "check_signs"]


def as_names(names: Any, what: str) -> tuple[str, ...]:
    """Return names of columns; raise unless they are distinct strings, at least one."""
    strings = isinstance(names, Sequence) and not isinstance(names, str) and all(isinstance(n, str) for n in names)
    if not strings:
        raise InvalidTypeError(f"ReadCsv {what} or a list of names (got {show(names)}).")
    if not names or len(set(names)) < len(names):
        raise InvalidValueError(f"ReadCsv {what.split()[0]} must name each column, no two alike (got {show(names)}).")
    return tuple(names)


def check_signs(**signs: str | None) -> None:
    """Raise unless each special character of CSV is one character, no end of a line, and differs from the others."""
    for name, sign in signs.items():
        if sign is None and name != "separator":
            continue
        if not isinstance(sign, str):
            raise InvalidTypeError(f"ReadCsv {name} must be a character (got {show(sign)}).")
        if len(sign) != 1 or sign in "\r\n":
            raise InvalidValueError(f"ReadCsv {name} must be one character, not the end of a line (got {sign!r}).")
    given = [sign for sign in signs.values() if sign is not None]
    if len(set(given)) < len(given):
        raise InvalidValueError(f"ReadCsv needs different characters for {', '.join(signs)} (got {show(given)}).")

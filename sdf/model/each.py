"""Plain functions as DoFns: one that yields outputs for an element is a DoFn whose elements are one block each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sdf.errors import InvalidTypeError
from sdf.model.dofn import DoFn
from sdf.model.restrictions import OffsetRange

__all__ = ["as_dofn", "check_function", "side_inputs_for"]


class _EachFn(DoFn):
    """Calls a function with each element; its outputs are the function's."""

    function: Callable[..., Iterable[Any] | None]

    def get_initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, 1)

    def process(self, element: Any, tracker: Any, **side_inputs: Any) -> Iterable[Any] | None:
        return self.function(element, **side_inputs) if tracker.try_claim(0) else ()


def as_dofn(function: Callable[..., Iterable[Any] | None]) -> DoFn:
    """Return a DoFn that calls a function with each element, and has its name."""
    name = getattr(function, "__name__", type(function).__name__)
    fn: DoFn = type(name, (_EachFn,), {"function": staticmethod(function), "__module__": _EachFn.__module__})()
    return fn


def check_function(fn: DoFn, side_inputs: Mapping[str, Any], who: str) -> None:
    """Raise InvalidTypeError unless the function behind a DoFn, if there is one, takes these side inputs."""
    if not isinstance(fn, _EachFn):
        return
    try:
        inspect.signature(fn.function).bind(None, **side_inputs)
    except TypeError as error:
        name, call = type(fn).__name__, ", ".join(["element", *(f"{name}=" for name in side_inputs)])
        raise InvalidTypeError(
            f"{who}: {name}() cannot be called as {name}({call}): {error}. Pass what it needs in side_inputs."
        ) from None


def side_inputs_for(fn: DoFn, side_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the side inputs that `process`, or the function behind a DoFn, takes by name."""
    called = fn.function if isinstance(fn, _EachFn) else fn.process
    parameters = list(inspect.signature(called).parameters.values())
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    first = 1 if isinstance(fn, _EachFn) else 2  # after the element, and the tracker
    names = {one.name for one in parameters[first:] if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return {name: value for name, value in side_inputs.items() if takes_all or name in names}

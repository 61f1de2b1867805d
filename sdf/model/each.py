"""Plain functions in a chain of DoFns: a function that yields outputs for an element stands for a DoFn, or follows one.

Alone it is a DoFn whose elements are one block each. After a DoFn it is called with each output, in the same task.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from sdf.errors import InvalidTypeError, blame
from sdf.model.dofn import DoFn, TaggedOutput
from sdf.model.restrictions import OffsetRange

__all__ = ["as_dofn", "check_functions", "followed_by", "side_inputs_of"]


class _EachFn(DoFn):
    """Calls a function with each element; its outputs are the function's."""

    function: Callable[..., Iterable[Any] | None]

    def get_initial_restriction(self, element: Any) -> OffsetRange:
        return OffsetRange(0, 1)

    def process(self, element: Any, tracker: Any, **side_inputs: Any) -> Iterable[Any] | None:
        return self.function(element, **side_inputs) if tracker.try_claim(0) else ()


def as_dofn(function: Callable[..., Iterable[Any] | None]) -> DoFn:
    """Return a DoFn that calls a function with each element, and has its name."""
    fn: DoFn = type(
        _name(function), (_EachFn,), {"function": staticmethod(function), "__module__": _EachFn.__module__}
    )()
    return fn


class _FollowedFn(DoFn):
    """Mixed into a DoFn: calls functions with each of its outputs, in turn, and gives what the last one gives."""

    before: type[DoFn]
    functions: tuple[Callable[..., Iterable[Any] | None], ...]

    def process(self, element: Any, tracker: Any, **side_inputs: Any) -> Iterator[Any]:
        calls = [(function, _taken(function, 1, side_inputs)) for function in self.functions]
        own = _taken(self.before.process, 3, side_inputs)
        for output in super().process(element, tracker, **own) or ():  # type: ignore[safe-super]
            yield from _through(output, calls)


def _through(output: Any, calls: Sequence[tuple[Callable[..., Any], dict[str, Any]]]) -> Iterator[Any]:
    """Yield what functions make of an output, each with its side inputs; tagged outputs are given as they are."""
    if isinstance(output, TaggedOutput) or not calls:
        yield output
        return
    (function, share), *others = calls
    with blame(lambda: f"{_name(function)}()", output):
        for given in function(output, **share) or ():
            yield from _through(given, others)


def followed_by(fn: DoFn, functions: Sequence[Callable[..., Iterable[Any] | None]]) -> DoFn:
    """Return a copy of a DoFn that gives what functions make of its outputs; it has the name of the DoFn.

    The outputs stay in their task, where each would cost an element of its own.
    """
    parts = {"before": type(fn), "functions": tuple(functions), "__module__": _FollowedFn.__module__}
    followed = copy.copy(fn)
    object.__setattr__(followed, "__class__", type(type(fn).__name__, (_FollowedFn, type(fn)), parts))
    return followed


def check_functions(fn: DoFn, side_inputs: Mapping[str, Any], who: str) -> None:
    """Raise InvalidTypeError unless the functions behind a DoFn, if there are any, take their side inputs."""
    for function in _functions(type(fn)):
        _check_call(function, _name(function), ["element"], side_inputs, who)
    if isinstance(fn, _FollowedFn):
        name = f"{type(fn).__name__}.process"
        _check_call(fn.before.process, name, ["self", "element", "tracker"], side_inputs, who)


def _check_call(
    called: Callable[..., Any], name: str, first: list[str], side_inputs: Mapping[str, Any], who: str
) -> None:
    share = _taken(called, len(first), side_inputs)
    try:
        inspect.signature(called).bind(*first, **share)
    except TypeError as error:
        call = ", ".join([*(one for one in first if one != "self"), *(f"{name}=" for name in share)])
        raise InvalidTypeError(
            f"{who}: {name}() cannot be called as {name}({call}): {error}. Pass what it needs in side_inputs."
        ) from None


def side_inputs_of(kind: type[DoFn], side_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the side inputs that `process` of a DoFn, or a function behind it, takes by name."""
    taken: dict[str, Any] = {}
    for function in _functions(kind):
        taken |= _taken(function, 1, side_inputs)  # after the element
    if not issubclass(kind, _EachFn):
        process = kind.before.process if issubclass(kind, _FollowedFn) else kind.process
        taken |= _taken(process, 3, side_inputs)  # after self, element and tracker
    return taken


def _functions(kind: type[DoFn]) -> tuple[Callable[..., Any], ...]:
    """Return the functions behind a DoFn."""
    if issubclass(kind, _FollowedFn):
        return kind.functions
    return (kind.function,) if issubclass(kind, _EachFn) else ()


def _taken(called: Callable[..., Any], first: int, side_inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the side inputs that something called takes by name, as one of its parameters from ``first`` on."""
    parameters = list(inspect.signature(called).parameters.values())
    takes_all = any(one.kind is one.VAR_KEYWORD for one in parameters)
    names = {one.name for one in parameters[first:] if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    return {name: value for name, value in side_inputs.items() if takes_all or name in names}


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)

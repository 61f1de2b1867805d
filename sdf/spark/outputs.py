"""The outputs of a run or stream, and their sinks: the main one first, then one for each tag."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import check_tags
from sdf.sinks.sink import Sink

__all__ = ["sinks_of", "told"]


def sinks_of(sink: Any, tags: tuple[str, ...], who: str) -> list[tuple[str, Sink]]:
    """Return the sinks by output, the main one first; in the same order for each call, as a log may count on it.

    Args:
        sink: a sink, or a mapping of outputs to sinks.
        tags: the declared tags; empty: those that ``sink`` names.
        who: names the caller in messages.

    Raises:
        InvalidTypeError, InvalidValueError: unless each output has a sink of its own.
    """
    given = dict(sink) if isinstance(sink, Mapping) else {"main": sink}
    for name, one in given.items():
        if not isinstance(one, Sink):
            raise InvalidTypeError(
                f"{who} sink must be a Sink of sdf.sinks, such as ParquetFiles('out'), or a mapping of outputs to "
                f"sinks (got {show(one)}{f' for {name!r}' if isinstance(sink, Mapping) else ''})."
            )
    names = check_tags([name for name in given if name != "main"], who)
    if "main" not in given or (tags and set(tags) != set(names)):
        wanted = ("main", *(tags or names))
        raise InvalidValueError(
            f"{who} needs a sink for each output, {show(wanted)}; it got sinks for {show(tuple(given))}. "
            f"Pass a mapping, such as {{'main': ParquetFiles('out'), 'bad': JsonLinesFiles('bad')}}."
        )
    places = [told(one) for one in given.values()]
    for number, place in enumerate(places):
        if place in places[:number]:
            raise InvalidValueError(f"{who} got one sink for two outputs ({show(place)}); each needs its own.")
    return [("main", given["main"]), *((name, given[name]) for name in sorted(names))]


def told(sink: Sink) -> Any:
    """Return the identity of a sink as it comes back from a log."""
    identity = sink.identity()
    try:
        return json.loads(json.dumps(identity, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(
            f"{type(sink).__name__}.identity() must return JSON data (got {show(identity)}): {error}."
        ) from error

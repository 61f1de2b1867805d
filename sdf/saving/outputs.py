"""The outputs of a saved run, as the user gave them: a sink for each, and the checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import check_tags
from sdf.sinks.sink import Sink
from sdf.storage.places import Storage, storage_at

__all__ = ["checkpoint_of", "sinks_by_output", "told"]


def sinks_by_output(sink: Any, tags: tuple[str, ...], who: str) -> list[tuple[str, Sink]]:
    """Return the sinks by output, the main one first, else sorted: the log counts on the same order in each call.

    Args:
        sink: a sink, or a mapping of outputs to sinks.
        tags: the tags that were declared; empty if they were not.
        who: the caller, for errors.

    Raises:
        InvalidTypeError, InvalidValueError: if an output has no sink, or two have the same.
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


def checkpoint_of(checkpoint: str | os.PathLike[str] | None, sinks: list[tuple[str, Sink]], who: str) -> Storage:
    """Return the storage of the checkpoint, by default beside the target of the main output."""
    if checkpoint is not None:
        return storage_at(checkpoint, f"{who} checkpoint")
    appending = next((one for _, one in sinks if one.appends), None)
    beside = sinks[0][1].beside()
    if appending is not None or beside is None:
        one = appending or sinks[0][1]
        raise InvalidValueError(
            f"{who} needs a checkpoint for {type(one).__name__}, which adds to what is there: pass "
            f"checkpoint='/a/directory', a new one for each run. With one checkpoint for all, the second run would be "
            f"taken for the first, which is done."
        )
    return storage_at(beside, f"{who} checkpoint")


def told(sink: Sink) -> Any:
    """Return the identity of a sink as it comes back from the log."""
    identity = sink.identity()
    try:
        return json.loads(json.dumps(identity, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise InvalidTypeError(
            f"{type(sink).__name__}.identity() must return JSON data (got {show(identity)}): {error}."
        ) from error

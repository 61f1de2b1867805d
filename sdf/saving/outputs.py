"""The outputs of a saved run, as the user gave them: a sink for each, and the checkpoint."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import check_tags
from sdf.sinks.files import FileSink
from sdf.sinks.sink import Sink
from sdf.storage.disk import Disk
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
                f"{who} sink must be a Sink of sdf.sinks, such as DeltaTable('out'), or a mapping of outputs to "
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
    for name, one in given.items():
        if one.rejects and (name == "bad" or "bad" not in given):
            raise InvalidValueError(
                f"{who}: {type(one).__name__} of output {name!r} puts records that do not fit into the output 'bad', "
                f"{'which is its own' if name == 'bad' else 'which has no sink'}. Pass a mapping with a sink for 'bad' "
                f"that takes any record, such as JsonLinesFiles('bad')."
            )
    _check_apart({name: one.path for name, one in given.items() if isinstance(one, FileSink)}, who)
    return [("main", given["main"]), *((name, given[name]) for name in sorted(names))]


def _check_apart(paths: Mapping[str, str], who: str) -> None:
    """Raise InvalidValueError if one target lies within another: then that one is not empty when it is to be made."""
    for name, path in paths.items():
        for other, outer in paths.items():
            if path.startswith(f"{outer}/"):
                raise InvalidValueError(
                    f"{who}: the output {name!r} goes to {path!r}, which is within {outer!r}, where {other!r} goes. "
                    f"Give paths that lie apart."
                )


def checkpoint_of(
    checkpoint: str | os.PathLike[str] | None,
    sinks: list[tuple[str, Sink]],
    who: str,
    *,
    beyond: Callable[[str, str], Storage] | None = None,
) -> Storage:
    """Return the storage of the checkpoint, by default beside the target of the main output.

    Args:
        checkpoint: as for `save_sdf`.
        sinks: the sinks by output, checked.
        who: the function that the user has called, for messages.
        beyond: as for `storage_at`.
    """
    if checkpoint is not None:
        storage = storage_at(checkpoint, f"{who} checkpoint", beyond=beyond)
        place = os.path.abspath(storage.root) if isinstance(storage, Disk) else str(storage.root).rstrip("/")
        for name, one in sinks:
            if isinstance(one, FileSink) and not one.appends and f"{place}/".startswith(f"{one.path}/"):
                raise InvalidValueError(
                    f"{who} checkpoint {place!r} is within {one.path!r}, where the output {name!r} goes. The commit "
                    f"makes that directory: give a place beside it."
                )
        return storage
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

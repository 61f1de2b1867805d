"""The records of the log of a saved run: what each means, and how it is made.

Records of the log, as JSON lists:

    ["begin", app, identity]                   the token's app, and what the run is made of
    ["prepared"]                               the sinks have accepted the run
    ["driver", name]                           another driver takes over, and numbers the work items anew
    ["operations", session, user, tag]         what this driver runs on a Spark Connect server, so that the next one can
                                               interrupt it
    ["elements", blob]                         some elements, and tables of elements, with their initial work items
    ["expanded", n]                            there are n of these; before this record none of them counts
    ["split", item, primary, [residuals]]      a residual is [restriction, watermark, deferred, due]
    ["commit", [items], messages, records, s]  a segment: its work items, per output the message of the sink and the
                                               number of records, and the seconds that it took
    ["failed", item, attempts, error]          a work item was set aside, after so many attempts
    ["retry", n, driver]                       a driver begins to run what was set aside again, the nth time: what
                                               follows, up to the next `done`, is the nth addition to the result
    ["running", seconds]                       how much work this driver has lost so far, or would lose if it died
                                               now; for display only
    ["committing", hash]                       nothing runs any more; the hash of the messages to commit
    ["committed", output]                      the sink of that output has committed
    ["done"]
    ["aborted"]                                the run was given up; another one may begin
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import attrs

from sdf.execution.bulk.table import Rows
from sdf.execution.expansion import Expanded
from sdf.execution.invoker import Residual
from sdf.journal.pending import from_data, to_data
from sdf.model.restrictions import OffsetRange

__all__ = ["Segment", "commit_record", "element_line", "restriction_of", "split_record"]


@attrs.frozen
class Segment:
    """What an attempt has written, as the log holds it.

    Attributes:
        messages: the message of each output's sink, None for one that wrote nothing.
        records: the number of records of each output.
        seconds: seconds that the segment took.
    """

    messages: tuple[Any, ...]
    records: tuple[int, ...]
    seconds: float


def element_line(one: Expanded) -> bytes:
    """Return an element with its initial work items as a line of the blob of an "elements" record."""
    pieces = [[_data(part), size] for part, size in one.pieces]
    whole = None if len(pieces) == 1 and one.pieces[0][0] is one.restriction else _data(one.restriction)
    return json.dumps([to_data(one.element), whole, pieces, one.note], separators=(",", ":")).encode()


def split_record(item_id: int, primary: Any, residuals: Sequence[Residual], now: Callable[[], int]) -> list[Any]:
    """Return the record of a split; ``now`` returns milliseconds since the epoch."""
    described = [
        [
            _data(residual.restriction),
            None if residual.watermark is None else to_data(residual.watermark),
            residual.deferred,
            now() + round(residual.delay_seconds * 1000) if residual.delay_seconds > 0 else 0,
        ]
        for residual in residuals
    ]
    return ["split", item_id, None if primary is None else _data(primary), described]


def commit_record(item_ids: Iterable[int], segment: Segment) -> list[Any]:
    """Return the record of a committed segment."""
    return ["commit", _ranges(sorted(item_ids)), segment.messages, segment.records, round(segment.seconds, 3)]


def restriction_of(data: Any) -> Any:
    """Return the restriction that a record holds as this data."""
    if not isinstance(data, (list, tuple)):
        return from_data(data["value"])
    start, stop = data
    return Rows(tuple(start), tuple(stop)) if isinstance(start, list) else OffsetRange(start, stop)


def _data(restriction: Any) -> Any:
    """Return a restriction as JSON data; the usual ones as two numbers or pairs, since there may be millions."""
    if type(restriction) is Rows:
        return [list(restriction.start), list(restriction.stop)]
    if type(restriction) is OffsetRange:
        start, stop = restriction
        if type(start) is int and type(stop) is int:
            return [start, stop]
    return {"value": to_data(restriction)}


def _ranges(numbers: Sequence[int]) -> list[list[int]]:
    """Return sorted numbers as [first, last] pairs."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found

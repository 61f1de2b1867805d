"""Writes one segment on a worker: the records of each output go to its sink.

The sink of the main output reads the records as `process` yields them. Records of other outputs are spooled to a
temporary file meanwhile, and their sinks read them from there.
"""

from __future__ import annotations

import itertools
import json
import pickle
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from operator import length_hint
from typing import Any

import attrs
import cloudpickle

from sdf.errors import BadRecordError, SinkError, show
from sdf.execution.invoker import Invoker
from sdf.execution.work_items import WorkItem
from sdf.model.dofn import DoFn, TaggedOutput
from sdf.model.forks import alone
from sdf.sinks.sink import Place, Sink, Token

__all__ = ["Targets", "blame_record", "write_segment"]

_SPOOL_BYTES = 8 << 20
_BAD = "bad"
_END = object()


@attrs.frozen
class Targets:
    """The sinks of a run, by output, the main one first, and the token of its commit."""

    sinks: tuple[tuple[str, Sink], ...]
    token: Token

    @property
    def tags(self) -> tuple[str, ...]:
        """The declared tags."""
        return tuple(name for name, _ in self.sinks[1:])


class _Spool:
    """Records of one output on disk, in batches."""

    def __init__(self) -> None:
        self._file = tempfile.SpooledTemporaryFile(_SPOOL_BYTES)  # noqa: SIM115, closed by `close`
        self._batch: list[Any] = []
        self._batches = 0
        self.records = 0

    def add(self, record: Any) -> None:
        self._batch.append(record)
        self.records += 1
        if len(self._batch) == 1000:
            self._spill()

    def _spill(self) -> None:
        cloudpickle.dump(self._batch, self._file)
        self._batches += 1
        self._batch = []

    def read(self) -> Iterator[Any]:
        self._spill()
        self._file.seek(0)
        return itertools.chain.from_iterable(pickle.load(self._file) for _ in range(self._batches))

    def close(self) -> None:
        self._file.close()


def write_segment(outputs: Iterable[Any], targets: Targets, who: str) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    """Write all outputs; return the message and the number of records of each, the main one first.

    Raises:
        OutputError: for an undeclared tag.
        BadRecordError: for a record that a sink cannot write.
        SinkError: if a sink fails, leaves records unread, or returns a message that is no JSON data.
    """
    spools = {tag: _Spool() for tag in targets.tags}
    TaggedOutput.declared = targets.tags
    try:
        return _write(outputs, targets, spools, who)
    finally:
        TaggedOutput.declared = None
        for spool in spools.values():
            spool.close()


def _write(
    outputs: Iterable[Any], targets: Targets, spools: Mapping[str, _Spool], who: str
) -> tuple[tuple[Any, ...], tuple[int, ...]]:
    messages: dict[str, Any] = {}
    counts: dict[str, int] = {}
    rejected = 0
    main = _diverting(outputs, spools, who) if spools else outputs
    for name, sink in sorted(targets.sinks, key=lambda each: each[0] == _BAD):  # "bad" last: others reject into it
        rejects: list[None] = []
        reject = _rejecting(spools[_BAD], rejects) if _BAD in spools and name != _BAD else None
        ones = itertools.repeat(True, sys.maxsize)  # counts records down, in C
        records = itertools.compress(main if name == "main" else spools[name].read(), ones)
        try:
            with alone(f"{type(sink).__name__}.write()"):
                message = sink.write(records, Place(targets.token, name, uuid.uuid4().hex, reject))
        except BadRecordError as error:
            error.output = name
            if name == _BAD and rejected:  # its records are not only those that `process` put there
                error.number = None
            raise
        if next(records, _END) is not _END:
            raise SinkError(f"{type(sink).__name__}.write() must read all records of a segment; it left some unread.")
        messages[name] = _as_json(message, sink)
        counts[name] = sys.maxsize - length_hint(ones) - len(rejects)
        rejected += len(rejects)
    return tuple(messages[name] for name, _ in targets.sinks), tuple(counts[name] for name, _ in targets.sinks)


def _as_json(message: Any, sink: Sink) -> Any:
    """Return a message as it comes back from the log; raise SinkError if the log cannot hold it."""
    try:
        return json.loads(json.dumps(message, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise SinkError(
            f"{type(sink).__name__}.write() must return None or JSON data (got {show(message)}): {error}."
        ) from error


def _rejecting(bad: _Spool, rejects: list[None]) -> Callable[[Any], None]:
    def reject(record: Any) -> None:
        rejects.append(None)
        bad.add(record)

    return reject


def _diverting(outputs: Iterable[Any], spools: Mapping[str, _Spool], who: str) -> Iterator[Any]:
    """Yield the records of the main output; spool those of the others."""
    for output in outputs:
        if isinstance(output, TaggedOutput):
            output.check(tuple(spools), f"{who}.process()")
            spools[output.tag].add(output.value)
        else:
            yield output


def _find_record(
    fn: DoFn, items: Iterable[WorkItem], number: int, tag: str, side_inputs: Mapping[str, Any]
) -> str | None:
    """Find the record with a number by running the work items of a segment again; return where it came from, as text.

    Args:
        fn: the DoFn, set up.
        items: the work items that the segment ran, each with the restriction that it held at the end.
        number: the number of the record in the segment, from 0.
        tag: the output, "main" or a tag.
        side_inputs: keyword arguments for `process`.

    Returns:
        Element, restriction and position; None if the records do not come again.
    """
    last: list[Any] = []
    left = number
    for item in items:
        for element, restriction in item.work.pairs():
            last[:] = []
            invoker = Invoker(
                fn,
                element,
                restriction,
                side_inputs=side_inputs,
                watermark=item.watermark,
                on_claim=lambda claims, position: last.__setitem__(slice(None), [position]),
            )
            for output in invoker.run():
                if (output.tag if isinstance(output, TaggedOutput) else "main") != tag:
                    continue
                if left == 0:
                    at = f" at position {show(last[0])}" if last else ""
                    return f"element {show(element)}, {show(restriction)}{at}"
                left -= 1
    return None


def blame_record(
    error: BadRecordError, fn: DoFn, items: Iterable[WorkItem], side_inputs: Mapping[str, Any]
) -> BadRecordError:
    """Return the error with the DoFn, and the element and position that the record came from; see `_find_record`."""
    where = None
    if error.number is not None:
        with suppress(Exception):  # the second run may fail where the first one did not
            where = _find_record(fn, items, error.number, error.output, side_inputs)
    return BadRecordError(f"{type(fn).__name__}.process() of {where or 'a segment'} gave a bad record: {error}")

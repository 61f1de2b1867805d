"""The DoFns of a data source, the settings of a read, and how its work is started and run to its end."""

from __future__ import annotations

import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, cast

import attrs
import pyarrow  # type: ignore[import-untyped]
from pyspark import Broadcast
from pyspark.sql.types import StructType

from sdf.errors import InvalidValueError, show
from sdf.execution.executor import run_to_end
from sdf.execution.expansion import expand
from sdf.journal.pending import Pending
from sdf.model.dofn import DoFn, call_hook
from sdf.scheduling.even_shares import pinned_items
from sdf.spark import serde
from sdf.spark.door.arrow import arrow_schema
from sdf.spark.door.data_sources import InputPartition, value_of
from sdf.spark.payload import Carried, Payload, telling
from sdf.spark.source.rows import ArrowRows
from sdf.spark.source.texts import Texts

__all__ = ["Chain", "Settings", "expanded", "finished", "read", "started"]


@attrs.frozen
class Settings:
    """The settings of a read.

    Attributes:
        paths: elements for the first DoFn of the chain: paths, or other strings that it takes.
        elements: elements that are no paths, pickled; None for none.
        partitions: number of partitions to deal the work out to.
        max_size: largest size of the work in a batch of a stream; None for no bound.
        texts: how values that are text become values of the columns.
    """

    paths: tuple[str, ...]
    elements: bytes | None
    partitions: int
    max_size: int | None
    texts: Texts

    @classmethod
    def of(cls, options: Mapping[str, str], who: str, elements: bytes | None, slots: int) -> Settings:
        """Return the settings from the options of a read.

        Raises:
            InvalidValueError: if an option is malformed, or nothing names elements.
        """
        paths = tuple(_list(options, "paths", who)) + ((options["path"],) if options.get("path") else ())
        if "elements" in options:
            elements = serde.dumps([_as_tuples(one) for one in _list(options, "elements", who)], "the elements")
        elif paths:
            elements = None
        elif elements is None:
            raise InvalidValueError(
                f"the data source {who!r} was given nothing to read. Name paths, as in .load('logs/*.txt'), pass "
                f".option('elements', '[...]') as JSON, or give data_source() elements."
            )
        partitions = _count(options, "numPartitions", who) or slots
        return cls(paths, elements, partitions, _count(options, "maxSizePerTrigger", who), Texts.of(options, who))


def _list(options: Mapping[str, str], name: str, who: str) -> list[Any]:
    text = options.get(name, "[]")
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    if not isinstance(value, list):
        raise InvalidValueError(f"the option {name} of the data source {who!r} must be a JSON list (got {show(text)}).")
    return value


def _count(options: Mapping[str, str], name: str, who: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or not int(text):
        raise InvalidValueError(f"the option {name} of the data source {who!r} must be an integer >= 1 (got {text!r}).")
    return int(text)


def _as_tuples(value: Any) -> Any:
    """Return a JSON value with tuples for its lists: most elements are tuples, and tuples can be hashed."""
    if isinstance(value, list):
        return tuple(_as_tuples(one) for one in value)
    return {key: _as_tuples(one) for key, one in value.items()} if isinstance(value, dict) else value


@attrs.frozen
class Chain:
    """The DoFns of a data source, pickled.

    Attributes:
        id: unique id of this chain, kept by copies of it.
        names: names of the DoFns.
        pickled: the DoFns, each pickled by itself.
        first: step that gets the elements that are no paths: 1 after the path matcher of a reader of files, else 0.
    """

    id: str
    names: tuple[str, ...]
    pickled: tuple[bytes, ...]
    first: int

    @classmethod
    def of(cls, fns: Sequence[DoFn]) -> Chain:
        """Pickle a chain; put the path matcher of a reader of files (``path_matcher()``) before it."""
        matcher = getattr(fns[0], "path_matcher", None)
        lists = [] if matcher is None else [matcher()]
        every: list[DoFn] = [*lists, *fns]
        names = tuple(type(fn).__name__ for fn in every)
        pickled = tuple(serde.dumps(fn, name) for fn, name in zip(every, names, strict=True))
        return cls(uuid.uuid4().hex, names, pickled, len(lists))

    def reading(self, schema: StructType, texts: Texts) -> Chain:
        """Return the chain for one read: a last DoFn with ``for_schema()`` reads the columns of the schema only."""
        fn = serde.loads(self.pickled[-1])
        for_schema = getattr(fn, "for_schema", None)
        if for_schema is None:
            return self
        return self.with_last(for_schema(arrow_schema(schema), texts))

    def within(self, ranges: Mapping[str, tuple[Any, Any]]) -> Chain:
        """Return the chain for a query with filters: a last DoFn with ``for_ranges()`` may leave out rows outside."""
        for_ranges = getattr(serde.loads(self.pickled[-1]), "for_ranges", None)
        return self if for_ranges is None or not ranges else self.with_last(for_ranges(ranges))

    def with_last(self, fn: DoFn) -> Chain:
        """Return the chain with another last DoFn of the same name; equal ones are the same to workers."""
        pickled = serde.dumps(fn, self.names[-1])
        named = hashlib.sha256(self.id.encode() + pickled).hexdigest()[:32]
        return attrs.evolve(self, id=named, pickled=(*self.pickled[:-1], pickled))

    @contextmanager
    def set_up(self) -> Iterator[list[DoFn]]:
        """Give the DoFns for planning, set up in this process for the time of a ``with`` statement."""
        ready: list[DoFn] = []
        try:
            for one in self.pickled:
                fn = serde.loads(one)
                call_hook(fn, "setup")
                ready.append(fn)
            yield ready
        finally:
            for fn in ready:
                call_hook(fn, "teardown")

    def last(self) -> DoFn:
        """Return the last DoFn, set up once for all tasks that this Python worker runs."""
        carried = Carried(serde.dumps((self.pickled[-1], {}), self.names[-1]))
        return Payload(self.id, cast("Broadcast[bytes]", carried)).load()[0]


def started(fns: Sequence[DoFn], chain: Chain, settings: Settings, *, unbounded: bool) -> list[Pending]:
    """Return the initial work of a read."""
    elements = [] if settings.elements is None else serde.loads(settings.elements)
    begin = [(0, path) for path in settings.paths] + [(chain.first, element) for element in elements]
    return [one for step, element in begin for one in expanded(fns[step], step, element, unbounded=unbounded)]


def expanded(fn: DoFn, step: int, element: Any, *, unbounded: bool) -> list[Pending]:
    """Return the initial parts of an element."""
    whole = expand(fn, element, unbounded=unbounded)
    return [Pending(step, element, part) for part, _ in whole.pieces]


def finished(fn: DoFn, parts: Iterable[Pending]) -> Iterator[Any]:
    """Run parts to their end, deferred work included, and yield their outputs.

    Raises:
        SdfError: any error of sdf.
    """
    return run_to_end(fn, pinned_items(parts), clock=time.monotonic, sleep=time.sleep)


def read(chain: Chain, schema: StructType, texts: Texts, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    """Yield the records of a partition; called on executors."""
    with telling():
        fn = chain.last()
        parts = value_of(partition) or ()
        yield from ArrowRows(schema, type(fn).__name__, texts).batches(finished(fn, parts))

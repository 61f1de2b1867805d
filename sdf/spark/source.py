"""data_source: a DoFn as a data source of Spark SQL, so that ``spark.read.format("sdf")`` reads through it.

Spark asks for the partitions of a read when it plans the query, in a Python process of its own beside the driver.
There the elements are expanded and listed, and their work is dealt out into partitions, cut where it is too big for
one; each partition is then a task that runs its parts to their end. Streams are in `sourcestream`.
"""

from __future__ import annotations

import itertools
import json
import os
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, cast

import attrs
import pyarrow  # type: ignore[import-untyped]
from pyspark import Broadcast, SparkContext
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from sdf.bundle import Bundle
from sdf.dealing import dealt, entered
from sdf.dofn import DoFn, call_hook, check_fn
from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.expansion import expand
from sdf.io.files import FileFn
from sdf.io.match import MatchFiles
from sdf.pending import Pending
from sdf.spark import serde
from sdf.spark.jobs import slot_counter
from sdf.spark.payload import Payload
from sdf.spark.rows import Rows
from sdf.work import Work

__all__ = [
    "Chain",
    "SdfDataSource",
    "Settings",
    "data_source",
    "expanded",
    "finished",
    "read",
    "started",
]


def data_source(
    fns: DoFn | Sequence[DoFn],
    schema: str | StructType,
    *,
    name: str = "sdf",
    elements: Iterable[Any] | None = None,
) -> type[SdfDataSource]:
    """Return a data source that reads through a DoFn, for ``spark.dataSource.register``.

    The elements are the paths of the read, ``.load("logs/*.txt")``; or its option ``elements``, a JSON list, in which a
    list stands for a tuple; or else those given here. Readers of files get their paths through `MatchFiles`.

    Args:
        fns: a DoFn, or a chain of them, such as ``[WatchFiles(), TailLines()]``: the outputs of one are the elements of
            the next. Only the last one is run on the executors, those before it where the query is planned.
        schema: of the records of the last one, as Spark has it: ``"id long, name string"``, or a `StructType`.
        name: of the format.
        elements: what is read where a read names nothing; anything that pickles.

    Returns:
        A class. It holds the DoFns as they are now, and how many slots Spark has now.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments.
        UnpicklableError: if a DoFn or the elements cannot be sent.

    Source: the Python data source API of Spark 4; it was tried with 4.3.
    """
    chain: list[Any] = list(fns) if isinstance(fns, Sequence) else [fns]
    if not chain:
        raise InvalidTypeError(f"data_source() needs a DoFn or a sequence of them (got {show(fns)}).")
    for fn in chain:
        check_fn(fn, None, "data_source()")
    if not isinstance(schema, (str, StructType)):
        raise InvalidTypeError(f"data_source() schema must be a string such as 'id long' (got {show(schema)}).")
    if not isinstance(name, str) or not name:
        raise InvalidTypeError(f"data_source() name must be a name such as 'sdf' (got {show(name)}).")
    if isinstance(elements, (str, bytes)) or not (elements is None or isinstance(elements, Iterable)):
        raise InvalidTypeError(f"data_source() elements must be a list of them (got {show(elements)}).")
    given = None if elements is None else serde.dumps(list(elements), "the elements of data_source()")
    sc = SparkContext._active_spark_context
    slots = (os.cpu_count() or 1) if sc is None else slot_counter(sc)()

    class BoundDataSource(SdfDataSource):  # of no importable name, so that it travels whole
        _chain = Chain.of(chain)
        _format_name, _schema, _elements, _slots = name, schema, given, slots

    return BoundDataSource


class SdfDataSource(DataSource):
    """What `data_source` returns a subclass of. Spark makes an instance per read, with its options.

    Options of a read: ``path`` (or `load`), ``elements``; ``numPartitions``, as many as Spark has slots unless given;
    and for streams ``maxSizePerTrigger``.
    """

    _chain: ClassVar[Chain]
    _format_name: ClassVar[str]
    _schema: ClassVar[str | StructType]
    _elements: ClassVar[bytes | None]
    _slots: ClassVar[int]

    @classmethod
    def name(cls) -> str:
        return cls._format_name

    def schema(self) -> StructType | str:
        return self._schema

    def reader(self, schema: StructType) -> DataSourceReader:
        return _Reader(self._chain, schema, self._settings())

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, Spark's name
        from sdf.spark.sourcestream import StreamReader  # needs a later Spark than a batch does

        return StreamReader(self._chain, schema, self._settings())

    def _settings(self) -> Settings:
        return Settings.of(self.options, self._format_name, self._elements, self._slots)


@attrs.frozen
class Settings:
    """What a read asks for.

    Attributes:
        paths: elements that name files, or whatever the first DoFn takes.
        elements: other elements, pickled; None for none.
        partitions: how many to deal the work out to.
        max_size: at most so much work in a batch of a stream, None for no bound.
    """

    paths: tuple[str, ...]
    elements: bytes | None
    partitions: int
    max_size: int | None

    @classmethod
    def of(cls, options: Mapping[str, str], who: str, elements: bytes | None, slots: int) -> Settings:
        """Return what the options of a read say.

        Raises:
            InvalidValueError: if one of them cannot be understood, or no elements are named.
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
        return cls(paths, elements, partitions, _count(options, "maxSizePerTrigger", who))


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
    """Return a value of JSON with tuples for its lists: most elements are tuples, and those do hash."""
    if isinstance(value, list):
        return tuple(_as_tuples(one) for one in value)
    return {key: _as_tuples(one) for key, one in value.items()} if isinstance(value, dict) else value


@attrs.frozen
class _Carried:
    """What a `Payload` has for a broadcast: a data source travels before there is a job to broadcast for."""

    value: bytes


@attrs.frozen
class Chain:
    """The DoFns of a data source, pickled.

    Attributes:
        id: the same wherever this one goes, and of no other.
        names: of the DoFns.
        pickled: each of them.
        first: where elements that are no paths come in: after the `MatchFiles` that was put before a reader of files.
    """

    id: str
    names: tuple[str, ...]
    pickled: tuple[bytes, ...]
    first: int

    @classmethod
    def of(cls, fns: Sequence[DoFn]) -> Chain:
        """Pickle a chain, with a `MatchFiles` for the paths of a reader of files."""
        lists = [MatchFiles(storage_options=fns[0].storage_options)] if isinstance(fns[0], FileFn) else []
        every: list[DoFn] = [*lists, *fns]
        names = tuple(type(fn).__name__ for fn in every)
        pickled = tuple(serde.dumps(fn, name) for fn, name in zip(every, names, strict=True))
        return cls(uuid.uuid4().hex, names, pickled, len(lists))

    @contextmanager
    def set_up(self) -> Iterator[list[DoFn]]:
        """Give the DoFns, set up in this process for the time of a ``with`` statement: to plan."""
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
        carried = _Carried(serde.dumps((self.pickled[-1], {}), self.names[-1]))
        return Payload(self.id, cast("Broadcast[bytes]", carried)).load()[0]


class _Reader(DataSourceReader):
    """Reads finite work. Spark calls `partitions` once for each plan of a query, and `read` in each task."""

    def __init__(self, chain: Chain, schema: StructType, settings: Settings) -> None:
        self._chain = chain
        self._schema = schema
        self._settings = settings

    def partitions(self) -> Sequence[InputPartition]:
        with self._chain.set_up() as fns:
            work = started(fns, self._chain, self._settings, unbounded=False)
            for step, fn in enumerate(fns[:-1]):
                found = finished(fn, [one for one in work if one.step == step])
                work += [
                    one for element in found for one in expanded(fns[step + 1], step + 1, element, unbounded=False)
                ]
            last = [one for one in work if one.step == len(fns) - 1]
            return list(map(InputPartition, dealt(fns[-1], last, self._settings.partitions)))

    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        return read(self._chain, self._schema, partition)


def started(fns: Sequence[DoFn], chain: Chain, settings: Settings, *, unbounded: bool) -> list[Pending]:
    """Return the work that a read begins with."""
    elements = [] if settings.elements is None else serde.loads(settings.elements)
    begin = [(0, path) for path in settings.paths] + [(chain.first, element) for element in elements]
    return [one for step, element in begin for one in expanded(fns[step], step, element, unbounded=unbounded)]


def expanded(fn: DoFn, step: int, element: Any, *, unbounded: bool) -> list[Pending]:
    """Return the parts of an element to start from."""
    whole = expand(fn, element, unbounded=unbounded)
    return [Pending(step, element, part) for part, _ in whole.pieces]


def finished(fn: DoFn, parts: Iterable[Pending]) -> Iterator[Any]:
    """Run parts to their end, also what is deferred, and yield what they give.

    Raises:
        SdfError: any of the tree; LedgerError if something of the parts was not run.
    """
    work = Work(fn)
    todo = [entered(fn, work, one) for one in parts]
    for attempt in itertools.count():
        if not todo:
            break
        work.ledger.assign(attempt, todo)
        bundle = Bundle(fn, todo, clock=time.monotonic)
        yield from bundle.outputs()
        left = work.commit(attempt, attempt, bundle.outcome()) or []
        todo = [item for item, _ in left]
        time.sleep(max((seconds for _, seconds in left), default=0))  # what was put off, such as a look at a server
    work.ledger.prove()


def read(chain: Chain, schema: StructType, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
    """Yield the records of a partition; called on executors."""
    fn = chain.last()
    parts = partition.value or ()  # Spark makes a partition of nothing where there is none
    return Rows(schema, type(fn).__name__).batches(finished(fn, parts))

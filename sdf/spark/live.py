"""LiveRunner: splits stragglers while they run, lazily, with nothing persisted.

The result is one lazy RDD of lanes, and a coordinator that serves them from a thread of the driver. Follow it in three
places: `sdf.spark.lane` is what an attempt at a lane does, `sdf.spark.coordinator` what is decided for it, and
`sdf.spark.wire` how the two talk. `link` and `server` carry that over sockets.

Elements are expanded at the call, in one small job, as RDD.sortByKey() does; all else happens in the user's actions.
The coordinator lives as long as an RDD that was made from its lanes, in Python or in the JVM, but no longer than the
SparkContext.
"""

from __future__ import annotations

import math
import queue
import socket
import time
import uuid
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import attrs
from py4j.protocol import Py4JError
from pyspark import RDD, SparkContext
from pyspark.core.rdd import PipelinedRDD

from sdf.dofn import DoFn
from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.planner import Backlog, deal
from sdf.report import RunReport
from sdf.restrictions import is_integer
from sdf.spark.coordinator import Coordinator
from sdf.spark.jobs import Jobs, slot_counter
from sdf.spark.link import LaneTask
from sdf.spark.options import count, positive
from sdf.spark.payload import Payload, expand_elements
from sdf.spark.server import Server
from sdf.spark.values import Values
from sdf.work import Work

__all__ = ["LiveRunner"]

_GC_EVERY_SECONDS = 60.0


def _ports(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    pair = value if isinstance(value, tuple) and len(value) == 2 else (value, value)
    if not all(is_integer(port) for port in pair):
        raise InvalidTypeError(f"LiveRunner port must be a port, or a tuple (first, last) (got {show(value)}).")
    if not 0 <= pair[0] <= pair[1] <= 65535 or (pair[0] == 0 and pair[1] > 0):
        raise InvalidValueError(f"LiveRunner port must be from 1 to 65535, or 0 for any free one (got {show(value)}).")


def _host(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise InvalidTypeError(f"LiveRunner host must be an address or a name (got {show(value)}).")


@attrs.frozen(kw_only=True)
class LiveRunner:
    """Splits what takes too long while it runs; the result is lazy, and nothing is persisted.

    Records go straight into the functions that are mapped over the result. A second action runs the same work again,
    and gives the same records; ``cache()`` the result if it is used twice. It needs one port of the driver that the
    executors can reach.

    Args:
        lanes: how many tasks run the work. None: as many as Spark has slots when `run_sdf` is called.
        host: the address of the driver to listen on, and by which executors reach it. None: ``spark.driver.host``.
        port: where to listen; 0 is any free port, and ``(first, last)`` the first free one of these.
        min_piece_seconds: the smallest piece worth moving to another lane.
        patience_seconds: how long a lane that has run dry waits for others to have something to give, and holds its
            slot.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type, or out of range.
    """

    lanes: int | None = attrs.field(default=None, validator=attrs.validators.optional(count))
    host: str | None = attrs.field(default=None, validator=_host)
    port: int | tuple[int, int] = attrs.field(default=0, validator=_ports)
    min_piece_seconds: float = attrs.field(default=0.05, validator=positive)
    patience_seconds: float = attrs.field(default=10.0, validator=positive)

    def run(
        self, rdd: RDD[Any], fn: DoFn, side_inputs: Mapping[str, Any], tags: tuple[str, ...]
    ) -> dict[str, RDD[Any]]:
        """Expand the elements now and return one lazy RDD per output, each with its ``report``. Called by `run_sdf`."""
        sc = rdd.context
        work, values = Work(fn), Values()
        payload = Payload.send(sc, uuid.uuid4().hex, fn, side_inputs)
        backlog = self._expand(rdd, work, values, payload)
        lanes = self.lanes or slot_counter(sc)()
        shares = deal(backlog, work.costs, lanes, cut=work.cut)
        base = sc.parallelize(list(range(lanes)), lanes)
        life = _Life(sc, base)
        bind, host = self._where(sc)
        ports = self.port if isinstance(self.port, tuple) else (self.port, self.port)
        server = Server(bind, host, range(ports[0], ports[1] + 1), life)
        server.start(
            lambda send: Coordinator(
                work,
                shares,
                values=values,
                send=send,
                min_piece_seconds=self.min_piece_seconds,
                patience_seconds=self.patience_seconds,
            )
        )
        return {
            name: LaneRDD(base, LaneTask(payload, server.address, tag, tags), server.report).setName(
                f"{work.name}: {name}"
            )
            for tag, name in enumerate(("main", *tags))
        }

    @staticmethod
    def _expand(rdd: RDD[Any], work: Work, values: Values, payload: Payload) -> Backlog:
        events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        jobs = Jobs(rdd.context, payload.run_id, events)
        backlog = Backlog(work.costs)
        try:
            elements = expand_elements(rdd, payload, work.name, jobs, events)
        except BaseException:
            jobs.cancel()
            raise
        for item in work.add(elements):
            values.learn(item.restriction)
            backlog.push(item)
        return backlog

    def _where(self, sc: SparkContext) -> tuple[str, str]:
        """Return the address to bind to, and the name by which executors reach it."""
        if self.host is not None:
            return self.host, self.host
        if (sc.master or "").split("[")[0] == "local":
            return "127.0.0.1", "127.0.0.1"
        conf = sc.getConf()
        host = conf.get("spark.driver.host") or socket.gethostname()
        return conf.get("spark.driver.bindAddress") or host, host


class LaneRDD(PipelinedRDD[Any, Any]):
    """The lanes of a run as an RDD, with its `RunReport` as it is now."""

    def __init__(self, base: RDD[Any], task: LaneTask, report: Callable[[], RunReport]) -> None:
        super().__init__(base, task)
        self._report = report

    @property
    def report(self) -> RunReport:
        """What the lanes have done so far."""
        return self._report()


class _Life:
    """Tells whether the lanes may still be used: called by the server now and then.

    RDDs that Python has forgotten may live on in the JVM, in an RDD that was made from them there, by union() say. So
    after Python's, the JVM's garbage collection has to find them gone. It is asked to look, less and less often: Spark
    holds on to the RDDs of the last job until another one runs.
    """

    _asked_at = -math.inf  # by any run

    def __init__(self, sc: SparkContext, base: RDD[Any]) -> None:
        self._sc = sc
        self._in_python = weakref.ref(base)
        self._in_jvm = sc._jvm.java.lang.ref.WeakReference(base._jrdd.rdd())  # type: ignore[union-attr]
        self._pause_seconds = _GC_EVERY_SECONDS

    def __call__(self) -> bool:
        if self._sc._jsc is None:
            return False
        if self._in_python() is not None:
            return True
        try:
            now = time.monotonic()
            if now - _Life._asked_at >= self._pause_seconds:
                _Life._asked_at = now
                self._pause_seconds *= 2
                self._sc._jvm.System.gc()  # type: ignore[union-attr]
            return self._in_jvm.get() is not None
        except (Py4JError, OSError, AttributeError):  # the JVM has gone
            return False

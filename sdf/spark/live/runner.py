"""LiveRunner: splits stragglers while they run; the result is lazy, and nothing is persisted.

The result is a lazy RDD of lanes per output. A coordinator serves the lanes from a thread of the driver. Read on in
three modules: `sdf.lanes.lane` is one attempt at a lane, `sdf.lanes.coordinator` decides what it runs, and
`sdf.lanes.wire` is the protocol between the two. `link` and `server` carry it over sockets.

The call starts one small job that expands the elements, as RDD.sortByKey() runs one. It returns when that job has ended
or, if some partitions of the elements take long, before (`sdf.spark.live.expansion`). All else happens in the user's
actions. The server keeps a run while any RDD made from its lanes exists, in Python or in the JVM, but no longer than
the SparkContext. The runs of a program that have one host and port share a thread.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import attrs
from pyspark import RDD, SparkContext

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import SegmentDone
from sdf.limits.rate_limit import limits_of
from sdf.model.dofn import DoFn
from sdf.numbers import as_integer, is_integer
from sdf.options import count, options, positive
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_report import RunReport
from sdf.saving.saving import Saving
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.work_queue import WorkQueue
from sdf.spark import broadcasts, serde
from sdf.spark.actions import InterruptiblePipelinedRDD
from sdf.spark.call import Call
from sdf.spark.display import Display
from sdf.spark.door.rdds import Hooked, use_serializer
from sdf.spark.jobs import slot_counter
from sdf.spark.live.contained_run import ContainedRun
from sdf.spark.live.expansion import Expansion
from sdf.spark.live.link import Address, LaneTask, SaveLaneTask
from sdf.spark.live.rounds import Rounds
from sdf.spark.live.server import Server
from sdf.spark.payload import sending
from sdf.spark.result import Result

__all__ = ["LiveRunner"]

_GONE_SECONDS = 1.0  # after this long without lanes the action, e.g. take(), has ended

_servers: dict[tuple[str, str, tuple[int, int]], Server] = {}
_servers_lock = threading.Lock()


def _as_port(value: Any) -> Any:
    return tuple(map(as_integer, value)) if isinstance(value, tuple) else as_integer(value)


def _ports(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    pair = value if isinstance(value, tuple) and len(value) == 2 else (value, value)
    if not all(is_integer(port) for port in pair):
        raise InvalidTypeError(f"LiveRunner port must be a port, or a tuple (first, last) (got {show(value)}).")
    if not 0 <= pair[0] <= pair[1] <= 65535 or (pair[0] == 0 and pair[1] > 0):
        raise InvalidValueError(f"LiveRunner port must be from 1 to 65535, or 0 for any free one (got {show(value)}).")


def _host(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and (not isinstance(value, str) or not value):
        raise InvalidTypeError(f"LiveRunner host must be an address or a name (got {show(value)}).")
    if value in ("0.0.0.0", "::"):
        raise InvalidValueError(
            f"LiveRunner host must be one address of the driver, that executors can connect to (got {value!r}). To "
            f"bind to a different one, set spark.driver.bindAddress and spark.driver.host."
        )


@options
@attrs.frozen(kw_only=True)
class LiveRunner:
    """Splits stragglers while they run; the result is lazy, and nothing is persisted.

    Records go straight into the functions that are mapped over the result. A second action runs the same work again,
    and gives the same records; ``cache()`` the result if it is used twice. LiveRunner needs one port of the driver that
    the executors can reach.

    Args:
        lanes: how many tasks run the work. None: as many as Spark has slots when `run_sdf` is called; of `save_sdf`, as
            many as it has at any time.
        host: the driver's address to listen on, which executors also connect to. None: ``spark.driver.host``.
        port: the port to listen on; 0 is any free port, and ``(first, last)`` the first free one of that range.
        min_piece_seconds: estimated seconds of the smallest piece worth moving to another lane.
        patience_seconds: how long a lane without work keeps its slot and waits for work from other lanes; longer only
            while elements are still expanded. A lane can split what it runs only after a first claim, so set this
            longer than a first claim takes.

    Raises:
        InvalidTypeError, InvalidValueError: for an option of the wrong type, out of range, or unknown.
    """

    lanes: int | None = count(None)
    host: str | None = attrs.field(default=None, validator=_host)
    port: int | tuple[int, int] = attrs.field(default=0, converter=_as_port, validator=_ports)
    min_piece_seconds: float = positive(0.05)
    patience_seconds: float = positive(60.0)

    def run(self, call: Call, tags: tuple[str, ...]) -> dict[str, Result[Any]]:
        """Expand the elements now and return one lazy RDD per output, each with its ``report``. Called by `run_sdf`."""
        sc, work = call.elements.context, RunState(call.fn)
        with sending(sc, call.fn, call.side_inputs) as payload:
            backlog, limits = WorkQueue(work.costs), limits_of(call.side_inputs)
            count_slots = slot_counter(sc)
            expansion = Expansion(call.elements, payload, work.name)
            try:
                enter(work, backlog, expansion.first(count_slots))
                lanes = self.lanes or count_slots()  # not before: executors may start during the expansion
                base = sc.parallelize(list(range(lanes)), lanes)
                more_comes = expansion.left > 0
                coordinator = self._coordinator(work, backlog, lanes, limits=limits, more_comes=more_comes)
                served = self._serve(sc, coordinator, broadcasts.use_of(payload.broadcast), call.display)
            except BaseException:
                expansion.cancel()
                raise
            if more_comes:
                expansion.add_rest(served)
            return {
                name: LaneRDD(base, LaneTask(payload, served.address, tag, tags), work.name, name, served.report)
                for tag, name in enumerate(("main", *tags))
            }

    def save(self, call: Call, saving: Saving) -> RunReport:
        """Run all that is not committed yet, and write its records to the sinks. Called by `save_sdf`."""
        sc, work, commit_seconds = call.elements.context, RunState(call.fn), saving.commit_seconds

        def saved(item_ids: list[int], done: SegmentDone) -> None:
            saving.commit(item_ids, done.messages, done.records, done.seconds)

        with sending(sc, call.fn, call.side_inputs) as payload:
            backlog, later, limits = WorkQueue(work.costs), [], limits_of(call.side_inputs)
            for item, delay_seconds in saving.begin(
                work, lambda: Expansion(call.elements, payload, work.name, kept=True).whole()
            ):
                if delay_seconds > 0:
                    later.append((item, time.monotonic() + delay_seconds))
                else:
                    backlog.push(item)
            lanes = self.lanes or slot_counter(sc)()
            options = {"limits": limits, "saved": saved, "commit_seconds": commit_seconds}
            coordinator = self._coordinator(work, backlog, lanes, **options)
            served = self._serve(sc, coordinator, broadcasts.use_of(payload.broadcast), None)
            for item, due in later:
                served.coordinator.delay(item, due)
            task = SaveLaneTask(payload, served.address, saving.targets, commit_seconds)
            report = Rounds(sc, task, lanes, self.lanes is None, work, served, saving, payload, call.display).run()
        broadcasts.free(payload.broadcast)
        return report

    def _coordinator(
        self, work: RunState, backlog: WorkQueue, lanes: int, **options: Any
    ) -> Callable[..., Coordinator]:
        """Deal the backlog out to the lanes; return what makes their coordinator, with further ``options`` of it."""
        shares = deal(backlog, work.costs, lanes, cut=work.cut)
        options |= {"min_piece_seconds": self.min_piece_seconds, "patience_seconds": self.patience_seconds}
        return partial(Coordinator, work, shares, **options)

    @contextmanager
    def listening(self, sc: SparkContext, fn: DoFn) -> Iterator[Address]:
        """Listen where the lanes of runs would connect, for a run without work; give the address, for `sdf.doctor`."""
        work, used = RunState(fn), [True]
        served = self._serve(sc, self._coordinator(work, WorkQueue(work.costs), 1), lambda: bool(used), None)
        try:
            yield served.address
        finally:
            used.clear()

    def _serve(
        self,
        sc: SparkContext,
        coordinator: Callable[..., Coordinator],
        alive: Callable[[], bool],
        display: Display | None,
    ) -> ContainedRun:
        """Serve the lanes as long as ``alive``, on the server already at that address if there is one."""
        watch = None if display is None else _Watch(display)
        bind, host = self._where(sc)
        first, last = self.port if isinstance(self.port, tuple) else (self.port, self.port)
        where = bind, host, (first, last)
        with _servers_lock:
            while True:
                if where not in _servers:
                    _servers[where] = Server(bind, host, range(first, last + 1))
                run = _servers[where].open(coordinator, alive, watch)
                if run is not None:
                    return run
                _servers.pop(where).close()

    def _where(self, sc: SparkContext) -> tuple[str, str]:
        """Return the address to bind to, and the host name that executors connect to."""
        if self.host is not None:
            return self.host, self.host
        if (sc.master or "").split("[")[0] == "local":
            return "127.0.0.1", "127.0.0.1"
        conf = sc.getConf()
        host = conf.get("spark.driver.host") or socket.gethostname()
        return conf.get("spark.driver.bindAddress") or host, host


class LaneRDD(Hooked, InterruptiblePipelinedRDD, Result[Any]):
    """The lanes of a run as an RDD of one output, with the run's present `RunReport`."""

    def __init__(self, base: RDD[Any], task: LaneTask, who: str, name: str, report: Callable[[], RunReport]) -> None:
        super().__init__(base, task)
        use_serializer(self, serde.of_records(self.ctx.serializer, who))
        self.title = f"{who}: {name}"
        self._reported = report


class _Watch:
    """Shows the progress of the lanes while there are any; the server calls it often."""

    def __init__(self, display: Display) -> None:
        self._display = display
        self._seen_at: float | None = None
        self._last: RunProgress | None = None

    def __call__(self, coordinator: Coordinator, now: float) -> None:
        if coordinator.running():
            self._seen_at = now
            if self._display.due() or self._last is None:
                self._last = coordinator.progress(now)
                self._display.show(self._last)
        elif self._seen_at is not None and (now - self._seen_at > _GONE_SECONDS or coordinator.sealed()):
            last = coordinator.progress(now) if coordinator.sealed() or self._last is None else self._last
            self._seen_at = self._last = None
            self._display.show(attrs.evolve(last, ended=True))

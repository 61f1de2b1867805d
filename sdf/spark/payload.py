"""The DoFn of a run in the Python workers: sent once, loaded and set up once per process; and its first use, expanding.

A DoFn is set up once per worker process, whatever number of tasks it runs there; it is torn down in that process, when
the worker leaves by itself or has seen `_KEPT` newer runs. A worker that Spark kills tears nothing down, and Spark
kills the idle ones at the end of an application. Nor does a process that was forked from a worker: what it has of a
DoFn is a copy, and what the DoFn has outside, files say, is still the worker's.
"""

from __future__ import annotations

import functools
import logging
import os
import queue
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, NoReturn

import attrs
from pyspark import RDD, Broadcast, SparkContext

from sdf.errors import SdfError, UnpicklableError, show
from sdf.execution.expansion import Expanded, expand
from sdf.model.dofn import DoFn, call_hook
from sdf.spark import broadcasts, serde
from sdf.spark.elements import BIG_BYTES, BigElement, WarnsOnce, big_element
from sdf.spark.jobs import Ended, Jobs

__all__ = ["Expand", "Payload", "expand_elements", "expanded", "marked", "sending"]

_KEPT = 8
_TOGETHER = 10_000  # elements

log = logging.getLogger("sdf.worker")

# By process. A forked one keeps what it has inherited, so that nothing of it is finalized there, and uses its own.
_loaded: defaultdict[int, OrderedDict[str, tuple[DoFn, dict[str, Any]]]] = defaultdict(OrderedDict)


@attrs.frozen
class Payload:
    """A run's DoFn and side inputs, broadcast as a pickled pair: the pickled DoFn, and each value pickled by name."""

    run_id: str
    broadcast: Broadcast[bytes]

    @classmethod
    def send(cls, sc: SparkContext, run_id: str, fn: DoFn, side_inputs: Mapping[str, Any]) -> Payload:
        """Pickle a DoFn and its side inputs, each by itself, so that the message can say which one does not pickle."""
        values = {name: serde.dumps(value, f"side input {name!r}") for name, value in side_inputs.items()}
        who = type(fn).__name__
        return cls(run_id, broadcasts.send(sc, serde.dumps((serde.dumps(fn, who), values), who)))

    def load(self) -> tuple[DoFn, dict[str, Any]]:
        """Return both, the DoFn set up; once per worker process."""
        loaded = _loaded[os.getpid()]
        if self.run_id in loaded:
            return loaded[self.run_id]
        pickled_fn, pickled_values = serde.loads(self.broadcast.value)
        fn: DoFn = serde.loads(pickled_fn)
        side_inputs = {name: serde.loads(value) for name, value in pickled_values.items()}
        call_hook(fn, "setup")
        if type(fn).teardown is not DoFn.teardown:
            _tear_down_at_the_end()
        while len(loaded) >= _KEPT:
            _tear_down_oldest()
        loaded[self.run_id] = fn, side_inputs
        return fn, side_inputs


@contextmanager
def sending(sc: SparkContext, fn: DoFn, side_inputs: Mapping[str, Any]) -> Iterator[Payload]:
    """Send the payload of a new run; free it at once if what is done in the ``with`` statement fails."""
    payload = Payload.send(sc, uuid.uuid4().hex, fn, side_inputs)
    try:
        yield payload
    except BaseException:
        broadcasts.free(payload.broadcast)
        raise


def _tear_down_oldest() -> None:
    """Tear down the DoFn of the oldest run; it must not fail a newer one, so its failure is only logged."""
    fn = _loaded[os.getpid()].popitem(last=False)[1][0]
    try:
        call_hook(fn, "teardown")
    except SdfError:
        log.exception("teardown of %s failed", type(fn).__name__)


@functools.cache
def _tear_down_at_the_end() -> None:
    """Have all DoFns torn down when this worker process ends by itself, which it does when Spark closes its socket.

    It then leaves through os._exit(), which runs no atexit handlers; so that call is what has to be caught. Forked
    processes leave through it too, such as those of multiprocessing: they have nothing of their own to tear down.
    """
    leave = os._exit

    def leave_torn_down(status: int) -> NoReturn:
        try:
            while _loaded[os.getpid()]:
                _tear_down_oldest()
        finally:
            leave(status)

    os._exit = leave_torn_down


def marked(run_id: str, outputs: Iterator[Any]) -> Iterator[Any]:
    """Yield what ``outputs`` yields; put marks around the message of an error of sdf, so that the driver finds it."""
    try:
        yield from outputs
    except SdfError as error:
        text = f"[{run_id}] {error} [{run_id}]"
        raise type(error)(text).with_traceback(error.__traceback__) from error.__cause__


class Expand:
    """Makes `Expanded` elements of elements, a function for ``mapPartitions``; `expanded` reads what it gives.

    They are pickled here, many together: to collect ten thousand one by one takes Spark as long again as the rest.
    """

    def __init__(self, payload: Payload, *, unbounded: bool = False) -> None:
        self._payload = payload
        self._unbounded = unbounded

    def __call__(self, elements: Iterable[Any]) -> Iterator[bytes]:
        return marked(self._payload.run_id, self._expand(elements))

    def _expand(self, elements: Iterable[Any]) -> Iterator[bytes]:
        fn, _ = self._payload.load()
        made = (expand(fn, element, unbounded=self._unbounded) for element in elements)
        while together := tuple(islice(made, _TOGETHER)):
            try:
                pickled = serde.dumps(together, type(fn).__name__)
            except UnpicklableError:
                for one in together:
                    serde.dumps(one, f"element {show(one.element)} of {type(fn).__name__}, or its restriction,")
                raise
            yield pickled
            if len(pickled) > BIG_BYTES and (big := big_element([one.element for one in together])) is not None:
                yield serde.dumps(big, "what is said of an element")


def expanded(pickled: Iterable[bytes], warn: WarnsOnce) -> Iterator[Expanded]:
    """Yield the elements that `Expand` made, and warn of big ones."""
    for found in map(serde.loads, pickled):
        if isinstance(found, BigElement):
            warn(found)
        else:
            yield from found


def expand_elements(
    rdd: RDD[Any],
    payload: Payload,
    name: str,
    jobs: Jobs,
    events: queue.SimpleQueue[Any],
    warn: WarnsOnce,
    *,
    unbounded: bool = False,
) -> Iterator[Expanded]:
    """Run the job that expands the elements, and return them: from here on they are the driver's data.

    Args:
        rdd: the elements.
        payload: the run's DoFn.
        name: of the DoFn.
        jobs: runs the job; it puts into ``events``, which nothing else may do meanwhile.
        events: where the end of the job arrives.
        warn: of big elements.
        unbounded: whether work without an end is fine.
    """
    job = rdd.mapPartitions(Expand(payload, unbounded=unbounded)).collect
    jobs.start("expand", f"{name}: expand elements", job, {})
    ended: Ended = events.get()
    if ended.error is not None:
        raise ended.error
    return expanded(ended.value, warn)

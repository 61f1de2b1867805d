"""The DoFn of a run in the Python workers: sent once, set up once per process.

A DoFn is set up once per worker process, for any number of tasks. It is torn down in the same process, when the worker
exits by itself or has seen `_KEPT` newer runs. A worker that Spark kills tears nothing down, and Spark kills the idle
ones at the end of an application. A process forked from a worker tears nothing down either: its DoFn is a copy, and
outside resources, such as files, still belong to the worker.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import traceback
import uuid
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn, cast

import attrs
from pyspark import Broadcast, SparkContext

from sdf.errors import SdfError, StageError, text_of
from sdf.model.dofn import DoFn, call_hook
from sdf.spark import broadcasts, serde

__all__ = ["Carried", "Marked", "Payload", "described", "marked", "pickled_payload", "run_of", "sending", "telling"]

_KEPT = 8

log = logging.getLogger("sdf.worker")

# By process id. A forked process keeps the entries it inherits, so that they are not finalized there, but uses its own.
_loaded: defaultdict[int, OrderedDict[str, tuple[DoFn, dict[str, Any]]]] = defaultdict(OrderedDict)


@attrs.frozen
class Carried:
    """Bytes that travel with what is sent, with the interface of a broadcast: for what runs without a SparkContext."""

    value: bytes


@attrs.frozen
class _Here:
    """A broadcast that is not sent on: what this is sent to has loaded it."""

    _broadcast: Broadcast[bytes]

    @property
    def value(self) -> bytes:
        return self._broadcast.value

    def __reduce__(self) -> Any:
        return Carried, (b"",)


@attrs.frozen
class Payload:
    """A run's DoFn and side inputs, broadcast as a pickled pair: the pickled DoFn, and each value pickled by name."""

    run_id: str
    broadcast: Broadcast[bytes]

    @classmethod
    def send(cls, sc: SparkContext, run_id: str, fn: DoFn, side_inputs: Mapping[str, Any]) -> Payload:
        """Broadcast a DoFn and its side inputs."""
        return cls(run_id, broadcasts.send(sc, pickled_payload(fn, side_inputs)))

    def here(self) -> Payload:
        """Return it for processes that are forked from this one, or that have loaded it already."""
        return Payload(self.run_id, cast("Broadcast[bytes]", _Here(self.broadcast)))

    def load(self) -> tuple[DoFn, dict[str, Any]]:
        """Return the DoFn, set up, and the side inputs; both are loaded once per worker process."""
        loaded = _loaded[os.getpid()]
        if self.run_id in loaded:
            return loaded[self.run_id]
        pickled_fn, pickled_values = serde.loads(self.broadcast.value)
        fn: DoFn = serde.loads(pickled_fn)
        side_inputs = {name: serde.loads(value) for name, value in pickled_values.items()}
        call_hook(fn, "setup")
        if type(fn).teardown is not DoFn.teardown:
            _tear_down_at_the_end()
        run = run_of(self.run_id)
        while len({run_of(known) for known in loaded} - {run}) >= _KEPT:
            _tear_down_oldest()
        loaded[self.run_id] = fn, side_inputs
        return fn, side_inputs


def run_of(run_id: str) -> str:
    """Return the id that all steps of a stream share, which has a DoFn for each."""
    return run_id.partition("-")[0]


def pickled_payload(fn: DoFn, side_inputs: Mapping[str, Any]) -> bytes:
    """Pickle a DoFn and its side inputs, each by itself: an error can say which one does not pickle."""
    values = {name: serde.dumps(value, f"side input {name!r}") for name, value in side_inputs.items()}
    who = type(fn).__name__
    return serde.dumps((serde.dumps(fn, who), values), who)


@contextmanager
def sending(sc: SparkContext, fn: DoFn, side_inputs: Mapping[str, Any]) -> Iterator[Payload]:
    """Send the payload of a new run; free it at once if the ``with`` statement fails."""
    payload = Payload.send(sc, uuid.uuid4().hex, fn, side_inputs)
    try:
        yield payload
    except BaseException:
        broadcasts.free(payload.broadcast)
        raise


def _tear_down_oldest() -> None:
    """Tear down the DoFn of the oldest run; a failure is only logged, since it must not fail a newer run."""
    fn = _loaded[os.getpid()].popitem(last=False)[1][0]
    try:
        call_hook(fn, "teardown")
    except SdfError:
        log.exception("teardown of %s failed", type(fn).__name__)


@functools.cache
def _tear_down_at_the_end() -> None:
    """Have all DoFns torn down when this worker process exits by itself, as it does when Spark closes its socket.

    The worker exits through os._exit(), which runs no atexit handlers, so that function is replaced. Forked processes,
    such as those of multiprocessing, exit through it too; they have no entries of their own to tear down.
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
    """Yield the outputs; put the run id around the message of an sdf error, so that the driver finds it."""
    with telling():
        try:
            yield from outputs
        except SdfError as error:
            if str(error).startswith(f"[{run_of(run_id)}"):  # another step of the stream has done so
                raise
            told = type(error)(f"[{run_id}] {error} [{run_id}]").with_traceback(error.__traceback__)
            raise told from _from_users_code(error.__cause__)


@contextmanager
def telling() -> Iterator[None]:
    """Escape lone surrogates in an error, and in what caused it: PySpark could not send it, and the job would hang."""
    try:
        yield
    except Exception as error:  # of any kind: the user's code may call what raises it
        trace = "".join(traceback.format_exception(error))
        if trace == _as_utf8(trace):
            raise
        if isinstance(error, SdfError):
            raise type(error)(described(error)) from None
        raise StageError(_as_utf8(f"{type(error).__name__}: {text_of(error)}\n{trace}")) from None


@attrs.frozen
class Marked:
    """Marks the errors of a function for `mapPartitionsWithIndex`, so that the driver finds them in Spark's."""

    run_id: str
    function: Callable[[int, Iterable[Any]], Iterator[Any]]

    def __call__(self, partition: int, records: Iterable[Any]) -> Iterator[Any]:
        return marked(self.run_id, self.function(partition, records))


def described(error: SdfError) -> str:
    """Return the text of an error, with the traceback of the user's code."""
    return _as_utf8(f"{error}\n{_trace(_from_users_code(error.__cause__))}".rstrip())


def _trace(error: BaseException | None) -> str:
    return "" if error is None else "".join(traceback.format_exception(error))


def _as_utf8(text: str) -> str:
    """Return a text with lone surrogates, which UTF-8 does not have, escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def _from_users_code(error: BaseException | None) -> BaseException | None:
    """Return an error without the frames of sdf that called the user's code; with them, if it was not called."""
    frame = None if error is None else error.__traceback__
    while frame is not None and re.match(r"sdf\.(?!io\.)", frame.tb_frame.f_globals.get("__name__", "")):
        frame = frame.tb_next
    return error if error is None or frame is None else error.with_traceback(frame)

"""The task that runs a lane: its connection to the coordinator, its listening thread and its records.

Records go straight from `process` to the user's next functions in the same Python process. Each record costs one step
of a generator and one of a counter in C. With tags, a second generator picks the records of one output.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import attrs
from pyspark import TaskContext

from sdf.errors import RUN_DOCTOR, BadRecordError, CoordinatorError, SdfError
from sdf.execution.measured_run import Running
from sdf.lanes.heartbeat import LOOK_SECONDS
from sdf.lanes.lane import WAIT, Lane, Waiting
from sdf.lanes.messages import Bye, FromLane, Hello, Raised, write
from sdf.lanes.wire import NONCE_BYTES, PROOF_BYTES, Channel, channels, driver_proof, lane_proof, nonce
from sdf.limits.rate_limit import paced
from sdf.model.dofn import DoFn, TaggedOutput, call_hook
from sdf.quarantine.failures import cut_error
from sdf.saving.segments import Targets, blame_record, write_segment
from sdf.spark import serde
from sdf.spark.live.preemption import told_to_end
from sdf.spark.live.silence import LONGEST_SILENCE_SECONDS, Silence, probe
from sdf.spark.payload import Payload, described, marked, telling
from sdf.spark.task_start import task_starts, worker_name

__all__ = ["Address", "LaneTask", "SaveLaneTask", "connect"]

_CONNECT_SECONDS = 5.0
_HANDSHAKE_SECONDS = 30.0  # the driver's kernel has accepted; its thread may be busy
_TRIES = 4
_PAUSE_SECONDS = 0.1


@attrs.frozen
class Address:
    """Host and port of a run's coordinator, the name of the run, and the secret that authenticates its lanes."""

    host: str
    port: int
    run: bytes
    secret: bytes = attrs.field(repr=False)


@attrs.frozen(eq=False)
class LaneTask:
    """Runs one attempt at one lane and yields the records of one output; a function for ``mapPartitionsWithIndex``.

    Args:
        payload: the run's DoFn.
        address: where the coordinator is.
        tag: number of the output, 0 for the main one.
        tags: the declared tags.
    """

    _payload: Payload
    _address: Address
    _tag: int
    _tags: tuple[str, ...]

    def __call__(self, number: int, partition: Iterable[Any]) -> Iterator[Any]:
        task_starts()
        list(partition)  # read to the end, else Spark does not reuse the worker
        counts = dict.fromkeys(self._tags, 0)
        records = self._records(number, counts)
        return self._of_tag(records, counts) if self._tags else records

    def _of_tag(self, records: Iterable[Any], counts: dict[str, int]) -> Iterator[Any]:
        """Yield the records of one output, and count those of each tag: the lane reports them in `Ready`."""
        wanted = self._tags[self._tag - 1] if self._tag else None
        for record in records:
            if not isinstance(record, TaggedOutput):
                if wanted is None:
                    yield record
                continue
            if record.tag not in counts:
                record.check(self._tags)
            counts[record.tag] += 1
            if record.tag == wanted:
                yield record.value

    def _records(self, number: int, counts: dict[str, int]) -> Iterator[Any]:
        """Yield the outputs of one work item after the other, until the coordinator seals the lane."""
        TaggedOutput.declared = self._tags  # before any user code runs here
        try:
            with telling():
                fn, side_inputs = self._payload.load()
                tagged = lambda: tuple(counts.values())  # noqa: E731
                with _connected(fn, side_inputs, self._address, number, tagged=tagged) as (link, lane):
                    call_hook(fn, "start_bundle")
                    try:
                        while isinstance(running := _next(lane), Running):
                            with running.outputs() as outputs:
                                yield from outputs
                    except GeneratorExit:  # the action has read enough records
                        with suppress(CoordinatorError):
                            link.send(Bye())
                        raise
                    call_hook(fn, "finish_bundle")
        finally:
            TaggedOutput.declared = None


@attrs.frozen(eq=False)
class SaveLaneTask:
    """Runs one attempt at a lane of a saved run; a function for ``mapPartitionsWithIndex`` that gives nothing.

    Args:
        payload: the run's DoFn.
        address: where the coordinator is.
        targets: the sinks.
        commit_seconds: how long a segment may last.
    """

    _payload: Payload
    _address: Address
    _targets: Targets
    _commit_seconds: float

    def __call__(self, number: int, partition: Iterable[Any]) -> Iterator[Any]:
        task_starts()
        list(partition)  # read to the end, else Spark does not reuse the worker
        return marked(self._payload.run_id, self._run(number))

    def _run(self, number: int) -> Iterator[Any]:
        fn, side_inputs = self._payload.load()
        connected = _connected(fn, side_inputs, self._address, number, segment_seconds=self._commit_seconds)
        with connected as (link, lane), told_to_end(lane.leave):
            try:
                self._write_segments(fn, side_inputs, lane)
            except SdfError as error:
                if not isinstance(error, CoordinatorError):
                    link.tell(error)
                raise
        yield from ()

    def _write_segments(self, fn: DoFn, side_inputs: Mapping[str, Any], lane: Lane) -> None:
        while isinstance(first := _next(lane), Running):
            try:
                written = write_segment(_segment(fn, lane, first), self._targets, type(fn).__name__)
            except BadRecordError as error:
                raise blame_record(error, fn, lane.held(), side_inputs) from error
            lane.segment_done(*written)


def _segment(fn: DoFn, lane: Lane, first: Running) -> Iterator[Any]:
    """Yield the outputs of a segment: of its first work item, and of those that follow until the lane closes it."""
    call_hook(fn, "start_bundle")
    running: Running | Waiting | None = first
    while isinstance(running, Running):
        with running.outputs() as outputs:
            yield from outputs
        running = _next(lane)
    call_hook(fn, "finish_bundle")


@contextmanager
def _connected(
    fn: DoFn, side_inputs: Mapping[str, Any], address: Address, number: int, **options: Any
) -> Iterator[tuple[Link, Lane]]:
    """Connect an attempt at a lane to the coordinator, and give both; ``options`` are those of `Lane`."""
    with Link(address, _hello(number)) as link:
        lane = Lane(fn, side_inputs=side_inputs, clock=time.monotonic, send=link.send, **options)
        link.listen(lane)
        with paced(side_inputs, lane.start_times):
            yield link, lane


def _hello(number: int) -> Hello:
    context = TaskContext.get()
    assert context is not None
    task = context.stageId(), context.attemptNumber(), context.taskAttemptId()
    return Hello(number, worker_name(), time.time(), *task)


def _next(lane: Lane) -> Running | Waiting | None:
    """Wait for what a lane does next; bounded, as the link fails the lane after too long a `Silence`.

    Returns:
        What to run; `CLOSE` if a segment must be closed first; None if the attempt may end.
    """
    with lane.changed:
        while (running := lane.advance()) is WAIT:
            lane.changed.wait(_PAUSE_SECONDS)
    return running


class Link:
    """A lane's connection to the coordinator; a context manager.

    Args:
        address: where the coordinator is.
        hello: the first message.

    Raises:
        CoordinatorError: if the coordinator cannot be reached, or the peer there is not this coordinator.
    """

    def __init__(self, address: Address, hello: Hello) -> None:
        self._where = f"lane {hello.lane} on {hello.worker}"
        self._coordinator = f"the coordinator on the driver at {address.host}:{address.port}"
        self._closed = False
        self._thread: threading.Thread | None = None
        self._send_lock = threading.Lock()
        self._socket, self._to_driver, self._to_lane = self._connect(address)
        self.send(hello)

    def _connect(self, address: Address) -> tuple[socket.socket, Channel, Channel]:
        failure: OSError | None = None
        for number in range(_TRIES):
            time.sleep(number * _PAUSE_SECONDS)
            try:
                return connect(address, _CONNECT_SECONDS, _HANDSHAKE_SECONDS)
            except OSError as error:
                failure = error
        raise CoordinatorError(
            f"{self._where} cannot reach {self._coordinator} ({type(failure).__name__}: {failure}). LiveRunner needs "
            f"one port of the driver that the executors can reach, for as long as the result is in use: name it with "
            f"LiveRunner(host=..., port=...), or use StagedRunner(), which needs none. {RUN_DOCTOR}"
        ) from failure

    def send(self, message: FromLane) -> None:
        """Send a message to the coordinator; raise CoordinatorError if the connection fails."""
        try:
            with self._send_lock:
                self._socket.sendall(self._to_driver.frame(write(message)))
        except OSError as error:
            raise self._lost(error) from error

    def tell(self, error: SdfError) -> None:
        """Tell what this attempt has raised: if all attempts at its work do, the run fails with that."""
        with suppress(CoordinatorError):
            self.send(Raised(type(error).__name__, cut_error(described(error))))

    def _lost(self, error: OSError) -> CoordinatorError:
        return CoordinatorError(
            f"{self._where} lost its connection to {self._coordinator} ({type(error).__name__}: {error}). What this "
            f"attempt did does not count; Spark runs the lane again where it retries tasks (local[N,4], not local[N])."
        )

    def listen(self, lane: Lane) -> None:
        """Start the thread that passes messages to ``lane`` and has it send heartbeats, until the link closes."""
        self._thread = threading.Thread(target=self._listen, args=(lane,), name="sdf-link", daemon=True)
        self._thread.start()

    def _listen(self, lane: Lane) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(self._socket, selectors.EVENT_READ)
                silence = Silence(time.monotonic())
                while not self._closed:
                    if selector.select(LOOK_SECONDS):
                        received = self._socket.recv(1 << 16)
                        silence.heard()
                        if not received:
                            raise ConnectionError("it was closed")
                        for payload in self._to_lane.feed(received):
                            lane.receive(serde.loads(payload))
                    lane.look()
                    silence.look(self._socket, time.monotonic(), waits=lane.waits)
        except CoordinatorError as error:
            lane.fail(error)
        except OSError as error:
            if not self._closed:
                lane.fail(self._lost(error))
        except Exception as error:  # handed to the thread that runs the lane
            lane.fail(error)

    def __enter__(self) -> Link:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, traceback: Any) -> None:
        self._closed = True
        with suppress(OSError):  # the coordinator has already closed it
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes the listening thread
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(_CONNECT_SECONDS)
        self._socket.close()


def connect(
    address: Address, connect_seconds: float, handshake_seconds: float
) -> tuple[socket.socket, Channel, Channel]:
    """Connect to a coordinator; return the connection, and its channels to the driver and to the lane.

    Args:
        address: where the coordinator is.
        connect_seconds: how long to wait for the driver's host.
        handshake_seconds: how long to wait for each answer of the driver.

    Raises:
        OSError: if nobody answers there, or something else than this coordinator does.
    """
    connection = socket.create_connection((address.host, address.port), connect_seconds)
    try:
        mine, secret = nonce(), address.secret
        connection.settimeout(handshake_seconds)
        theirs = _receive(connection, NONCE_BYTES)
        connection.sendall(address.run + mine + lane_proof(secret, theirs, mine))
        if _receive(connection, PROOF_BYTES) != driver_proof(secret, theirs, mine):
            raise ConnectionError("something else than the coordinator of this run answers there")
        connection.settimeout(LONGEST_SILENCE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        probe(connection)
    except OSError:
        connection.close()
        raise
    return (connection, *channels(secret, theirs, mine))


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        more = connection.recv(size - len(received))
        if not more:
            raise ConnectionError("it hung up")
        received += more
    return received

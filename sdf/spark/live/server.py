"""The coordinators' sockets: one thread on the driver serves the lanes of all runs at one address, and waits for none.

The server reads no message of a peer before the peer has proved that it knows a run's secret. That proof is 80 bytes,
and a peer that has not sent it after `_HANDSHAKE_SECONDS` is cut off. At most `_MOST_UNAUTHENTICATED` unauthenticated
connections are open at a time: beyond that the oldest is closed, and a lane that this happens to tries again.

A failure does not end the thread: a run fails alone (`sdf.spark.live.contained_run`), and a connection that cannot be
served is cut off alone.
"""

from __future__ import annotations

import hmac
import itertools
import logging
import secrets
import selectors
import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable
from contextlib import suppress
from typing import Any

import attrs

from sdf.errors import RUN_DOCTOR, CoordinatorError
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import Assign, Fail, Hello, ProtocolError, ToLane, read
from sdf.lanes.wire import (
    MOST_BYTES_ASSIGNED,
    MOST_BYTES_TO_LANE,
    NONCE_BYTES,
    PROOF_BYTES,
    RUN_BYTES,
    Channel,
    channels,
    driver_proof,
    lane_proof,
    nonce,
)
from sdf.spark import serde
from sdf.spark.live.contained_run import ContainedRun
from sdf.spark.live.link import Address
from sdf.spark.live.silence import end_when_silent

__all__ = ["Server"]

log = logging.getLogger("sdf.server")

_HANDSHAKE_BYTES = RUN_BYTES + NONCE_BYTES + PROOF_BYTES
_HANDSHAKE_SECONDS = 5.0
_MOST_UNAUTHENTICATED = 512
_MOST_ACCEPTED = 64  # in a row, so that the accepted connections need not wait
_MOST_UNSENT_BYTES = MOST_BYTES_TO_LANE + MOST_BYTES_ASSIGNED
_TICK_SECONDS = 0.02
_ALIVE_SECONDS = 0.5


@attrs.define(eq=False)
class _Peer:
    """A connection; unauthenticated while ``run`` is None."""

    socket: socket.socket
    file: int  # its descriptor, the selector's key even once the socket is closed
    nonce: bytes
    deadline: float
    received: bytes = b""
    run: ContainedRun | None = None
    from_lane: Channel | None = None
    to_lane: Channel | None = None
    unsent: bytearray = attrs.field(factory=bytearray)
    greeted: bool = False


class Server:
    """Serves runs as long as there are any.

    Args:
        host: the only address to bind to.
        advertised: the host name that the lanes connect to.
        ports: the ports to try, in order; 0 is any free one.

    Raises:
        CoordinatorError: if no port is free, or ``host`` is not this machine's.
    """

    def __init__(self, host: str, advertised: str, ports: Iterable[int]) -> None:
        self._listener = _listen(host, ports)
        self._where = advertised, self._listener.getsockname()[1]
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._numbers = itertools.count()
        self._peers: dict[Hashable, _Peer] = {}
        self._unauthenticated: OrderedDict[Hashable, _Peer] = OrderedDict()
        self._broken: set[Hashable] = set()  # the connections to close at the end of the loop's turn
        self._lock = threading.Lock()
        self._runs: dict[bytes, ContainedRun] = {}
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="sdf-coordinator", daemon=True)

    def open(
        self,
        coordinator: Callable[..., Coordinator],
        alive: Callable[[], bool],
        watch: Callable[[Coordinator, float], None] | None = None,
    ) -> ContainedRun | None:
        """Serve a run; call this from any thread.

        Args:
            coordinator: makes the run's coordinator, given ``send``, the function that sends a message.
            alive: called now and then in the server's thread; once it returns False the server forgets the run.
            watch: called often with the coordinator and monotonic seconds, to show progress; or None.

        Returns:
            The run; None if the server has closed, as no runs were left.
        """
        address = Address(*self._where, secrets.token_bytes(RUN_BYTES), secrets.token_bytes(32))
        run = ContainedRun(address, coordinator(send=self._send), self._send, alive, watch)
        with self._lock:
            if self._closed:
                return None
            self._runs[address.run] = run
            if not self._thread.is_alive():
                self._thread.start()
        return run

    def close(self) -> None:
        """Close all connections and end the thread; return when it has ended. Call this from any other thread."""
        with self._lock:
            self._closed = True
        with suppress(OSError):  # it has ended already
            self._waker.send(b"x")
        if self._thread.is_alive():
            self._thread.join()

    def _serve(self) -> None:
        try:
            asked_at = time.monotonic()
            while not self._closed:
                waiting = any(run.waiting() for run in list(self._runs.values()))
                for key, events in self._selector.select(_TICK_SECONDS if waiting else _ALIVE_SECONDS):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.data is not None:
                        self._serve_peer(key.data, events)
                for run in list(self._runs.values()):
                    run.tick()
                    run.look()
                while self._broken:
                    self._hang_up(self._broken.pop())
                now = time.monotonic()
                while self._unauthenticated and next(iter(self._unauthenticated.values())).deadline <= now:
                    self._hang_up(next(iter(self._unauthenticated)))
                if now - asked_at >= _ALIVE_SECONDS:
                    asked_at = now
                    self._forget()
        except Exception:
            log.exception("the server failed; the attempts that run lose their connection")
        finally:
            with self._lock:
                self._closed = True
            for name in list(self._peers):
                self._hang_up(name)
            self._selector.close()
            for each in (self._listener, self._wake, self._waker):
                each.close()

    def _forget(self) -> None:
        """Forget the runs that cannot be used any more; close the server if none is left."""
        for run in [run for run in list(self._runs.values()) if not run.alive()]:
            for name in [name for name, peer in self._peers.items() if peer.run is run]:
                self._hang_up(name)
            with self._lock:
                del self._runs[run.address.run]
        with self._lock:
            self._closed = self._closed or not self._runs

    def _accept(self) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no file descriptor left, or the peer is already gone
                log.warning("cannot accept a connection: %s", error)
                if not self._unauthenticated:
                    time.sleep(_TICK_SECONDS)
                    return
                self._hang_up(next(iter(self._unauthenticated)))
                continue
            try:
                self._let_in(connection)
            except OSError as error:  # the peer is already gone, or the selector cannot take it
                log.warning("cannot serve a connection: %s", error)
                connection.close()
            if len(self._unauthenticated) > _MOST_UNAUTHENTICATED:
                self._hang_up(next(iter(self._unauthenticated)))

    def _let_in(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_when_silent(connection)
        name, file = next(self._numbers), connection.fileno()
        self._selector.register(file, selectors.EVENT_READ, name)
        peer = _Peer(connection, file, nonce(), time.monotonic() + _HANDSHAKE_SECONDS)
        self._peers[name] = self._unauthenticated[name] = peer
        self._write(name, peer, peer.nonce)

    def _serve_peer(self, name: Hashable, events: int) -> None:
        peer = self._peers.get(name)
        if peer is None:
            return
        try:
            if events & selectors.EVENT_WRITE:
                self._flush(name, peer)
            if events & selectors.EVENT_READ:
                received = peer.socket.recv(1 << 16)
                if not received:
                    self._hang_up(name)
                elif peer.from_lane is None:
                    self._shake_hands(name, peer, received)
                else:
                    self._listen_to(name, peer, received)
        except BlockingIOError:
            return
        except (OSError, ProtocolError) as error:
            log.info("hanging up on connection %s: %s", name, error)
            self._hang_up(name)
        except Exception:
            log.exception("hanging up on connection %s, which cannot be served", name)
            self._hang_up(name)

    def _shake_hands(self, name: Hashable, peer: _Peer, received: bytes) -> None:
        peer.received += received
        if len(peer.received) < _HANDSHAKE_BYTES:
            return
        head, rest = peer.received[:_HANDSHAKE_BYTES], peer.received[_HANDSHAKE_BYTES:]
        theirs, proof = head[RUN_BYTES : RUN_BYTES + NONCE_BYTES], head[RUN_BYTES + NONCE_BYTES :]
        run = self._runs.get(head[:RUN_BYTES])
        if run is None or not hmac.compare_digest(proof, lane_proof(run.address.secret, peer.nonce, theirs)):
            raise ProtocolError("a peer that does not know the secret.")
        del self._unauthenticated[name]
        peer.run, peer.received = run, b""
        peer.from_lane, peer.to_lane = channels(run.address.secret, peer.nonce, theirs)
        self._write(name, peer, driver_proof(run.address.secret, peer.nonce, theirs))
        self._listen_to(name, peer, rest)

    def _listen_to(self, name: Hashable, peer: _Peer, received: bytes) -> None:
        assert peer.run is not None
        assert peer.from_lane is not None
        for payload in peer.from_lane.feed(received):
            try:
                message = read(payload)
            except ProtocolError as error:
                if not peer.greeted:
                    raise
                self._send(name, Fail(CoordinatorError(f"the coordinator cannot read what the lane says: {error}")))
                continue
            if peer.greeted:
                peer.run.received(name, message)
            elif isinstance(message, Hello):
                peer.greeted = True
                peer.run.connected(name, message)
            else:
                raise ProtocolError("the first message was not Hello.")

    def _send(self, name: Hashable, message: ToLane) -> None:
        """Queue a message and send what the socket takes; cut off a peer for which too many bytes are queued.

        Raises:
            TooLongError: if the message is longer than its kind may be; then nothing was sent.
            UnpicklableError: if an element does not pickle.
        """
        peer = self._peers.get(name)
        if peer is None or peer.to_lane is None:
            return
        several = isinstance(message, Assign) and len(message.items) > 1
        most_bytes = MOST_BYTES_ASSIGNED if several else MOST_BYTES_TO_LANE
        payload = serde.dumps_at_most(message, "a message to a lane", most_bytes)
        if isinstance(message, Assign) and len(peer.unsent) > MOST_BYTES_ASSIGNED:
            self._give_up(name, peer, "it wants more, and has not read what it was given")
        else:
            self._write(name, peer, peer.to_lane.frame(payload))

    def _write(self, name: Hashable, peer: _Peer, data: bytes) -> None:
        waits = bool(peer.unsent)
        peer.unsent += data
        if not waits:
            self._flush(name, peer)

    def _flush(self, name: Hashable, peer: _Peer) -> None:
        try:
            with suppress(BlockingIOError):  # until the socket is writable
                sent = peer.socket.send(peer.unsent)
                del peer.unsent[:sent]
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
            if self._selector.get_key(peer.file).events != events:
                self._selector.modify(peer.file, events, name)
        except ConnectionError:
            peer.unsent.clear()  # the peer is gone; what it sent before is still read
        except Exception as error:  # whatever it is, it concerns only this peer
            self._give_up(name, peer, f"{type(error).__name__}: {error}")
        if len(peer.unsent) > _MOST_UNSENT_BYTES:
            self._give_up(name, peer, "it reads nothing")

    def _give_up(self, name: Hashable, peer: _Peer, why: str) -> None:
        """Close a connection soon, not now: the coordinator may be in the middle of a decision."""
        log.warning("hanging up on connection %s: %s", name, why)
        peer.unsent.clear()
        self._broken.add(name)

    def _hang_up(self, name: Any) -> None:
        peer = self._peers.pop(name, None)
        if peer is None:
            return
        self._unauthenticated.pop(name, None)
        with suppress(KeyError):  # the selector does not have it any more
            self._selector.unregister(peer.file)
        peer.socket.close()
        if peer.run is not None:
            peer.run.lost(name)


def _listen(host: str, ports: Iterable[int]) -> socket.socket:
    failure: OSError | None = None
    tried = []
    for port in ports:
        tried.append(port)
        try:
            family, kind, protocol, _, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
            listener = socket.socket(family, kind, protocol)
            try:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(where)
                listener.listen(4096)
                listener.setblocking(False)
            except OSError:
                listener.close()
                raise
            return listener
        except OSError as error:
            failure = error
    which = f"port {tried[0]}" if len(tried) == 1 else f"any port from {tried[0]} to {tried[-1]}"
    raise CoordinatorError(
        f"LiveRunner cannot listen on {host!r}, {which} ({failure}). Name an address of the driver's machine and free "
        f"ports, LiveRunner(host=..., port=(first, last)), the same ones throughout a program, since runs share them; "
        f"or use StagedRunner(), which needs none. {RUN_DOCTOR}"
    ) from failure

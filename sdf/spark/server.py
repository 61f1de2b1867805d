"""The coordinator's sockets: one thread on the driver serves all lanes of a run, and waits for none of them.

Nothing that a peer sends is looked at before it has shown that it knows the run's secret; until then it may send 64
bytes, and is cut off after `_HANDSHAKE_SECONDS`. No more than `_MOST_STRANGERS` are let in at a time: the oldest has to
go, and a lane to which that happens tries again.
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

from sdf.errors import CoordinatorError, LedgerError
from sdf.report import RunReport
from sdf.spark import serde
from sdf.spark.coordinator import Coordinator
from sdf.spark.link import Address
from sdf.spark.wire import (
    NONCE_BYTES,
    PROOF_BYTES,
    Channel,
    Fail,
    Hello,
    ProtocolError,
    ToLane,
    channels,
    driver_proof,
    lane_proof,
    nonce,
    read,
)

__all__ = ["Server"]

log = logging.getLogger("sdf.server")

_HANDSHAKE_SECONDS = 5.0
_MOST_STRANGERS = 512
_MOST_ACCEPTED = 64  # in a row, so that those inside are not kept waiting
_MOST_UNSENT_BYTES = 1 << 30
_TICK_SECONDS = 0.02
_ALIVE_SECONDS = 0.5


@attrs.define(eq=False)
class _Peer:
    """A connection: a stranger until it has channels."""

    socket: socket.socket
    nonce: bytes
    deadline: float
    received: bytes = b""
    from_lane: Channel | None = None
    to_lane: Channel | None = None
    unsent: bytearray = attrs.field(factory=bytearray)
    greeted: bool = False
    closing: bool = False


class Server:
    """Serves one run until `close`, or until ``alive`` says no.

    Args:
        host: the address to bind to, and no other.
        advertised: the name by which the lanes reach it.
        ports: those to try, in order; 0 is any free one.
        alive: asked now and then in the server's thread.

    Raises:
        CoordinatorError: if no port is free, or the host is not this machine's.
    """

    def __init__(self, host: str, advertised: str, ports: Iterable[int], alive: Callable[[], bool]) -> None:
        self._alive = alive
        self._listener = _listen(host, ports)
        secret = secrets.token_bytes(32)
        self.address = Address(advertised, self._listener.getsockname()[1], secret)
        self._selector = selectors.DefaultSelector()
        self._wake, self._waker = socket.socketpair()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._wake, selectors.EVENT_READ)
        self._numbers = itertools.count()
        self._peers: dict[Hashable, _Peer] = {}
        self._strangers: OrderedDict[Hashable, _Peer] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self._coordinator: Coordinator
        self._thread = threading.Thread(target=self._serve, name="sdf-coordinator", daemon=True)

    def start(self, coordinator: Callable[[Callable[[Hashable, ToLane], None]], Coordinator]) -> None:
        """Serve; ``coordinator`` makes it, given how to send a message."""
        self._coordinator = coordinator(self._send)
        self._thread.start()

    def report(self) -> RunReport:
        """Return what has been done so far; from any thread."""
        with self._lock:
            return self._coordinator.report()

    def close(self) -> None:
        """Hang up on all, and end the thread; from any thread."""
        self._closed = True
        with suppress(OSError):  # it has ended already
            self._waker.send(b"x")

    def _serve(self) -> None:
        try:
            asked_at = time.monotonic()
            while not self._closed:
                timeout = _TICK_SECONDS if self._coordinator.waiting() else _ALIVE_SECONDS
                for key, events in self._selector.select(timeout):
                    if key.fileobj is self._listener:
                        self._accept()
                    elif key.data is not None:
                        self._serve_peer(key.data, events)
                now = time.monotonic()
                with self._lock:
                    self._coordinator.tick(now)
                while self._strangers and next(iter(self._strangers.values())).deadline <= now:
                    self._hang_up(next(iter(self._strangers)))
                if now - asked_at >= _ALIVE_SECONDS:
                    asked_at = now
                    self._closed = self._closed or not self._alive()
        except Exception:
            log.exception("the coordinator failed; the attempts that run lose their connection")
        finally:
            for name in list(self._peers):
                self._hang_up(name)
            self._selector.close()
            for each in (self._listener, self._wake, self._waker):
                each.close()

    def _accept(self) -> None:
        for _ in range(_MOST_ACCEPTED):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # out of files, or the peer has gone again
                log.warning("cannot accept a connection: %s", error)
                if not self._strangers:
                    time.sleep(_TICK_SECONDS)
                    return
                self._hang_up(next(iter(self._strangers)))
                continue
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            name = next(self._numbers)
            peer = _Peer(connection, nonce(), time.monotonic() + _HANDSHAKE_SECONDS)
            self._peers[name] = self._strangers[name] = peer
            self._selector.register(connection, selectors.EVENT_READ, name)
            self._write(name, peer, peer.nonce)
            if len(self._strangers) > _MOST_STRANGERS:
                self._hang_up(next(iter(self._strangers)))

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

    def _shake_hands(self, name: Hashable, peer: _Peer, received: bytes) -> None:
        peer.received += received
        if len(peer.received) < NONCE_BYTES + PROOF_BYTES:
            return
        secret, head = self.address.secret, peer.received[: NONCE_BYTES + PROOF_BYTES]
        theirs, proof = head[:NONCE_BYTES], head[NONCE_BYTES:]
        if not hmac.compare_digest(proof, lane_proof(secret, peer.nonce, theirs)):
            raise ProtocolError("a stranger who does not know the secret.")
        del self._strangers[name]
        peer.from_lane, peer.to_lane = channels(secret, peer.nonce, theirs)
        self._write(name, peer, driver_proof(secret, peer.nonce, theirs))
        rest, peer.received = peer.received[NONCE_BYTES + PROOF_BYTES :], b""
        self._listen_to(name, peer, rest)

    def _listen_to(self, name: Hashable, peer: _Peer, received: bytes) -> None:
        assert peer.from_lane is not None
        for payload in peer.from_lane.feed(received):
            message = read(payload)
            try:
                with self._lock:
                    if peer.greeted:
                        self._coordinator.received(name, message, time.monotonic())
                    elif isinstance(message, Hello):
                        peer.greeted = True
                        self._coordinator.connected(name, message, time.monotonic())
                    else:
                        raise ProtocolError("the first message was not Hello.")
            except ProtocolError:
                raise
            except Exception as error:
                log.exception("the coordinator cannot handle %r", message)
                self._send(name, Fail(LedgerError(f"the coordinator failed: {type(error).__name__}: {error}")))

    def _send(self, name: Hashable, message: ToLane) -> None:
        """Send a message, when the peer takes it; a peer that takes nothing is cut off as soon as too much waits."""
        peer = self._peers.get(name)
        if peer is None or peer.to_lane is None:
            return
        self._write(name, peer, peer.to_lane.frame(serde.dumps(message, "a message to a lane")))

    def _write(self, name: Hashable, peer: _Peer, data: bytes) -> None:
        waits = bool(peer.unsent)
        peer.unsent += data
        if not waits:
            self._flush(name, peer)

    def _flush(self, name: Hashable, peer: _Peer) -> None:
        try:
            sent = peer.socket.send(peer.unsent)
            del peer.unsent[:sent]
        except BlockingIOError:
            pass  # later, when it can be written to
        except OSError:
            peer.unsent.clear()  # reading from it says the same, and is where it is handled
            return
        if len(peer.unsent) > _MOST_UNSENT_BYTES:
            peer.unsent.clear()
            peer.socket.shutdown(socket.SHUT_RDWR)
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
        if self._selector.get_key(peer.socket).events != events:
            self._selector.modify(peer.socket, events, name)

    def _hang_up(self, name: Any) -> None:
        peer = self._peers.pop(name)
        self._strangers.pop(name, None)
        self._selector.unregister(peer.socket)
        peer.socket.close()
        if peer.greeted:
            with self._lock:
                self._coordinator.lost(name, time.monotonic())


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
        f"ports: LiveRunner(host=..., port=(first, last)); or use StagedRunner(), which needs none."
    ) from failure

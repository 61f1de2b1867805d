"""The coordinator's port: what a stranger can do to a run, which is nothing. Real sockets, no Spark."""

import math
import os
import resource
import socket
import threading
import time
from contextlib import suppress

import pytest
from support.fns import CountFn, SlowCountFn, StaysFn, StrangeFn, expected
from support.serving import ELEMENTS, open_run, run_all, run_lane, serving, until

from sdf.errors import CoordinatorError
from sdf.lanes import wire
from sdf.lanes.lane import Lane
from sdf.lanes.messages import Heartbeat, Hello, Ready, Split, Verdict, write
from sdf.lanes.wire import Channel, channels, lane_proof, nonce
from sdf.serialization.pickling import TooLongError
from sdf.spark import serde
from sdf.spark.live import server as server_module
from sdf.spark.live.link import Address, Link
from sdf.spark.live.server import Server


def connect(server):
    return socket.create_connection((server.address.host, server.address.port), 5)


def heard(connection, seconds=8.0):
    """Return all that the server says until it hangs up."""
    connection.settimeout(seconds)
    received = b""
    try:
        while data := connection.recv(1 << 16):
            received += data
    except ConnectionResetError:
        pass
    return received


def shake_hands(server, secret=None):
    """Do a lane's part of the handshake; return the connection, and all that was sent and received."""
    connection = connect(server)
    theirs, mine = connection.recv(32, socket.MSG_WAITALL), nonce()
    proof = lane_proof(secret or server.address.secret, theirs, mine)
    connection.sendall(server.address.run + mine + proof)
    return connection, theirs, mine, proof


def test_a_run_over_sockets():
    """Two lanes, each record once."""
    with serving(SlowCountFn()) as server:
        assert run_all(server, SlowCountFn()) == expected(ELEMENTS)
        assert server.report().records == 63


def test_a_stranger_with_a_wrong_secret_learns_nothing():
    """It gets random bytes, and is cut off."""
    with serving(CountFn()) as server:
        connection, theirs, _, _ = shake_hands(server, secret=b"x" * 32)
        assert heard(connection) == b""
        assert len(theirs) == 32
        assert run_all(server, CountFn()) == expected(ELEMENTS)


def test_a_stranger_who_says_nothing_or_half_a_word_is_cut_off(monkeypatch):
    """After the time for a handshake is over."""
    monkeypatch.setattr(server_module, "_HANDSHAKE_SECONDS", 0.5)
    with serving(CountFn()) as server:
        silent, half = connect(server), connect(server)
        half.sendall(b"x" * 79)
        assert (len(heard(silent)), len(heard(half))) == (32, 32)
        assert not server.server._unauthenticated


@pytest.mark.parametrize("garbage", [b"GET / HTTP/1.1\r\n\r\n" * 40, os.urandom(1 << 20), b"\xff" * 200])
def test_garbage_is_cut_off(garbage):
    """Whatever it is, and however much of it."""
    with serving(CountFn()) as server:
        connection = connect(server)
        with suppress(OSError):
            connection.sendall(garbage)
        assert len(heard(connection)) <= 32


def test_a_replayed_handshake_is_of_no_use():
    """What was overheard from a lane does not open another connection."""
    with serving(CountFn()) as server:
        _, _, mine, proof = shake_hands(server)
        connection = connect(server)
        connection.recv(32, socket.MSG_WAITALL)
        connection.sendall(server.address.run + mine + proof)
        assert heard(connection) == b""


def test_the_drivers_proof_is_no_lanes_proof():
    """What a coordinator answers cannot be reflected to it."""
    with serving(CountFn()) as server:
        first, _, mine, _ = shake_hands(server)
        proof = first.recv(32, socket.MSG_WAITALL)
        second = connect(server)
        second.recv(32, socket.MSG_WAITALL)
        second.sendall(server.address.run + mine + proof)
        assert heard(second) == b""


@pytest.mark.parametrize("length", [1 << 31, (1 << 20) + 1, (1 << 32) - 1])
def test_a_message_that_is_too_long_is_refused_when_it_is_announced(length):
    """Even from a peer that knows the secret: nothing of it is waited for."""
    with serving(CountFn()) as server:
        connection, *_ = shake_hands(server)
        connection.recv(32, socket.MSG_WAITALL)
        connection.sendall(length.to_bytes(4, "big"))
        assert heard(connection) == b""


def test_half_a_message_keeps_nobody_waiting():
    """A lane that stops in the middle of a message; the others go on."""
    with serving(SlowCountFn()) as server:
        connection, *_ = shake_hands(server)
        connection.recv(32, socket.MSG_WAITALL)
        connection.sendall((100).to_bytes(4, "big") + b"x" * 20)
        assert run_all(server, SlowCountFn()) == expected(ELEMENTS)
        connection.close()


@pytest.mark.parametrize(
    "payload",
    [
        b"cos\nsystem\n(S'touch /tmp/x'\ntR.",
        b"{}",
        b"[]",
        b'["Nothing"]',
        b'["Hello", 0]',
        b'["Hello", true, "w", 0.0]',
        b'["Hello", 0, "w", NaN]',
        b'["Ready", 1, 1, -1.0, 0.0, [], []]',
        b"[" * 100_000,
        b'["Split", 0, false, ["call", null, ["name", "os:system"], "true"], [["x", 0.0]], 0.0, 0.0]',
        b"\xff\xfe",
    ],
)
def test_what_is_no_message_is_refused(payload):
    """Nothing is unpickled, no number is believed unseen; a run beside it is not disturbed."""
    with serving(CountFn()) as server:
        connection, theirs, mine, _ = shake_hands(server)
        connection.recv(32, socket.MSG_WAITALL)
        from_lane, _ = channels(server.address.secret, theirs, mine)
        connection.sendall(from_lane.frame(payload))
        assert heard(connection) == b""
        assert run_all(server, CountFn()) == expected(ELEMENTS)


def test_a_description_names_no_code(tmp_path):
    """A split whose restriction asks for a function is refused, though the lane knows the secret."""
    with serving(SlowCountFn()) as server:
        connection, theirs, mine, _ = shake_hands(server)
        connection.recv(32, socket.MSG_WAITALL)
        from_lane, to_lane = channels(server.address.secret, theirs, mine)
        connection.sendall(from_lane.frame(write(Hello(0, "w", 0.0))) + from_lane.frame(write(Ready(0, 0, 0.0, 0.0))))
        evil = ["call", None, ["name", "os:system"], f"touch {tmp_path}/pwned"]

        def next_message():
            while True:
                for payload in to_lane.feed(connection.recv(1 << 16)):
                    return serde.loads(payload)

        (item, *_) = next_message().items
        connection.sendall(from_lane.frame(write(Split(item.id, True, evil, ((evil, 0.0, None),), 0.0, 0.0))))
        assert next_message() == Verdict(False)
        assert not (tmp_path / "pwned").exists()
        connection.close()


def test_a_changed_or_repeated_frame_is_refused():
    """Each frame carries its own code, which counts."""
    with serving(CountFn()) as server:
        for spoil in (lambda frame: frame[:-1] + b"!", lambda frame: frame + frame):
            connection, theirs, mine, _ = shake_hands(server)
            connection.recv(32, socket.MSG_WAITALL)
            from_lane, _ = channels(server.address.secret, theirs, mine)
            connection.sendall(spoil(from_lane.frame(write(Hello(0, "w", 0.0)))))
            assert heard(connection) == b""


def test_a_thousand_silent_connections_keep_no_lane_out(monkeypatch):
    """The oldest have to go, long before their time is over, and the lanes get in."""
    monkeypatch.setattr(server_module, "_HANDSHAKE_SECONDS", 1e6)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    try:
        with serving(SlowCountFn()) as server:
            crowd = [connect(server) for _ in range(1000)]
            assert run_all(server, SlowCountFn()) == expected(ELEMENTS)
            assert len(server.server._unauthenticated) <= 512
            for connection in crowd:
                connection.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_server_survives_running_out_of_files():
    """Strangers who take all file descriptors of the driver are cut off, and lanes get in again."""
    with serving(CountFn()) as server:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        used = len(os.listdir("/proc/self/fd"))
        crowd = []
        resource.setrlimit(resource.RLIMIT_NOFILE, (used + 40, hard))
        try:
            for _ in range(60):
                try:
                    crowd.append(connect(server))
                except OSError:
                    break
            time.sleep(0.3)
        finally:
            for connection in crowd:
                connection.close()
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert run_all(server, CountFn()) == expected(ELEMENTS)


def test_a_lane_refuses_a_coordinator_that_does_not_know_the_secret():
    """It unpickles nothing of it."""
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def answer():
            for _ in range(4):
                connection, _ = impostor.accept()
                connection.sendall(os.urandom(32))
                connection.recv(80, socket.MSG_WAITALL)
                connection.sendall(os.urandom(32))

        threading.Thread(target=answer, daemon=True).start()
        address = Address("127.0.0.1", impostor.getsockname()[1], b"r" * 16, b"s" * 32)
        with pytest.raises(CoordinatorError, match="something else than the coordinator of this run answers"):
            Link(address, Hello(0, "w", 0.0))


def test_the_secret_is_not_shown():
    """Not in a repr, so not in a log either."""
    with serving(CountFn()) as server:
        assert repr(server.address.secret) not in repr(server.address)
        assert "secret" not in repr(server.address)


def test_a_lane_notices_that_the_coordinator_has_gone():
    """Its attempt fails; it does not end in success."""
    with serving(SlowCountFn(0.05)) as server:
        records, failures = [], []

        def run():
            try:
                run_lane(server.address, 0, SlowCountFn(0.05), records)
            except CoordinatorError as error:
                failures.append(str(error))

        thread = threading.Thread(target=run)
        thread.start()
        time.sleep(0.4)
    thread.join(10)
    assert records
    assert "lost its connection to the coordinator" in failures[0]


def test_a_lane_says_why_its_work_cannot_be_split(caplog):
    """In the log of the worker; its work stays whole."""
    with serving(StrangeFn()) as server:
        assert run_all(server, StrangeFn()) == expected(ELEMENTS)
    assert (
        "StrangeFn: this part cannot be split while it runs: Odd is no class or function of the restriction"
        in caplog.text
    )


def test_a_lane_that_says_nonsense_is_told_so():
    """Its attempt fails with the reason, not with a connection that was lost."""
    with serving(CountFn()) as server, Link(server.address, Hello(0, "w", 0.0)) as link:
        lane = Lane(CountFn(), clock=time.monotonic, send=link.send)
        link.listen(lane)
        link.send(Heartbeat(0, True, math.nan, 0.0, 0.0, 0))
        with lane.changed:
            lane.changed.wait(10)
        with pytest.raises(CoordinatorError, match="the coordinator cannot read what the lane says"):
            lane.advance()


def test_an_impossible_lane_is_an_error():
    """A peer that knows the secret, and asks for a lane that is not there."""
    with serving(CountFn()) as server, pytest.raises(Exception, match="there is no lane 7"):
        run_lane(server.address, 7, CountFn(), [])


def test_runs_share_a_server_and_know_nothing_of_each_other():
    """Each has a secret of its own; a server ends when its last run is forgotten, and not before."""
    with serving(CountFn()) as one:
        alive = [True]
        other = one.server.open(lambda send: one.coordinator, lambda: alive[0])
        assert (other.address.port, other.address.run == one.address.run) == (one.address.port, False)
        stolen = Address(other.address.host, other.address.port, other.address.run, one.address.secret)
        with pytest.raises(CoordinatorError, match="cannot reach"):
            Link(stolen, Hello(0, "w", 0.0))
        alive[0] = False
        for _ in range(50):
            if other.address.run not in one.server._runs:
                break
            time.sleep(0.1)
        assert list(one.server._runs) == [one.address.run]
        assert run_all(one, CountFn()) == expected(ELEMENTS)


def test_a_server_without_runs_ends():
    """And takes none any more: the next run starts another."""
    server = Server("127.0.0.1", "127.0.0.1", [0])
    assert open_run(server, CountFn(), alive=lambda: False)
    server._thread.join(10)
    assert not server._thread.is_alive()
    assert open_run(server, CountFn()) is None


def test_large_elements_go_out_in_messages_of_a_bounded_length(monkeypatch):
    """Many in each; all are run."""
    sent, frame = [], Channel.frame
    monkeypatch.setattr(Channel, "frame", lambda self, payload: sent.append(len(payload)) or frame(self, payload))
    elements = [(f"{number:020000}", 1) for number in range(1500)]
    with serving(CountFn(), elements) as server:
        assert run_all(server, CountFn()) == expected(elements)
    assert 500_000 < max(sent) <= 1 << 20


def test_what_is_too_long_is_not_even_pickled_whole():
    """Work items of ten gigabytes together take no such memory of the driver."""

    class Large:
        pickled = 0

        def __reduce__(self):
            Large.pickled += 1
            return bytes, (bytes(100_000),)

    with pytest.raises(TooLongError, match="more than 1,000,000 bytes"):
        serde.dumps_at_most([Large() for _ in range(1000)], "it", 1_000_000)
    assert Large.pickled <= 11
    assert serde.loads(serde.dumps_at_most([Large() for _ in range(9)], "it", 1_000_000)) == [bytes(100_000)] * 9


def test_a_lane_that_does_not_read_what_it_is_given_is_cut_off(monkeypatch):
    """It says again and again that it has run all that, and would have the driver keep ever more for it."""
    monkeypatch.setattr(server_module, "MOST_BYTES_ASSIGNED", 5_000_000)
    elements = [(f"{number:0{9_000_000}}", 1) for number in range(3)]
    with serving(CountFn(), elements, lanes=1) as server:
        connection, theirs, mine, _ = shake_hands(server)
        from_lane, _ = channels(server.address.secret, theirs, mine)
        connection.sendall(from_lane.frame(write(Hello(0, "w", 0.0))))
        for items in range(3):
            connection.sendall(from_lane.frame(write(Ready(items, items, float(items), 0.0))))
        until(lambda: not server.server._peers)
        connection.close()
        assert run_all(server, CountFn(), lanes=1) == expected(elements)


def test_what_a_lane_tells_of_work_that_it_deferred_often_is_no_longer_for_that(monkeypatch):
    """Work that stays at its lane may be deferred any number of times: here 3000, of messages a tenth as long."""
    monkeypatch.setattr(wire, "MOST_BYTES_FROM_LANE", 100_000)
    elements = [("a", 3000), ("b", 10)]
    with serving(StaysFn(), elements, lanes=1) as server:
        assert run_all(server, StaysFn(), lanes=1) == expected(elements)
        pieces = [(piece.element, piece.records) for piece in server.report().pieces]
    assert sorted(pieces) == [(element, element[1]) for element in elements]

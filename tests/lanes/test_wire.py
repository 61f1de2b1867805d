"""The protocol's bytes: what is framed comes out once, in order, and from the peer only."""

import pytest

from sdf.lanes.messages import Declined, Heartbeat, Hello, ProtocolError, Ready, Returned, Split, read, write
from sdf.lanes.wire import channels, driver_proof, lane_proof, nonce

MESSAGES = [
    Hello(3, "host/17", 12.5),
    Ready(10, 2, 5.0, 0.25),
    Heartbeat(4, True, 1.0, 2.0, 3.0, 5),
    Split(4, False, None, ((["tuple", 1], 0.5, None), ("x", 0.0, 7)), 1.0, 2.0),
    Returned((1, 2, 3)),
    Declined("nothing ran"),
    Ready(
        10, 2, 5.0, 0.25, ((0, 0.0, 0.1, 2.0, 3, 0.0, 1, -1), (4, 0.1, 0.2, 3.0, 7, 0.15, 9, 2)), ((4, "17", 0.15, 2),)
    ),
]


def pair():
    """Return the two ends of the direction from a lane to the driver."""
    keys = b"secret", b"d" * 32, b"l" * 32
    return channels(*keys)[0], channels(*keys)[0]


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_is_read_as_it_was_written(message):
    """Every kind."""
    assert read(write(message)) == message


@pytest.mark.parametrize("step", [1, 2, 7, 36, 1000])
def test_frames_arrive_whole_however_the_bytes_are_cut(step):
    """Also several at once."""
    sender, receiver = pair()
    payloads = [b"", b"a", b"b" * 100]
    stream = b"".join(map(sender.frame, payloads))
    received = []
    for start in range(0, len(stream), step):
        received += receiver.feed(stream[start : start + step])
    assert received == payloads


@pytest.mark.parametrize("position", range(41))
def test_a_changed_byte_is_noticed(position):
    """Wherever it is: in length, code or payload."""
    sender, receiver = pair()
    frame = bytearray(sender.frame(b"hello"))
    frame[position] ^= 1
    try:
        assert list(receiver.feed(bytes(frame) + bytes(1000))) == []
    except ProtocolError:
        return
    assert frame[:4] != (5).to_bytes(4, "big")  # a longer frame is waited for, in vain


def test_frames_cannot_be_repeated_left_out_or_swapped():
    """Each carries the number that it has."""
    for order in ([0, 0], [1], [1, 0]):
        sender, receiver = pair()
        frames = [sender.frame(b"one"), sender.frame(b"two")]
        stream = b"".join(frames[number] for number in order)
        with pytest.raises(ProtocolError, match="fails authentication"):
            list(receiver.feed(stream))


def test_the_directions_have_keys_of_their_own():
    """What the driver said cannot be sent back to it."""
    from_lane, to_lane = channels(b"secret", b"d" * 32, b"l" * 32)
    with pytest.raises(ProtocolError, match="fails authentication"):
        list(from_lane.feed(to_lane.frame(b"x")))


def test_a_long_message_is_refused_at_both_ends():
    """By its length alone."""
    sender, receiver = pair()
    with pytest.raises(ProtocolError, match="at most 1048576"):
        sender.frame(bytes(2**20 + 1))
    with pytest.raises(ProtocolError, match="2147483648 bytes is announced"):
        list(receiver.feed((2**31).to_bytes(4, "big")))


def test_proofs_differ_by_role_secret_and_nonces():
    """None of them can stand in for another."""
    one, other = nonce(), nonce()
    proofs = {
        proof(secret, driver, lane)
        for proof in (lane_proof, driver_proof)
        for secret in (b"a", b"b")
        for driver, lane in ((one, other), (other, one), (one, one))
    }
    assert len(proofs) == 12


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"null",
        b"7",
        b"[]",
        b'["Work", []]',
        b'["Hello", 1, "w"]',
        b'["Hello", "1", "w", 0]',
        b'["Heartbeat", 1, 1, 0.0, 0.0, 0.0, 0]',
        b'["Ready", 1, 1, Infinity, 0.0, [], []]',
        b'["Ready", 1, 1, 0.0, -1, [], []]',
        b'["Ready", 1, 1, 0.0, 1.0, [[1, 2.0]], []]',
        b'["Ready", 1, 1, 0.0, 1.0, [[1, 2.0, 3.0, 4.0, "5"]], []]',
        b'["Ready", 1, 1, 0.0, 1.0, [], [[1, 2, 3.0]]]',
        b'["Ready", 1, 1, 0.0, 1.0, [], 7]',
        b'["Declined", 7]',
        b'["Returned", [1, "2"]]',
        b'["Returned", 5]',
        b'["Split", 1, true, null, [[1, 2]], 0.0, 0.0]',
        b"[" * 200_000,
        b"\x80\x04K\x01.",
    ],
    ids=lambda payload: repr(payload[:30]),
)
def test_what_is_no_message_is_refused(payload):
    """With one kind of error."""
    with pytest.raises(ProtocolError, match="not a message"):
        read(payload)

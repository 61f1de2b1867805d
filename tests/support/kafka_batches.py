"""What brokers hold after a compaction or a transaction, which those for tests do not do themselves."""

import socket
import struct


def varint(number):
    """Return a number as records have it: zigzag, seven bits a byte."""
    number = (number << 1) ^ (number >> 63)
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def batch(deltas, size, *, control=False):
    """Return a batch of ``size`` offsets that has records at some of them only; a control batch has no messages."""
    records = b""
    for delta in deltas:
        key = varint(4) + b"\0\0\0\1" if control else varint(-1)
        value = b"after the gap"
        record = b"\0" + varint(0) + varint(delta) + key + varint(len(value)) + value + varint(0)
        records += varint(len(record)) + record
    attributes = 0x20 if control else 0
    body = struct.pack(">ibIhiqqqhii", 0, 2, 0, attributes, size - 1, 1000, 1000, -1, -1, -1, size) + records
    return struct.pack(">qi", 0, len(body)) + body


def append(producer, topic, partition, records):
    """Send a batch to the leader of a partition: a Produce request, version 3."""
    found = producer.list_topics(topic, timeout=10)
    leader = found.brokers[found.topics[topic].partitions[partition].leader]
    name = struct.pack(">h", len(topic)) + topic.encode()
    request = struct.pack(">hhihhhiii", 0, 3, 1, -1, -1, -1, 5000, 1, 0)[:-4] + name
    request += struct.pack(">iii", 1, partition, len(records)) + records
    with socket.create_connection((leader.host, leader.port), timeout=10) as connection:
        connection.sendall(struct.pack(">i", len(request)) + request)
        answer = connection.recv(1 << 16)
    assert answer[12 + len(name) + 8 :][:2] == b"\0\0"  # no error

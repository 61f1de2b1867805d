"""When a lane that waits gives its coordinator up: once the driver's host is silent, not merely the driver.

A busy driver may say nothing for minutes, as when one of its threads holds the interpreter. Its kernel still
acknowledges what the lane's kernel sends, keepalive probes at least. So the last acknowledgement tells a busy driver
from a host that cannot be reached. Only Linux tells when that was; elsewhere the driver's silence alone decides.

The coordinator gives a lane up by the same rule: a host that loses its power, or its network, closes no connection.
"""

from __future__ import annotations

import socket
import struct
import sys

from sdf.lanes.wire import SILENCE_SECONDS

__all__ = ["LONGEST_SILENCE_SECONDS", "Silence", "acknowledged_seconds", "end_when_silent", "probe"]

LONGEST_SILENCE_SECONDS = 10 * SILENCE_SECONDS  # of a driver whose host answers: by then it hangs

_MOST_TURN_SECONDS = 1.0  # a longer turn of the loop: this process did not run, so the driver could not be heard
_PROBE_SECONDS = 15
_PROBES = 127  # so that the kernel does not decide before `Silence` does
_LAST_ACK_RECV = 56  # bytes before `tcpi_last_ack_recv`, milliseconds, in Linux's struct tcp_info


class Silence:
    """How long a lane that listens has heard nothing.

    Args:
        now: monotonic seconds.
    """

    def __init__(self, now: float) -> None:
        self._looked_at = now
        self._seconds = 0.0

    def heard(self) -> None:
        """Note that the coordinator has said something."""
        self._seconds = 0.0

    def look(self, connection: socket.socket, now: float, *, waits: bool) -> None:
        """Count the time since the last call; call this in each turn of the loop that listens.

        Raises:
            TimeoutError: if the lane waits for an answer, and has listened for too long.
        """
        self._seconds += min(now - self._looked_at, _MOST_TURN_SECONDS)
        self._looked_at = now
        if not waits or self._seconds <= SILENCE_SECONDS:
            return
        acknowledged = acknowledged_seconds(connection)
        if acknowledged is None or acknowledged > SILENCE_SECONDS:
            raise TimeoutError(f"neither it nor its host has answered for {SILENCE_SECONDS:.0f} s")
        if self._seconds > LONGEST_SILENCE_SECONDS:
            raise TimeoutError(f"its host answers, but it has said nothing for {LONGEST_SILENCE_SECONDS:.0f} s")


def probe(connection: socket.socket) -> None:
    """Have the kernel send a probe, which the peer's kernel acknowledges, whenever a connection is quiet."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _PROBE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _PROBE_SECONDS)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _PROBES)


def end_when_silent(connection: socket.socket) -> None:
    """Have the kernel end a connection whose peer's kernel has acknowledged nothing for `SILENCE_SECONDS`.

    By default it would take a quarter of an hour with data on the way, and two hours without. A peer whose buffers
    have no room for so long is given up, too.
    """
    probe(connection)
    if sys.platform == "linux":
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(SILENCE_SECONDS * 1000))


def acknowledged_seconds(connection: socket.socket) -> float | None:
    """Return the seconds since the peer's kernel acknowledged anything; None if this system does not tell."""
    if sys.platform != "linux":
        return None
    info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST_ACK_RECV + 4)
    if len(info) < _LAST_ACK_RECV + 4:
        return None
    (milliseconds,) = struct.unpack_from("=I", info, _LAST_ACK_RECV)
    return float(milliseconds) / 1000

"""Workers acknowledge at once what Spark has sent them."""

import os
import socket

import pytest

from sdf.spark.task_start import acknowledge


@pytest.mark.parametrize("timeout_seconds", [None, 5.0])
@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="only Linux has TCP_QUICKACK")
def test_each_tcp_connection_of_a_process(timeout_seconds):
    """What else is open is left alone, and all stays as it was: open, blocking."""

    def delays(connection):
        return not connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK)

    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as one,
        server.accept()[0] as other,
        socket.socket(socket.AF_UNIX) as unix,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
        open(os.devnull),
    ):
        for connection in (one, other):
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 0)
            assert delays(connection)
        before = sorted(os.listdir("/proc/self/fd"))
        socket.setdefaulttimeout(timeout_seconds)  # of what is made from now on
        try:
            acknowledge()
        finally:
            socket.setdefaulttimeout(None)
        assert sorted(os.listdir("/proc/self/fd")) == before
        assert all(os.get_blocking(connection.fileno()) for connection in (server, one, other, unix))
        assert not delays(one)
        assert not delays(other)
        one.sendall(b"x")
        assert other.recv(1) == b"x"

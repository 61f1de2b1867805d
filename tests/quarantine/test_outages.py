"""What means that a source does not answer, as its clients tell it; and what is an answer. Real clients and sockets."""

import asyncio
import builtins
import errno
import os
import socket
import sys
import threading
import urllib.error
import urllib.request

import pytest

from sdf.errors import SourceAwayError, SourceError
from sdf.quarantine.outages import is_outage


@pytest.fixture(scope="module")
def serve():
    """Returns a function that returns the address of a server, which answers each connection with the same bytes."""
    servers = []

    def answer(server, said):
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                asked = b""
                while b"\r\n\r\n" not in asked and (more := connection.recv(1 << 16)):
                    asked += more
                connection.sendall(said)

    def start(said):
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        threading.Thread(target=answer, args=(server, said), daemon=True).start()
        return f"http://127.0.0.1:{server.getsockname()[1]}"

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def with_urllib(url):
    with urllib.request.urlopen(url, timeout=5) as response:
        response.read()


def with_requests(url):
    pytest.importorskip("requests").get(url, timeout=5).raise_for_status()


def with_urllib3(url):
    urllib3 = pytest.importorskip("urllib3")
    response = urllib3.PoolManager(retries=urllib3.Retry(1, status_forcelist=[404, 503])).request("GET", url, timeout=5)
    raise ValueError(response.status)


def with_httpx(url):
    pytest.importorskip("httpx").get(url, timeout=5).raise_for_status()


def with_aiohttp(url):
    aiohttp = pytest.importorskip("aiohttp")

    async def get():
        async with aiohttp.ClientSession(raise_for_status=True) as session, session.get(url) as response:
            await response.read()

    asyncio.run(get())


def with_botocore(url):
    session = pytest.importorskip("botocore.session").get_session()
    client = session.create_client(
        "s3", endpoint_url=url, region_name="x", aws_access_key_id="x", aws_secret_access_key="x"
    )
    client.get_object(Bucket="bucket", Key="key")["Body"].read()


def with_sockets(url):
    socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 5)


def error_of(call, *args):
    with pytest.raises(Exception) as caught:
        call(*args)
    return caught.value


CLIENTS = [with_urllib, with_requests, with_urllib3, with_httpx, with_aiohttp, with_botocore]


@pytest.mark.parametrize("get", [*CLIENTS, with_sockets])
def test_a_refused_connection_is_an_outage(get, monkeypatch):
    """Whatever the client calls it."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with socket.socket() as bound:  # not listening
        bound.bind(("127.0.0.1", 0))
        assert is_outage(error_of(get, f"http://127.0.0.1:{bound.getsockname()[1]}"))


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nxxx"], ids=["none", "half"])
@pytest.mark.parametrize("get", CLIENTS)
def test_an_answer_that_breaks_off_is_an_outage(get, said, serve, monkeypatch):
    """Before its first byte, or later."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert is_outage(error_of(get, serve(said)))


@pytest.mark.parametrize("status", ["404 Not Found", "503 Service Unavailable"])
@pytest.mark.parametrize("get", CLIENTS)
def test_an_answer_that_says_no_is_none(get, status, serve, monkeypatch):
    """The source is there."""
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    url = serve(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
    assert not is_outage(error_of(get, url))


async def too_long():
    await asyncio.wait_for(asyncio.sleep(600), 0.001)


@pytest.mark.parametrize(
    "error",
    [
        error_of(asyncio.run, too_long()),
        urllib.error.URLError(socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")),
        OSError(errno.ENETUNREACH, "Network is unreachable"),
        OSError(errno.EHOSTUNREACH, "No route to host"),
        BrokenPipeError("the program has ended"),
        SourceAwayError("the broker is away"),
        SourceError("no such bucket"),
    ],
    ids=repr,
)
def test_what_else_is_an_outage(error):
    """Time ran out, or no way leads there; and what connectors say of their source."""
    assert is_outage(error)


def own_of_httpx(name, *bases):
    return type(name, bases or (Exception,), {"__module__": "httpx"})


def test_classes_count_by_library_and_name_with_those_below_them():
    """The library need not be there; a class of the same name elsewhere is another one."""
    timeout = own_of_httpx("TimeoutException")
    assert is_outage(own_of_httpx("ReadTimeout", timeout)())
    assert not is_outage(own_of_httpx("HTTPStatusError")())
    assert not is_outage(type("TimeoutException", (Exception,), {})())


@pytest.mark.parametrize(
    "error",
    [
        ValueError("cannot parse"),
        error_of(open, os.devnull + "/none"),
        error_of(open, "/no/such/file"),
        error_of(urllib.request.urlopen, "file:///no/such/file"),
        error_of(urllib.request.urlopen, "unknown://host"),
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EIO, "Input/output error"),
        MemoryError(),
    ],
    ids=repr,
)
def test_an_error_of_the_block_is_none(error):
    """Also one of the disk, or of a URL that leads nowhere."""
    assert not is_outage(error)


def fails():
    raise urllib.error.URLError(ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"))


def caused():
    try:
        fails()
    except OSError as error:
        raise ValueError("no page") from error


def dealt_with():
    try:
        fails()
    except OSError:
        raise ValueError("no page, and none in the cache") from None


def raised_meanwhile():
    try:
        fails()
    except OSError:
        int("what the cache has")


def test_what_an_error_was_raised_from_counts():
    """What was only being handled does not: it may have been dealt with."""
    assert is_outage(error_of(caused))
    assert not is_outage(error_of(dealt_with))
    assert not is_outage(error_of(raised_meanwhile))


def test_errors_that_cause_each_other_come_to_an_end():
    """A user's code may tie such a knot."""
    first, second = ValueError(1), ValueError(2)
    first.__cause__, second.__cause__ = second, first
    assert not is_outage(first)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="no groups of errors before")
def test_a_group_is_an_outage_if_each_of_it_is():
    """Else one of them is the block's."""
    group = vars(builtins)["ExceptionGroup"]
    away = urllib.error.URLError(TimeoutError())
    assert is_outage(group("tasks", [away, ConnectionResetError()]))
    assert not is_outage(group("tasks", [away, ValueError()]))


def test_an_error_that_only_looks_like_a_group_is_none():
    """Nothing in it says that a source is away."""
    error = ValueError("no number")
    error.exceptions = ()
    assert not is_outage(error)

"""WebHDFS: what the errors of its servers are, by a server that gives them. What is right is in tests/clusters/."""

import http.server
import threading

import pytest

from sdf.storage import namenode
from sdf.storage.places import storage_at

pytest.importorskip("requests")


@pytest.fixture
def answer():
    """Let a server give an answer; return its URL."""
    servers = []

    def serve(status, body):
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args):
                pass

        servers.append(http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        threading.Thread(target=servers[0].serve_forever, daemon=True).start()
        return f"webhdfs://127.0.0.1:{servers[0].server_port}/state"

    yield serve
    for server in servers:
        server.shutdown()
        server.server_close()


def said(exception, message="no"):
    text = '{"RemoteException": {"exception": "%s", "message": "%s\\n\\tat org.apache"}}'
    return (text % (exception, message)).encode()


@pytest.mark.parametrize(
    ("status", "body", "kind", "message"),
    [
        (404, said("FileNotFoundException"), FileNotFoundError, "FileNotFoundException: no$"),
        (403, said("AccessControlException"), PermissionError, "AccessControlException: no$"),
        (403, said("QuotaExceededException"), OSError, "QuotaExceededException: no$"),
        (403, said("SafeModeException"), namenode.AwayError, "SafeModeException: no$"),
        (
            403,
            said("IOException", "Failed to find datanode, suggest"),
            namenode.AwayError,
            "IOException: Failed to find",
        ),
        (401, b"<html>", OSError, "HTTP status 401: Unauthorized$"),
        (500, b"[]", OSError, "HTTP status 500"),
    ],
)
def test_an_error_is_told_with_its_place(answer, monkeypatch, status, body, kind, message):
    """By the first line of what Java says; one of a DataNode is never taken for content."""
    monkeypatch.setattr(namenode, "_PATIENCE_SECONDS", 0)
    url = answer(status, body)
    with pytest.raises(kind, match=f"^{url}/one: {message}") as caught:
        storage_at(url, "test").read("one")
    assert type(caught.value) is kind


def test_nobody_waits_for_a_host_that_has_no_address():
    """It is misspelt."""
    with pytest.raises(OSError, match=r"^webhdfs://no\.such\.host\.invalid:1/state/one: ConnectionError: ") as caught:
        storage_at("webhdfs://no.such.host.invalid:1/state", "test").read("one")
    assert not isinstance(caught.value, namenode.AwayError)


def test_a_server_that_is_away_is_asked_again(monkeypatch, answer):
    """Until it is there."""
    monkeypatch.setattr(namenode.time, "sleep", lambda seconds: urls.append(answer(200, b"there")))
    urls = []
    storage = storage_at("webhdfs://127.0.0.1:1/state", "test")
    request = storage.fs.session.request
    monkeypatch.setattr(
        storage.fs.session,
        "request",
        lambda method, url, **options: request(
            method, url.replace("127.0.0.1:1/", f"{urls[-1].split('/')[2]}/") if urls else url, **options
        ),
    )
    assert storage.read("one") == b"there"
    assert len(urls) == 1

"""What counts as a refusal by a server, as its clients tell it."""

import email.utils
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer

import attrs
import pytest

from sdf.limits.refusals import retry_after_seconds


@attrs.frozen
class Item:
    """An answer that was read already."""

    code: int


@pytest.fixture(scope="module")
def url():
    """A server whose answer the path says: /status/retry-after."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            _, status, *said = self.path.split("/")
            self.send_response(int(status))
            if said:
                self.send_header("Retry-After", urllib.request.unquote(said[0]))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def with_urllib(url):
    try:
        with urllib.request.urlopen(url) as response:
            return response
    except urllib.error.HTTPError as error:
        error.close()
        return error


def with_requests(url):
    return pytest.importorskip("requests").get(url)


def with_requests_that_raise(url):
    requests = pytest.importorskip("requests")
    response = requests.get(url)
    try:
        response.raise_for_status()
    except requests.HTTPError as error:
        return error
    return response


def with_urllib3(url):
    return pytest.importorskip("urllib3").request("GET", url, retries=False)


clients = pytest.mark.parametrize("get", [with_urllib, with_requests, with_requests_that_raise, with_urllib3])


@clients
@pytest.mark.parametrize(
    ("path", "seconds"),
    [
        ("200", None),
        ("404", None),
        ("500", None),
        ("503", None),
        ("200/5", None),
        ("429", 1.0),
        ("429/7", 7.0),
        ("429/0", 0.0),
        ("429/-3", 0.0),
        ("429/nan", 1.0),
        ("429/soon", 1.0),
        ("503/2.5", 2.5),
    ],
)
def test_a_refusal_is_429_or_503_that_says_when_to_come_back(url, get, path, seconds):
    """Without a word about it a second is waited."""
    assert retry_after_seconds(get(f"{url}/{path}")) == seconds


@clients
def test_the_header_may_be_a_date(url, get):
    """As HTTP has it."""
    date = urllib.request.quote(email.utils.formatdate(time.time() + 1000, usegmt=True))
    assert 900 < retry_after_seconds(get(f"{url}/429/{date}")) <= 1000


@clients
@pytest.mark.parametrize("step", [-(10**8), 3600, 10**8])
def test_a_date_is_by_the_servers_clock(url, get, step, monkeypatch):
    """The clock of this host may be another."""
    date = urllib.request.quote(email.utils.formatdate(time.time() + 1000, usegmt=True))
    answer = get(f"{url}/429/{date}")
    monkeypatch.setattr(time, "time", lambda real=time.time: real() + step)
    assert 900 < retry_after_seconds(answer) <= 1001


@pytest.mark.parametrize("answer", [None, 429, "429", ValueError("429"), {"status": 429}, object(), Item(429)])
def test_anything_else_is_an_answer(answer):
    """It has no status."""
    assert retry_after_seconds(answer) is None

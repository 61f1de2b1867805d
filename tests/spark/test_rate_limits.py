"""RateLimit on Spark: no call is lost or made twice, refused ones are made again, and each runner paces in its way."""

import threading
import time
import urllib.request
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from sdf import DoFn, LiveRunner, OffsetRange, Pace, RateLimit, StagedRunner, run_direct, run_sdf, save_sdf, stream_sdf
from sdf.errors import InvalidValueError
from sdf.io import ReadPages
from sdf.sinks import JsonLinesFiles

RUNNERS = [LiveRunner(), StagedRunner(max_tasks=4), StagedRunner()]
runners = pytest.mark.parametrize("runner", RUNNERS, ids=["live", "staged max_tasks", "staged"])


class Server(ThreadingHTTPServer):
    """Refuses every so many-th call, and keeps when it answered which page."""

    daemon_threads = True

    def __init__(self, refuse_every=0):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock, self.calls, self.refused, self.answered = threading.Lock(), 0, 0, []
        self.refuse_every = refuse_every

    def refuses(self, page):
        with self.lock:
            self.calls += 1
            if self.refuse_every and self.calls % self.refuse_every == 0:
                self.refused += 1
                return True
            self.answered.append((page, time.monotonic()))
            return False


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        refused = self.server.refuses(self.path[1:])
        self.send_response(429 if refused else 200)
        self.send_header("Retry-After", "0.05")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(request):
    served = Server(getattr(request, "param", 0))
    thread = threading.Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield served
    served.shutdown()
    thread.join()
    served.server_close()


def get(port, page):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{page}") as response:
        return response.status


class CallFn(DoFn):
    """Element: port, name and number of pages."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[2])

    def process(self, element, tracker, api):
        port, name, _ = element
        for page in tracker.claims():
            api.call(get, port, f"{name}-{page}")
            yield name, page


def elements(server, giant=60):
    return [(server.server_port, "giant", giant), *[(server.server_port, f"small-{n}", 3) for n in range(5)]]


def pages(given):
    return Counter((name, page) for _, name, count in given for page in range(count))


def limits(per_second=200):
    return {"api": RateLimit("api", per_second=per_second)}


@runners
@pytest.mark.parametrize("server", [0, 7], indirect=True, ids=["", "some calls are refused"])
def test_each_page_is_called_once_and_again_if_it_was_refused(sc, server, runner):
    """While the giant is split; and none is called for a replay, as nothing was lost."""
    given = elements(server)
    result = run_sdf(sc.parallelize(given), CallFn(), runner=runner, side_inputs=limits()).cache()
    assert Counter(result.collect()) == pages(given)
    assert Counter(page for page, _ in server.answered) == Counter(f"{name}-{page}" for name, page in pages(given))
    assert result.report.splits > 0
    assert (server.refused > 0) == bool(server.refuse_every)
    if isinstance(runner, LiveRunner):
        assert result.report.rate_limits == (("api", 200, server.calls, server.refused),)
        assert f"of 200; {server.refused} of {server.calls} refused" in str(result.report)


@runners
def test_all_calls_of_a_run_keep_the_limit(sc, server, runner):
    """However many tasks make them: all together take as long as the limit says."""
    given = elements(server, 25)
    run_sdf(sc.parallelize(given), CallFn(), runner=runner, side_inputs=limits(40)).count()
    times = [at for _, at in server.answered]
    assert max(times) - min(times) >= 0.9 * (len(times) - 1) / 40  # the first may have been late


@pytest.mark.parametrize("runner", [LiveRunner(), StagedRunner(max_tasks=4)], ids=["live", "staged"])
def test_a_saved_run_keeps_it_too(sc, server, runner, tmp_path):
    """In segments."""
    given = elements(server)
    summary = save_sdf(
        sc.parallelize(given), CallFn(), JsonLinesFiles(str(tmp_path / "out")), runner=runner, side_inputs=limits()
    )
    assert summary.records == len(pages(given))
    assert len(server.answered) == len(pages(given))


def test_a_saved_run_goes_on_with_another_limit(sc, server, tmp_path):
    """The records do not depend on it."""
    given = elements(server)
    sink = JsonLinesFiles(str(tmp_path / "out"))

    class FailsOnceFn(CallFn):
        def process(self, element, tracker, api):
            for record in super().process(element, tracker, api):
                if record == ("giant", 59) and not (tmp_path / "failed").exists():
                    (tmp_path / "failed").touch()
                    raise KeyError("once")
                yield record

    run = {"checkpoint": str(tmp_path / "log"), "commit_seconds": 0.2}
    with pytest.raises(Exception, match="once"):
        save_sdf(sc.parallelize(given), FailsOnceFn(), sink, side_inputs=limits(100), **run)
    summary = save_sdf(sc.parallelize(given), FailsOnceFn(), sink, side_inputs=limits(300), **run)
    assert summary.resumed
    assert summary.records == len(pages(given))


def test_a_stream_keeps_it_too(sc, server, tmp_path):
    """Each task of a batch has a share."""
    given, records = elements(server), []
    stream_sdf(
        sc.parallelize(given),
        CallFn(),
        foreach_batch=lambda batch: records.extend(batch.rdd.collect()),
        checkpoint=str(tmp_path / "c"),
        side_inputs=limits(),
        pace=Pace(batch_seconds=0.5),
    )
    assert Counter(records) == pages(given)
    assert len(server.answered) == len(records)


@runners
def test_read_pages_passes_it_to_fetch(sc, server, runner):
    """So paged sources need no DoFn."""

    def fetch(port, start, stop, api):
        api.call(get, port, start)
        return range(start, stop)

    read = ReadPages(fetch, lambda port: 100, page_size=10)
    result = run_sdf(sc.parallelize([server.server_port]), read, runner=runner, side_inputs=limits())
    assert sorted(result.cache().collect()) == list(range(100))
    assert len(server.answered) == 10
    assert sorted(run_direct([server.server_port], read, side_inputs=limits())) == list(range(100))


def test_more_tasks_than_calls_a_second_are_refused_before_any_job(sc):
    """All slots of this context would be too many."""
    with pytest.raises(InvalidValueError, match=r"StagedRunner.*up to 4 tasks.*max_tasks to at most 2"):
        run_sdf(sc.parallelize([1]), CallFn(), side_inputs=limits(2))
    with pytest.raises(InvalidValueError, match=r"stream_sdf\(\).*up to 4 tasks.*max_tasks to at most 2"):
        stream_sdf(sc.parallelize([1]), CallFn(), foreach_batch=print, checkpoint="never", side_inputs=limits(2))


@pytest.mark.parametrize("runner", [LiveRunner(), StagedRunner()], ids=["live", "staged"])
def test_two_limits_of_one_name_are_refused_before_any_job(sc, runner):
    """Messages and lanes could not tell them apart."""
    two = {"api": RateLimit("api", per_second=50), "other": RateLimit("api", per_second=60)}

    class TwoFn(CallFn):
        def process(self, element, tracker, api, other):
            yield from super().process(element, tracker, api)

    with pytest.raises(InvalidValueError, match="two rate limits have the name 'api'"):
        run_sdf(sc.parallelize([1]), TwoFn(), runner=runner, side_inputs=two)

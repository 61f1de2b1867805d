"""RateLimit: what a DoFn calls, in this process; `tests/spark/test_rate_limits.py` runs it on Spark."""

import pickle
import threading
import time

import pytest

from sdf import DoFn, OffsetRange, RateLimit, run_direct
from sdf.errors import ContractError, InvalidTypeError, InvalidValueError, ProcessError
from sdf.limits.rate_limit import limits_of, paced, shared
from sdf.testing import check_dofn

FAST = 1e6  # a limit that no test waits for


class Answer:
    def __init__(self, status, **headers):
        self.status, self.headers = status, headers


class Server:
    """Refuses the calls whose numbers it is given, and keeps when it was called."""

    def __init__(self, refused=(), *, raises=False):
        self.refused, self.raises, self.called = refused, raises, []

    def get(self, what=None):
        self.called.append(time.monotonic())
        if len(self.called) not in self.refused:
            return Answer(200)
        answer = Answer(429, **{"Retry-After": "0"})
        if self.raises:
            error = ValueError("too many")
            error.response = answer
            raise error
        return answer


class CallFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker, api):
        for number in tracker.claims():
            api.acquire()
            yield number


def test_calls_keep_their_distance():
    """Those of all threads of this process."""
    limit, began = RateLimit("api", per_second=100), time.monotonic()

    def calls():
        for _ in range(5):
            limit.acquire()

    threads = [threading.Thread(target=calls) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() >= began + 19 * 0.01  # the distances of 20 calls


def test_run_direct_and_check_dofn_use_it_as_it_is():
    """There is one process, and it has all of the limit."""
    assert run_direct([5], CallFn(), side_inputs={"api": RateLimit("api", per_second=FAST)}) == [0, 1, 2, 3, 4]
    check_dofn(CallFn(), 5, side_inputs={"api": RateLimit("api", per_second=FAST)})


@pytest.mark.parametrize("raises", [False, True])
def test_a_call_that_is_refused_is_made_again(raises):
    """Whether the client returns the refusal or raises it."""
    server = Server({1, 2}, raises=raises)
    assert RateLimit("api", per_second=FAST).call(server.get, what="page").status == 200
    assert len(server.called) == 3


def test_no_call_is_made_while_the_server_wants_none():
    """Nor by another thread."""
    limit = RateLimit("api", per_second=FAST)
    limit.acquire()
    limit.refused(0.3)
    until = time.monotonic() + 0.3
    limit.acquire()
    assert time.monotonic() >= until - 0.05


class Clock:
    """Takes the place of the module `time`. While the first call sleeps, the server refuses another one."""

    def __init__(self, refuses):
        self.now, self.refused_at, self._refuses = 1000.0, None, refuses

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        if self.refused_at is None:
            self.refused_at = self.now
            self._refuses()
        self.now += seconds


def test_a_call_that_waits_when_another_is_refused_waits_for_the_pause(monkeypatch):
    """The start time that it had is void."""
    limit = RateLimit("api", per_second=10)
    clock = Clock(lambda: limit.refused(0.5))
    monkeypatch.setattr("sdf.limits.rate_limit.time", clock)
    limit.acquire()
    assert clock.now == 1000.0
    limit.acquire()
    assert clock.refused_at == 1000.0
    assert clock.now >= 1000.5


def test_the_tenth_refusal_in_a_row_is_the_answer():
    """The server will not have it."""
    server = Server(range(1, 100))
    assert RateLimit("api", per_second=FAST).call(server.get).status == 429
    assert len(server.called) == 10


def test_the_tenth_refusal_in_a_row_is_raised():
    """If the client raises."""
    server = Server(range(1, 100), raises=True)
    with pytest.raises(ValueError, match="too many"):
        RateLimit("api", per_second=FAST).call(server.get)
    assert len(server.called) == 10


def test_any_other_error_is_raised_at_once():
    """It is no refusal."""

    def fails():
        raise KeyError("page")

    with pytest.raises(KeyError, match="page"):
        RateLimit("api", per_second=FAST).call(fails)


@pytest.mark.parametrize("wrap", [lambda limit: [limit], lambda limit: {"api": limit}])
def test_a_limit_within_another_value_says_so_in_a_worker(wrap):
    """Nobody would pace it there."""
    value = pickle.loads(pickle.dumps(wrap(RateLimit("api", per_second=FAST))))
    (limit,) = value if isinstance(value, list) else value.values()
    with paced({"api": value}), pytest.raises(ContractError, match=r"'api'.*side input by itself"):
        limit.acquire()


def test_a_limit_is_paced_as_long_as_its_task_runs():
    """A thread that is left over has no limit to call by."""
    limit = pickle.loads(pickle.dumps(RateLimit("api", per_second=FAST)))
    with paced({"api": limit}):
        limit.acquire()
        limit.refused(0)
    with pytest.raises(ContractError, match="RateLimit 'api'"):
        limit.acquire()


def test_a_task_waits_before_its_first_call():
    """So its calls keep their distance from those of the task before it, in another process."""
    limit = shared({"api": RateLimit("api", per_second=20)}, 4, "test")["api"]
    began = time.monotonic()
    limit = pickle.loads(pickle.dumps(limit))
    with paced({"api": limit}):
        limit.acquire()
    assert time.monotonic() - began >= 1.02 / (20 / 4)


def test_more_tasks_than_the_limit_allows_calls_are_an_error():
    """All at once would call more often."""
    with pytest.raises(InvalidValueError, match=r"up to 8 tasks.*per_second=5\).*max_tasks to at most 5"):
        shared({"api": RateLimit("api", per_second=5)}, 8, "StagedRunner")


def test_two_limits_of_one_name_are_an_error():
    """The same limit under two names is none."""
    limit = RateLimit("api", per_second=5)
    assert limits_of({"one": limit, "other": limit, "table": [1]}) == [limit]
    with pytest.raises(InvalidValueError, match=r"two rate limits have the name 'api'.*=5\).*=6\)"):
        limits_of({"one": limit, "other": RateLimit("api", per_second=6)})


@pytest.mark.parametrize(
    ("name", "per_second", "error", "text"),
    [
        (5, 1, InvalidTypeError, r"RateLimit name must be a string \(got 5\)"),
        ("api", "many", InvalidTypeError, r"per_second must be a number \(got 'many'\)"),
        ("api", 0, InvalidValueError, r"per_second must be a positive number \(got 0\)"),
        ("api", float("inf"), InvalidValueError, r"per_second must be a positive number \(got inf\)"),
    ],
)
def test_wrong_arguments(name, per_second, error, text):
    """Told at once."""
    with pytest.raises(error, match=text):
        RateLimit(name, per_second=per_second)


@pytest.mark.parametrize("seconds", [-1, "5", float("nan"), None])
def test_a_pause_that_is_no_time(seconds):
    """Told at once, too."""
    with pytest.raises(InvalidValueError, match=r"RateLimit 'api'.*retry_after_seconds must be a number >= 0"):
        RateLimit("api", per_second=1).refused(seconds)


def test_an_error_of_the_limit_names_the_dofn():
    """As any error in process() does."""

    class WrongFn(CallFn):
        def process(self, element, tracker, api):
            for _ in tracker.claims():
                api.refused(-1)
                yield

    with pytest.raises((InvalidValueError, ProcessError), match="WrongFn"):
        run_direct([5], WrongFn(), side_inputs={"api": RateLimit("api", per_second=FAST)})


def test_a_limit_that_is_an_attribute_is_refused_everywhere():
    """Before anything runs: no run would pace it."""

    class HoldsFn(CallFn):
        def __init__(self):
            self.api = RateLimit("api", per_second=FAST)

    for run in (lambda: run_direct([5], HoldsFn()), lambda: check_dofn(HoldsFn(), 5)):
        with pytest.raises(InvalidTypeError, match=r"HoldsFn.api is a RateLimit.*take it in process\(.*, api\)"):
            run()

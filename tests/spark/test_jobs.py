"""Jobs: each tells how it ended, whatever becomes of its thread."""

import queue
import threading
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark import SparkContext
from pyspark.errors import PySparkException

from sdf.errors import ProcessError, StageError
from sdf.spark.jobs import Jobs, unwound


class GoneElsewhere:
    """A SparkContext whose JVM is there for one thread, and gone for those that it starts."""

    def __init__(self, sc):
        self._sc, self._thread, self.failures = sc, threading.current_thread(), 0

    def __getattr__(self, name):
        if threading.current_thread() is not self._thread:
            self.failures += 1
            raise Py4JNetworkError("the JVM has died")
        return getattr(self._sc, name)


def test_a_job_whose_thread_finds_no_jvm_has_failed(sc, monkeypatch):
    """The JVM may die when the thread has started and before it takes over the local properties: nobody waits then."""
    events = queue.SimpleQueue()
    gone = GoneElsewhere(sc)
    monkeypatch.setattr(SparkContext, "_active_spark_context", gone)
    Jobs(sc, "run", events).start("key", "a job", lambda: "value", {})
    ended = events.get(timeout=60)
    assert (ended.key, ended.value, type(ended.error)) == ("key", None, Py4JNetworkError)
    assert gone.failures == 1


def test_a_job_gives_its_value(sc):
    """Once."""
    events = queue.SimpleQueue()
    Jobs(sc, "run", events).start("key", "a job", sc.parallelize([1, 2]).count, {"sdf.test": "1"})
    ended = events.get(timeout=60)
    assert (ended.key, ended.value, ended.error) == ("key", 2, None)
    assert events.empty()


@pytest.mark.parametrize("error", [AttributeError("'NoneType'"), StageError("Job was cancelled"), ProcessError("x")])
@pytest.mark.parametrize("context", ["stopped", "stopping", "there"])
def test_an_error_says_that_the_context_was_stopped_meanwhile(error, context):
    """What Spark says then is another thing each time. What the user's code has raised stays."""
    sc = SparkContext.__new__(SparkContext)
    java = SimpleNamespace(sc=lambda: SimpleNamespace(isStopped=lambda: context == "stopping"))
    sc._jsc = None if context == "stopped" else java
    told = unwound(error, SimpleNamespace(context=sc))
    if context == "there" or isinstance(error, ProcessError):
        assert told is error
    else:
        assert "the SparkContext was stopped while this call worked" in str(told)
        assert told.__cause__ is error


GONE = 'status = StatusCode.UNAVAILABLE\n\tdetails = "Connection refused"\n>'


@pytest.mark.parametrize("stopped", [True, False])
@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("Cannot invoke RPC: Channel closed!"), None),
        (
            PySparkException(f"<_InactiveRpcError of RPC that terminated with:\n\t{GONE}"),
            "server cannot be reached any more: Con",
        ),
        (ProcessError(f"raised <_InactiveRpcError of RPC that terminated with:\n\t{GONE}"), None),
    ],
)
def test_an_error_of_spark_connect_says_that_the_session_was_stopped_or_the_server_has_gone(stopped, error, message):
    """Wherever the call was."""
    told = unwound(error, SimpleNamespace(spark=SimpleNamespace(is_stopped=stopped)))
    if stopped and not isinstance(error, ProcessError):
        message = "the session was stopped while this call worked"
    assert told is error if message is None else message in str(told) and told.__cause__ is error

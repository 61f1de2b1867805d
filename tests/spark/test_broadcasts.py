"""What a run has sent to the workers is freed when nobody can use it any more, and not before."""

import gc
import os
import socket
import threading
import time
import weakref
from collections import Counter
from contextlib import contextmanager, suppress

import pytest
from support.fns import CountFn, OddFn, expected

from sdf import LiveRunner, StagedRunner, run_sdf, stream_sdf
from sdf.errors import CoordinatorError, ProcessError
from sdf.spark import broadcasts
from sdf.spark.payload import Payload

ELEMENTS = [("a", 20), ("b", 3)]

runners = pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=lambda runner: type(runner).__name__)


@pytest.fixture(autouse=True)
def collect_often(monkeypatch):
    """A collection may take all the time: one of 3 s, on a busy machine, would be followed by a pause of a minute."""
    monkeypatch.setattr(broadcasts, "_COLLECT_EVERY_SECONDS", 0.1)
    monkeypatch.setattr(broadcasts, "_COLLECT_SHARE", 1.0)


def files(sc):
    """Return what is in the driver's temporary directory."""
    return set(os.listdir(sc._temp_dir))


def stored_bytes(sc):
    """Return the size of what is there; what is freed meanwhile counts as nothing."""
    total = 0
    for name in files(sc):
        with suppress(FileNotFoundError):
            total += os.path.getsize(os.path.join(sc._temp_dir, name))
    return total


def are_freed(sc, paths):
    """Wait for files to go; Spark lets go of the RDDs of a job when another one has run."""
    until = time.monotonic() + 180  # each collection in vain doubles the time to the next one
    while paths & files(sc) and time.monotonic() < until:
        sc.parallelize([0], 1).count()
        time.sleep(0.5)
    return not paths & files(sc)


@contextmanager
def sent(sc):
    """Give a set, and fill it with what the statements within have left in the temporary directory."""
    before, left = files(sc), set()
    yield left
    left |= files(sc) - before


def let_go(sc):
    """Have both collect garbage, and the cleaner look at what is left."""
    gc.collect()
    for _ in range(3):
        sc.parallelize([0], 1).count()
        time.sleep(1)
        sc._jvm.System.gc()


@runners
def test_what_was_sent_is_freed_when_the_result_is_dropped(sc, runner):
    """No file is left in the driver's temporary directory."""
    with sent(sc) as paths:
        result = run_sdf(sc.parallelize(ELEMENTS), CountFn(), runner=runner)
        assert result.count() == 23
    assert paths
    del result
    assert are_freed(sc, paths)


@runners
def test_nothing_but_the_user_holds_on_to_a_result(sc, runner):
    """It goes at once, without a search for cycles."""
    result = run_sdf(sc.parallelize(ELEMENTS), CountFn(), runner=runner)
    result.count()
    watched = weakref.ref(result)
    gc.disable()
    try:
        del result
        assert watched() is None
    finally:
        gc.enable()


def mapped(rdd, sc):
    return rdd.map(lambda record: record)


def united(rdd, sc):
    return rdd.union(sc.emptyRDD())


@pytest.mark.parametrize(
    ("derive", "runner"),
    [
        (mapped, LiveRunner()),
        (united, StagedRunner()),
        pytest.param(mapped, StagedRunner(), marks=pytest.mark.slow("the same test with LiveRunner")),
        pytest.param(united, LiveRunner(), marks=pytest.mark.slow("the same test with StagedRunner")),
    ],
    ids=["map-LiveRunner", "union-StagedRunner", "map-StagedRunner", "union-LiveRunner"],
)
def test_it_is_kept_for_what_the_user_made_of_the_result(sc, runner, derive):
    """A mapped RDD holds on to it in Python, a union in the JVM; both read it again when the records are gone."""
    with sent(sc) as paths:
        result = run_sdf(sc.parallelize(ELEMENTS), CountFn(), runner=runner)
    derived = derive(result, sc)
    result.unpersist()
    del result
    let_go(sc)
    assert paths <= files(sc)
    assert Counter(derived.collect()) == expected(ELEMENTS)
    del derived
    assert are_freed(sc, paths)


@pytest.mark.parametrize(
    "runner",
    [StagedRunner(), pytest.param(LiveRunner(), marks=pytest.mark.slow("the same test with StagedRunner"))],
    ids=["StagedRunner", "LiveRunner"],
)
def test_it_is_kept_for_the_last_of_several_outputs(sc, runner):
    """The RDDs of a run with tags share what was sent."""
    with sent(sc) as paths:
        results = run_sdf(sc.parallelize(ELEMENTS), OddFn(), runner=runner, tags=("odd",))
    odd = results.pop("odd")
    results.pop("main").unpersist()
    let_go(sc)
    assert paths <= files(sc)
    assert odd.count() == 11
    del odd
    assert are_freed(sc, paths)


class FailsFn(CountFn):
    def process(self, element, tracker):
        raise KeyError("never")


class FailsToExpandFn(CountFn):
    def get_initial_restriction(self, element):
        raise KeyError("never")


@pytest.mark.parametrize(
    ("fn", "runner"),
    [(FailsFn(), StagedRunner()), (FailsToExpandFn(), StagedRunner()), (FailsToExpandFn(), LiveRunner())],
)
def test_a_run_that_fails_frees_it_at_once(sc, fn, runner):
    """Whoever holds on to the error."""
    with sent(sc) as paths, pytest.raises(ProcessError, match="never"):
        run_sdf(sc.parallelize(ELEMENTS, 1), fn, runner=runner)
    assert paths == set()


def test_a_run_that_cannot_start_frees_it_at_once(sc):
    """Here the port is taken."""
    with socket.create_server(("127.0.0.1", 0)) as taken, sent(sc) as paths, pytest.raises(CoordinatorError):
        run_sdf(sc.parallelize(ELEMENTS), CountFn(), runner=LiveRunner(port=taken.getsockname()[1]))
    assert paths == set()


def test_a_stream_leaves_nothing(sc, tmp_path):
    """Neither one that has ended, nor one whose sink failed."""

    def fails(batch):
        raise KeyError("never")

    with sent(sc) as paths:
        stream_sdf(sc.parallelize(ELEMENTS), CountFn(), checkpoint=tmp_path / "a", foreach_batch=lambda batch: None)
        with suppress(KeyError):
            stream_sdf(sc.parallelize(ELEMENTS), CountFn(), checkpoint=tmp_path / "b", foreach_batch=fails)
    assert paths == set()


def test_the_thread_ends_with_the_last_of_them(sc):
    """None is left where nothing was sent, or all is freed."""
    gc.collect()
    with sent(sc) as paths:
        result = run_sdf(sc.parallelize(ELEMENTS), CountFn())
    assert [thread for thread in threading.enumerate() if thread.name == "sdf-cleaner"]
    del result
    assert are_freed(sc, paths)
    for thread in threading.enumerate():
        if thread.name == "sdf-cleaner":
            thread.join(10)
            assert not thread.is_alive()


def test_after_the_end_of_its_context_it_is_freed_in_silence(start_spark, caplog, capfd):
    """Whether the result is dropped then, or freed by name; nothing is raised, logged or printed."""
    sc = start_spark("local[2]")
    with sent(sc) as paths:
        result = run_sdf(sc.parallelize(ELEMENTS), CountFn())
        payload = Payload.send(sc, "late", CountFn(), {})
    sc.stop()
    caplog.clear()
    capfd.readouterr()
    broadcasts.free(payload.broadcast)
    del result
    until = time.monotonic() + 60
    while paths & files(sc) and time.monotonic() < until:
        time.sleep(0.1)
    assert not paths & files(sc)
    assert caplog.text == ""
    assert capfd.readouterr().err == ""


def test_freeing_it_after_the_end_of_its_context_frees_nothing_of_the_next(start_spark):
    """Broadcasts have numbers, and each context counts from 0 again."""
    sc = start_spark("local[2]")
    payload = Payload.send(sc, "late", CountFn(), {})
    sc = start_spark("local[2]")
    other = sc.broadcast("of the next")
    assert other._jbroadcast.id() == payload.broadcast._jbroadcast.id()
    broadcasts.free(payload.broadcast)
    assert sc.parallelize([0], 1).map(lambda _: other.value).collect() == ["of the next"]


class UsesFn(CountFn):
    def process(self, element, tracker, table):
        yield from super().process(element, tracker)


def resident_mebibytes(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) >> 10


def entries(pid, what):
    return len(os.listdir(f"/proc/{pid}/{what}"))


def footprint(sc):
    """Return what a driver has in use, by name, when both have collected their garbage."""
    assert are_freed(sc, files(sc))
    let_go(sc)
    jvm = sc._jvm.java.lang.ProcessHandle.current().pid()
    runtime = sc._jvm.java.lang.Runtime.getRuntime()
    return {
        "files MiB": stored_bytes(sc) >> 20,
        "Python MiB": resident_mebibytes(os.getpid()),
        "JVM MiB": resident_mebibytes(jvm),
        "heap MiB": (runtime.totalMemory() - runtime.freeMemory()) >> 20,
        "Python threads": threading.active_count(),
        "JVM threads": entries(jvm, "task"),
        "Python descriptors": entries(os.getpid(), "fd"),
        "JVM descriptors": entries(jvm, "fd"),
    }


MOST_GROWTH = {
    "files MiB": 30,
    "Python MiB": 60,
    "JVM MiB": 400,  # a heap grows before it is collected
    "heap MiB": 60,
    "Python threads": 2,
    "JVM threads": 60,
    "Python descriptors": 4,
    "JVM descriptors": 8,
}


@runners
@pytest.mark.soak
def test_runs_that_are_dropped_leave_nothing(start_spark, runner):
    """200 runs with a side input of 10 MB: files, threads, descriptors and memory of the driver stay what they were.

    They send 2 GB; not half of it is there at any time.
    """
    sc = start_spark("local[2]")
    most = 0

    def run():
        result = run_sdf(
            sc.parallelize(ELEMENTS), UsesFn(), runner=runner, side_inputs={"table": os.urandom(10_000_000)}
        )
        assert result.count() == 23
        result.unpersist()

    for _ in range(10):
        run()
    before = footprint(sc)
    for _ in range(200):
        run()
        most = max(most, stored_bytes(sc))
    after = footprint(sc)
    print(before, after, most >> 20)
    assert most < 1_000_000_000
    assert {name: after[name] - before[name] for name in after if after[name] - before[name] > MOST_GROWTH[name]} == {}

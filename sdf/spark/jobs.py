"""Runs Spark jobs in threads of their own, reports how they ended, and cancels them.

The threads inherit the caller's job group, scheduler pool and other local properties. A job tag marks the
jobs of one run, so the caller's job group is not changed.
"""

from __future__ import annotations

import functools
import linecache
import queue
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import attrs
from pyspark import RDD, InheritableThread, SparkContext

from sdf import errors
from sdf.errors import RUN_DOCTOR, SdfError, StageError
from sdf.spark.actions import cancel
from sdf.spark.door.context import has_ended, is_stopped
from sdf.spark.door.errors import END_OF_TRACE, FAILURES, LOST_TASK, OTHER_PYTHON, UNREACHABLE, SparkError, text_of
from sdf.spark.door.executors import slots_of_executors
from sdf.spark.door.jobs import is_waiting

__all__ = [
    "Ended",
    "Jobs",
    "WorkerTraceback",
    "arrived",
    "explain",
    "explaining",
    "lost_task",
    "slot_counter",
    "unreachable",
    "unwound",
]

_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_CELL_FRAME = re.compile(r'^  File "(.*)", line (\d+), in .*\n(?!    )', re.MULTILINE)  # a worker has no source of it


@attrs.frozen
class Ended:
    """A job has ended: with ``value``, or with ``error``."""

    key: Any
    value: Any = None
    error: BaseException | None = None


class WorkerTraceback(Exception):  # noqa: N818, it is text, not an error of ours
    """The traceback of an error on a worker, as text; the cause of the error that the driver raises."""

    def __str__(self) -> str:
        return f'\n"""\n{self.args[0]}"""'


class Jobs:
    """The Spark jobs of one run.

    Args:
        sc: where to run them.
        run_id: id of the run; part of its job tag.
        events: gets an `Ended` for each job.
    """

    def __init__(self, sc: SparkContext, run_id: str, events: queue.SimpleQueue[Any]) -> None:
        self._sc = sc
        self._run_id = run_id
        self._tag = f"sdf-{run_id}"
        self._events = events
        self._threads: list[threading.Thread] = []
        self._cancelled = False

    def start(self, key: Any, description: str, job: Callable[[], Any], properties: dict[str, str]) -> None:
        """Run ``job``, which submits one Spark job, in a thread.

        Args:
            key: comes back in the `Ended`.
            description: shown in Spark's UI.
            job: its value comes back in the `Ended`.
            properties: local properties of the job, which its tasks can read.
        """

        def run() -> None:
            self._sc.addJobTag(self._tag)
            self._sc.setJobDescription(description)
            for name, value in properties.items():
                self._sc.setLocalProperty(name, value)
            if not self._cancelled:
                self._events.put(Ended(key, value=job()))

        def failed(error: BaseException) -> None:
            self._events.put(Ended(key, error=explain(error, description, self._run_id)))

        self._threads = [thread for thread in self._threads if thread.is_alive()]
        thread = _JobThread(failed, target=run, name=self._tag, daemon=True)
        self._threads.append(thread)
        thread.start()

    def count_partitions(self, rdd: RDD[Any], what: str) -> int:
        """Return the number of partitions of an RDD, for which Spark may look at files; raise as a job would.

        Args:
            rdd: the RDD.
            what: what needs them, for messages.
        """
        with explaining(what, self._run_id):
            return rdd.getNumPartitions()

    def is_stuck(self) -> bool:
        """Return whether tasks of the stages that run now wait for slots, and none of them has one."""
        return is_waiting(self._sc, self._tag)

    def cancel(self) -> None:
        """Cancel the running jobs and wait for their threads; if the context is gone, at most 1 s for each thread."""
        self._cancelled = True
        for thread in self._threads:
            while thread.is_alive():
                if not cancel(self._sc, self._tag):
                    thread.join(1.0)
                    break
                thread.join(0.1)


class _JobThread(InheritableThread):
    """A thread that tells why it failed, also if it could not inherit local properties since the JVM has died."""

    def __init__(self, failed: Callable[[BaseException], None], target: Callable[[], None], **options: Any) -> None:
        super().__init__(target=target, **options)
        self._failed = failed

    def run(self) -> None:
        try:
            super().run()
        except BaseException as error:  # of any kind: the waiting thread must get it
            self._failed(error)


def arrived(events: queue.SimpleQueue[Any], timeout_seconds: float | None) -> Iterator[Any]:
    """Wait for an event, and yield all that have arrived; none if the time is up."""
    with suppress(queue.Empty):
        yield events.get(timeout=timeout_seconds)
        while True:
            yield events.get_nowait()


def explain(error: BaseException, what: str, run_id: str, read: Callable[[str], str] = str) -> BaseException:
    """Return a failure of Spark as the sdf error that a worker marked, or else as a StageError; others unchanged.

    Args:
        error: the failure.
        what: what failed, for messages.
        run_id: the id of the run, which the mark has.
        read: makes of the text that a worker has sent what it was.
    """
    if not isinstance(error, FAILURES):
        return error
    text = text_of(error)
    start = text.find("Traceback (most recent call last)")
    if start < 0:
        explained: SdfError = StageError(f"Spark could not finish a job ({what}): {text.splitlines()[0]}")
        explained.__cause__ = error
        return explained
    mark = rf"\[{run_id.partition('-')[0]}(?:-\d+)?\]"  # of any step of a stream
    found = re.search(rf"^sdf\.errors\.(\w+): {mark} (.*?) {mark}", text, re.MULTILINE | re.DOTALL)
    if found is not None:
        explained = getattr(errors, found.group(1))(read(found.group(2)))
        told = text[found.end() :].lstrip()  # by the worker, where Spark drops the causes of errors
        if told.startswith("Traceback"):
            trace = read(END_OF_TRACE.split(told)[0].rstrip())
        else:
            trace = re.sub(mark, "", text[start : found.end()]).rsplit(_CAUSED, 1)[0].rstrip()  # what raised this error
        trace = _CELL_FRAME.sub(_with_source, trace)
    else:
        trace = END_OF_TRACE.split(text[start:])[0].rstrip()
        last = trace.splitlines()[-1]
        lacking = re.match(r"ModuleNotFoundError: No module named '([^']*)'", last)
        explained = StageError(
            f"a job failed on the workers ({what}): {last}{f' {RUN_DOCTOR}' if OTHER_PYTHON.search(text) else ''}"
            if lacking is None
            else f"the Python workers cannot import {lacking.group(1)}. Install it on the executors, or ship it with "
            f"spark-submit --py-files; on one machine set PYSPARK_PYTHON to this interpreter (docs/clusters.md). On "
            f"Spark Connect sdf.spark.ship(spark) sends it (docs/connect.md). {RUN_DOCTOR}"
        )
    explained.__cause__ = WorkerTraceback(f"{trace}\n")
    return explained


@contextmanager
def explaining(what: str, run_id: str) -> Iterator[None]:
    """Raise a failure of Spark in the ``with`` statement as what `explain` makes of it; other errors as they are."""
    try:
        yield
    except Exception as error:
        explained = explain(error, what, run_id)
        if explained is error:
            raise
        raise explained from explained.__cause__


def lost_task(error: BaseException) -> int | None:
    """Return the task for which Spark gave up a job, if its executor or worker was lost each time; else None."""
    found = LOST_TASK.search(str(error)) if isinstance(error, StageError) else None
    return None if found is None else int(found[1])


def _with_source(frame: re.Match[str]) -> str:
    """Return a frame of a traceback with its line, if it is in a cell of this notebook."""
    line = linecache.getline(frame[1], int(frame[2])).strip() if frame[1] in linecache.cache else ""
    return f"{frame[0]}    {line}\n" if line else frame[0]


def unwound(error: Exception, elements: Any = None) -> Exception:
    """Return an error of a worker without the driver's frames, which say nothing of it; others unchanged.

    What Spark, its gateway or gRPC says when the context or session of ``elements`` was stopped meanwhile, or when a
    Spark Connect server has gone, says nothing of that.
    """
    ours = isinstance(error, SdfError) and not isinstance(error, StageError)
    session = getattr(elements, "spark", None)  # of Spark Connect
    if not ours and (session.is_stopped if session is not None else _is_stopped(getattr(elements, "context", None))):
        what = "SparkContext" if session is None else "session"
        stopped = StageError(
            f"the {what} was stopped while this call worked. Nothing that was running counts: make the same call again "
            f"with a new one, and stop a {what} only when the calls that use it have returned."
        )
        stopped.__cause__ = error
        return stopped
    if (gone := unreachable(error)) is not None:
        return gone
    return error.with_traceback(None) if isinstance(error.__cause__, WorkerTraceback) else error


def unreachable(error: BaseException, what: str = "") -> StageError | None:
    """Return the error to raise in place of one that says that a Spark Connect server cannot be reached; else None.

    Args:
        error: the error.
        what: what the server was asked for.
    """
    if not (isinstance(error, SparkError) and UNREACHABLE.match(str(error))):
        return None
    details = re.search('details = "(.*)"', str(error))
    gone = StageError(
        f"the Spark Connect server cannot be reached any more{what and f' ({what})'}: "
        f"{details[1] if details else error}. What is committed stays: make the same call again, with a session on a "
        f"server. save_sdf() then goes on where this call was, run_sdf() begins anew."
    )
    gone.__cause__ = error
    return gone


def _is_stopped(context: Any) -> bool:
    if not isinstance(context, SparkContext):
        return False
    try:
        return has_ended(context)
    except Exception:  # of any kind: it was stopped in between, or the JVM is gone
        return is_stopped(context)


def slot_counter(sc: SparkContext) -> Callable[[], int]:
    """Return a function that returns how many tasks Spark can run at once now: executors come and go.

    The default parallelism is quick to read, and is Spark's number of cores. Two exceptions: the user has set
    ``spark.default.parallelism``, or it is 2 on a cluster, Spark's minimum. Then the executors' slots are added up.
    """
    cores_per_task, explicit = _task_settings(sc)
    local = (sc.master or "").split("[")[0] == "local"

    def count() -> int:
        cores = sc.defaultParallelism
        return ask_executors() if explicit or (cores == 2 and not local) else max(1, cores // cores_per_task)

    def ask_executors() -> int:
        return max(1, slots_of_executors(sc))

    return count


@functools.lru_cache(maxsize=1)
def _task_settings(sc: SparkContext) -> tuple[int, bool]:
    """Return the cores of a task, and whether the default parallelism is set; cached: getConf() is slow."""
    conf = sc.getConf()
    return int(conf.get("spark.task.cpus") or 1), conf.get("spark.default.parallelism") is not None

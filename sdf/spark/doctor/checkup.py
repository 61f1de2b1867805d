"""doctor: finds out the facts with two small jobs, and says what they mean."""

from __future__ import annotations

import os
import platform
import textwrap
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from typing import Any

import attrs
import pyspark
from pyspark import SparkContext

from sdf.errors import REQUIREMENTS, InvalidTypeError, show
from sdf.model.dofn import DoFn
from sdf.spark.actions import cancel
from sdf.spark.connect.slots import configured_slots
from sdf.spark.doctor import findings, probe
from sdf.spark.doctor.facts import Facts, Worker
from sdf.spark.doctor.findings import COSTS, SETTINGS, STOPS, UNKNOWN, Finding
from sdf.spark.door.arrow import arrow_hindrance
from sdf.spark.door.connect import java_of_server
from sdf.spark.door.context import java_of
from sdf.spark.door.executors import slots_of_executors
from sdf.spark.elements import check_context
from sdf.spark.jobs import slot_counter
from sdf.spark.live.runner import LiveRunner
from sdf.spark.shipping import sessions
from sdf.spark.shipping.libraries import CORE, Library, libraries

__all__ = ["Checkup", "doctor"]

_JOB_SECONDS = 25.0
_SECONDS = 4.0
_FEWEST_TASKS, _MOST_TASKS = 2, 16
_WIDTH = 120


@attrs.frozen(repr=False)
class Checkup:
    """What `sdf.doctor` found. ``print`` shows it as a table, and so does a notebook.

    Attributes:
        findings: one for each fact.
        capabilities: one for each thing that sdf does, with the mark "ok", "no" or "?".
    """

    findings: tuple[Finding, ...]
    capabilities: tuple[Finding, ...]

    @property
    def problems(self) -> tuple[Finding, ...]:
        """The findings that stop runs."""
        return tuple(one for one in self.findings if one.mark == STOPS)

    def __str__(self) -> str:
        marks = [one.mark for one in self.findings]
        counts = {STOPS: "stops runs", COSTS: "costs something", UNKNOWN: "could not be asked"}
        head = ", ".join(f"{marks.count(mark)} {mark} {text}" for mark, text in counts.items() if mark in marks)
        wide = max(len(one.what) for one in (*self.findings, *self.capabilities))
        rows, works = ("\n".join(_line(one, wide) for one in each) for each in (self.findings, self.capabilities))
        return f"sdf doctor: {head or 'all fits'}\n{rows}\nwhat works here\n{works}"

    __repr__ = __str__


def _line(one: Finding, wide: int) -> str:
    indent = " " * (wide + 6)
    fold = partial(textwrap.fill, width=_WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    told = "\n".join(map(fold, (one.told, f"-> {one.mend}") if one.mend else (one.told,))).lstrip()
    return f"{one.mark:>4} {one.what:{wide}} {told}".rstrip()


class Doctor(DoFn):
    """Has no work: the workers only connect for it. Its methods are never called."""

    def get_initial_restriction(self, element: Any) -> None: ...

    def process(self, element: Any, tracker: Any) -> None: ...


def doctor(spark: Any, path: str | os.PathLike[str] | None = None, *, runner: LiveRunner | None = None) -> Checkup:
    """Say what holds on this driver and its workers, what is amiss, and what works there.

    Runs two small jobs, of at most 16 tasks, and gives up after half a minute. It leaves no file, no job and no open
    port behind, and ships nothing. It asks less of workers that have no sdf, or another one.

    Args:
        spark: a SparkSession, of Spark Connect too, or a SparkContext.
        path: a place to try, such as a target, ``checkpoint=`` or ``staging=``; None for none.
        runner: whose ``host`` and ``port`` are tried; None for ``LiveRunner()``.

    Returns:
        A `Checkup`: ``print(sdf.doctor(spark))`` shows it, and ``problems`` has what stops runs.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments, or a context that was stopped. Everything else that
            goes wrong is in what it returns.
    """
    if runner is not None and not isinstance(runner, LiveRunner):
        raise InvalidTypeError(f"doctor() runner must be a LiveRunner, whose port is tried (got {show(runner)}).")
    connect = not isinstance(spark, SparkContext) and sessions.is_connect(spark, "doctor()")
    sc = None if connect else getattr(spark, "sparkContext", spark)
    if sc is not None:
        check_context(sc, "doctor()", "a SparkContext that runs", "Start another one")
    facts = _facts(spark, sc, path, runner or LiveRunner())
    found = findings.findings(facts)
    return Checkup(found, findings.capabilities(facts, found))


def _facts(spark: Any, sc: Any, path: str | os.PathLike[str] | None, runner: LiveRunner) -> Facts:
    here = libraries([*CORE, *REQUIREMENTS])
    setting = spark.conf.get if sc is None else sc.getConf().get
    count_slots = partial(configured_slots, spark) if sc is None else slot_counter(sc)
    run, nonce = f"sdf-{uuid.uuid4().hex}", uuid.uuid4().bytes
    with ExitStack() as stack:
        address, listening = None, ""
        if sc is not None:
            address, listening = probe.attempt(_SECONDS, lambda: stack.enter_context(runner.listening(sc, Doctor())))
        root, place = (None, "") if path is None else stack.enter_context(probe.trial_at(path, run, nonce))
        where = None if address is None else attrs.astuple(address)
        given = {"address": where, "root": root, "run": run, "nonce": nonce, "place_seconds": probe.PLACE_SECONDS}
        tasks = max(_FEWEST_TASKS, min(count_slots() or 1, _MOST_TASKS))  # executors may still be starting
        workers, clocks, failure = _asked(spark, sc, run, tasks, here, given)
    java, silent = probe.attempt(_SECONDS, partial(java_of_server, spark) if sc is None else partial(java_of, sc))
    return Facts(
        connect=sc is None,
        spark=spark.version,
        java=java or silent,
        client=pyspark.__version__,
        python=platform.python_version(),
        here=here,
        settings={name: setting(f"spark.{name}", None) or "" for name in SETTINGS},
        slots=count_slots(),
        workers=workers,
        failure=failure,
        clocks=clocks,
        address="" if address is None else f"{address.host}:{address.port}",
        listening=listening,
        path=None if path is None else os.fspath(path),
        place=place,
        arrow=arrow_hindrance(),
    )


def _asked(
    spark: Any, sc: Any, tag: str, tasks: int, here: Mapping[str, Library], given: Mapping[str, Any]
) -> tuple[tuple[Worker, ...], Mapping[str, tuple[float, float]], str]:
    """Return what tasks have found, `Facts.clocks`, and why there is neither; jobs end when their time is up."""
    wanted = {name: library.distribution for name, library in here.items()}
    visit = "visit", wanted, probe.__name__, here["sdf"].fingerprint, given

    def jobs() -> tuple[tuple[Worker, ...], Mapping[str, tuple[float, float]]]:
        spark.addTag(tag) if sc is None else sc.addJobTag(tag)  # of this thread
        workers = tuple(Worker(**told) for told in sessions.ask(spark, "doctor()", tasks, *visit))
        began = time.time()  # a job of its own: it takes little time, now that the workers have started
        read = sessions.ask(spark, "doctor()", tasks, "clock")
        ended = time.time()
        return workers, {each["host"]: (each["clock"] - ended, each["clock"] - began) for each in read}

    try:
        found, failure = probe.attempt(_JOB_SECONDS, jobs)
    finally:
        spark.interruptTag(tag) if sc is None else cancel(sc, tag)
    if failure and sc is not None and not (sc.master or "").startswith("local[") and not slots_of_executors(sc):
        failure = f"no executor has come within {_JOB_SECONDS:.0f} s"
    return (*(found or ((), {})), failure)

"""save_sdf: runs a DoFn to the end and makes the results visible at once, exactly once, whatever crashes on the way."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.journal.pending import to_data
from sdf.journal.run_log import RunLog
from sdf.model.dofn import DoFn, check_fn, check_tags
from sdf.numbers import is_number
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_report import RunReport
from sdf.saving.saving import Saving
from sdf.sinks.sink import Sink
from sdf.spark.display import display
from sdf.spark.elements import check_rdd
from sdf.spark.live.runner import LiveRunner
from sdf.spark.outputs import sinks_of, told
from sdf.spark.staged.runner import StagedRunner
from sdf.storage.places import Storage, storage_at

__all__ = ["SaveSummary", "save_sdf"]

log = logging.getLogger("sdf.saving")


@attrs.frozen
class SaveSummary:
    """What `save_sdf` has saved. ``print(summary)`` says it in a line.

    Attributes:
        records: number of records of all outputs together.
        files: number of files, as the sinks count them; 0 for sinks without files.
        bytes: their size.
        seconds: seconds that this call took.
        resumed: whether an earlier driver had begun the run.
        repeated_seconds: about how many seconds of work were done twice, because drivers died before they committed it.
        report: the report of what this call ran; None if nothing was left to run.
        records_by_output: number of records of each output.
    """

    records: int
    files: int
    bytes: int
    seconds: float
    resumed: bool
    repeated_seconds: float
    report: RunReport | None = attrs.field(repr=False)
    records_by_output: Mapping[str, int]

    def __str__(self) -> str:
        files = f" in {self.files:,} files, {self.bytes:,} bytes," if self.files else ""
        again = f"; resumed, about {self.repeated_seconds:.0f} s of work done again" if self.resumed else ""
        return f"saved {self.records:,} records{files} in {self.seconds:.1f} s{again}"


def save_sdf(
    elements: RDD[Any],
    fn: DoFn,
    sink: Sink | Mapping[str, Sink],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    commit_seconds: float = 60.0,
    runner: StagedRunner | LiveRunner | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    progress: bool | Callable[[RunProgress], Any] | None = None,
) -> SaveSummary:
    """Run a splittable DoFn over the elements of an RDD, and save its results.

    Nothing is visible before the end. If the driver, the cluster or the sink fails, make the same call again: it goes
    on with what was not committed. The same call after the end changes nothing, and returns the summary.

    Args:
        elements: the elements, as for `run_sdf`. They are kept in the checkpoint: a resumed run does not evaluate the
            RDD again.
        fn: the DoFn.
        sink: where the records go (`sdf.sinks`); with tags a mapping of "main" and each tag to its sink.
        checkpoint: a directory or URL for the log of the run. None: beside the target, ``_<name>.sdf``; a sink that
            appends to what is there needs one given.
        commit_seconds: how long a worker writes before what it wrote is committed; about so much work per slot is done
            again after a crash.
        runner: a `StagedRunner` or a `LiveRunner`; None for a `StagedRunner` with its defaults.
        side_inputs: values by name, passed to `process`; an RDD is collected, and passed as a list.
        tags: the names of further outputs; they may be left out, as ``sink`` names them.
        progress: as for `run_sdf`; a resumed run begins where the earlier one was.

    Returns:
        A `SaveSummary`.

    Raises:
        InvalidTypeError, InvalidValueError, UnpicklableError: for wrong arguments, before any job runs.
        JournalError: if the checkpoint is that of another run, cannot be written or read, or was taken over by another
            driver.
        SinkError: if the target cannot be written or committed. The run stays resumable.
        BadRecordError: for a record that the sink cannot write.
        ProcessError: if user code raised.
        SdfError: any other error of sdf. No job is left running.
    """
    began = time.monotonic()
    check_rdd(elements, "save_sdf()", "or run_direct(elements, fn) without Spark")
    check_fn(fn, side_inputs, "save_sdf()")
    sinks = sinks_of(sink, check_tags(tags, "save_sdf()"), "save_sdf()")
    if runner is not None and not isinstance(runner, (StagedRunner, LiveRunner)):
        raise InvalidTypeError(
            f"save_sdf() runner must be a StagedRunner or a LiveRunner (got {show(runner)}). Pass an instance, such as "
            f"runner=LiveRunner()."
        )
    if not is_number(commit_seconds) or not 0 < commit_seconds < float("inf"):
        raise InvalidValueError(f"save_sdf() commit_seconds must be a positive number (got {show(commit_seconds)}).")
    storage = _storage(checkpoint, sinks)
    values = {name: value.collect() if isinstance(value, RDD) else value for name, value in (side_inputs or {}).items()}
    driver = uuid.uuid4().hex
    saving = Saving(
        RunLog(storage, driver=driver, clock=_milliseconds),
        _identity(fn, values, sinks),
        sinks,
        app=f"sdf-{uuid.uuid4().hex[:16]}",
        driver=driver,
        commit_seconds=float(commit_seconds),
        clock=time.monotonic,
        wall=time.time,
    )
    try:
        report = None
        if saving.history.done:
            saving.check_same_elements(elements.collect())
            saving.clean()
        else:
            if saving.history.committing is None:
                shown = display(progress, "save_sdf()")
                report = (runner or StagedRunner()).save(elements, fn, values, saving, shown)
            saving.finish()
    finally:
        saving.close()
    summary = _summary(saving, report, time.monotonic() - began)
    log.info("%s: %s; the log took %.2f s", type(fn).__name__, summary, saving.log_seconds)
    return summary


def _milliseconds() -> int:
    return int(time.time() * 1000)


def _storage(checkpoint: str | os.PathLike[str] | None, sinks: list[tuple[str, Sink]]) -> Storage:
    """Return the storage of the checkpoint, by default beside the target of the main output."""
    if checkpoint is not None:
        return storage_at(checkpoint, "save_sdf() checkpoint")
    appending = next((one for _, one in sinks if one.appends), None)
    beside = sinks[0][1].beside()
    if appending is not None or beside is None:
        one = appending or sinks[0][1]
        raise InvalidValueError(
            f"save_sdf() needs a checkpoint for {type(one).__name__}, which adds to what is there: pass "
            f"checkpoint='/a/directory', a new one for each run. With one checkpoint for all, the second run would be "
            f"taken for the first, which is done."
        )
    return storage_at(beside, "save_sdf() checkpoint")


def _identity(fn: DoFn, side_inputs: Mapping[str, Any], sinks: list[tuple[str, Sink]]) -> dict[str, Any]:
    """Return what the run is made of, as JSON data by what it is called in messages."""
    fields = _fields(fn)
    return {
        "the DoFn": f"{type(fn).__module__}.{type(fn).__qualname__}",
        "the DoFn's fields": {name: _described(value) for name, value in sorted(fields.items())},
        "side inputs": {name: _described(value) for name, value in sorted(side_inputs.items())},
        "the sinks": {name: told(one) for name, one in sinks},
    }


def _fields(fn: DoFn) -> dict[str, Any]:
    slots = [name for kind in type(fn).__mro__ for name in getattr(kind, "__slots__", ())]
    return {**getattr(fn, "__dict__", {}), **{name: getattr(fn, name) for name in slots if hasattr(fn, name)}}


def _described(value: Any) -> Any:
    """Return a value as JSON data if that is always the same for equal values, else only its type."""
    data = to_data(value)
    return f"a {type(value).__name__}" if isinstance(data, list) and data and data[0] == "pickle" else data


def _summary(saving: Saving, report: RunReport | None, seconds: float) -> SaveSummary:
    history = saving.history
    names = [name for name, _ in saving.targets.sinks]
    records = dict(zip(names, history.records or [0] * len(names), strict=True))
    counted = [message for at in range(len(names)) for message in history.messages(at) if isinstance(message, dict)]
    return SaveSummary(
        records=sum(records.values()),
        files=sum(message.get("files", 0) for message in counted),
        bytes=sum(message.get("bytes", 0) for message in counted),
        seconds=seconds,
        resumed=saving.resumed,
        repeated_seconds=saving.repeated_seconds,
        report=report,
        records_by_output=records,
    )

"""save_sdf: runs a DoFn to the end and makes the results visible at once, exactly once, whatever crashes on the way.

abort_save: gives such a run up before its end.
"""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs

from sdf.errors import InvalidValueError, JournalError, show
from sdf.journal.run_log import RunLog
from sdf.model.dofn import DoFn, check_fn, check_tags
from sdf.numbers import is_number
from sdf.quarantine.failures import FailedBlock
from sdf.quarantine.options import Quarantine, check_quarantine
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_facts import count_of
from sdf.reporting.run_report import RunReport
from sdf.saving.history import History
from sdf.saving.outputs import checkpoint_of, sinks_by_output, told
from sdf.saving.saving import Saving
from sdf.sinks.sink import Sink, Token
from sdf.spark.connect.elements import ConnectElements, as_elements, collected
from sdf.spark.connect.run import save_on_connect
from sdf.spark.display import Display, display
from sdf.spark.identity import identity_of
from sdf.spark.jobs import unwound
from sdf.spark.live.runner import LiveRunner
from sdf.spark.runners import check_runner
from sdf.spark.staged.runner import StagedRunner

__all__ = [
    "SaveSummary",
    "abort_save",
    "check_commit_seconds",
    "milliseconds",
    "run_saving",
    "save_sdf",
    "summary_of",
]

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
        repeated_seconds: about how many seconds of work were done again, since all drivers of the run began: workers or
            drivers were lost before they committed it. Of a driver that was lost, this is what it said last; it says so
            every ten seconds.
        report: the report of what this call ran; None if nothing was left to run.
        records_by_output: number of records of each output.
        failures: the blocks that were set aside, by this call or an earlier one.
    """

    records: int
    files: int
    bytes: int
    seconds: float
    resumed: bool
    repeated_seconds: float
    report: RunReport | None = attrs.field(repr=False)
    records_by_output: Mapping[str, int]
    failures: tuple[FailedBlock, ...] = attrs.field(default=(), repr=False)

    def __str__(self) -> str:
        files = f" in {self.files:,} files, {self.bytes:,} bytes," if self.files else ""
        resumed = "; resumed" if self.resumed else ""
        again = f"; about {self.repeated_seconds:.0f} s of work done again" if self.repeated_seconds >= 0.5 else ""
        failed = f"; {count_of(len(self.failures), 'block')} failed and set aside" if self.failures else ""
        return f"saved {self.records:,} records{files} in {self.seconds:.1f} s{resumed}{again}{failed}"


def save_sdf(
    elements: Any,
    fn: DoFn,
    sink: Sink | Mapping[str, Sink],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    commit_seconds: float = 60.0,
    runner: StagedRunner | LiveRunner | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    element: Callable[[Any], Any] | None = None,
    on_failure: str = "raise",
    max_failures: int = 100,
    block_seconds: float | None = None,
    progress: bool | Callable[[RunProgress], Any] | None = None,
) -> SaveSummary:
    """Run a splittable DoFn over the elements of an RDD or a DataFrame, and save its results.

    Nothing is visible before the end. If the driver, the cluster or the sink fails, make the same call again: it goes
    on with what was not committed. The same call after the end changes nothing, and returns the summary.

    Args:
        elements: an RDD of them, or a DataFrame, of Spark Connect too, whose rows they are. They are kept
            in the checkpoint: a resumed run goes on with those. At its end it compares them with those of this call.
        fn: the DoFn.
        sink: where the records go (`sdf.sinks`); with tags a mapping of "main" and each tag to its sink.
        checkpoint: a directory or URL for the log of the run. None: beside the target, ``_<name>.sdf``; a sink that
            appends to what is there needs one given.
        commit_seconds: how long a worker writes before what it wrote is committed; about so much work per slot is done
            again after a crash.
        runner: a `StagedRunner` or a `LiveRunner`, on Spark Connect a `StagedRunner`; None for a `StagedRunner` with
            its defaults.
        side_inputs: values by name, passed to `process`; an RDD or a DataFrame is collected, and passed as a list.
        tags: the names of further outputs; they may be left out, as ``sink`` names them.
        element: for a DataFrame: a function that makes an element of a `Row`. None: the value of its only column, or
            the `Row`.
        on_failure, max_failures, block_seconds: as for `run_sdf`, with a `StagedRunner`; the blocks that were set aside
            are in the summary.
        progress: as for `run_sdf`; a resumed run begins where the earlier one was.

    Returns:
        A `SaveSummary`.

    Raises:
        InvalidTypeError, InvalidValueError, UnpicklableError: for wrong arguments, before any job runs.
        JournalError: if the checkpoint is that of another run, cannot be written or read, or was taken over by another
            driver. If only the elements differ: after the end of the run that was begun.
        SinkError: if the target cannot be written or committed. The run stays resumable.
        BadRecordError: for a record that the sink cannot write.
        ProcessError: if user code raised.
        SdfError: any other error of sdf. No job is left running.
    """
    began = time.monotonic()
    elements = as_elements(elements, element, "save_sdf()")
    check_fn(fn, side_inputs, "save_sdf()")
    sinks = sinks_by_output(sink, check_tags(tags, "save_sdf()"), "save_sdf()")
    quarantine = check_quarantine(
        on_failure, max_failures, block_seconds, "save_sdf()", tags=[name for name, _ in sinks]
    )
    check_runner(runner, elements, "save_sdf()", quarantine)
    check_commit_seconds(commit_seconds, "save_sdf()")
    storage = checkpoint_of(checkpoint, sinks, "save_sdf()")
    values = {name: collected(value) for name, value in (side_inputs or {}).items()}
    driver = uuid.uuid4().hex
    saving = Saving(
        RunLog(storage, driver=driver, clock=milliseconds),
        identity_of(fn, values, sinks),
        sinks,
        app=f"sdf-{uuid.uuid4().hex[:16]}",
        driver=driver,
        commit_seconds=float(commit_seconds),
        clock=time.monotonic,
        wall=time.time,
    )
    try:
        begun = saving.history.expanded is not None
        shown = display(progress, "save_sdf()")
        report = run_saving(runner or StagedRunner(), elements, fn, values, saving, shown, quarantine)
        if begun:  # after it, since an RDD that changes must not stand in the way of what was begun
            saving.check_same_elements(elements.collect())
    except Exception as error:
        raise unwound(error) from error.__cause__
    finally:
        saving.close()
    summary = summary_of(saving, report, time.monotonic() - began)
    log.info("%s: %s; the log took %.2f s", type(fn).__name__, summary, saving.log_seconds)
    return summary


def check_commit_seconds(commit_seconds: Any, who: str) -> None:
    """Raise InvalidValueError unless it is a positive number."""
    if not is_number(commit_seconds) or not 0 < commit_seconds < float("inf"):
        raise InvalidValueError(f"{who} commit_seconds must be a positive number (got {show(commit_seconds)}).")


def run_saving(
    runner: StagedRunner | LiveRunner,
    elements: Any,
    fn: DoFn,
    side_inputs: Mapping[str, Any],
    saving: Saving,
    shown: Display | None,
    quarantine: Quarantine | None,
) -> RunReport | None:
    """Run what is left to run and make it visible; return the report, None if nothing was left."""
    report = None
    if saving.over:
        for _, one in saving.targets.sinks:
            one.check_result(saving.targets.token)
        saving.clean()
        return None
    if saving.history.committing is None:
        if quarantine is None and saving.failures:
            raise InvalidValueError(
                f"save_sdf() on_failure='raise' cannot go on with this run: an earlier call has set "
                f"{count_of(len(saving.failures), 'block')} aside, the first is {show(saving.failures[0])}. Pass "
                f"on_failure='quarantine' to go on without them; once it is done, retry_failed() runs them again. Or "
                f"give the run up with abort_save(), and begin anew."
            )
        try:
            report = _save(runner, elements, fn, side_inputs, saving, shown, quarantine)
        except Exception:
            saving.check_alone()
            raise
    saving.finish()
    return report


def _save(
    runner: StagedRunner | LiveRunner,
    elements: Any,
    fn: DoFn,
    side_inputs: Mapping[str, Any],
    saving: Saving,
    shown: Display | None,
    quarantine: Quarantine | None,
) -> RunReport:
    if isinstance(runner, LiveRunner):
        return runner.save(elements, fn, side_inputs, saving, shown)
    if isinstance(elements, ConnectElements):
        return save_on_connect(runner, elements, fn, side_inputs, saving, shown, quarantine)
    return runner.save(elements, fn, side_inputs, saving, shown, quarantine)


def abort_save(sink: Sink | Mapping[str, Sink], *, checkpoint: str | os.PathLike[str] | None = None) -> None:
    """Give up a run of `save_sdf` that is not done: remove all that it has written. Needs no Spark.

    The run is taken over first, as by another driver, so a driver that still works on it stops. Its log stays, and says
    that the run was given up; the next `save_sdf` with this checkpoint begins anew.

    Args:
        sink, checkpoint: those of the call of `save_sdf`.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments.
        JournalError: if there is no such run in the checkpoint, or if it is done: its results stay.
        SinkError: if a sink cannot remove what was written, or has made it visible already.
    """
    sinks = sinks_by_output(sink, (), "abort_save()")
    run_log = RunLog(checkpoint_of(checkpoint, sinks, "abort_save()"), driver=uuid.uuid4().hex, clock=milliseconds)
    history = History(run_log)
    if history.app is None:
        raise JournalError(f"abort_save() found no run to give up in {run_log.root}. Pass the checkpoint of the run.")
    history.check_same({"the sinks": {name: told(one) for name, one in sinks}})
    if history.done or history.committed:
        visible = "all outputs" if history.done else f"the outputs {sorted(history.committed)}"
        raise JournalError(
            f"abort_save() removes nothing that is visible: {visible} of the run in {run_log.root} were committed. "
            f"{'Remove them' if history.done else 'Call save_sdf again to commit the others, or remove them'} yourself."
        )
    token = Token(history.app, 0)
    committing = history.committing is not None and not history.aborted
    if committing:
        for _, one in sinks:
            one.check_commit(token)
        run_log.append([["driver", "abort_save"]])
    elif not history.aborted:
        run_log.append([["aborted"]])  # first, so that no driver goes on with a part of what was written
    for at, (_, one) in reversed(list(enumerate(sinks))):  # in the order of the commits
        one.abort(history.messages(at), token)  # refuses if it has committed: nothing is removed then
    if committing:
        run_log.append([["aborted"]])


def milliseconds() -> int:
    return int(time.time() * 1000)


def summary_of(saving: Saving, report: RunReport | None, seconds: float) -> SaveSummary:
    history = saving.history
    names = [name for name, _ in saving.targets.sinks]
    records = dict(zip(names, history.records or [0] * len(names), strict=True))
    counted = [
        message for at in range(len(names)) for message in history.messages(at, added=True) if isinstance(message, dict)
    ]
    return SaveSummary(
        records=sum(records.values()),
        files=sum(message.get("files", 0) for message in counted),
        bytes=sum(message.get("bytes", 0) for message in counted),
        seconds=seconds,
        resumed=saving.resumed,
        repeated_seconds=saving.repeated_seconds,
        report=report,
        records_by_output=records,
        failures=tuple(saving.failures),
    )

"""A saved run, as save_sdf begins it and retry_failed adds to it: options, run, commit and summary."""

from __future__ import annotations

import logging
import os
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from sdf.errors import InvalidValueError, show
from sdf.journal.clock import Clock
from sdf.model.dofn import DoFn
from sdf.numbers import is_number
from sdf.quarantine.failures import FailedBlock
from sdf.quarantine.options import Quarantine
from sdf.reporting.progress import RunProgress
from sdf.reporting.run_facts import count_of
from sdf.reporting.run_report import RunReport
from sdf.saving.outputs import checkpoint_of
from sdf.saving.run_log import RunLog
from sdf.saving.saving import Saving
from sdf.sinks.sink import Sink
from sdf.spark.call import Call
from sdf.spark.connect.jobs import save_on_connect
from sdf.spark.display import display
from sdf.spark.door.hadoop import hadoop_files
from sdf.spark.identity import identity_of
from sdf.spark.live.runner import LiveRunner
from sdf.spark.row_elements import ConnectElements, collected
from sdf.spark.runners import check_runner
from sdf.spark.staged.runner import StagedRunner

__all__ = ["SaveSummary", "run_saved"]

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


def run_saved(
    who: str,
    elements: Any,
    fn: DoFn,
    sinks: list[tuple[str, Sink]],
    checkpoint: str | os.PathLike[str] | None,
    commit_seconds: float,
    runner: StagedRunner | LiveRunner | None,
    side_inputs: Mapping[str, Any] | None,
    quarantine: Quarantine | None,
    progress: bool | Callable[[RunProgress], Any] | None,
    *,
    retry: bool = False,
) -> SaveSummary:
    """Check the other options, run what is left to run, and make it visible.

    Args:
        who: the function that the user has called, for messages.
        elements: as `as_elements` returns them.
        fn: the DoFn, checked.
        sinks: the sinks by output, checked.
        checkpoint, commit_seconds, runner, side_inputs, progress: as for `save_sdf`.
        quarantine: its options; None for a run without.
        retry: whether to run what was set aside again; ``elements`` are then not compared with those of the log.
    """
    began = time.monotonic()
    check_runner(runner, elements, who, quarantine)
    if not is_number(commit_seconds) or not 0 < commit_seconds < float("inf"):
        raise InvalidValueError(f"{who} commit_seconds must be a positive number (got {show(commit_seconds)}).")
    shown = display(progress, who)
    storage = checkpoint_of(checkpoint, sinks, who, beyond=hadoop_files)
    values = {name: collected(value) for name, value in (side_inputs or {}).items()}
    call = Call(elements, fn, values, shown, quarantine)
    identity = identity_of(fn, values, sinks)
    if retry:  # the DoFn was mended, so that its fields and the side inputs may differ
        identity = {name: identity[name] for name in ("the DoFn", "the sinks")}
    driver = uuid.uuid4().hex
    saving = Saving(
        RunLog(storage, driver=driver, clock=Clock()),
        identity,
        sinks,
        app=f"sdf-{uuid.uuid4().hex[:16]}",
        driver=driver,
        commit_seconds=float(commit_seconds),
        clock=time.monotonic,
        retry=retry,
    )

    def run() -> RunReport:
        if isinstance(runner, LiveRunner):
            return runner.save(call, saving)
        staged = runner or StagedRunner()
        if isinstance(elements, ConnectElements):
            return save_on_connect(staged, call, saving)
        return staged.save(call, saving)

    try:
        begun = saving.history.expanded is not None
        report = _run_and_commit(saving, run, raises=quarantine is None)
        if begun and not retry:  # after it, since an RDD that changes must not stand in the way of what was begun
            saving.check_same_elements(elements.collect())
    finally:
        saving.close()
    summary = _summary_of(saving, report, time.monotonic() - began)
    log.info("%s: %s; the log took %.2f s", call.name, summary, saving.log_seconds)
    return summary


def _run_and_commit(saving: Saving, run: Callable[[], RunReport], *, raises: bool) -> RunReport | None:
    """Run what is left to run and make it visible; return the report, None if nothing was left.

    Args:
        saving: the log and the sinks.
        run: runs what is not committed yet.
        raises: whether the first block that fails ends the run.
    """
    report = None
    if saving.over:
        for _, one in saving.targets.sinks:
            one.check_result(saving.targets.token)
        saving.clean()
        return None
    if saving.history.committing is None:
        if raises and saving.failures:
            raise InvalidValueError(
                f"save_sdf() without on_failure= cannot go on with this run: an earlier call has set "
                f"{count_of(len(saving.failures), 'block')} aside, the first is {show(saving.failures[0])}. Pass "
                f"on_failure=Quarantine() to go on without them; once it is done, retry_failed() runs them again. Or "
                f"give the run up with abort_save(), and begin anew."
            )
        try:
            report = run()
        except Exception:
            saving.check_alone()
            raise
    saving.finish()
    return report


def _summary_of(saving: Saving, report: RunReport | None, seconds: float) -> SaveSummary:
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

"""save_sdf: runs a DoFn to the end and makes the results visible at once, exactly once, whatever crashes on the way.

abort_save: gives such a run up before its end.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sdf.errors import JournalError
from sdf.journal.clock import Clock
from sdf.model.dofn import DoFn, ElementT, check_fn, check_tags
from sdf.quarantine.options import Quarantine, check_quarantine
from sdf.reporting.progress import RunProgress
from sdf.saving.history import History
from sdf.saving.outputs import checkpoint_of, sinks_by_output, told
from sdf.saving.run_log import RunLog
from sdf.sinks.sink import Sink, Token
from sdf.spark.door.hadoop import hadoop_files
from sdf.spark.jobs import unwound
from sdf.spark.live.runner import LiveRunner
from sdf.spark.row_elements import as_elements
from sdf.spark.saved_run import SaveSummary, run_saved
from sdf.spark.staged.runner import StagedRunner

if TYPE_CHECKING:
    from pyspark import RDD
    from pyspark.sql import DataFrame

__all__ = ["abort_save", "save_sdf"]


def save_sdf(
    elements: RDD[ElementT] | DataFrame,
    fn: DoFn[ElementT, Any],
    sink: Sink | Mapping[str, Sink],
    *,
    checkpoint: str | os.PathLike[str] | None = None,
    commit_seconds: float = 60.0,
    runner: StagedRunner | LiveRunner | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    element: Callable[[Any], Any] | None = None,
    on_failure: Quarantine | None = None,
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
        on_failure: as for `run_sdf`; the blocks that were set aside are in the summary.
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
    given = as_elements(elements, element, "save_sdf()")
    check_fn(fn, side_inputs, "save_sdf()")
    sinks = sinks_by_output(sink, check_tags(tags, "save_sdf()"), "save_sdf()")
    quarantine = check_quarantine(on_failure, "save_sdf()", tags=[name for name, _ in sinks])
    options = checkpoint, commit_seconds, runner, side_inputs, quarantine, progress
    try:
        return run_saved("save_sdf()", given, fn, sinks, *options)
    except Exception as error:
        raise (told := unwound(error, given)) from told.__cause__


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
    run_log = RunLog(
        checkpoint_of(checkpoint, sinks, "abort_save()", beyond=hadoop_files), driver=uuid.uuid4().hex, clock=Clock()
    )
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

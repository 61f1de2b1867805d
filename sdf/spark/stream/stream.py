"""stream_sdf: work without an end, in micro-batches. Checks arguments and handles signals; `micro_batches` runs it."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import DoFn, check_fn, check_tags
from sdf.model.each import as_dofn, followed_by
from sdf.numbers import as_integer, as_number, is_integer, is_number
from sdf.quarantine.failures import FailedBlock
from sdf.quarantine.options import check_quarantine
from sdf.reporting.html import write
from sdf.reporting.progress import StreamProgress
from sdf.reporting.stream_page import stream_page
from sdf.saving.outputs import sinks_by_output
from sdf.sinks.sink import Sink
from sdf.spark.display import display
from sdf.spark.door.hadoop import hadoop_files
from sdf.spark.elements import check_rdd
from sdf.spark.jobs import unwound
from sdf.spark.staged.rate_limits import shared_by_tasks
from sdf.spark.stream.batch import Batch, Pace
from sdf.spark.stream.given import given_to
from sdf.spark.stream.micro_batches import Stream
from sdf.storage.places import storage_at

__all__ = ["Batch", "StreamSummary", "stream_sdf"]


@attrs.frozen
class StreamSummary:
    """What a call of `stream_sdf` did.

    Attributes:
        batches: number of batches that it committed.
        records: number of records in these batches.
        watermark: the last watermark; None without estimators.
        done: whether all work has come to its end.
        lost: the latest 1000 losses, as texts; see ``fail_on_data_loss`` of the connectors.
        history: progress after each of the last 1000 batches; ``ended`` is False in all of them.
        late: how many records came late: with a time below the watermark that the stream had when their batch began.
        failures: the blocks that it set aside, with ``on_failure="quarantine"``.
    """

    batches: int
    records: int
    watermark: Any
    done: bool
    lost: tuple[str, ...] = ()
    history: tuple[StreamProgress, ...] = attrs.field(default=(), repr=False)
    late: int = 0
    failures: tuple[FailedBlock, ...] = ()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write what the batches did as a page for browsers: one file that needs no network.

        Raises:
            OSError: if it cannot be written.
        """
        write(path, stream_page(self.history))


def stream_sdf(
    rdd: RDD[Any],
    fns: DoFn | Callable[..., Any] | Sequence[DoFn | Callable[..., Any]],
    *,
    checkpoint: str | os.PathLike[str],
    foreach_batch: Callable[[Batch], Any] | None = None,
    sink: Sink | Mapping[str, Sink] | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    batch_seconds: float = 1.0,
    watermark_seconds: float | None = None,
    idle_seconds: float | None = None,
    max_batches: int | None = None,
    stop_when_idle: bool = False,
    max_items_per_batch: int | None = None,
    max_records_per_batch: int | None = None,
    max_bytes_per_batch: int | None = None,
    min_tasks: int | None = None,
    max_tasks: int | None = None,
    short_batches: str = "skip",
    on_failure: str = "raise",
    max_failures: int = 100,
    block_seconds: float | None = None,
    stop: threading.Event | None = None,
    wake: threading.Event | None = None,
    drain: bool = False,
    progress: bool | Callable[[StreamProgress], Any] | None = None,
) -> StreamSummary:
    """Run work that may have no end, batch after batch, until the caller or a signal stops it.

    In the main thread, SIGINT and SIGTERM end the stream after the current batch; a second one ends it at once.

    Args:
        rdd: the elements of a new stream. A resumed stream continues with its first elements. If the elements differ,
            the logger ``sdf.stream`` warns. One exception: the first DoFn only scans, as `WatchFiles` does, and as many
            elements were replaced, such as a changed pattern. Then its scans continue with the new elements, and skip
            the files that they have seen.
        fns: a DoFn, or a chain of them: the outputs of one are the elements of the next, in the same batch. A function
            that yields outputs for an element may stand in place of a DoFn. At the end of the chain, after a DoFn, it
            is called with each output as that is given, in the same task; elsewhere each element is planned alone.
        checkpoint: holds the journal of this stream, and nothing else: a directory on a disk that the driver sees, or a
            URL such as ``s3://bucket/state/app`` or ``hdfs://host/state/app``. Only the driver uses it.
        foreach_batch: called with each `Batch` that has records. A second call with the same batch key must have the
            same effect, for instance by writing ``out/{batch.key}`` with overwrite.
        sink: where the records of each batch go, each once (`sdf.sinks`): a sink that appends, such as a `DeltaTable`;
            with tags a mapping of "main" and each tag to its sink. One of ``foreach_batch`` and ``sink`` is needed.
        side_inputs: values by name, passed to each `process`, or function, of the chain that takes the name; an RDD is
            collected, and passed as a list. They may differ when a stream is resumed. If it died in the middle of a
            batch, the steps of that batch that had ended need the same ones as before.
        tags: names of further outputs, fed by ``yield TaggedOutput(name, value)`` in any DoFn of the chain. They may be
            left out if ``sink`` names them.
        batch_seconds: seconds that the tasks of a batch run before they split; also the least time between two starts.
        watermark_seconds: if only the watermark has moved, ``foreach_batch`` gets a batch without records to hear of
            it, at most every so many seconds. None: it does not hear of it, and the journal once a minute.
        idle_seconds: work that has read nothing for so long does not hold the watermark back. Its records may then come
            late, below the watermark; they are given all the same, and counted. None: all work holds the watermark.
        max_batches: return after this many committed batches.
        stop_when_idle: look at all work, deferred work included, and return when a batch has tried all due work and
            found nothing new.
        max_items_per_batch: most work items in a step of a batch; the others wait their turn. With it, each small
            element is a work item of its own, where else many are one.
        max_records_per_batch: about how many records a step of a batch gives at most: each task has an even share, and
            splits what it runs at the first claim after that. None for no limit but time.
        max_bytes_per_batch: the same in bytes of pickled records.
        min_tasks: fewest tasks of a step that has work for them; None: as many as Spark has slots.
        max_tasks: most tasks of a step; None: as many as Spark has slots, or ``min_tasks`` if that is more.
        short_batches: a batch that comes again after a crash may have fewer records than before, if data are gone and
            the DoFn has ``fail_on_data_loss=False``. ``"skip"``: ``foreach_batch`` does not get it, since to write it
            again would remove what is there. ``"give"``: it gets what is left, with the same key, and ``batch.lost``. A
            ``sink`` commits what it had written before; else it gets what is left. With ``"give"`` that also holds for
            a batch that has other records since its functions have changed.
        on_failure: ``"raise"``: the first block that fails ends the stream. ``"quarantine"``: the stream goes on, finds
            the block in the batches that follow, and sets it aside; what comes after it in the same element waits
            until then. The batch, the summary, the journal and a warning tell of it.
        max_failures: with quarantine: how many blocks this call may set aside.
        block_seconds: with quarantine: a block that gives neither a claim nor a record for so long has failed. None for
            no limit.
        stop: set it from another thread to end the stream after the batch.
        wake: set it from another thread to run deferred work at once, such as the next scan of `WatchFiles`; the
            stream clears it when it does so.
        drain: at the end, ask each DoFn's `DoFn.truncate` what is still to be done, do that, and close the journal.
        progress: a function that gets a `StreamProgress` after a batch, twice a second at most, in a thread of its own;
            True for a line of counts; None for that line if there is a terminal or a notebook, and tqdm is installed;
            False for none.

    Returns:
        What this call did.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments, before any job runs.
        MissingExtraError: if the library for the store of the checkpoint is not installed.
        JournalError: if the stream cannot be resumed from the journal, or another driver runs on it.
        TooManyFailuresError: if more than ``max_failures`` blocks fail; the stream can be resumed.
        StageError: if a Spark job fails, also one of the sink; or a batch's records are used when the batch is over. An
            RDD that `union` or `repartition` made of them raises Spark's own error then.
        SdfError: any other error of sdf. Other errors of the sink are raised as they are. The journal stays whole.
    """
    check_rdd(rdd, "stream_sdf()")
    chain = _chain(fns)
    names = check_tags(tags, "stream_sdf()")
    if foreach_batch is not None and not callable(foreach_batch):
        raise InvalidTypeError(f"stream_sdf() foreach_batch must be callable (got {show(foreach_batch)}).")
    sinks = _sinks(sink, foreach_batch, names)
    names = names or tuple(name for name, _ in sinks[1:])
    given = given_to(chain, side_inputs, names, "stream_sdf()")
    storage = storage_at(checkpoint, "stream_sdf() checkpoint", beyond=hadoop_files)
    for name, event in {"stop": stop, "wake": wake}.items():
        if event is not None and not isinstance(event, threading.Event):
            raise InvalidTypeError(f"stream_sdf() {name} must be a threading.Event, or None (got {show(event)}).")
    seconds = as_number(batch_seconds)
    if not is_number(seconds) or not 0 < seconds < 1e6:
        raise InvalidValueError(
            f"stream_sdf() batch_seconds must be a number > 0, below 1e6 (got {show(batch_seconds)})."
        )
    waits = {"watermark_seconds": as_number(watermark_seconds), "idle_seconds": as_number(idle_seconds)}
    for name, value in waits.items():
        if value is not None and (not is_number(value) or not 0 < value < 1e9):
            raise InvalidValueError(f"stream_sdf() {name} must be a number > 0, or None (got {show(value)}).")
    max_batches, max_items_per_batch = as_integer(max_batches), as_integer(max_items_per_batch)
    min_tasks, max_tasks = as_integer(min_tasks), as_integer(max_tasks)
    max_records, max_bytes = as_integer(max_records_per_batch), as_integer(max_bytes_per_batch)
    bounds = {"max_batches": max_batches, "max_items_per_batch": max_items_per_batch, "min_tasks": min_tasks}
    bounds |= {"max_records_per_batch": max_records, "max_bytes_per_batch": max_bytes}
    for name, value in {**bounds, "max_tasks": max_tasks}.items():
        if value is not None and (not is_integer(value) or value < 1):
            raise InvalidValueError(f"stream_sdf() {name} must be an integer >= 1, or None (got {show(value)}).")
    if min_tasks is not None and max_tasks is not None and min_tasks > max_tasks:
        raise InvalidValueError(f"stream_sdf() min_tasks must be <= max_tasks (got {min_tasks} and {max_tasks}).")
    if short_batches not in ("skip", "give"):
        raise InvalidValueError(f"stream_sdf() short_batches must be 'skip' or 'give' (got {show(short_batches)}).")
    quarantine = check_quarantine(on_failure, max_failures, block_seconds, "stream_sdf()", tags=())
    paced = [
        shared_by_tasks(share, max_tasks, rdd.context, "stream_sdf()", least=min_tasks or 1)
        for share in given.side_inputs
    ]
    given = attrs.evolve(given, side_inputs=tuple(paced))
    shown = display(progress, "stream_sdf()")
    stopped = threading.Event() if stop is None else stop
    with _signals(stopped):
        pace = Pace(
            batch_seconds=float(seconds),
            max_items=max_items_per_batch,
            max_records=math.inf if max_records is None else max_records,
            max_bytes=math.inf if max_bytes is None else max_bytes,
            min_tasks=min_tasks,
            max_tasks=max_tasks,
            **waits,
        )
        skips_short = short_batches == "skip"
        stream = Stream(rdd.context, chain, storage, foreach_batch, sinks, given, pace, shown, skips_short, quarantine)
        try:
            stream.checkpoint.begin(rdd)
            stream.changes.take_elements(rdd)
            woken = threading.Event() if wake is None else wake
            stream.run(stopped, woken, max_batches, stop_when_idle)
            if drain:
                stream.drain(woken)
            last = stream.checkpoint
            return StreamSummary(
                stream.batches,
                stream.records,
                last.watermark,
                last.done,
                tuple(stream.losses.told),
                tuple(stream.history),
                stream.late,
                tuple(stream.failures),
            )
        except Exception as error:
            raise (told := unwound(error, rdd)) from told.__cause__
        finally:
            stream.close()


def _chain(fns: Any) -> list[DoFn]:
    """Return the DoFns of a chain. Functions are made into DoFns; those at its end become part of the last DoFn.

    That one may give millions of outputs, such as lines, in an order that counts. But the outputs of a scan are few,
    and its DoFn runs on the driver.
    """
    chain = list(fns) if isinstance(fns, Sequence) else [fns] if _is_step(fns) else []
    if not chain:
        raise InvalidTypeError(f"stream_sdf() needs a DoFn or a sequence of them (got {show(fns)}).")
    for fn in chain:
        if not _is_step(fn):
            check_fn(fn, None, "stream_sdf()")
    last = max((number for number, fn in enumerate(chain) if isinstance(fn, DoFn)), default=None)
    if last is not None and last + 1 < len(chain) and not chain[last].scans:
        chain[last:] = [followed_by(chain[last], chain[last + 1 :])]
    return [fn if isinstance(fn, DoFn) else as_dofn(fn) for fn in chain]


def _is_step(fn: Any) -> bool:
    return isinstance(fn, DoFn) or (callable(fn) and not isinstance(fn, type))


def _sinks(sink: Any, foreach_batch: Any, tags: tuple[str, ...]) -> list[tuple[str, Sink]]:
    if sink is None:
        if foreach_batch is None:
            raise InvalidTypeError(
                "stream_sdf() needs foreach_batch=, a function that gets each batch, or sink=, such as "
                "sdf.sinks.DeltaTable('/tables/events')."
            )
        return []
    sinks = sinks_by_output(sink, tags, "stream_sdf()")
    for _, one in sinks:
        if not one.appends:
            raise InvalidValueError(
                f"stream_sdf() sink must be one that appends, batch after batch (got {show(one)}, which is committed "
                f"once). Use a table, such as DeltaTable or SqlTable, or foreach_batch= with a directory per batch."
            )
    return sinks


@contextlib.contextmanager
def _signals(stopped: threading.Event) -> Iterator[None]:
    """Let the first SIGINT or SIGTERM set an event, and pass a second one to the previous handler."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def stop(number: int, frame: Any) -> None:
        stopped.set()
        signal.signal(number, before[signal.Signals(number)])

    for number in before:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

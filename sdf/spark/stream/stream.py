"""stream_sdf: work without an end, in micro-batches. Checks arguments and handles signals; `micro_batches` runs it."""

from __future__ import annotations

import contextlib
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
from sdf.quarantine.failures import FailedBlock
from sdf.quarantine.options import Quarantine, check_quarantine
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
from sdf.spark.stream.batch import Batch
from sdf.spark.stream.given import given_to
from sdf.spark.stream.micro_batches import Stream
from sdf.spark.stream.options import Pace, Until
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
        failures: the blocks that it set aside, with ``on_failure=Quarantine()``.
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
    elements: RDD[Any],
    fns: DoFn | Callable[..., Any] | Sequence[DoFn | Callable[..., Any]],
    sink: Sink | Mapping[str, Sink] | None = None,
    *,
    checkpoint: str | os.PathLike[str],
    foreach_batch: Callable[[Batch], Any] | None = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    pace: Pace | None = None,
    until: Until | None = None,
    short_batches: str = "skip",
    on_failure: Quarantine | None = None,
    progress: bool | Callable[[StreamProgress], Any] | None = None,
) -> StreamSummary:
    """Run work that may have no end, batch after batch, until the caller or a signal stops it.

    In the main thread, SIGINT and SIGTERM end the stream after the current batch; a second one ends it at once.

    Args:
        elements: an RDD of those of a new stream. A resumed stream continues with its first elements. If the elements
            differ, the logger ``sdf.stream`` warns. One exception: the first DoFn only scans, as `WatchFiles` does, and
            as many elements were replaced, such as a changed pattern. Then its scans continue with the new elements,
            and skip the files that they have seen.
        fns: a DoFn, or a chain of them: the outputs of one are the elements of the next, in the same batch. A function
            that yields outputs for an element may stand in place of a DoFn. At the end of the chain, after a DoFn, it
            is called with each output as that is given, in the same task; elsewhere each element is planned alone.
        sink: where the records of each batch go, each once (`sdf.sinks`): a sink that appends, such as a `DeltaTable`;
            with tags a mapping of "main" and each tag to its sink. One of ``foreach_batch`` and ``sink`` is needed.
        checkpoint: holds the journal of this stream, and nothing else: a directory on a disk that the driver sees, or a
            URL such as ``s3://bucket/state/app`` or ``hdfs://host/state/app``. Only the driver uses it.
        foreach_batch: called with each `Batch` that has records. A second call with the same batch key must have the
            same effect, for instance by writing ``out/{batch.key}`` with overwrite.
        side_inputs: values by name, passed to each `process`, or function, of the chain that takes the name; an RDD is
            collected, and passed as a list. They may differ when a stream is resumed. If it died in the middle of a
            batch, the steps of that batch that had ended need the same ones as before.
        tags: names of further outputs, fed by ``yield TaggedOutput(name, value)`` in any DoFn of the chain. They may be
            left out if ``sink`` names them.
        pace: how large the batches are, and how they follow each other: a `Pace`; None for one with its defaults.
        until: when this call ends: an `Until`; None: when a signal stops it.
        short_batches: a batch that comes again after a crash may have fewer records than before, if data are gone and
            the DoFn has ``fail_on_data_loss=False``. ``"skip"``: ``foreach_batch`` does not get it, since to write it
            again would remove what is there. ``"give"``: it gets what is left, with the same key, and ``batch.lost``. A
            ``sink`` commits what it had written before; else it gets what is left. With ``"give"`` that also holds for
            a batch that has other records since its functions have changed.
        on_failure: None: the first block that fails ends the stream. A `Quarantine`: the stream goes on, finds the
            block in the batches that follow, and sets it aside; what comes after it in the same element waits until
            then. The batch, the summary, the journal and a warning tell of it.
        progress: a function that gets a `StreamProgress` after a batch, twice a second at most, in a thread of its own;
            True for a line of counts; None for that line if there is a terminal or a notebook, and tqdm is installed;
            False for none.

    Returns:
        What this call did.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments, before any job runs.
        MissingExtraError: if the library for the store of the checkpoint is not installed.
        JournalError: if the stream cannot be resumed from the journal, or another driver runs on it.
        TooManyFailuresError: if more blocks fail than a quarantine allows; the stream can be resumed.
        StageError: if a Spark job fails, also one of the sink; or a batch's records are used when the batch is over. An
            RDD that `union` or `repartition` made of them raises Spark's own error then.
        SdfError: any other error of sdf. Other errors of the sink are raised as they are. The journal stays whole.
    """
    check_rdd(elements, "stream_sdf()")
    chain = _chain(fns)
    names = check_tags(tags, "stream_sdf()")
    if foreach_batch is not None and not callable(foreach_batch):
        raise InvalidTypeError(f"stream_sdf() foreach_batch must be callable (got {show(foreach_batch)}).")
    sinks = _sinks(sink, foreach_batch, names)
    names = names or tuple(name for name, _ in sinks[1:])
    given = given_to(chain, side_inputs, names, "stream_sdf()")
    storage = storage_at(checkpoint, "stream_sdf() checkpoint", beyond=hadoop_files)
    for kind, one in {Pace: pace, Until: until}.items():
        if one is not None and not isinstance(one, kind):
            name = kind.__name__
            raise InvalidTypeError(f"stream_sdf() {name.lower()} must be of class {name}, or None (got {show(one)}).")
    pace, until = pace or Pace(), until or Until()
    if short_batches not in ("skip", "give"):
        raise InvalidValueError(f"stream_sdf() short_batches must be 'skip' or 'give' (got {show(short_batches)}).")
    quarantine = check_quarantine(on_failure, "stream_sdf()", tags=())
    paced = [
        shared_by_tasks(share, pace.max_tasks, elements.context, "stream_sdf() pace", least=pace.min_tasks or 1)
        for share in given.side_inputs
    ]
    given = attrs.evolve(given, side_inputs=tuple(paced))
    shown = display(progress, "stream_sdf()")
    stopped = until.stop or threading.Event()
    with _signals(stopped):
        skips_short = short_batches == "skip"
        outlets = foreach_batch, sinks, given
        stream = Stream(elements.context, chain, storage, *outlets, pace, shown, skips_short, quarantine)
        try:
            stream.checkpoint.begin(elements)
            stream.changes.take_elements(elements)
            stream.run(stopped, until)
            if until.drain:
                stream.drain()
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
            raise (told := unwound(error, elements)) from told.__cause__
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

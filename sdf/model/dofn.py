"""DoFn, which a user subclasses, and TaggedOutput, which `process` yields for an output other than the main one."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NoReturn, TypeVar

from sdf.errors import InvalidTypeError, InvalidValueError, OutputError, blame, show
from sdf.limits.rate_limit import RateLimit
from sdf.model.byte_key_tracker import ByteKeyRangeTracker
from sdf.model.forks import alone
from sdf.model.offset_trackers import GrowableOffsetRangeTracker, OffsetRangeTracker
from sdf.model.restrictions import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.model.trackers import RestrictionTracker
from sdf.model.watermarks import WatermarkEstimator

if TYPE_CHECKING:  # a subclass need not name its types: type checkers then take Any
    from typing_extensions import TypeVar as WithDefault

    ElementT = WithDefault("ElementT", contravariant=True, default=Any)
    OutT = WithDefault("OutT", covariant=True, default=Any)
else:
    ElementT = TypeVar("ElementT", contravariant=True)
    OutT = TypeVar("OutT", covariant=True)

__all__ = ["DoFn", "ElementT", "OutT", "TaggedOutput", "call_hook", "check_fn", "check_tags"]


class DoFn(ABC, Generic[ElementT, OutT]):
    """Work that can be split while it runs. Two methods are required, the rest have defaults.

    A subclass may name the types of its elements and of its outputs, as in ``class Lines(DoFn[str, bytes])``; type
    checkers then know those of a run.

    The driver pickles an instance. Each Python worker has one copy, which runs many work items, one at a time. A
    subclass need not call ``super().__init__()``: the base class stores nothing. Open clients in `setup`, not in
    ``__init__``: they do not pickle. `process` must be deterministic for a given element and restriction, because
    Spark may run a part again.

    Attributes:
        scans: whether `process` only looks for new elements. The driver of a stream then runs work that has no end,
            after `setup`, in a thread beside the batches. What it claims must hold all that it found: a batch runs the
            claimed part again, which yields it without another scan.
        keeps_setup: with ``on_failure=Quarantine()``, whether an instance goes on when its `process` has raised. False:
            another process sets one up, as Beam does. Choose that if an error may leave it broken for good.
    """

    scans: ClassVar[bool] = False
    keeps_setup: ClassVar[bool] = True

    @abstractmethod
    def get_initial_restriction(self, element: ElementT) -> Any:
        """Return all the work of an element. Called on a worker, once per element.

        Returns:
            An `OffsetRange`, a ``(start, stop)`` tuple of integers, a `ByteKeyRange`, or a value of your own (see
            `sdf.model.restrictions`); your own value also needs `create_tracker`.
        """

    @abstractmethod
    def process(
        self, element: ElementT, tracker: Any, *args: Any, **side_inputs: Any
    ) -> Iterable[OutT | TaggedOutput] | None:
        """Yield the outputs of one part of an element: claim a block, yield what is in it, and so on.

        A generator function, or one that returns an iterable. Called on a worker, once per work item and attempt.
        Between claims a runner may shorten ``tracker.current_restriction()``; `try_claim` then refuses what was cut
        off. Yield nothing before the first claim or after a refused one, and claim or defer everything. After a loop
        over ``tracker.claims()`` a part may give a partial result, if a later step combines those of all parts. Do not
        read all that lies before the restriction: the cost of a part must not depend on where it starts.

        Args:
            element: the input.
            tracker: the view of a tracker: ``try_claim(position)``, ``current_restriction()``,
                ``defer_remainder(delay_seconds)``, ``is_bounded()``, ``watermark``, and for the built-in trackers the
                RangeTracker words.
            args: never given; declared so that type checkers accept a `process` with fewer parameters.
            side_inputs: as given to the runner, by name.
        """

    def split_restriction(self, element: ElementT, restriction: Any) -> Iterable[Any]:
        """Yield parts of the initial restriction, in order, that add up to it. Called on a worker, once per element.

        A runner splits further at run time; this method is for the boundaries that only the author knows.
        """
        yield restriction

    def create_tracker(self, element: ElementT, restriction: Any) -> RestrictionTracker:
        """Return a new tracker. Called on a worker per attempt, and on the driver to plan: it must not need `setup`."""
        if isinstance(restriction, OffsetRange):
            growing = restriction.stop is UNBOUNDED
            return GrowableOffsetRangeTracker(restriction) if growing else OffsetRangeTracker(restriction)
        if isinstance(restriction, ByteKeyRange):
            return ByteKeyRangeTracker(restriction)
        raise InvalidTypeError(
            f"{type(self).__name__} has no tracker for a restriction of type {type(restriction).__name__} "
            f"(got {show(restriction)} for element {show(element)}). Override create_tracker(element, restriction), or "
            f"use OffsetRange or ByteKeyRange."
        )

    def restriction_size(self, element: ElementT, restriction: Any) -> float | None:
        """Return the work in a restriction, finite and >= 0, in any consistent unit, or None if unknown.

        The default is the ``remaining`` of a new tracker. Called on workers and on the driver, also concurrently: it
        must not need `setup`.
        """
        return self.create_tracker(element, restriction).progress().remaining

    def remark(self, element: ElementT, restriction: Any) -> str | None:
        """Return a remark on an element for the report of the run, such as why it cannot be split, or None.

        Called on a worker, once per element, with its initial restriction.
        """
        return None

    def truncate(self, element: ElementT, restriction: Any) -> Any:
        """Return the part of a restriction that is still to be done when a stream is drained, or None.

        Called on the driver, after `setup`. The default keeps finite work and drops work without an end.
        """
        return restriction if self.create_tracker(element, restriction).is_bounded() else None

    def peek(self, element: ElementT, restriction: Any) -> Any:
        """Return a small value that changes when there is news for deferred work; None, the default, if unknown.

        Called on the driver in streams, after `setup`, when deferred work is due. If the value is what it was before
        the work was last run, the work is not run, and waits as long again: so a quiet source costs microseconds. Time
        that passes is no news: where it matters, return None.
        """
        return None

    def backlog(self, element: ElementT, restriction: Any) -> tuple[int | None, int | None]:
        """Return how many records, and how many bytes, of some work are there to be read; None for what is not known.

        Called on the driver in streams, after `setup`, every few seconds. The default knows neither.
        """
        return None, None

    def split_backlog(self, element: ElementT, restriction: Any, parts: int, length: int | None) -> Sequence[Any]:
        """Divide work without an end, so that several tasks read what is there at once.

        Called on the driver in streams, after `setup`, if a task had too little time for all that was there. A batch
        has the parts up to the first that was not read whole: what was read after that one is dropped, and read again.

        Args:
            element: the element.
            restriction: integer positions from its ``start`` on.
            parts: the most parts to return, 2 or more.
            length: positions that a task reads in a batch, so the length of each part but the last; None if that is not
                known yet: then divide what is there evenly.

        Returns:
            Restrictions in order; the first starts where ``restriction`` does, the last has no end. Each other one
            stops where the next one starts. Or it has no end either, and `process` defers its remainder, for no time,
            when it has claimed all before the start of the next one: where what comes next is known only by reading.
            Only ``restriction``, the default, if it is not worth dividing.
        """
        return (restriction,)

    def create_watermark_estimator(self, element: ElementT, restriction: Any) -> WatermarkEstimator | None:
        """Return the estimator that `process` reaches as ``tracker.watermark``; the default is none."""
        return None

    def setup(self) -> None:
        """Open what the DoFn needs. Called once per Python worker, before anything else there.

        With ``on_failure=Quarantine()``, once in each process that a Python worker starts for attempts, too.
        """

    def teardown(self) -> None:
        """Close what `setup` opened, such as connections.

        Best effort: it runs when a Python worker exits by itself or has served eight newer runs. It does not run in the
        idle workers that Spark kills at the end of an application, so leave no work to it that must be done. It runs
        only in the process that ran `setup`, not in processes that `process` forks.
        """

    def start_bundle(self) -> None:
        """Called on a worker before the first work item of each task.

        With ``on_failure=Quarantine()`` the task before may have failed in `process`: clear here what that may have
        left in fields, or set `keeps_setup` to False.
        """

    def finish_bundle(self) -> None:
        """Called on a worker after the last work item of each task. It returns None: it cannot output."""

    def on_commit(self, element: ElementT, restriction: Any) -> None:
        """Called on the driver in streams, at least once, after the batch that holds this part is committed.

        `setup` is called on the driver first.
        """


class TaggedOutput:
    """An output for the tag ``tag`` instead of the main output; yield it from `process`.

    The tag must be declared: ``run_sdf(..., tags=("bad",))``. A TaggedOutput is a message to the runner, not a record.
    So it refuses to be pickled, which catches an undeclared tag before the output leaves the process.

    Attributes:
        declared: the tags that `process` may use, set only in a lane: the user's own functions get its records before
            they leave the process. None where the runner looks at each record anyway.
    """

    __slots__ = ("tag", "value")

    declared: ClassVar[tuple[str, ...] | None] = None

    def __init__(self, tag: str, value: Any) -> None:
        self.tag = tag
        self.value = value
        if self.declared is not None:
            self.check(self.declared)

    def check(self, declared: tuple[str, ...], who: str = "process()") -> None:
        """Raise OutputError unless the tag is declared; ``who`` names the method that gave the output."""
        if self.tag not in declared:
            raise OutputError(
                f"{who} gave {show(self)}, but the declared tags are {show(declared)}. "
                f"Pass tags=({self.tag!r}, ...) to the runner."
            )

    def __repr__(self) -> str:
        return f"TaggedOutput({self.tag!r}, {self.value!r})"

    def __reduce__(self) -> NoReturn:
        raise OutputError(
            f"process() gave {show(self)}, but no tags are declared. Pass tags=({self.tag!r},) to the runner."
        )


def check_fn(fn: Any, side_inputs: Mapping[str, Any] | None, who: str) -> None:
    """Raise unless ``fn`` is a DoFn instance whose `process` takes these side inputs; called before any job.

    Raises:
        InvalidTypeError: the message names ``who``, the wrong value and how to fix it.
    """
    if isinstance(fn, type) and issubclass(fn, DoFn):
        raise InvalidTypeError(
            f"{who} needs an instance of a DoFn: pass {fn.__name__}() (got the class {fn.__name__})."
        )
    if not isinstance(fn, DoFn):
        raise InvalidTypeError(
            f"{who} needs a DoFn (got {show(fn)}). Subclass sdf.DoFn with get_initial_restriction() and process()."
        )
    limit = next((name for name, value in vars(fn).items() if isinstance(value, RateLimit)), None)
    if limit is not None:
        raise InvalidTypeError(
            f"{type(fn).__name__}.{limit} is a RateLimit, and no run paces one in a DoFn. Pass it as a side input, "
            f"side_inputs={{{limit!r}: RateLimit(...)}}, and take it in process(element, tracker, {limit})."
        )
    if side_inputs is not None and not isinstance(side_inputs, Mapping):
        raise InvalidTypeError(f"{who} side_inputs must map names to values (got {show(side_inputs)}).")
    names = list(side_inputs or ())
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"{who} side_inputs must map names to values (got the keys {show(names)}).")
    try:
        inspect.signature(fn.process).bind(None, None, **dict.fromkeys(names))
    except TypeError as error:
        call = ", ".join(["element", "tracker", *(f"{name}=" for name in names)])
        raise InvalidTypeError(
            f"{type(fn).__name__}.process() cannot be called as process({call}): {error}. Its signature is "
            f"process{inspect.signature(fn.process)}."
        ) from None


def check_tags(tags: Any, who: str) -> tuple[str, ...]:
    """Return the declared tags as a tuple; raise unless they are distinct names other than "main"."""
    if isinstance(tags, str) or not isinstance(tags, Iterable):
        raise InvalidTypeError(f"{who} tags must be a tuple of names (got {show(tags)}); one tag is tags=('bad',).")
    names = tuple(tags)
    if not all(isinstance(name, str) for name in names):
        raise InvalidTypeError(f"{who} tags must be names (got {show(names)}).")
    if len({"main", *names}) != len(names) + 1:
        raise InvalidValueError(f"{who} tags must be distinct names, none of them 'main' (got {show(names)}).")
    return names


def call_hook(fn: DoFn, name: str) -> None:
    """Call ``setup``, ``teardown``, ``start_bundle`` or ``finish_bundle``.

    Raises:
        OutputError: if it returns something, since none of them can output.
        ProcessError: if it raises.
    """
    with blame(lambda: f"{type(fn).__name__}.{name}()"), alone():
        given = getattr(fn, name)()
        if given is not None:
            raise OutputError(f"it must return None, it cannot output (got {show(given)})")

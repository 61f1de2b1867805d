"""from_beam: runs a splittable DoFn of Apache Beam, unchanged. Beam is imported when it is first needed.

Beam takes a tracker's word for a split, a run here proves that nothing was lost: Beam's OffsetRange becomes ours, and
any other restriction a `BeamRestriction`, which knows which part it is. Some of Beam's trackers change the restriction
that they were given; so they get copies, and copies leave them.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import threading
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import attrs
import cloudpickle

from sdf.dofn import DoFn, TaggedOutput
from sdf.errors import (
    ClaimError,
    DeferError,
    InvalidTypeError,
    MissingExtraError,
    OutputError,
    UnclaimedWorkError,
    show,
)
from sdf.restrictions import OffsetRange
from sdf.trackers import Progress, RestrictionTracker
from sdf.watermarks import WatermarkEstimator

__all__ = ["BeamRestriction", "from_beam"]

_asking = threading.local()  # .live: current_restriction() is called for process(), which gets Beam's own, no copy


def from_beam(dofn: Any) -> DoFn:
    """Return a DoFn that does what a splittable DoFn of Beam does; for every runner, and for `check_dofn`.

    Timestamps and windows end here: of a TimestampedValue or WindowedValue the value is the output, and its timestamp
    goes to the watermark estimator. Elements have no timestamp, Beam's MIN_TIMESTAMP, and lie in the global window.
    Side inputs are given to the runner by the names that they have in ``process``. Restrictions are pickled; a
    restriction_coder is not used.

    Args:
        dofn: an instance of a Beam DoFn whose ``process`` has a ``RestrictionParam``. It must pickle.

    Returns:
        The DoFn, under the name of the class of ``dofn``.

    Raises:
        MissingExtraError: if Beam is not installed.
        InvalidTypeError: if it is no splittable DoFn, or one of its methods has a parameter that only Beam's own
            runners can fill: state, timers, bundle finalizers, contexts.

    Source: RestrictionProvider, RestrictionTracker and sdf_utils of Apache Beam's Python SDK.
    """
    if not isinstance(dofn, _beam().DoFn):
        raise InvalidTypeError(f"from_beam() needs an instance of an apache_beam.DoFn (got {show(dofn)}).")
    arguments = _Arguments(dofn)

    def process(self: _BeamDoFn, element: Any, tracker: Any, **side_inputs: Any) -> Any:
        return self.run(element, tracker, side_inputs)

    process.__signature__ = arguments.signature  # type: ignore[attr-defined]  # runners check side inputs by it
    kind = type(type(dofn).__name__, (_BeamDoFn,), {"__doc__": type(dofn).__doc__, "process": process})
    return kind(dofn, arguments)  # type: ignore[no-any-return]


@attrs.frozen
class BeamRestriction:
    """A restriction of Beam's that is no OffsetRange, and which part of the work of its element it is.

    Attributes:
        value: Beam's restriction.
        start: the start of ``value``, if that has start and stop. Otherwise the whole goes from 0 to 1, and each split
            puts a number between: order and completeness show in them.
        stop: likewise.
    """

    value: Any = attrs.field(eq=False)  # many of Beam's have no __eq__
    start: Any
    stop: Any


class _BeamDoFn(DoFn):
    """What the DoFns that `from_beam` makes have in common."""

    def __init__(self, dofn: Any, arguments: _Arguments) -> None:
        self._dofn = dofn
        self._arguments = arguments
        self.provider = arguments.restrictions
        self.unbounded = getattr(dofn.process, "unbounded_per_element", False)

    def __reduce__(self) -> Any:  # its class is made by from_beam()
        return from_beam, (self._dofn,)

    def get_initial_restriction(self, element: Any) -> Any:
        value = self.provider.initial_restriction(element)
        return None if value is None else _to_ours(_weighed(value), Fraction(0), Fraction(1))

    def split_restriction(self, element: Any, restriction: Any) -> Iterable[Any]:
        values = [part for part, _ in self.provider.split_and_size(element, _to_beam(restriction))]
        many = len(values)  # none is how Beam says that nothing is to be done
        parts = [_to_ours(value, Fraction(at, many), Fraction(at + 1, many)) for at, value in enumerate(values)]
        return parts or [restriction]

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return _Tracker(self, element, restriction)

    def restriction_size(self, element: Any, restriction: Any) -> float | None:
        size: float | None = self.provider.restriction_size(element, _to_beam(restriction))
        return size

    def truncate(self, element: Any, restriction: Any) -> Any:
        value = self.provider.truncate(element, _to_beam(restriction))
        return None if value is None else _to_ours(value, *_ends(restriction))

    def create_watermark_estimator(self, element: Any, restriction: Any) -> WatermarkEstimator | None:
        provider = self._arguments.watermarks
        if provider is None:
            return None
        return _Estimator(provider, provider.initial_estimator_state(element, _to_beam(restriction)))

    def setup(self) -> None:
        self._dofn.setup()

    def teardown(self) -> None:
        self._dofn.teardown()

    def start_bundle(self) -> None:
        _no_outputs(self._dofn.start_bundle())

    def finish_bundle(self) -> None:
        _no_outputs(self._dofn.finish_bundle())

    def run(self, element: Any, tracker: Any, side_inputs: dict[str, Any]) -> Any:
        """Call Beam's process() and return its outputs as ours."""
        estimator = None if tracker.watermark is None else tracker.watermark.beam
        outputs = self._dofn.process(**self._arguments.fill(element, _view()(tracker), estimator), **side_inputs)
        if not isinstance(outputs, Iterable) or isinstance(outputs, (str, bytes, dict)):
            return outputs  # None, or what the runner refuses
        return _plain(outputs, None if estimator is None else estimator.observe_timestamp)


class _Tracker(RestrictionTracker):
    """Beam's tracker behind our interface; the runner brings the lock."""

    def __init__(self, fn: _BeamDoFn, element: Any, restriction: Any) -> None:
        self._fn = fn
        self._element = element
        self._restriction = restriction
        self._start, self._stop = _ends(restriction)
        self._beam = self._track(restriction)
        self._reads_source = hasattr(self._beam.current_restriction(), "range_tracker")
        self._claimed = False

    def _track(self, restriction: Any) -> Any:
        return self._fn.provider.create_tracker(copy.deepcopy(_to_beam(restriction)))

    def current_restriction(self) -> Any:
        value = self._beam.current_restriction()
        return value if getattr(_asking, "live", False) else _to_ours(value, self._start, self._stop)

    def try_claim(self, position: Any) -> bool:
        self._claimed = True
        try:
            return bool(self._beam.try_claim(position))
        except ValueError as error:  # how Beam's trackers say that a claim breaks a rule
            raise ClaimError(str(error)) from error

    def try_split(self, fraction_of_remainder: float | Fraction) -> tuple[Any, Any] | None:
        fraction = float(fraction_of_remainder)
        if not self._claimed and not isinstance(self._restriction, OffsetRange):
            return self._split_unclaimed(fraction)
        # A RangeTracker cannot be cut where it stands, which is at 0; a little ahead it can.
        ahead = [2.0**power for power in range(-30, 0, 3)] if self._reads_source and not fraction else []
        for share in [fraction, *ahead]:
            split = self._beam.try_split(share)
            if split:  # not None, nor False as UnsplittableRestrictionTracker has it
                pair = self._parts(split)
                self._stop = _ends(pair[0])[1]
                return pair
        return None

    def _split_unclaimed(self, fraction: float) -> tuple[Any, Any] | None:
        """Cut what nobody has started, to plan. Beam has no rules for that: only where both sides show work is it done.

        A tracker of its own is cut, so that this one stays as it is if nothing comes of it.
        """
        other = self._track(self._restriction)
        if self._reads_source:  # cannot be cut before its first claim
            ranges = other.current_restriction().range_tracker()
            if ranges.start_position() is None or not ranges.try_claim(ranges.start_position()):
                return None
        split = other.try_split(fraction)
        if not split:
            return None
        pair = self._parts(split)
        whole, front, rest = (self._fn.restriction_size(self._element, part) for part in (self._restriction, *pair))
        if not (whole and front and rest and math.isclose(whole, front + rest)):
            return None
        self._restriction, self._stop, self._beam = pair[0], _ends(pair[0])[1], self._track(pair[0])
        return pair

    def _parts(self, split: tuple[Any, Any]) -> tuple[Any, Any]:
        primary, residual = split
        middle = _between(self._start, self._stop)
        return _to_ours(primary, self._start, middle), _to_ours(residual, middle, self._stop)

    def check_done(self) -> None:
        try:
            done = self._beam.check_done()
        except ValueError as error:
            raise UnclaimedWorkError(f"{error} Claim until try_claim() is False, or defer_remainder().") from error
        # Documented are True and raising, but a BoundedSource's is False after every read, and says nothing.
        if done is False and not self._reads_source:
            raise UnclaimedWorkError(f"check_done() of {show(self._beam)} is False. Claim until try_claim() is False.")

    def progress(self) -> Progress:
        try:
            progress = self._beam.current_progress()
            done, left = float(progress.completed_work), float(progress.remaining_work)
        except (NotImplementedError, TypeError):  # the latter is how Beam's RestrictionProgress says "unknown"
            return Progress(0, None)
        return Progress(max(0.0, done), max(0.0, left) if math.isfinite(left) else None)

    def is_bounded(self) -> bool:
        try:
            return bool(self._beam.is_bounded())
        except NotImplementedError:
            return not self._fn.unbounded


class _Estimator(WatermarkEstimator):
    """Beam's estimator behind our interface; its state travels pickled, since it may be anything."""

    def __init__(self, provider: Any, state: Any) -> None:
        self._provider = provider
        self._begin(state)

    def _begin(self, state: Any) -> None:
        beam = _beam()
        estimator = self._provider.create_watermark_estimator(state)
        if state is None and isinstance(estimator, beam.io.watermark_estimators.MonotonicWatermarkEstimator):
            # Beam's own provider begins with None, to which the first timestamp cannot be compared.
            estimator = self._provider.create_watermark_estimator(beam.utils.timestamp.MIN_TIMESTAMP)
        self.beam = beam.runners.sdf_utils.ThreadsafeWatermarkEstimator(estimator)

    def current(self) -> float:
        """Return seconds since the epoch; where Beam's is None, the lowest that Beam has."""
        watermark = self.beam.current_watermark()
        return float(_beam().utils.timestamp.MIN_TIMESTAMP if watermark is None else watermark)

    def state(self) -> bytes:
        pickled: bytes = cloudpickle.dumps(self.beam.get_estimator_state())
        return pickled

    def restore(self, state: bytes) -> None:
        self._begin(cloudpickle.loads(state))


class _Arguments:
    """What the parameters of a Beam DoFn ask for.

    Attributes:
        restrictions: its RestrictionProvider.
        watermarks: its WatermarkEstimatorProvider, or None.
        signature: that of our `process`, with its side inputs.
    """

    def __init__(self, dofn: Any) -> None:
        kinds, core = _beam().DoFn, _beam().transforms.core
        self.restrictions: Any = None
        self.watermarks: Any = None
        self._fill: dict[str, Callable[[Any, Any, Any], Any]] = {}
        side_inputs = []
        given = list(inspect.signature(dofn.process).parameters.values())
        if kinds.ElementParam not in [one.default for one in given]:
            self._fill[given.pop(0).name] = _FILLERS["ElementParam"]
        for one in given:
            default = one.default
            if isinstance(default, kinds.RestrictionParam):
                self.restrictions = _provider(dofn, default.restriction_provider, core.RestrictionProvider)
                self._fill[one.name] = lambda element, view, estimator: view
            elif isinstance(default, kinds.WatermarkEstimatorParam):
                chosen = default.watermark_estimator_provider
                self.watermarks = _provider(dofn, chosen, core.WatermarkEstimatorProvider)
                self._fill[one.name] = lambda element, view, estimator: estimator
            elif getattr(default, "param_id", None) in _FILLERS:
                self._fill[one.name] = _FILLERS[default.param_id]
            elif one.kind is one.VAR_KEYWORD:
                side_inputs.append(one)
            elif one.kind is not one.VAR_POSITIONAL:
                _refuse_param(dofn, "process", one)
                default = one.empty if default == kinds.SideInputParam else default
                side_inputs.append(one.replace(kind=one.KEYWORD_ONLY, default=default, annotation=one.empty))
        if self.restrictions is None:
            raise InvalidTypeError(
                f"from_beam() needs a splittable DoFn, one with a RestrictionParam (got {type(dofn).__name__}.process"
                f"{inspect.signature(dofn.process)}). Call what is not splittable from rdd.flatMap()."
            )
        for method in ("setup", "start_bundle", "finish_bundle", "teardown"):
            for one in inspect.signature(getattr(dofn, method)).parameters.values():
                _refuse_param(dofn, method, one)
        own = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in ("self", "element", "tracker")]
        self.signature = inspect.Signature([*own, *side_inputs])

    def fill(self, element: Any, view: Any, estimator: Any) -> dict[str, Any]:
        """Return the arguments of process() that are not side inputs."""
        return {name: filler(element, view, estimator) for name, filler in self._fill.items()}


_FILLERS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "ElementParam": lambda element, *_: element,
    "KeyParam": lambda element, *_: element[0],
    "TimestampParam": lambda *_: _beam().utils.timestamp.MIN_TIMESTAMP,
    "WindowParam": lambda *_: _beam().transforms.window.GlobalWindow(),
    "PaneInfoParam": lambda *_: _beam().utils.windowed_value.PANE_INFO_UNKNOWN,
    "WindowedValueParam": lambda element, *_: _beam().transforms.window.GlobalWindows.windowed_value(element),
}


def _provider(dofn: Any, chosen: Any, kind: Any) -> Any:
    """Return the provider that a parameter names; without a name it is the DoFn itself."""
    provider = chosen or dofn
    if not isinstance(provider, kind):
        raise InvalidTypeError(f"{type(dofn).__name__}.process() names no {kind.__name__}, and is no method of one.")
    return provider


def _refuse_param(dofn: Any, method: str, parameter: inspect.Parameter) -> None:
    """Raise if only Beam's runners can fill a parameter."""
    default = parameter.default
    kind = default if isinstance(default, type) else type(default)
    side_input = _beam().DoFn.SideInputParam
    if issubclass(kind, type(side_input)) and default != side_input:
        raise InvalidTypeError(
            f"{type(dofn).__name__}.{method}() wants {parameter.name}={show(default)}, which only Beam's runners have; "
            f"from_beam() knows no state, timers, bundle finalizers and contexts. Open what it needs in setup()."
        )


def _to_ours(value: Any, start: Fraction, stop: Fraction) -> Any:
    """Return Beam's restriction as ours; ``start`` and ``stop`` say which part it is, if it does not say so itself."""
    if type(value) is _beam().io.restriction_trackers.OffsetRange and type(value.start) is type(value.stop) is int:
        return OffsetRange(value.start, value.stop)
    ends = getattr(value, "start", None), getattr(value, "stop", None)
    if None in ends or any(map(callable, ends)):
        ends = start, stop
    return BeamRestriction(copy.deepcopy(value), *ends)


def _to_beam(restriction: Any) -> Any:
    if isinstance(restriction, OffsetRange):
        return _beam().io.restriction_trackers.OffsetRange(*restriction)
    return restriction.value


def _ends(restriction: Any) -> tuple[Fraction, Fraction]:
    """Return which part of the whole a restriction is; 0 and 1 for one that has ends of its own."""
    start, stop = restriction.start, restriction.stop
    own = not (isinstance(start, Fraction) and isinstance(stop, Fraction))
    return (Fraction(0), Fraction(1)) if own else (start, stop)


def _between(start: Fraction, stop: Fraction | None) -> Fraction:
    """Return the simplest number between two, so that a stream can split for ever; None is no limit."""
    whole = math.floor(start)
    if stop is None or whole + 1 < stop:
        return Fraction(whole + 1)
    return whole + 1 / _between(1 / (stop - whole), None if start == whole else 1 / (start - whole))


def _weighed(value: Any) -> Any:
    """Return the restriction of a BoundedSource with a weight; where it has none, Beam's own split loses work."""
    if not hasattr(value, "range_tracker") or value.weight() is not None:
        return value
    try:
        size = value.source().estimate_size() or 1
    except NotImplementedError:
        size = 1
    ranges = value.range_tracker()
    bundle = _beam().io.iobase.SourceBundle(size, value.source(), ranges.start_position(), ranges.stop_position())
    return type(value)(bundle)


def _plain(outputs: Iterable[Any], observe: Callable[[Any], None] | None) -> Iterator[Any]:
    """Yield Beam's outputs without timestamps and windows; the watermark estimator observes the timestamps."""
    beam = _beam()
    tagged = beam.pvalue.TaggedOutput
    timed = (beam.transforms.window.TimestampedValue, beam.utils.windowed_value.WindowedValue)
    for output in outputs:
        value = output.value if isinstance(output, tagged) else output
        if isinstance(value, timed):
            if observe is not None:
                observe(value.timestamp)
            value = value.value
        yield TaggedOutput(output.tag, value) if isinstance(output, tagged) else value


def _no_outputs(outputs: Iterable[Any] | None) -> None:
    for output in outputs or ():
        raise OutputError(f"it gave {show(output)}, but only process() can output here: its records alone are pinned")


def _delay_seconds(deferred_time: Any) -> float:
    timestamp = _beam().utils.timestamp
    if deferred_time is None:
        return 0.0
    if isinstance(deferred_time, timestamp.Timestamp):
        deferred_time = deferred_time - timestamp.Timestamp.now()
    if not isinstance(deferred_time, timestamp.Duration):
        raise InvalidTypeError(f"defer_remainder() takes a Duration, a Timestamp or None (got {show(deferred_time)}).")
    return max(0.0, float(deferred_time.micros) / 1e6)


class _Claims:
    """A RangeTracker whose claims are made at the tracker that the runner watches."""

    def __init__(self, ranges: Any, try_claim: Callable[[Any], bool]) -> None:
        self._ranges = ranges
        self.try_claim = try_claim

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ranges, name)


@functools.cache
def _view() -> Any:
    """Return the class of what Beam's process() gets as its tracker; a subclass, as some DoFns ask what it is."""

    class View(_beam().runners.sdf_utils.RestrictionTrackerView):  # type: ignore[misc]
        def __init__(self, tracker: Any) -> None:
            self._tracker = tracker
            self.try_claim = tracker.try_claim
            self.is_bounded = tracker.is_bounded

        def current_restriction(self) -> Any:
            _asking.live = True
            try:
                value = self._tracker.current_restriction()
            finally:
                _asking.live = False
            if hasattr(value, "range_tracker"):
                # A BoundedSource claims at the RangeTracker inside its restriction; the runner must hear of that.
                claims, value = _Claims(value.range_tracker(), self.try_claim), copy.copy(value)
                value.range_tracker = lambda: claims
            return value

        def defer_remainder(self, deferred_time: Any = None) -> None:
            if hasattr(self.current_restriction(), "range_tracker"):
                raise DeferError("the restriction of a BoundedSource cannot be deferred: it has no place to cut at")
            self._tracker.defer_remainder(_delay_seconds(deferred_time))

    return View


@functools.cache
def _beam() -> Any:
    """Return Beam, with the modules that are used here."""
    try:
        import apache_beam
        import apache_beam.io.restriction_trackers
        import apache_beam.io.watermark_estimators
        import apache_beam.runners.sdf_utils
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "apache_beam":
            raise
        raise MissingExtraError(
            "from_beam() needs apache_beam, which is not installed here. Install it with: pip install 'sdf[beam]' "
            "(on the driver and on every executor)."
        ) from error
    return apache_beam

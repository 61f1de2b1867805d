"""from_beam: runs a splittable DoFn of Apache Beam, unchanged. Beam is imported when it is first needed.

This module adapts the DoFn's methods, the parameters of its `process`, its outputs and its watermark estimator;
`sdf.beam.trackers` adapts its tracker and its restrictions.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from typing import Any

import cloudpickle

from sdf.beam.trackers import BeamTracker, need_beam, part_of, to_beam, to_ours, view, weighed
from sdf.errors import InvalidTypeError, OutputError, show
from sdf.model.dofn import DoFn, TaggedOutput
from sdf.model.trackers import RestrictionTracker
from sdf.model.watermarks import WatermarkEstimator

__all__ = ["from_beam"]


def from_beam(dofn: Any) -> DoFn:
    """Return a DoFn that does the same as a splittable DoFn of Beam, for every runner and for `check_dofn`.

    Timestamps and windows are dropped: the output is the value of a TimestampedValue or WindowedValue, and its
    timestamp goes to the watermark estimator. An element has Beam's MIN_TIMESTAMP, which means none, and lies in the
    global window. Give side inputs to the runner by their names in ``process``. Restrictions are pickled; a
    restriction_coder is not used.

    Args:
        dofn: an instance of a Beam DoFn whose ``process`` has a ``RestrictionParam``. It must pickle.

    Returns:
        The DoFn; its class has the name of the class of ``dofn``.

    Raises:
        MissingExtraError: if Beam is not installed.
        InvalidTypeError: if ``dofn`` is no splittable DoFn, or one of its methods has a parameter that only Beam's own
            runners can fill: state, timers, bundle finalizers, contexts.

    Source: RestrictionProvider, RestrictionTracker and sdf_utils of Apache Beam's Python SDK.
    """
    if not isinstance(dofn, need_beam().DoFn):
        raise InvalidTypeError(f"from_beam() needs an instance of an apache_beam.DoFn (got {show(dofn)}).")
    arguments = _Arguments(dofn)

    def process(self: _BeamDoFn, element: Any, tracker: Any, **side_inputs: Any) -> Any:
        return self.run(element, tracker, side_inputs)

    process.__signature__ = arguments.signature  # type: ignore[attr-defined]  # runners check side inputs against it
    kind = type(type(dofn).__name__, (_BeamDoFn,), {"__doc__": type(dofn).__doc__, "process": process})
    return kind(dofn, arguments)  # type: ignore[no-any-return]


class _BeamDoFn(DoFn):
    """The base class of the DoFns that `from_beam` makes."""

    keeps_setup = False  # Beam's rule

    def __init__(self, dofn: Any, arguments: _Arguments) -> None:
        self._dofn = dofn
        self._arguments = arguments
        self._provider = arguments.restrictions
        self._unbounded = getattr(dofn.process, "unbounded_per_element", False)

    def __reduce__(self) -> Any:  # from_beam() makes its class, which cannot be pickled by name
        return from_beam, (self._dofn,)

    def get_initial_restriction(self, element: Any) -> Any:
        value = self._provider.initial_restriction(element)
        return None if value is None else to_ours(weighed(value), Fraction(0), Fraction(1))

    def split_restriction(self, element: Any, restriction: Any) -> Iterable[Any]:
        values = [part for part, _ in self._provider.split_and_size(element, to_beam(restriction))]
        many = len(values)  # 0 means in Beam that there is nothing to do
        parts = [to_ours(value, Fraction(at, many), Fraction(at + 1, many)) for at, value in enumerate(values)]
        return parts or [restriction]

    def create_tracker(self, element: Any, restriction: Any) -> RestrictionTracker:
        return BeamTracker(self._provider, element, restriction, unbounded=self._unbounded)

    def restriction_size(self, element: Any, restriction: Any) -> float | None:
        size: float | None = self._provider.restriction_size(element, to_beam(restriction))
        return size

    def truncate(self, element: Any, restriction: Any) -> Any:
        value = self._provider.truncate(element, to_beam(restriction))
        return None if value is None else to_ours(value, *part_of(restriction))

    def create_watermark_estimator(self, element: Any, restriction: Any) -> WatermarkEstimator | None:
        provider = self._arguments.watermarks
        if provider is None:
            return None
        return _Estimator(provider, provider.initial_estimator_state(element, to_beam(restriction)))

    def setup(self) -> None:
        self._dofn.setup()

    def teardown(self) -> None:
        self._dofn.teardown()

    def start_bundle(self) -> None:
        _no_outputs(self._dofn.start_bundle())

    def finish_bundle(self) -> None:
        _no_outputs(self._dofn.finish_bundle())

    def run(self, element: Any, tracker: Any, side_inputs: dict[str, Any]) -> Any:
        """Call Beam's process() and return its outputs, converted to ours."""
        estimator = None if tracker.watermark is None else tracker.watermark.beam
        outputs = self._dofn.process(**self._arguments.fill(element, view()(tracker), estimator), **side_inputs)
        if not isinstance(outputs, Iterable) or isinstance(outputs, (str, bytes, dict)):
            return outputs  # None, or a value that the runner refuses
        plain = _plain(outputs, None if estimator is None else estimator.observe_timestamp)
        return plain if isinstance(outputs, Iterator) else list(plain)  # a list is complete: convert it at once


class _Estimator(WatermarkEstimator):
    """Adapts Beam's estimator to our interface; its state is pickled, since it may have any type."""

    def __init__(self, provider: Any, state: Any) -> None:
        self._provider = provider
        self._begin(state)

    def _begin(self, state: Any) -> None:
        beam = need_beam()
        estimator = self._provider.create_watermark_estimator(state)
        if state is None and isinstance(estimator, beam.io.watermark_estimators.MonotonicWatermarkEstimator):
            # Beam's own provider begins with None, which cannot be compared with the first timestamp.
            estimator = self._provider.create_watermark_estimator(beam.utils.timestamp.MIN_TIMESTAMP)
        self.beam = beam.runners.sdf_utils.ThreadsafeWatermarkEstimator(estimator)

    def current(self) -> float:
        """Return the watermark in seconds since the epoch; if it is None, Beam's MIN_TIMESTAMP."""
        watermark = self.beam.current_watermark()
        return float(need_beam().utils.timestamp.MIN_TIMESTAMP if watermark is None else watermark)

    def state(self) -> bytes:
        self.beam.current_watermark()  # Beam's monotonic estimator updates its state in this call
        pickled: bytes = cloudpickle.dumps(self.beam.get_estimator_state())
        return pickled

    def restore(self, state: bytes) -> None:
        self._begin(cloudpickle.loads(state))


class _Arguments:
    """The arguments for the parameters of a Beam DoFn's process().

    Attributes:
        restrictions: the DoFn's RestrictionProvider.
        watermarks: the DoFn's WatermarkEstimatorProvider, or None.
        signature: the signature of our `process`, with the side inputs.
    """

    def __init__(self, dofn: Any) -> None:
        kinds, core = need_beam().DoFn, need_beam().transforms.core
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
    "TimestampParam": lambda *_: need_beam().utils.timestamp.MIN_TIMESTAMP,
    "WindowParam": lambda *_: need_beam().transforms.window.GlobalWindow(),
    "PaneInfoParam": lambda *_: need_beam().utils.windowed_value.PANE_INFO_UNKNOWN,
    "WindowedValueParam": lambda element, *_: need_beam().transforms.window.GlobalWindows.windowed_value(element),
}


def _provider(dofn: Any, chosen: Any, kind: Any) -> Any:
    """Return the provider that a parameter names; if it names none, the DoFn itself is the provider."""
    provider = chosen or dofn
    if not isinstance(provider, kind):
        raise InvalidTypeError(
            f"{type(dofn).__name__}.process() names no {kind.__name__}, and the DoFn is not one itself. Pass a "
            f"{kind.__name__} as a parameter's default, or subclass it."
        )
    return provider


def _refuse_param(dofn: Any, method: str, parameter: inspect.Parameter) -> None:
    """Raise if only Beam's runners can fill a parameter."""
    default = parameter.default
    kind = default if isinstance(default, type) else type(default)
    side_input = need_beam().DoFn.SideInputParam
    if issubclass(kind, type(side_input)) and default != side_input:
        raise InvalidTypeError(
            f"{type(dofn).__name__}.{method}() wants {parameter.name}={show(default)}, which only Beam's runners have; "
            f"from_beam() knows no state, timers, bundle finalizers and contexts. Open what it needs in setup()."
        )


def _plain(outputs: Iterable[Any], observe: Callable[[Any], None] | None) -> Iterator[Any]:
    """Yield Beam's outputs without timestamps and windows; the watermark estimator observes the timestamps."""
    beam = need_beam()
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

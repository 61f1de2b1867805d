"""check_dofn: the contract of a DoFn, checked in one line of a unit test.

It reads the element whole; then it reads it again for every claim and several fractions, those that cut next to the
following block among them, and splits it there. Every part goes through pickle, the residual is split once more and
may run before the primary has ended, and what came out is compared. A DoFn that passes can be split, retried and
replayed anywhere without losing or doubling a record.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from fractions import Fraction
from typing import Any

import attrs

from sdf import pickling
from sdf.dofn import DoFn, TaggedOutput, call_hook, check_fn, check_tags
from sdf.errors import CheckError, DeferError, InvalidTypeError, OutputError, SdfError, show
from sdf.expansion import Expanded, checked_size, cut, expand
from sdf.invoker import Invoker, Residual
from sdf.restrictions import OffsetRange

__all__ = ["CheckedDoFn", "check_dofn"]

_MOST_CLAIMS = 40  # claims to split at; of more, these are spread evenly, the first and the last among them
_MOST_FAULTS = 20
_MOST_IDLE = 100
Records = Counter[Hashable]


@attrs.frozen
class CheckedDoFn:
    """What `check_dofn` exercised.

    Attributes:
        claims: claims in the whole read.
        records: outputs of the whole read.
        splits: splits that succeeded; 0 means that nothing could be shown about splitting.
    """

    claims: int
    records: int
    splits: int


@attrs.define
class _Read:
    """One attempt, and all that came of it."""

    claims: int = 0
    positions: list[Any] = attrs.field(factory=list)
    records: Records = attrs.field(factory=Counter)
    primary: Any = None
    splits: list[Any] = attrs.field(factory=list)
    deferred: list[Residual] = attrs.field(factory=list)


def check_dofn(
    fn: DoFn,
    element: Any,
    *,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    fractions: Iterable[float] = (0.0, 0.3, 0.5, 0.9),
    seed: int = 0,
) -> CheckedDoFn:
    """Check that a DoFn can be split anywhere: ``check_dofn(MyFn(), element)`` in a unit test.

    The time it takes grows with the square of the number of claims, up to 40 of them: give it a small element.

    Args:
        fn: the DoFn.
        element: an input of finite work.
        side_inputs: values by name, passed to `process`.
        tags: declared tags.
        fractions: shares of the remaining work that the primary keeps.
        seed: of the order in which parts run.

    Returns:
        How much was exercised.

    Raises:
        CheckError: listing every broken rule with the split that broke it.
        InvalidTypeError: if ``fn`` is not a DoFn.
    """
    check_fn(fn, side_inputs, "check_dofn()")
    check = _Check(fn, element, dict(side_inputs or {}), check_tags(tags, "check_dofn()"), random.Random(seed))
    check.send()
    call_hook(fn, "setup")
    result = check.run(tuple(fractions))
    if check.faults:
        more = f"\n  ... and {len(check.faults) - _MOST_FAULTS} more" if len(check.faults) > _MOST_FAULTS else ""
        lines = "".join(f"\n  - {fault}" for fault in check.faults[:_MOST_FAULTS])
        raise CheckError(f"{type(fn).__name__} breaks the contract on element {show(element)}:{lines}{more}")
    return result


class _Check:
    def __init__(
        self, fn: DoFn, element: Any, side_inputs: dict[str, Any], tags: tuple[str, ...], order: random.Random
    ) -> None:
        self._fn = fn
        self._element = element
        self._side_inputs = side_inputs
        self._tags = tags
        self._order = order
        self._driver_fn: DoFn | None = None
        self._splits = 0
        self._outputs: dict[Hashable, Any] = {}  # one output for each key, to show it
        self.faults: list[str] = []

    def send(self) -> None:
        """Check that the DoFn pickles, and keep a copy that is not set up, as the driver's is not."""
        self._attempt("sending it to the workers", self._check_pickles)
        if not self.faults:
            self._driver_fn = deepcopy(self._fn)

    def _check_planning(self, restriction: Any) -> None:
        if self._driver_fn is not None:
            checked_size(self._driver_fn, self._element, restriction)
            cut(self._driver_fn, self._element, restriction, 0.5)

    def run(self, fractions: tuple[float | Fraction, ...]) -> CheckedDoFn:
        try:
            return self._run(fractions)
        finally:
            self._attempt("teardown", lambda: call_hook(self._fn, "teardown"))

    def _run(self, fractions: tuple[float | Fraction, ...]) -> CheckedDoFn:
        expanded = self._attempt("the initial restriction", lambda: expand(self._fn, self._element))
        if expanded is None:
            return CheckedDoFn(0, 0, 0)
        what = "planning on the driver, where setup() does not run"
        self._attempt(what, lambda: self._check_planning(expanded.restriction))
        whole = self._attempt("the whole read", lambda: self._read_all(expanded.restriction))
        if whole is None:
            return CheckedDoFn(0, 0, 0)
        again = self._attempt("the second read", lambda: self._read_all(expanded.restriction))
        if again is not None:
            self._compare("reading it twice", whole.records, again.records)
        self._check_pieces(expanded, whole.records)
        for at in _spread(whole.claims):
            near = _near_next_block(expanded.restriction, whole.positions, at)
            for fraction in [*fractions, *near]:
                self._check_split(expanded.restriction, at, fraction, whole.records)
        return CheckedDoFn(whole.claims, whole.records.total(), self._splits)

    def _attempt(self, what: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except SdfError as error:
            self.faults.append(f"{what}: {type(error).__name__}: {error}")
            return None

    def _check_pickles(self) -> None:
        pickling.dumps(self._fn, type(self._fn).__name__)

    def _through_pickle(self, restriction: Any) -> Any:
        pickling.dumps(restriction, f"restriction {show(restriction)}")
        copy = deepcopy(restriction)  # what unpickling gives; that itself would redefine a class local to a test
        if copy != restriction:
            raise InvalidTypeError(
                f"restriction {show(restriction)} does not equal its copy after pickling ({show(copy)}). Make it a "
                f"frozen value, such as an attrs.frozen class."
            )
        return copy

    def _check_pieces(self, expanded: Expanded, expected: Records) -> None:
        def read_pieces() -> Records:
            found: Records = Counter()
            for piece, _ in self._order.sample(expanded.pieces, len(expanded.pieces)):
                found += self._read_all(self._through_pickle(piece)).records
            return found

        what = f"reading the {len(expanded.pieces)} parts of split_restriction()"
        found = self._attempt(what, read_pieces)
        if found is not None:
            self._compare(what, expected, found)

    def _check_split(self, whole: Any, at: int, fraction: float | Fraction, expected: Records) -> None:
        what = f"split at {float(fraction):.3g} after claim {at}"
        parts = self._attempt(what, lambda: self._read_split(whole, None, at, fraction, nested=True))
        if parts is None:
            return
        read, rest = parts
        if read.splits:
            what = f"{what}, into {show(read.primary)} and {', '.join(show(residual) for residual in read.splits)}"
        self._compare(what, expected, read.records + rest)
        if read.primary is not None:
            what = f"running the primary again after the {what}"
            again = self._attempt(what, lambda: self._read(self._through_pickle(read.primary)))
            if again is not None:
                self._compare(what, read.records, again.records)

    def _read_split(
        self, restriction: Any, watermark: Any, at: int, fraction: float | Fraction, *, nested: bool
    ) -> tuple[_Read, Records]:
        """Read a restriction and split it after claim ``at``.

        Returns:
            The attempt, and the records of all that was cut off from it; a coin decides whether that ran while the
            attempt waited or after it.
        """
        rest: Records = Counter()
        later: list[Residual] = []

        def run(residual: Residual) -> None:
            part = self._through_pickle(residual.restriction)
            if nested:
                below = self._order.randint(1, 3)
                read, further = self._read_split(part, residual.watermark, below, fraction, nested=False)
                rest.update(read.records + further)
            else:
                rest.update(self._read_all(part, residual.watermark).records)

        on_split = run if self._order.random() < 0.5 else later.append
        read = self._read(restriction, watermark, at, fraction, on_split)
        self._splits += len(read.splits)
        for residual in later + read.deferred:
            run(residual)
        return read, rest

    def _read_all(self, restriction: Any, watermark: Any = None) -> _Read:
        """Read a restriction, and at once whatever process() defers of it."""
        total = self._read(restriction, watermark)
        deferred, idle = total.deferred, 0
        while deferred:
            read = self._read(self._through_pickle(deferred[0].restriction), deferred[0].watermark)
            idle = 0 if read.claims else idle + 1
            if idle > _MOST_IDLE:
                raise DeferError(
                    f"process() deferred {show(deferred[0].restriction)} {idle} times in a row without a claim; "
                    f"a finite restriction must come to its end"
                )
            total.records.update(read.records)
            total.claims += read.claims
            deferred = deferred[1:] + read.deferred
        return total

    def _read(
        self,
        restriction: Any,
        watermark: Any = None,
        at: int = 0,
        fraction: float | Fraction = 0.0,
        on_split: Callable[[Residual], None] | None = None,
    ) -> _Read:
        """Run one attempt; after claim ``at`` split it and pass what was cut off to ``on_split``."""
        read = _Read()

        def on_claim(claims: int, position: Any) -> None:
            read.claims = claims
            read.positions.append(position)
            if claims == at and on_split is not None:
                residual = invoker.split(fraction)
                if residual is not None:
                    read.splits.append(residual.restriction)
                    on_split(residual)

        call_hook(self._fn, "start_bundle")
        invoker = Invoker(
            self._fn,
            self._element,
            restriction,
            side_inputs=self._side_inputs,
            watermark=watermark,
            on_claim=on_claim,
        )
        for output in invoker.run():
            if isinstance(output, TaggedOutput) and output.tag not in self._tags:
                raise OutputError(
                    f"process() gave {show(output)}, but the declared tags are {show(self._tags)}. Pass "
                    f"tags=({output.tag!r}, ...) to check_dofn()"
                )
            read.records[self._keep(output)] += 1
        call_hook(self._fn, "finish_bundle")
        read.primary = invoker.primary
        read.deferred = invoker.residuals[len(read.splits) :]
        return read

    def _keep(self, output: Any) -> Hashable:
        key = _key(output)
        self._outputs.setdefault(key, output)
        return key

    def _compare(self, what: str, expected: Records, found: Records) -> None:
        lost, doubled = expected - found, found - expected
        counts = [
            f"{how}: {records.total()}, for example {show(self._outputs[next(iter(records))])}"
            for records, how in ((lost, "missing"), (doubled, "too many"))
            if records
        ]
        if counts:
            self.faults.append(f"{what}: {'; '.join(counts)}")


def _near_next_block(whole: Any, positions: list[Any], at: int) -> list[Fraction]:
    """Return the fractions that cut an offset range just before, at, and just after the block that follows a claim."""
    if not isinstance(whole, OffsetRange) or at >= len(positions):
        return []
    claimed, following = positions[at - 1], positions[at]
    cuts = (cut for cut in (following - 1, following, following + 1) if claimed < cut < whole.stop)
    return [Fraction(cut - claimed, whole.stop - claimed) for cut in cuts]


def _spread(claims: int) -> list[int]:
    if claims <= _MOST_CLAIMS:
        return list(range(1, claims + 1))
    return sorted({1 + number * (claims - 1) // (_MOST_CLAIMS - 1) for number in range(_MOST_CLAIMS)})


def _key(output: Any) -> Hashable:
    """Return something to count an output by: equal for outputs of equal type and content."""
    if isinstance(output, TaggedOutput):
        return (TaggedOutput, output.tag, _key(output.value))
    kind = type(output)
    if isinstance(output, (list, tuple)):
        return (kind, tuple(map(_key, output)))
    if isinstance(output, dict):
        return (kind, frozenset((_key(key), _key(value)) for key, value in output.items()))
    if isinstance(output, (set, frozenset)):
        return (kind, frozenset(map(_key, output)))
    if isinstance(output, float) and output != output:
        return (kind, "nan")
    if getattr(kind, "__eq__", None) is object.__eq__ and hasattr(output, "__dict__") and not isinstance(output, type):
        return (kind, _key(vars(output)))
    try:
        hash(output)
    except TypeError:
        return (kind, pickling.dumps(output, f"record {show(output)}"))
    return (kind, output)

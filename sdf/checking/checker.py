"""One check of a DoFn: reads an element whole, then split in many ways, and compares the records."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from copy import deepcopy
from fractions import Fraction
from functools import partial
from typing import Any

import attrs

from sdf.checking.budget import Budget, SpentError
from sdf.checking.cuts import MOST_CLAIMS, cuts
from sdf.checking.diagnosis import AtClaim, Diagnosis
from sdf.checking.records import Records, check_unchanged, key_of
from sdf.checking.steps import CheckedDoFn
from sdf.errors import DeferError, InvalidTypeError, OutputError, ProcessError, SdfError, SourceError, show
from sdf.execution.expansion import Expanded, checked_size, cut, expand
from sdf.execution.invoker import Invoker, Residual
from sdf.model.dofn import DoFn, TaggedOutput, call_hook
from sdf.serialization import pickling

__all__ = ["Check"]

_MOST_IDLE = 100
_READS_PER_CLAIM = 17  # reads of the whole work per claim of it: 7 splits, each of which reads it 2.5 times
_HELD = 64  # outputs that wait, as those of a batch of a runner do
_FEWEST_CLAIMS = 8  # claims to check, if the first read made that many, of work too long to be checked whole


@attrs.define
class _Read:
    """One attempt and its results."""

    claims: int = 0
    at: list[AtClaim] = attrs.field(factory=list)
    records: Records = attrs.field(factory=Counter)
    primary: Any = None
    splits: list[Any] = attrs.field(factory=list)
    deferred: list[Residual] = attrs.field(factory=list)


@attrs.define(eq=False)
class Check:
    _fn: DoFn
    _element: Any
    _part: Any
    _side_inputs: dict[str, Any]
    _tags: tuple[str, ...]
    _order: random.Random
    _budget: Budget
    _combine: Callable[[list[Any]], Any] | None = None
    _driver_fn: DoFn | None = attrs.field(default=None, init=False)
    _outputs: dict[Hashable, Any] = attrs.field(factory=dict, init=False)  # one example per key, for the message
    # Of the current check: faults are listed in the order of the claims.
    _place: tuple[int, int] = attrs.field(default=(0, 0), init=False)
    _faults: list[tuple[tuple[int, int], str]] = attrs.field(factory=list, init=False)
    _skipped: list[str] = attrs.field(factory=list, init=False)
    _first_read_times: str = attrs.field(default="", init=False)
    _diagnosis: Diagnosis = attrs.field(init=False)
    _steady: bool = attrs.field(default=True, init=False)  # whether reading the same part twice gave the same

    @_diagnosis.default
    def _no_diagnosis(self) -> Diagnosis:
        return Diagnosis(combines=self._combine is not None)

    @property
    def faults(self) -> list[str]:
        """The broken rule, if it is known, and then each difference."""
        rule = str(self._diagnosis)
        return [*([rule] if rule else []), *(fault for _, fault in sorted(self._faults, key=lambda fault: fault[0]))]

    def send(self) -> None:
        """Check that the DoFn pickles, and keep a copy without `setup`, as on the driver."""
        self._driver_fn = self._attempt("sending it to the workers", self._sent)

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
        try:
            expanded = expand(self._fn, self._element, restriction=self._part)
        except SourceError:  # no broken rule: the input does not exist
            raise
        except SdfError as error:
            self._fault(f"the initial restriction: {type(error).__name__}: {error}")
            return CheckedDoFn(0, 0, 0)
        what = "planning on the driver, where setup() does not run"
        self._attempt(what, lambda: self._check_planning(expanded.restriction))
        whole = self._attempt("the whole read", lambda: self._first_read(expanded.restriction))
        if whole is None:
            return self._result(_Read())
        part, read = whole
        checks: list[tuple[str, tuple[int, int], Callable[[], None]]] = [
            ("reading it twice", (0, 0), lambda: self._check_again(part, read.records)),
        ]
        if not self._skipped:
            checks.append(("split_restriction()", (0, 0), lambda: self._check_pieces(expanded, read.records)))
        positions = [one.position for one in read.at]
        for at, number, fraction in cuts(part, read.claims, positions, fractions):
            checks.append(("", (at, number), partial(self._check_split, part, at, fraction, read)))
        self._make(checks)
        return self._result(read)

    def _result(self, read: _Read) -> CheckedDoFn:
        note = self._first_read_times if self._skipped else ""
        return CheckedDoFn(read.claims, read.records.total(), self._budget.splits, tuple(self._skipped), note)

    def _make(self, checks: list[tuple[str, tuple[int, int], Callable[[], None]]]) -> None:
        """Run the checks in order until the time is up; note which were left out."""
        self._budget.known = len(checks)
        try:
            for _, self._place, check in checks:
                self._budget.look()
                check()
                self._budget.done += 1
        except SpentError:
            left = [what for what, _, _ in checks[self._budget.done :]]
            self._skipped += [what for what in left if what]
            if "" in left:
                self._skipped.append(f"{left.count(''):,} of {[what for what, _, _ in checks].count(''):,} splits")

    def _first_read(self, restriction: Any) -> tuple[Any, _Read] | None:
        """Read all, or as much as there is time to check; return the restriction that was read, and the read.

        Return None if not even one read ended in time.
        """
        budget = self._budget
        began_seconds = budget.spent_seconds()
        try:
            return restriction, self._read_all(restriction)
        except SpentError:
            claims = budget.claims
        finally:
            self._first_read_times = budget.times_of_read(began_seconds)
            budget.go_on()
        try:
            budget.look()
            reads = int(budget.seconds / (_READS_PER_CLAIM * budget.claim_seconds()))  # claims times claims to split at
            most = max(_FEWEST_CLAIMS, math.isqrt(reads), reads // MOST_CLAIMS)
            most = min(most, max(2, claims - 1))  # a split needs something to cut off: one claim is too few
            read = self._read(restriction, None, most, 0.0, lambda residual: None)
            if read.primary is None:
                return restriction, self._read_all(restriction)
            if read.primary != restriction:
                self._skipped.append(f"all but {show(read.primary)} of {show(restriction)}")
            return read.primary, read
        except SpentError:
            self._skipped.append(f"all of {show(restriction)}")
            return None

    def _check_again(self, restriction: Any, expected: Records) -> None:
        again = self._attempt("the second read", lambda: self._read_all(restriction))
        if again is not None:
            self._steady = self._compare("reading it twice", expected, again.records)

    def _attempt(self, what: str, act: Callable[[], Any]) -> Any:
        try:
            return act()
        except SdfError as error:
            self._fault(f"{what}: {type(error).__name__}: {error}")
            return None

    def _fault(self, text: str) -> None:
        self._faults.append((self._place, text))

    def _sent(self) -> DoFn:
        pickled = pickling.dumps(self._fn, type(self._fn).__name__)
        try:
            return deepcopy(self._fn)  # not unpickled: that would redefine a class local to a test
        except TypeError:  # such as an open file, which cloudpickle sends as what it holds
            fn: DoFn = pickling.loads(pickled)
            return fn

    def _through_pickle(self, restriction: Any) -> Any:
        pickling.dumps(restriction, f"restriction {show(restriction)}")
        copy = deepcopy(restriction)  # not unpickled: that would redefine a class local to a test
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

    def _check_split(self, whole: Any, at: int, fraction: float | Fraction, expected: _Read) -> None:
        what = f"split at {float(fraction):.3g} after claim {at}"
        parts = self._attempt(what, lambda: self._read_split(whole, None, at, fraction, nested=True))
        if parts is None:
            return
        read, rest = parts
        if read.splits:
            what = f"{what}, into {show(read.primary)} and {', '.join(show(residual) for residual in read.splits)}"
        same = self._compare(what, expected.records, read.records + rest)
        if not same and read.splits and self._steady and not expected.deferred:
            self._diagnose(read.splits[0], expected)
        if read.primary is not None:
            what = f"running the primary again after the {what}"
            again = self._attempt(what, lambda: self._read(self._through_pickle(read.primary)))
            if again is not None:
                self._compare(what, read.records, again.records)

    def _diagnose(self, residual: Any, whole: _Read) -> None:
        read = self._attempt(f"reading {show(residual)}", lambda: self._read(self._through_pickle(residual)))
        if read is not None and not read.deferred:
            self._diagnosis.compare(residual, whole.at, read.at, self._outputs)

    def _read_split(
        self, restriction: Any, watermark: Any, at: int, fraction: float | Fraction, *, nested: bool
    ) -> tuple[_Read, Records]:
        """Read a restriction and split it after claim ``at``.

        Returns:
            The attempt, and the records of all residuals. At random, the residuals run while the attempt waits, or
            after it.
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
        self._budget.splits += len(read.splits)
        for residual in later + read.deferred:
            run(residual)
        return read, rest

    def _read_all(self, restriction: Any, watermark: Any = None) -> _Read:
        """Read a restriction, and then, without delay, whatever process() deferred."""
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
        """Run one attempt; after claim ``at`` split it and pass the residual to ``on_split``."""
        read = _Read()

        def on_claim(claims: int, position: Any) -> None:
            read.claims = claims
            read.at.append(AtClaim(position, Counter()))
            self._budget.claimed()
            if claims == at and on_split is not None:
                residual = invoker.split(fraction)
                if residual is not None:
                    read.splits.append(residual.restriction)
                    on_split(residual)

        held: list[tuple[Any, Hashable]] = []
        call_hook(self._fn, "start_bundle")
        invoker = Invoker(
            self._fn,
            self._element,
            restriction,
            side_inputs=self._side_inputs,
            watermark=watermark,
            on_claim=on_claim,
        )
        for output in self._until_spent(invoker):
            if isinstance(output, TaggedOutput) and output.tag not in self._tags:
                raise OutputError(
                    f"process() gave {show(output)}, but the declared tags are {show(self._tags)}. Pass "
                    f"tags=({output.tag!r}, ...) to check_dofn()"
                )
            key = self._keep(output)
            held.append((output, key))
            if len(held) == _HELD:
                check_unchanged(held)
            read.records[key] += 1
            if read.at:
                read.at[-1].records[key] += 1
        check_unchanged(held)
        call_hook(self._fn, "finish_bundle")
        read.primary = invoker.primary
        read.deferred = invoker.residuals[len(read.splits) :]
        return read

    def _until_spent(self, invoker: Invoker) -> Iterator[Any]:
        """Yield the outputs; raise SpentError if the time is up, even if user code caught or replaced it."""
        try:
            yield from invoker.run()
        except SdfError:
            if not self._budget.interrupted:
                raise
        if self._budget.interrupted:
            raise SpentError

    def _keep(self, output: Any) -> Hashable:
        key = key_of(output)
        self._outputs.setdefault(key, output)
        return key

    def _combined(self, records: Records) -> Records:
        if self._combine is None:
            return records
        outputs = [self._outputs[key] for key in records.elements()]
        try:
            combined = self._combine(outputs)
        except Exception as error:
            raise ProcessError(
                f"check_dofn() combine= failed over a list of {len(outputs):,} records, such as "
                f"{show(next(iter(outputs), None))}: {type(error).__name__}: {error}. It gets all records, those with "
                f"a tag as TaggedOutput."
            ) from error
        return Counter([self._keep(combined)])

    def _compare(self, what: str, expected: Records, found: Records) -> bool:
        """Return whether the records are the same, if need be once they are combined."""
        expected, found = self._combined(expected), self._combined(found)
        lost, doubled = expected - found, found - expected
        counts = [
            f"{how}: {records.total()}, for example {show(self._outputs[next(iter(records))])}"
            for records, how in ((lost, "missing"), (doubled, "too many"))
            if records
        ]
        if counts:
            self._fault(f"{what}: {'; '.join(counts)}")
        return not counts

"""check_dofn: the contract of a DoFn, checked in one line of a unit test.

It reads the element whole. Then it reads the element again for every claim and several fractions, and splits it there.
Some of the fractions cut next to the following block. Every part must pickle. The residual is split once more and may
run before the primary has ended. The records of all parts must equal those of the whole read; ``combine`` combines both
before. If they differ, the error says which rule is broken, where that is known. A DoFn that passes can be split,
retried and replayed anywhere without losing or doubling a record.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from sdf.checking.budget import Budget, as_seconds, as_shown
from sdf.checking.checker import Check
from sdf.checking.cuts import as_fractions
from sdf.checking.steps import CheckedDoFn
from sdf.errors import CheckError, InvalidTypeError, show
from sdf.model.dofn import DoFn, call_hook, check_fn, check_tags
from sdf.model.restrictions import as_restriction
from sdf.reporting.progress import RunProgress

__all__ = ["CheckedDoFn", "check_dofn"]

_MOST_FAULTS = 20


def check_dofn(
    fn: DoFn,
    element: Any,
    *,
    restriction: Any = None,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    combine: Callable[[list[Any]], Any] | None = None,
    fractions: Iterable[float] = (0.0, 0.3, 0.5, 0.9),
    seed: int = 0,
    seconds: float | None = 30.0,
    progress: bool | Callable[[RunProgress], Any] | None = None,
) -> CheckedDoFn:
    """Check that a DoFn can be split anywhere: ``check_dofn(MyFn(), element)`` in a unit test.

    A full check takes as long as reading the element about a hundred times. If that exceeds ``seconds``, the splits
    that are tried are spread over all of the work, and the result says what was left out and where the time of a read
    went. If the claims of one read take more than a twentieth of ``seconds``, only the first claims are checked, as
    many as there is time to split. If not even one read ends in time, nothing is checked. So assert `complete`::

        checked = check_dofn(ReadRest(), "https://...")  # a thousand pages
        assert checked.complete, checked

    Args:
        fn: the DoFn.
        element: an input of finite work.
        restriction: the part of its work to check instead of the initial restriction, whose work may then be endless.
        side_inputs: values by name, passed to `process`.
        tags: declared tags.
        combine: for a DoFn that gives partial results, such as the sum of its part: a function like the later step that
            combines them. It gets all records in a list, in any order, tagged ones as `TaggedOutput`. What it returns
            must be the same however the work is split.
        fractions: shares of the remaining work that the primary keeps, from 0 to 1.
        seed: the seed of the random order in which parts run.
        seconds: the time limit, None for no limit. A read that is under way then ends at its next claim.
        progress: a function that gets a `RunProgress` of checks done and known about twice a second, called during a
            claim; True for lines on stderr; None for lines only if stderr is a terminal and the check takes more than
            3 seconds; False for none.

    Returns:
        How much was checked, whether that is all, and what to do if the work can never be split; ``str()`` is a text.

    Raises:
        CheckError: listing every difference with the split that made it; first, where it is known, the broken rule.
        InvalidTypeError, InvalidValueError: if ``fn`` is not a DoFn, or for a wrong option.
    """
    check_fn(fn, side_inputs, "check_dofn()")
    names = check_tags(tags, "check_dofn()")
    part = None if restriction is None else as_restriction(restriction, "check_dofn() restriction is")
    shares = as_fractions(fractions, "check_dofn()")
    budget = Budget(type(fn).__name__, as_seconds(seconds, "check_dofn()"), as_shown(progress, "check_dofn()"))
    if combine is not None and not callable(combine):
        raise InvalidTypeError(f"check_dofn() combine must be a function of a list of records (got {show(combine)}).")
    check = Check(fn, element, part, dict(side_inputs or {}), names, random.Random(seed), budget, combine)
    check.send()
    call_hook(fn, "setup")
    result = check.run(shares)
    budget.close()
    if check.faults:
        more = f"\n  ... and {len(check.faults) - _MOST_FAULTS} more" if len(check.faults) > _MOST_FAULTS else ""
        lines = "".join(f"\n  - {fault}" for fault in check.faults[:_MOST_FAULTS])
        raise CheckError(f"{type(fn).__name__} breaks the contract on element {show(element)}:{lines}{more}")
    return result

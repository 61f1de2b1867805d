"""run_direct: runs a DoFn in this process, without Spark, as every runner does; for unit tests and small inputs."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, overload

from sdf.errors import DeferError, InvalidTypeError, InvalidValueError, OutputError, show
from sdf.execution.expansion import checked_size, expand
from sdf.execution.invoker import Invoker
from sdf.execution.work_items import Outcome, Part, WorkItem
from sdf.model.dofn import DoFn, ElementT, OutT, TaggedOutput, call_hook, check_fn, check_tags
from sdf.numbers import as_integer, is_integer
from sdf.scheduling.ledger import Ledger

__all__ = ["run_direct"]


_MOST_IDLE = 100


@overload
def run_direct(
    elements: Iterable[ElementT],
    fn: DoFn[ElementT, OutT],
    *,
    side_inputs: Mapping[str, Any] | None = None,
    split_every: int | None = None,
    seed: int | None = None,
) -> list[OutT]: ...


@overload
def run_direct(
    elements: Iterable[ElementT],
    fn: DoFn[ElementT, OutT],
    *,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str],
    split_every: int | None = None,
    seed: int | None = None,
) -> dict[str, list[Any]]: ...


def run_direct(
    elements: Iterable[Any],
    fn: DoFn[Any, Any],
    *,
    side_inputs: Mapping[str, Any] | None = None,
    tags: Sequence[str] = (),
    split_every: int | None = None,
    seed: int | None = None,
) -> Any:
    """Run a DoFn over elements in this process, and check its whole contract.

    Args:
        elements: the inputs.
        fn: the DoFn.
        side_inputs: values by name, passed to `process`.
        tags: names of further outputs.
        split_every: split every work item at 0 after this many claims; None for never.
        seed: the seed that shuffles the order of the work items; None runs them in order, residuals first.

    Returns:
        The list of outputs; with ``tags`` a dict of lists, ``"main"`` and one per tag. A deferred residual runs
        without waiting for its delay.

    Raises:
        SdfError: any of its subclasses; a ProcessError has the original exception as its cause.
    """
    if isinstance(elements, (DoFn, str, bytes)) or not isinstance(elements, Iterable):
        raise InvalidTypeError(
            f"run_direct() needs a list of elements, or another iterable, and then a DoFn (got {show(elements)}). One "
            f"element is a list of one: run_direct([element], fn)."
        )
    check_fn(fn, side_inputs, "run_direct()")
    names = check_tags(tags, "run_direct()")
    split_every = as_integer(split_every)
    if split_every is not None and (not is_integer(split_every) or split_every < 1):
        raise InvalidValueError(f"run_direct() split_every must be an integer >= 1, or None (got {show(split_every)}).")
    outputs: dict[str, list[Any]] = {name: [] for name in ("main", *names)}
    ledger = Ledger(partial(checked_size, fn), name=type(fn).__name__)
    order = None if seed is None else random.Random(seed)
    call_hook(fn, "setup")
    try:
        call_hook(fn, "start_bundle")
        todo: deque[WorkItem] = deque()
        for element in elements:
            expanded = expand(fn, element)
            todo.extend(ledger.add_element(expanded.element, expanded.restriction, expanded.pieces))
        idle: dict[int, int] = {}  # per work item: how often in a row it was deferred without a claim
        while todo:
            if order is not None:
                todo.rotate(order.randrange(len(todo)))
            item = todo.popleft()
            claims, left = _run_item(fn, item, ledger, side_inputs, split_every, outputs)
            times = 0 if claims else idle.pop(item.id, 0) + 1
            if left and times > _MOST_IDLE:
                raise DeferError(
                    f"{type(fn).__name__}.process() deferred {show(item.restriction)} of element {show(item.element)} "
                    f"again and again without a claim. run_direct() does not wait; use stream_sdf() for work to come."
                )
            idle.update((residual.id, times) for residual in left)
            todo.extendleft(left)
        call_hook(fn, "finish_bundle")
    finally:
        call_hook(fn, "teardown")
    ledger.prove()
    return outputs if names else outputs["main"]


def _run_item(
    fn: DoFn,
    item: WorkItem,
    ledger: Ledger,
    side_inputs: Mapping[str, Any] | None,
    split_every: int | None,
    outputs: dict[str, list[Any]],
) -> tuple[int, list[WorkItem]]:
    """Run one work item, enter it in the ledger, and return its number of claims and its residuals."""
    made = 0

    def on_claim(claims: int, _position: Any) -> None:
        nonlocal made
        made = claims
        if claims == split_every:
            invoker.split(0)

    invoker = Invoker(
        fn, item.element, item.restriction, side_inputs=side_inputs, watermark=item.watermark, on_claim=on_claim
    )
    ledger.assign(item.id, [item])
    for output in invoker.run():
        tag, value = (output.tag, output.value) if isinstance(output, TaggedOutput) else ("main", output)
        if tag not in outputs:
            raise OutputError(
                f"{type(fn).__name__}.process() gave {show(output)}, but the declared tags are "
                f"{show(tuple(outputs)[1:])}. Pass tags=({tag!r},) to run_direct()."
            )
        outputs[tag].append(value)
    parts = (Part(item.id, invoker.primary, tuple(invoker.residuals)),) if invoker.residuals else ()
    return made, [left for left, _ in ledger.commit(item.id, "direct", Outcome(1, parts)) or ()]

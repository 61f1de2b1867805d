"""The ledger: who owns which part of every element. It is the one source of truth of a run.

Every element starts as work items that tile its initial restriction. A work item has at most one owner (a task or a
lane). Five things can happen to it, and each is checked when it happens:

- `assign`: an owner gets work items that nobody owns, in the order in which it will run them;
- `split`: a work item keeps its primary, and each residual becomes a new work item that nobody owns;
- `release`: an owner gives back a work item that it did not start;
- `seal`: what the owner holds now is its content for ever. A replay runs exactly that (`content`);
- `commit`: split, release and seal as one attempt reports, or nothing if its owner is sealed. StagedRunner uses it.

A residual exists only from the moment its primary is recorded. So it cannot run before its primary is pinned. Only the
first seal of an owner counts. So a late copy of a task changes nothing. At the end `prove` checks that the sealed parts
of every element, in order, tile its initial restriction.

No I/O, no threads, no Spark: the caller serialises the calls.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import attrs

from sdf.errors import LedgerError, SplitError, TilingError, blame, show
from sdf.execution.invoker import Residual
from sdf.execution.work import work_of
from sdf.execution.work_items import DEFERRED, PLANNED, WHILE_IT_RAN, Outcome, WorkItem
from sdf.model.restrictions import tiling_flaw

__all__ = ["Ledger"]


_CHECK = "Run check_dofn; if it passes, this is a bug of sdf: please report it."


@attrs.define(eq=False)
class _Node:
    """A work item in the tree of its element: what it holds now, then the parts that were cut off, in order."""

    item: WorkItem
    holds: Any
    owner: Hashable | None = None
    children: Sequence[_Node] = ()
    void: bool = False  # it holds nothing: all of its work is in its children


class Ledger:
    """See the module's docstring.

    Args:
        size: `DoFn.restriction_size`, to check a tiling that nothing else can prove.
        name: name of the DoFn, for messages.

    Attributes:
        on_split: called with the arguments of each split: the work item's id, the primary and the residuals; or None.
    """

    def __init__(self, size: Callable[[Any, Any], float | None], *, name: str = "the DoFn") -> None:
        self._size = size
        self._name = name
        self.on_split: Callable[[int, Any, Sequence[Residual]], None] | None = None
        self._elements: list[tuple[Any, int, int]] = []  # initial restriction, index of first node, index past last
        self._count = 0  # of elements; each row of a table is one
        self._nodes: list[_Node] = []
        self._owned: dict[Hashable, dict[int, _Node]] = {}
        self._sealed: dict[Hashable, Hashable] = {}

    def __len__(self) -> int:
        """Return the number of work items."""
        return len(self._nodes)

    def elements(self) -> int:
        """Return the number of elements."""
        return self._count

    def item(self, item_id: int) -> WorkItem:
        """Return a work item as it was handed out."""
        return self._nodes[item_id].item

    def holds(self, item_id: int) -> Any:
        """Return what a work item holds now, None if all of it was given away."""
        return self._nodes[item_id].holds

    def add_element(
        self,
        element: Any,
        restriction: Any,
        pieces: Sequence[tuple[Any, float | None]],
        watermarks: Sequence[Any] | None = None,
    ) -> list[WorkItem]:
        """Enter an element with its initial restriction, cut into (restriction, size) pieces; return its work items.

        Args:
            element: the input, or a `Table`, which has as many numbers as rows.
            restriction: its initial restriction.
            pieces: what it is cut into, in order.
            watermarks: the state of the watermark estimator to go on from, for each piece; None for none.

        Raises:
            SplitError: if the pieces do not tile the restriction.
        """
        element_id, first = self._count, len(self._nodes)
        items = [
            WorkItem(first + at, element_id, element, part, size, None, None if watermarks is None else watermarks[at])
            for at, (part, size) in enumerate(pieces)
        ]
        self._check(element, restriction, [item.restriction for item in items], "the initial work items")
        self._nodes += [_Node(item, item.restriction) for item in items]
        self._elements.append((restriction, first, len(self._nodes)))
        self._count += work_of(element, restriction).elements
        return items

    def _new(self, item: WorkItem) -> _Node:
        node = _Node(item, item.restriction)
        self._nodes.append(node)
        return node

    def _check(self, element: Any, whole: Any, parts: Sequence[Any], what: str) -> None:
        if len(parts) == 1 and parts[0] is whole:  # the usual case: saves time with a million elements
            return
        with blame(lambda: f"{self._name}: comparing {what} of element {show(element)} with {show(whole)}"):
            flaw = tiling_flaw(whole, parts, lambda restriction: self._size(element, restriction))
        if flaw is not None:
            raise SplitError(f"{self._name}: {what} of element {show(element)} do not add up: {flaw}.")

    def assign(self, owner: Hashable, items: Iterable[WorkItem]) -> None:
        """Give work items that nobody owns to ``owner``, behind those it has.

        Raises:
            LedgerError: if a work item has an owner or is given twice, or ``owner`` is sealed.
        """
        given = list(items)
        nodes = {item.id: self._held(None, item.id) for item in given}
        self._check_open(owner)
        if len(nodes) < len(given):
            raise LedgerError(f"{owner!r} was given a work item twice: {[item.id for item in given]}.")
        for node in nodes.values():
            node.owner = owner
        self._owned.setdefault(owner, {}).update(nodes)

    def _check_open(self, owner: Hashable) -> None:
        if owner in self._sealed:
            raise LedgerError(f"{owner!r} is sealed by attempt {self._sealed[owner]!r}; its content is fixed.")

    def _held(self, owner: Hashable | None, item_id: int) -> _Node:
        node = self._nodes[item_id] if 0 <= item_id < len(self._nodes) else None
        if node is None or node.owner != owner or node.void:
            whose = "nobody" if node is None else repr(node.owner)
            raise LedgerError(f"work item {item_id} does not belong to {owner!r} (it belongs to {whose}).")
        if owner is not None:
            self._check_open(owner)
        return node

    def split(
        self, owner: Hashable | None, item_id: int, primary: Any, residuals: Sequence[Residual]
    ) -> list[WorkItem]:
        """Record that a work item was split: it keeps ``primary``, each residual becomes a work item without owner.

        Args:
            owner: the work item's owner; None if the planner cuts a work item that nobody owns yet.
            item_id: the work item.
            primary: what the work item keeps; None if all of it is in the residuals.
            residuals: the parts cut off, in the order of the cuts: the last lies next to the primary.

        Returns:
            One new work item per residual, in that order.

        Raises:
            SplitError: if primary and residuals do not tile what the work item held.
        """
        node = self._held(owner, item_id)
        self._check_split(node, primary, residuals)
        return self._split(node, primary, residuals, self._sizes(node, residuals))

    def _check_split(self, node: _Node, primary: Any, residuals: Sequence[Residual]) -> None:
        kept = [] if primary is None else [primary]
        in_order = [residual.restriction for residual in reversed(residuals)]
        self._check(node.item.element, node.holds, kept + in_order, f"the parts of work item {node.item.id}")

    def _sizes(self, node: _Node, residuals: Sequence[Residual]) -> list[float | None]:
        return [self._size(node.item.element, residual.restriction) for residual in residuals]

    def _split(
        self, node: _Node, primary: Any, residuals: Sequence[Residual], sizes: list[float | None]
    ) -> list[WorkItem]:
        item = node.item
        if self.on_split is not None:
            self.on_split(item.id, primary, residuals)
        if node.owner is None and primary is not None:  # it will be handed out as this smaller piece
            node.item = attrs.evolve(item, restriction=primary, size=self._size(item.element, primary))
        fresh = []
        for residual, size in zip(residuals, sizes, strict=True):
            child = WorkItem(
                id=len(self._nodes),
                element_id=item.element_id,
                element=item.element,
                restriction=residual.restriction,
                size=size,
                parent=item.id,
                watermark=residual.watermark,
                origin=DEFERRED if residual.deferred else WHILE_IT_RAN if node.owner is not None else PLANNED,
            )
            fresh.append(self._new(child))
        node.children = (*reversed(fresh), *node.children)  # a later cut lies in front of earlier ones
        node.holds = primary
        if primary is None:
            node.void = True
            self._drop(node)
        return [child.item for child in fresh]

    def release(self, owner: Hashable, item_id: int) -> WorkItem:
        """Take back a work item that its owner did not start; return it with what it holds now."""
        node = self._held(owner, item_id)
        node.item = self._as_it_stands(node)
        self._drop(node)
        return node.item

    def _as_it_stands(self, node: _Node) -> WorkItem:
        if node.holds is node.item.restriction:
            return node.item
        size = self._size(node.item.element, node.holds)
        return attrs.evolve(node.item, restriction=node.holds, size=size)

    def _drop(self, node: _Node) -> None:
        if node.owner is not None:
            del self._owned[node.owner][node.item.id]
            node.owner = None

    def seal(self, owner: Hashable, attempt: Hashable) -> bool:
        """Fix what ``owner`` holds as what ``attempt`` ran; return False if another attempt sealed it before."""
        return self._sealed.setdefault(owner, attempt) == attempt

    def commit(self, owner: Hashable, attempt: Hashable, outcome: Outcome) -> list[tuple[WorkItem, float]] | None:
        """Enter all that one attempt did and seal its owner, or do nothing.

        Returns:
            The work items to run next, each with the delay in seconds that `process` asked for; None if this or
            another attempt was committed before: then nothing changed.

        Raises:
            LedgerError: if the outcome names work items that the owner does not have, or did not start.
            SplitError: if a split does not add up.
        """
        if owner in self._sealed:
            return None
        nodes = list(self._owned.get(owner, {}).values())
        started = {node.item.id: node for node in nodes[: outcome.started]}
        ids = [part.item_id for part in outcome.parts]
        if not (set(ids) <= set(started) and len(set(ids)) == len(ids) and 0 <= outcome.started <= len(nodes)):
            raise LedgerError(
                f"{owner!r}, attempt {attempt!r}, accounts for {outcome.started} work items and for parts of {ids}; it "
                f"was given {len(nodes)}, and parts must be of those that it started, each once."
            )
        sizes = []
        for part in outcome.parts:  # check everything before the first change, so that an error changes nothing
            self._check_split(started[part.item_id], part.primary, part.residuals)
            sizes.append(self._sizes(started[part.item_id], part.residuals))
        todo = [(self.release(owner, node.item.id), 0.0) for node in nodes[outcome.started :]]
        for part, part_sizes in zip(outcome.parts, sizes, strict=True):
            children = self._split(started[part.item_id], part.primary, part.residuals, part_sizes)
            todo += zip(children, (residual.delay_seconds for residual in part.residuals), strict=True)
        self.seal(owner, attempt)
        return todo

    def commit_first(self, owner: Hashable, count: int, last_id: int, part: Hashable) -> list[int]:
        """Seal the first ``count`` work items of an owner, under a name of their own; the owner keeps the others.

        A saved run commits the work of a lane that goes on like this, in segments.

        Args:
            owner: the owner.
            count: how many of its work items, in the order in which it was assigned them.
            last_id: the id of the last of them.
            part: a new name for these work items.

        Returns:
            Their ids.

        Raises:
            LedgerError: if the owner does not have them.
        """
        self._check_open(owner)
        self._check_open(part)
        owned = self._owned.get(owner, {})
        nodes = list(islice(owned.values(), max(count, 0)))
        if count < 1 or len(nodes) < count or nodes[-1].item.id != last_id:
            raise LedgerError(
                f"{owner!r} commits its first {count} work items, the last of them {last_id}; it has {len(owned)}."
            )
        for node in nodes:
            del owned[node.item.id]
            node.owner = part
        self._owned[part] = {node.item.id: node for node in nodes}
        self.seal(part, part)
        return [node.item.id for node in nodes]

    def held_by(self, owner: Hashable) -> int:
        """Return how many work items an owner has."""
        return len(self._owned.get(owner, ()))

    def items(self) -> list[WorkItem]:
        """Return all work items that hold something, each with what it holds now, in order."""
        return [self._as_it_stands(node) for node in self._nodes if not node.void]

    def uncommitted(self) -> int:
        """Return how many work items are not sealed."""
        return sum(not node.void and node.owner not in self._sealed for node in self._nodes)

    def unowned(self) -> list[WorkItem]:
        """Return the work items that nobody owns, each with what it holds now, in order."""
        return [self._as_it_stands(node) for node in self._nodes if node.owner is None and not node.void]

    def sealed_by(self, owner: Hashable) -> Hashable | None:
        """Return the attempt whose work counts for ``owner``, None if there is none yet."""
        return self._sealed.get(owner)

    def content_with_sizes(self, owner: Hashable) -> list[WorkItem]:
        """Return what `content` does, each work item with its present size, for a caller that counts replayed work."""
        return [self._as_it_stands(node) for node in self._owned.get(owner, {}).values()]

    def content(self, owner: Hashable) -> list[WorkItem]:
        """Return what ``owner`` holds, in order: its work items, each cut to what it keeps. A replay must run these."""
        return [
            node.item if node.holds is node.item.restriction else attrs.evolve(node.item, restriction=node.holds)
            for node in self._owned.get(owner, {}).values()
        ]

    def prove(self) -> None:
        """Check that the sealed parts of every element tile its initial restriction.

        Raises:
            TilingError: if they do not, or a part is not sealed; it names the element.
        """
        for restriction, first, stop in self._elements:
            parts = []
            for node in self._leaves(self._nodes[first:stop]):
                if node.owner not in self._sealed:
                    element, part = work_of(node.item.element, node.holds).named()
                    raise TilingError(
                        f"{self._name}: the run ended with {show(part)} of element {show(element)} not committed "
                        f"(owner: {node.owner!r}). No part of the result is returned. {_CHECK}"
                    )
                parts.append(node.holds)
            element = self._nodes[first].item.element
            try:
                self._check(element, restriction, parts, "the committed parts")
            except SplitError as error:
                raise TilingError(f"{error} No part of the result is returned. {_CHECK}") from None

    def _leaves(self, nodes: Sequence[_Node]) -> Iterator[_Node]:
        stack = list(reversed(nodes))
        while stack:
            node = stack.pop()
            if not node.void:
                yield node
            stack.extend(reversed(node.children))

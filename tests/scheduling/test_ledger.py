"""The ledger: who owns what, whatever is split, given back or committed twice, and the proof at the end."""

import random
import re
from itertools import pairwise

import attrs
import pytest

from sdf.errors import LedgerError, SplitError, TilingError
from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part, WorkItem, units
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.ledger import Ledger


@attrs.frozen
class Rows:
    """A restriction that only has a size, and is falsy when it is empty."""

    count: int

    def __bool__(self):
        return False


@attrs.frozen
class Names:
    """A restriction with its own proof, which is falsy when it is empty."""

    names: tuple

    def __len__(self):
        return len(self.names)

    def is_tiled_by(self, parts):
        return tuple(name for part in parts for name in part.names) == self.names


def content(ledger, owner):
    """What an owner holds, as (element, restriction) pairs."""
    return [(item.element, item.restriction) for item in ledger.content(owner)]


def size_of(element, restriction):
    return restriction.count if isinstance(restriction, Rows) else restriction.stop - restriction.start


def no_size(element, restriction):
    return None


def span(start, stop):
    return OffsetRange(start, stop)


def cut_off(*bounds):
    """Return residuals with these (start, stop) bounds, in the order of the cuts."""
    return tuple(Residual(OffsetRange(start, stop)) for start, stop in bounds)


def ledger_of(*bounds, element="a"):
    """Return a ledger with one element, cut at these bounds, and its work items."""
    ledger = Ledger(size_of)
    pieces = [(span(one, two), two - one) for one, two in pairwise(bounds)]
    return ledger, ledger.add_element(element, span(bounds[0], bounds[-1]), pieces)


def holds(items):
    return [item.restriction for item in items]


def run_all(ledger, item, owner, *parts):
    """Assign one work item to an owner and commit that it was started, with these parts."""
    ledger.assign(owner, [item])
    return ledger.commit(owner, "first", Outcome(1, parts))


# Elements


def test_work_items_of_an_element():
    """Each piece becomes a work item with the next id."""
    _, items = ledger_of(0, 4, 9)
    assert [(i.id, i.element_id, i.element, i.restriction, i.size, i.parent) for i in items] == [
        (0, 0, "a", span(0, 4), 4, None),
        (1, 0, "a", span(4, 9), 5, None),
    ]


def test_ids_go_on_over_elements():
    """Ids are unique in the run, in the order of creation."""
    ledger, _ = ledger_of(0, 4, 9)
    (item,) = ledger.add_element("b", span(0, 1), [(span(0, 1), 1)])
    assert (item.id, item.element_id, len(ledger), ledger.elements()) == (2, 1, 3, 2)


def test_equal_elements_are_different_elements():
    """Elements are told apart by their place, not by their value; they need not even compare."""
    ledger = Ledger(size_of)
    for _ in range(2):
        run_all(ledger, ledger.add_element(["unhashable"], span(0, 3), [(span(0, 3), 3)])[0], ledger.elements())
    assert (ledger.elements(), ledger.prove()) == (2, None)


def test_item_gives_a_work_item_by_id():
    """As it was handed out."""
    ledger, items = ledger_of(0, 4, 9)
    assert ledger.item(1) is items[1]


@pytest.mark.parametrize(
    "pieces", [[], [(0, 4)], [(0, 4), (5, 9)], [(0, 5), (4, 9)], [(0, 9), (0, 9)], [(4, 9), (0, 4)]]
)
def test_pieces_that_do_not_tile_raise(pieces):
    """An element whose work items lose or double something never enters."""
    ledger = Ledger(size_of)
    with pytest.raises(SplitError, match=re.escape("the initial work items of element 'a' do not add up: ")):
        ledger.add_element("a", span(0, 9), [(span(*bounds), 1) for bounds in pieces])
    assert (ledger.elements(), len(ledger)) == (0, 0)


@pytest.mark.parametrize(("size", "expected"), [(None, 1.0), (0, 0.0), (7, 7.0), (0.5, 0.5)])
def test_units(size, expected):
    """The size of a work item, 1 where it is unknown, and 0 where it is 0."""
    assert units(WorkItem(0, 0, "a", span(0, 1), size)) == expected


# Assign


def test_content_is_what_was_assigned_in_order():
    """An owner runs its work items in the order in which it got them."""
    ledger, items = ledger_of(0, 3, 6, 9)
    ledger.assign("t", [items[2], items[0]])
    ledger.assign("t", [items[1]])
    assert content(ledger, "t") == [("a", span(6, 9)), ("a", span(0, 3)), ("a", span(3, 6))]


def test_content_of_a_stranger_is_empty():
    """An owner that got nothing holds nothing."""
    assert content(ledger_of(0, 9)[0], "nobody") == []


def test_an_owned_work_item_cannot_be_assigned_again():
    """A work item has at most one owner."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    with pytest.raises(LedgerError, match=re.escape("work item 0 does not belong to None (it belongs to 't').")):
        ledger.assign("u", items)


def test_a_refused_assignment_changes_nothing():
    """All is checked before anything is given."""
    ledger, items = ledger_of(0, 4, 9)
    ledger.assign("t", items[1:])
    with pytest.raises(LedgerError):
        ledger.assign("u", items)
    ledger.assign("u", items[:1])
    assert (content(ledger, "t"), content(ledger, "u")) == ([("a", span(4, 9))], [("a", span(0, 4))])


def test_one_work_item_twice_in_one_assignment_raises():
    """An owner cannot run a work item twice."""
    ledger, items = ledger_of(0, 9)
    with pytest.raises(LedgerError, match=re.escape("'t' was given a work item twice: [0, 0].")):
        ledger.assign("t", [items[0], items[0]])
    assert content(ledger, "t") == []


def test_nothing_is_assigned_to_a_sealed_owner():
    """What is sealed is fixed."""
    ledger, items = ledger_of(0, 4, 9)
    run_all(ledger, items[0], "t")
    with pytest.raises(LedgerError, match=re.escape("'t' is sealed by attempt 'first'; its content is fixed.")):
        ledger.assign("t", items[1:])


def test_a_work_item_that_holds_nothing_cannot_be_assigned():
    """After all of it went to its residuals, running it would double them."""
    ledger, items = ledger_of(0, 9)
    ledger.split(None, 0, None, cut_off((0, 9)))
    with pytest.raises(LedgerError, match=re.escape("work item 0 does not belong to None (it belongs to None).")):
        ledger.assign("t", items)


# Split


def test_split_gives_a_work_item_per_residual():
    """Each has the parent's id, its own size, and the watermark of the residual."""
    ledger, _ = ledger_of(0, 9)
    (item,) = ledger.split(None, 0, span(0, 4), [Residual(span(4, 9), 0, "state")])
    assert (item.id, item.parent, item.size, item.restriction, item.watermark) == (1, 0, 5, span(4, 9), "state")


def test_a_planned_split_makes_the_work_item_smaller():
    """What nobody owns yet is handed out as what is left of it, with its own size."""
    ledger, _ = ledger_of(0, 9)
    ledger.split(None, 0, span(0, 4), cut_off((4, 9)))
    item = ledger.item(0)
    assert (item.id, item.restriction, item.size, item.parent) == (0, span(0, 4), 4, None)


def test_a_split_of_an_owned_work_item_leaves_it_as_it_was_handed_out():
    """Its owner got all of it; what it holds now is its content."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.split("t", 0, span(0, 4), cut_off((4, 9)))
    assert (ledger.item(0).restriction, ledger.item(0).size) == (span(0, 9), 9)


@pytest.mark.parametrize("owner", [None, "t"])
def test_a_split_whose_size_cannot_be_told_changes_nothing(owner):
    """The size is asked of the user's code before anything is entered."""

    def no_size_of_the_rest(element, restriction):
        if restriction == span(4, 9):
            raise ZeroDivisionError("by the author")
        return 1

    ledger = Ledger(no_size_of_the_rest)
    items = ledger.add_element("a", span(0, 9), [(span(0, 9), 9)])
    if owner:
        ledger.assign(owner, items)
    with pytest.raises(ZeroDivisionError):
        ledger.split(owner, 0, span(0, 3), cut_off((4, 9), (3, 4)))
    assert (len(ledger), ledger.item(0)) == (1, items[0])
    ledger.split(owner, 0, span(0, 5), cut_off((5, 9)))


def test_split_leaves_the_primary_with_the_owner():
    """What an owner holds is what it was left with."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.split("t", 0, span(0, 4), cut_off((4, 9)))
    assert content(ledger, "t") == [("a", span(0, 4))]


def test_split_with_several_residuals_keeps_the_order_of_the_cuts():
    """The last cut lies next to the primary."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    fresh = ledger.split("t", 0, span(0, 2), cut_off((7, 9), (4, 7), (2, 4)))
    assert holds(fresh) == [span(7, 9), span(4, 7), span(2, 4)]


def test_split_without_a_primary_takes_the_work_item_away():
    """Nothing of it was run: its owner does not hold it any more."""
    ledger, items = ledger_of(0, 4, 9)
    ledger.assign("t", items)
    ledger.split("t", 0, None, cut_off((0, 4)))
    assert content(ledger, "t") == [("a", span(4, 9))]


@pytest.mark.parametrize(
    ("primary", "residuals"),
    [
        ((0, 4), []),
        ((0, 4), [(5, 9)]),
        ((0, 5), [(4, 9)]),
        ((0, 9), [(0, 9)]),
        ((0, 9), [(4, 9)]),
        ((0, 4), [(4, 8)]),
        ((0, 4), [(4, 10)]),
        ((0, 2), [(2, 4), (4, 9)]),
        ((4, 9), [(0, 4)]),
        (None, []),
        (None, [(1, 9)]),
    ],
)
def test_a_split_that_does_not_add_up_raises(primary, residuals):
    """A gap, an overlap, a wrong order or a lost residual is caught when it happens."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    with pytest.raises(SplitError, match=re.escape("the parts of work item 0 of element 'a' do not add up: ")):
        ledger.split("t", 0, primary and span(*primary), cut_off(*residuals))
    assert (len(ledger), content(ledger, "t")) == (1, [("a", span(0, 9))])


def test_a_second_split_refers_to_what_is_left():
    """The primary of the first split is what the second one splits."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.split("t", 0, span(0, 4), cut_off((4, 9)))
    with pytest.raises(SplitError):
        ledger.split("t", 0, span(0, 4), cut_off((4, 9)))


@pytest.mark.parametrize("owner", ["u", None])
def test_only_the_owner_splits(owner):
    """Neither another owner nor the planner may split what an owner holds."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    with pytest.raises(LedgerError, match=re.escape(f"work item 0 does not belong to {owner!r} (it belongs to 't').")):
        ledger.split(owner, 0, span(0, 4), cut_off((4, 9)))


@pytest.mark.parametrize("item_id", [-1, 1, 10**9])
def test_a_work_item_that_does_not_exist_belongs_to_nobody(item_id):
    """A wrong id is refused by name, also a negative one."""
    ledger, _ = ledger_of(0, 9)
    with pytest.raises(
        LedgerError, match=re.escape(f"work item {item_id} does not belong to None (it belongs to nobody).")
    ):
        ledger.split(None, item_id, span(0, 4), cut_off((4, 9)))


def test_nothing_is_split_after_the_seal():
    """A sealed owner's content is fixed."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.seal("t", 1)
    with pytest.raises(LedgerError, match=re.escape("'t' is sealed by attempt 1; its content is fixed.")):
        ledger.split("t", 0, span(0, 4), cut_off((4, 9)))


def test_a_work_item_that_holds_nothing_cannot_be_split():
    """All of it is its residuals'."""
    ledger, _ = ledger_of(0, 9)
    ledger.split(None, 0, None, cut_off((0, 9)))
    with pytest.raises(LedgerError, match="work item 0 does not belong to None"):
        ledger.split(None, 0, span(0, 4), cut_off((4, 9)))


# Release


def test_release_gives_a_work_item_back_to_be_assigned_again():
    """What was not started can go to another owner."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.assign("u", [ledger.release("t", 0)])
    assert (content(ledger, "t"), content(ledger, "u")) == ([], [("a", span(0, 9))])


def test_release_gives_what_is_left_of_the_work_item():
    """After a split that is its primary, with the size of the primary."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.split("t", 0, span(0, 4), cut_off((4, 9)))
    released = ledger.release("t", 0)
    assert (released.restriction, released.size) == (span(0, 4), 4)


def test_commit_gives_back_a_planned_piece_with_its_own_size():
    """A work item that a planner cut and a task did not start comes back as what is left, and as big as that."""
    ledger, _ = ledger_of(0, 100)
    (rest,) = ledger.split(None, 0, span(0, 10), cut_off((10, 100)))
    ledger.assign("t", [rest, ledger.item(0)])
    todo = ledger.commit("t", 1, Outcome(1))
    assert [(item.id, item.restriction, item.size) for item, _ in todo] == [(0, span(0, 10), 10)]


def test_a_released_work_item_is_the_ledgers_too():
    """Who asks for it by its id gets what was given back, and who splits it again splits that."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.split("t", 0, span(0, 6), cut_off((6, 9)))
    released = ledger.release("t", 0)
    before = ledger.item(0)
    ledger.split(None, 0, span(0, 2), cut_off((2, 6)))
    assert (before is released, ledger.item(0).restriction, ledger.item(0).size) == (True, span(0, 2), 2)


def test_only_the_owner_releases():
    """A stranger cannot give back what it does not have."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    with pytest.raises(LedgerError, match=re.escape("work item 0 does not belong to 'u' (it belongs to 't').")):
        ledger.release("u", 0)


def test_nothing_is_released_after_the_seal():
    """A sealed owner ran what it holds."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.seal("t", 1)
    with pytest.raises(LedgerError, match="is sealed by attempt 1"):
        ledger.release("t", 0)


# Seal


def test_the_first_seal_counts():
    """Later attempts are told that they do not."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    assert [ledger.seal("t", attempt) for attempt in (7, 8, 7)] == [True, False, True]


def test_sealed_by():
    """The attempt whose work counts, None before there is one."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    before = ledger.sealed_by("t")
    ledger.seal("t", 7)
    assert (before, ledger.sealed_by("t")) == (None, 7)


@pytest.mark.parametrize("attempt", [0, "", None, ()], ids=repr)
def test_a_falsy_attempt_seals_as_well(attempt):
    """Attempt 0 is an attempt."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.seal("t", attempt)
    assert (ledger.seal("t", "other"), ledger.prove()) == (False, None)


# Commit


def test_commit_of_all_that_was_assigned():
    """Nothing is left to run, and the element is proven."""
    ledger, items = ledger_of(0, 4, 9)
    ledger.assign("t", items)
    assert (ledger.commit("t", 1, Outcome(2)), ledger.prove(), ledger.sealed_by("t")) == ([], None, 1)


def test_commit_gives_back_what_was_not_started():
    """Whole, and without a delay."""
    ledger, items = ledger_of(0, 3, 6, 9)
    ledger.assign("t", items)
    todo = ledger.commit("t", 1, Outcome(1))
    assert [(item.id, item.restriction, delay) for item, delay in todo] == [(1, span(3, 6), 0), (2, span(6, 9), 0)]


def test_commit_gives_the_residuals_with_their_delays():
    """Each becomes a work item with the delay that was asked for."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    part = Part(0, span(0, 2), (Residual(span(5, 9)), Residual(span(2, 5), 30.0)))
    todo = ledger.commit("t", 1, Outcome(1, (part,)))
    assert [(item.restriction, delay) for item, delay in todo] == [(span(5, 9), 0), (span(2, 5), 30.0)]


def test_commit_seals_the_primaries():
    """What a replay must run is what the attempt ran."""
    ledger, items = ledger_of(0, 4, 9)
    ledger.assign("t", items)
    ledger.commit("t", 1, Outcome(1, (Part(0, span(0, 2), cut_off((2, 4))),)))
    assert content(ledger, "t") == [("a", span(0, 2))]


def test_commit_of_a_work_item_that_was_deferred_whole():
    """The primary is None: the task holds nothing of it."""
    ledger, items = ledger_of(0, 9)
    todo = run_all(ledger, items[0], "t", Part(0, None, (Residual(span(0, 9), 5.0),)))
    assert (content(ledger, "t"), holds(item for item, _ in todo)) == ([], [span(0, 9)])


def test_a_second_commit_of_the_same_attempt_changes_nothing():
    """A receipt that arrives twice is believed once."""
    ledger, items = ledger_of(0, 9)
    outcome = Outcome(1, (Part(0, span(0, 4), cut_off((4, 9))),))
    ledger.assign("t", items)
    found = [ledger.commit("t", 1, outcome) is None for _ in range(3)]
    assert (found, len(ledger)) == ([False, True, True], 2)


def test_a_second_attempt_with_another_split_point_changes_nothing():
    """Split points are found at run time and are not repeatable; the first attempt counts."""
    ledger, items = ledger_of(0, 9)
    ledger.assign("t", items)
    ledger.commit("t", 1, Outcome(1, (Part(0, span(0, 4), cut_off((4, 9))),)))
    second = ledger.commit("t", 2, Outcome(1, (Part(0, span(0, 7), cut_off((7, 9))),)))
    assert (second, content(ledger, "t"), ledger.sealed_by("t")) == (None, [("a", span(0, 4))], 1)


def test_a_late_attempt_that_is_nonsense_changes_nothing():
    """What does not count is not even read."""
    ledger, items = ledger_of(0, 9)
    run_all(ledger, items[0], "t")
    assert ledger.commit("t", 2, Outcome(17, (Part(99, None, ()),))) is None


@pytest.mark.parametrize(
    "outcome",
    [
        Outcome(3),
        Outcome(-1),
        Outcome(1, (Part(1, span(4, 5), cut_off((5, 9))),)),
        Outcome(2, (Part(2, span(9, 9), ()),)),
        Outcome(2, (Part(99, span(0, 1), ()),)),
        Outcome(0, (Part(0, span(0, 1), cut_off((1, 4))),)),
    ],
    ids=str,
)
def test_an_outcome_that_speaks_of_others_work_raises(outcome):
    """An outcome accounts for the owner's work items and for parts of those that it started."""
    ledger, items = ledger_of(0, 4, 9)
    ledger.assign("t", items)
    with pytest.raises(LedgerError, match=re.escape("'t', attempt 1, accounts for ")):
        ledger.commit("t", 1, outcome)
    assert (ledger.sealed_by("t"), len(content(ledger, "t"))) == (None, 2)


@pytest.mark.parametrize(
    "part",
    [
        Part(1, span(4, 6), ()),
        Part(1, span(4, 6), cut_off((7, 9))),
        Part(1, span(4, 6), cut_off((5, 9))),
        Part(1, None, ()),
        Part(1, span(4, 9), cut_off((4, 9))),
    ],
    ids=str,
)
def test_an_outcome_whose_split_does_not_add_up_changes_nothing(part):
    """All parts are checked before any is entered."""
    ledger, items = ledger_of(0, 4, 9)
    ledger.assign("t", items)
    with pytest.raises(SplitError):
        ledger.commit("t", 1, Outcome(2, (Part(0, span(0, 2), cut_off((2, 4))), part)))
    assert (ledger.sealed_by("t"), len(ledger), content(ledger, "t")) == (
        None,
        2,
        [("a", span(0, 4)), ("a", span(4, 9))],
    )


def test_an_outcome_with_one_part_twice_raises():
    """The second time it does not split what the work item holds: its residual would be run twice."""
    ledger, items = ledger_of(0, 9)
    part = Part(0, span(0, 4), cut_off((4, 9)))
    ledger.assign("t", items)
    message = (
        "'t', attempt 1, accounts for 1 work items and for parts of [0, 0]; it was given 1, and parts must be of those "
        "that it started, each once."
    )
    with pytest.raises(LedgerError, match=re.escape(message)):
        ledger.commit("t", 1, Outcome(1, (part, part)))
    assert (ledger.sealed_by("t"), len(ledger), content(ledger, "t")) == (None, 1, [("a", span(0, 9))])


# Prove


def test_prove_of_nothing():
    """A run without elements is proven."""
    assert Ledger(size_of).prove() is None


@pytest.mark.parametrize("owner", [None, "t"])
def test_prove_before_all_is_committed_raises(owner):
    """What nobody committed is named, with its owner."""
    ledger, items = ledger_of(0, 9)
    if owner:
        ledger.assign(owner, items)
    message = (
        "the run ended with OffsetRange(start=0, stop=9) of element 'a' not committed "
        f"(owner: {owner!r}). No part of the result is returned. Run check_dofn; if it passes, this is a bug of "
        f"sdf: please report it."
    )
    with pytest.raises(TilingError, match=re.escape(message)):
        ledger.prove()


def test_prove_misses_a_residual_that_was_not_run():
    """A residual that never ran is a gap."""
    ledger, items = ledger_of(0, 9)
    run_all(ledger, items[0], "t", Part(0, span(0, 4), cut_off((4, 9))))
    with pytest.raises(TilingError, match=re.escape("OffsetRange(start=4, stop=9) of element 'a' not committed")):
        ledger.prove()


def test_prove_names_the_right_element():
    """Of several elements the one with the flaw is named."""
    ledger, items = ledger_of(0, 9)
    run_all(ledger, items[0], "t")
    ledger.add_element("b", span(0, 5), [(span(0, 5), 5)])
    with pytest.raises(TilingError, match="of element 'b' not committed"):
        ledger.prove()


def test_an_empty_element_must_be_run_too():
    """Its process() might have had something to say."""
    ledger, _ = ledger_of(0, 0)
    with pytest.raises(TilingError):
        ledger.prove()


def test_nested_splits_are_proven():
    """Residuals of residuals, split before and after, tile the element."""
    ledger, items = ledger_of(0, 100)
    ledger.assign("t", items)
    (far,) = ledger.split("t", 0, span(0, 50), cut_off((50, 100)))
    (near,) = ledger.split("t", 0, span(0, 20), cut_off((20, 50)))
    ledger.seal("t", 1)
    (planned,) = ledger.split(None, far.id, span(50, 60), cut_off((60, 100)))
    todo = run_all(ledger, planned, "u", Part(planned.id, None, cut_off((60, 100))))
    for owner, item in enumerate([near, far, todo[0][0]]):
        run_all(ledger, item, owner)
    assert ledger.prove() is None


# Falsy restrictions


@pytest.mark.parametrize("counts", [(5, 0), (0, 5), (2, 3), (0, 0)])
def test_falsy_parts_are_parts(counts):
    """A primary or residual is absent only if it is None."""
    first, rest = counts
    ledger = Ledger(size_of)
    items = ledger.add_element("a", Rows(first + rest), [(Rows(first + rest), first + rest)])
    todo = run_all(ledger, items[0], "t", Part(0, Rows(first), (Residual(Rows(rest)),)))
    assert (content(ledger, "t"), holds(item for item, _ in todo)) == ([("a", Rows(first))], [Rows(rest)])


def test_a_falsy_residual_that_was_not_run_is_missed():
    """An empty custom object is work too."""
    ledger = Ledger(no_size)
    whole = Names(("x",))
    items = ledger.add_element("a", whole, [(whole, None)])
    run_all(ledger, items[0], "t", Part(0, whole, (Residual(Names(())),)))
    with pytest.raises(TilingError, match=re.escape("Names(names=()) of element 'a' not committed")):
        ledger.prove()


def test_falsy_parts_are_proven():
    """Empty parts neither hide a flaw nor make one."""
    ledger = Ledger(no_size)
    whole = Names(("x", "y"))
    items = ledger.add_element("a", whole, [(Names(()), None), (whole, None)])
    todo = run_all(ledger, items[1], "t", Part(1, Names(()), (Residual(whole),)))
    for owner, item in enumerate([items[0], todo[0][0]]):
        run_all(ledger, item, owner)
    assert ledger.prove() is None


# Random runs, and mutants of them


class _Run:
    """Runs an element with random splits, deferrals, hand-backs, retries and doubled receipts."""

    def __init__(self, seed, ledger_type=Ledger):
        self.rng = random.Random(seed)
        self.ledger = ledger_type(size_of)
        self.splits = self.doubles = self.handed_back = 0
        self.committed = []

    def add(self, element, length):
        bounds = sorted({0, length, *(self.rng.randint(0, length) for _ in range(self.rng.randrange(3)))})
        bounds = bounds if len(bounds) > 1 else [0, 0]
        pieces = [(span(one, two), two - one) for one, two in pairwise(bounds)]
        return self.ledger.add_element(element, span(0, length), pieces)

    def part(self, item, restriction):
        """Return what an attempt made of a work item: whole (None), split, or deferred before any claim."""
        start, stop = restriction
        choice = self.rng.random()
        if choice < 0.4 or start == stop:
            return None
        cuts = sorted({self.rng.randint(start, stop) for _ in range(self.rng.randint(1, 3))})
        ends = [*cuts[1:], stop]
        residuals = cut_off(*reversed(list(zip(cuts, ends, strict=True))))
        if choice < 0.5:
            return Part(item.id, None, (*residuals, *(cut_off((start, cuts[0])) if cuts[0] > start else ())))
        return Part(item.id, span(start, cuts[0]), residuals)

    def plan(self, items):
        """Cut a work item that nobody owns now and then."""
        planned = []
        for item in items:
            start, stop = item.restriction
            if stop - start > 1 and self.rng.random() < 0.3:
                at = self.rng.randint(start, stop)
                planned += self.ledger.split(None, item.id, span(start, at), cut_off((at, stop)))
                item = self.ledger.item(item.id)
                self.splits += 1
            planned.append(item)
        self.rng.shuffle(planned)
        return planned

    def outcome(self, items):
        started = self.rng.randint(1, len(items))
        parts = [self.part(item, item.restriction) for item in items[:started]]
        return Outcome(started, tuple(part for part in parts if part is not None))

    def run(self, todo):
        task = 0
        while todo:
            todo = self.plan(todo)
            count = self.rng.randint(1, len(todo))
            items, todo = todo[:count], todo[count:]
            self.ledger.assign(task, items)
            for attempt in range(self.rng.randint(1, 2)):
                left = self.ledger.commit(task, attempt, self.outcome(items))
                if left is None:
                    self.doubles += 1
                else:
                    self.handed_back += len(left)
                    todo += [item for item, _ in left]
            self.committed += content(self.ledger, task)
            task += 1


@pytest.mark.parametrize("seed", range(40))
def test_random_runs_are_proven(seed):
    """However it was split, deferred, given back and retried, the committed parts hold each position once."""
    run = _Run(seed)
    items = run.add("a", 40) + run.add("b", 0) + run.add("c", 7)
    run.run(items)
    run.ledger.prove()
    found = sorted((element, position) for element, part in run.committed for position in range(*part))
    assert found == [("a", i) for i in range(40)] + [("c", i) for i in range(7)]


def test_random_runs_exercise_what_they_claim_to():
    """Splits, late attempts and hand-backs all happen."""
    totals = [0, 0, 0]
    for seed in range(40):
        run = _Run(seed)
        run.run(run.add("a", 40))
        totals = [total + one for total, one in zip(totals, (run.splits, run.doubles, run.handed_back), strict=True)]
    assert [total > 0 for total in totals] == [True, True, True]


class DropsAResidual(Ledger):
    """A mutant: the last residual of a commit is forgotten."""

    def commit(self, owner, attempt, outcome):
        left = super().commit(owner, attempt, outcome)
        return left[:-1] if left else left


class BelievesTwice(Ledger):
    """A mutant: a second receipt of the same task is entered too."""

    def commit(self, owner, attempt, outcome):
        self._sealed.pop(owner, None)
        return super().commit(owner, attempt, outcome)


class ForgetsTheSplit(Ledger):
    """A mutant: the primary goes on holding what was cut off."""

    def _split(self, node, primary, residuals, sizes):
        whole = node.holds
        fresh = super()._split(node, primary, residuals, sizes)
        if primary is not None and residuals:
            node.holds = whole
        return fresh


class SplitsOffByOne(Ledger):
    """A mutant: the check of a split is skipped, and every primary is one too short."""

    def _check_split(self, node, primary, residuals):
        pass

    def _split(self, node, primary, residuals, sizes):
        if primary is not None and primary.stop > primary.start:
            primary = span(primary.start, primary.stop - 1)
        return super()._split(node, primary, residuals, sizes)


class SealsTheUnstarted(Ledger):
    """A mutant: what a task did not start is believed to be run, and run again."""

    def release(self, owner, item_id):
        node = self._held(owner, item_id)
        return self._split(node, node.holds, [Residual(node.holds)], [None])[0]


@pytest.mark.parametrize("mutant", [DropsAResidual, BelievesTwice, ForgetsTheSplit, SplitsOffByOne, SealsTheUnstarted])
def test_mutants_are_caught(mutant):
    """Each seeded bug makes commit, split or prove raise in most random runs, and never goes unseen where it bites."""
    caught = missed = 0
    for seed in range(40):
        run = _Run(seed, mutant)
        try:
            run.run(run.add("a", 40))
            run.ledger.prove()
        except (LedgerError, SplitError):
            caught += 1
        else:
            found = sorted(position for _, part in run.committed for position in range(*part))
            missed += found != list(range(40))
    assert (caught > 0, missed) == (True, 0)


def test_a_dropped_residual_is_caught():
    """A mutant runner that forgets one residual cannot finish its run."""
    ledger, items = ledger_of(0, 9)
    (_, near) = run_all(ledger, items[0], "t", Part(0, span(0, 2), cut_off((5, 9), (2, 5))))
    run_all(ledger, near[0], "u")
    with pytest.raises(TilingError, match=re.escape("OffsetRange(start=5, stop=9) of element 'a' not committed")):
        ledger.prove()


def test_a_residual_that_was_never_reported_is_caught():
    """A mutant attempt that ran a primary and kept its residual to itself cannot commit."""
    ledger, items = ledger_of(0, 9)
    with pytest.raises(SplitError):
        run_all(ledger, items[0], "t", Part(0, span(0, 2), ()))


def test_a_doubled_receipt_under_another_owner_is_caught():
    """A mutant that enters the same work under two owners cannot assign it."""
    ledger, items = ledger_of(0, 9)
    run_all(ledger, items[0], "t")
    with pytest.raises(LedgerError):
        run_all(ledger, items[0], "u")


def test_content_keeps_the_watermark_to_go_on_from():
    """A replay starts its estimator where the attempt did."""
    ledger, (item,) = ledger_of(0, 9)
    ledger.assign("t", [item])
    (child, _), *_ = ledger.commit("t", 1, Outcome(1, (Part(item.id, span(0, 4), (Residual(span(4, 9), 0, 77),)),)))
    ledger.assign("u", [child])
    assert [one.watermark for one in ledger.content("u")] == [77]


# Segments: what a saved run commits of an owner that goes on.


def segments_ledger():
    """Return a ledger of an element in four parts, all of which the owner "t" has."""
    ledger = Ledger(size_of)
    items = ledger.add_element("a", span(0, 8), [(span(start, start + 2), 2) for start in (0, 2, 4, 6)])
    ledger.assign("t", items)
    return ledger, items


def test_the_first_work_items_of_an_owner_are_committed_and_it_keeps_the_others():
    """It may commit them later, and be given more."""
    ledger, items = segments_ledger()
    assert ledger.commit_first("t", 2, items[1].id, "first") == [0, 1]
    assert (content(ledger, "first"), content(ledger, "t")) == (
        [("a", span(0, 2)), ("a", span(2, 4))],
        [("a", span(4, 6)), ("a", span(6, 8))],
    )
    assert (ledger.held_by("first"), ledger.held_by("t"), ledger.uncommitted()) == (2, 2, 2)
    ledger.commit_first("t", 2, items[3].id, "second")
    assert (ledger.held_by("t"), ledger.uncommitted()) == (0, 0)
    ledger.prove()


def test_what_is_committed_is_what_a_work_item_holds_then():
    """The residual is nobody's, and still to do."""
    ledger, items = segments_ledger()
    (child,) = ledger.split("t", items[0].id, span(0, 1), [Residual(span(1, 2))])
    ledger.commit_first("t", 4, items[3].id, "all")
    assert ledger.unowned() == [ledger.item(child.id)]
    assert ledger.uncommitted() == 1
    with pytest.raises(TilingError, match=re.escape("OffsetRange(start=1, stop=2) of element 'a' not committed")):
        ledger.prove()
    ledger.assign("u", [child])
    ledger.commit_first("u", 1, child.id, "rest")
    ledger.prove()


@pytest.mark.parametrize(
    ("owner", "count", "last_id"),
    [("t", 0, 0), ("t", -1, 3), ("t", 1, 1), ("t", 2, 0), ("t", 5, 3), ("u", 1, 0), ("t", 4, 4)],
)
def test_a_commit_of_what_an_owner_does_not_have_changes_nothing(owner, count, last_id):
    """It must name exactly the first ones."""
    ledger, items = segments_ledger()
    with pytest.raises(
        LedgerError, match=re.escape(f"{owner!r} commits its first {count} work items, the last of them")
    ):
        ledger.commit_first(owner, count, last_id, "part")
    assert content(ledger, "t") == [("a", item.restriction) for item in items]
    assert ledger.sealed_by("part") is None


def test_what_was_released_is_not_committed_with_the_rest():
    """Nor is what was given back whole: it is not among the first ones any more."""
    ledger, items = segments_ledger()
    ledger.release("t", items[0].id)
    ledger.split("t", items[1].id, None, [Residual(span(2, 4))])
    with pytest.raises(LedgerError):
        ledger.commit_first("t", 4, items[3].id, "part")
    assert ledger.commit_first("t", 2, items[3].id, "part") == [2, 3]
    assert [item.restriction for item in ledger.unowned()] == [span(0, 2), span(2, 4)]


def test_nothing_can_be_done_to_what_is_committed():
    """Neither by its owner of before nor under its own name."""
    ledger, items = segments_ledger()
    ledger.commit_first("t", 1, items[0].id, "part")
    for attempt in (
        lambda: ledger.commit_first("t", 1, items[0].id, "again"),
        lambda: ledger.commit_first("t", 1, items[1].id, "part"),
        lambda: ledger.commit_first("part", 1, items[0].id, "again"),
        lambda: ledger.release("t", items[0].id),
        lambda: ledger.release("part", items[0].id),
        lambda: ledger.split("t", items[0].id, span(0, 1), [Residual(span(1, 2))]),
        lambda: ledger.split("part", items[0].id, span(0, 1), [Residual(span(1, 2))]),
        lambda: ledger.assign("u", [items[0]]),
        lambda: ledger.assign("part", [items[1]]),
    ):
        with pytest.raises(LedgerError):
            attempt()
    assert content(ledger, "part") == [("a", span(0, 2))]
    assert ledger.held_by("t") == 3


def test_what_nobody_owns_is_listed_as_it_stands():
    """Cut to what is left of it, with its present size."""
    ledger = Ledger(size_of)
    (item,) = ledger.add_element("a", span(0, 8), [(span(0, 8), 8)])
    ledger.assign("t", [item])
    ledger.split("t", item.id, span(0, 3), [Residual(span(3, 8))])
    assert [(one.restriction, one.size) for one in ledger.unowned()] == [(span(3, 8), 5)]
    ledger.release("t", item.id)
    assert [(one.restriction, one.size) for one in ledger.unowned()] == [(span(0, 3), 3), (span(3, 8), 5)]
    assert [(one.id, one.restriction) for one in ledger.items()] == [(0, span(0, 3)), (1, span(3, 8))]


def test_each_split_is_told_before_any_other_event_of_its_parts():
    """With the id, the primary and the residuals; a split that does not add up is not told."""
    ledger, items = segments_ledger()
    told = []
    ledger.on_split = lambda *split: told.append(split)
    with pytest.raises(SplitError):
        ledger.split("t", items[0].id, span(0, 1), [])
    residuals = [Residual(span(1, 2), 5.0, "state")]
    ledger.split("t", items[0].id, span(0, 1), residuals)
    assert told == [(0, span(0, 1), residuals)]

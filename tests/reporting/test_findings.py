"""What a report says on its own: the straggler, time without pieces, slow starts."""

import attrs
import pytest
from support.pages import report_of

from sdf.reporting.findings import Barren, Idle, SlowStart, Straggler, barren, idle, slow_starts, straggler
from sdf.reporting.pieces import PieceRun
from sdf.reporting.run_facts import TaskRun, findings
from sdf.reporting.run_report import RunReport


def piece(element_id, seconds, *, began=0.0, task=0, opening=0.0, origin="initial", restriction="part"):
    return PieceRun(0, element_id, f"e{element_id}", restriction, origin, None, task, began, seconds, 1.0, 1, opening)


def run(pieces, *, seconds, slots=2, runner="StagedRunner", began=0.0):
    """Return the report of a run in which each slot is one worker, with a task of its own."""
    tasks = tuple(TaskRun(0, slot, f"host/{slot}", 0.0, 1.0, 1, 0, 1) for slot in range(slots))
    return RunReport(
        "CountFn", 1, 1, 0, (), seconds, slots, tasks, pieces=tuple(pieces), runner=runner, began=began
    )  # fmt: skip


def test_straggler_is_named_with_its_share_and_its_parts():
    """The parts of all slots count together; what gave all of it away is no part."""
    pieces = [piece(0, 1.0), piece(1, 4.0), piece(1, 5.0, task=1), piece(1, 0.0, restriction=None)]
    assert straggler(pieces, 2) == Straggler("e1", 0.9, 2, only=False, cause="hot blocks")
    assert str(straggler(pieces, 2)) == "'e1' took 90% of the time; it was split into 2 parts; cause: hot blocks"


@pytest.mark.parametrize(
    ("seconds", "slots", "element"),
    [
        ([], 2, None),
        ([5.0], 1, None),
        ([5.0], 2, "e0"),
        ([5.0, 5.0], 2, None),
        ([5.0, 5.0], 8, None),
        ([7.4, 2.6], 2, None),
        ([2.4, 7.6], 2, "e1"),
        ([1.0] * 99 + [2.0], 4, None),
        ([1.0] * 99 + [99.0], 4, "e99"),
        ([6.0, 1.0, 6.0], 8, "e0"),
        ([0.0, 0.0], 2, None),
    ],
)
def test_straggler_is_what_took_longer_than_a_slot_and_than_the_others(seconds, slots, element):
    """Half again as long as either; of one element alone it is that, unless there is one slot."""
    found = straggler([piece(number, one) for number, one in enumerate(seconds)], slots)
    assert (None if found is None else found.element) == element


def test_straggler_that_is_all_there_is_says_so():
    """A share of nothing else would tell nothing."""
    assert str(straggler([piece(0, 1.0)], 2)) == "'e0' is the only element; it was not split; cause: much work"


def test_share_of_a_straggler_is_not_rounded_to_all():
    """Others took some of it."""
    assert "took more than 99% of the time" in str(straggler([piece(0, 0.001), piece(1, 9.0)], 2))


def test_the_time_in_which_no_piece_ran_is_told_apart():
    """Of a run from 0 to 10: before the first piece, between two, after the last one."""
    pieces = [piece(0, 1.0, began=2.0), piece(0, 3.0, began=2.0, task=1), piece(0, 2.0, began=7.0)]
    found = idle(pieces, began=0.0, seconds=10.0)
    assert found == Idle(before=2.0, between=2.0, after=1.0)
    assert found.seconds == 5.0
    assert str(found) == "2.00 s before the first, 2.00 s between two, 1.00 s after the last"


def test_a_slot_that_waits_for_another_is_no_part_of_it():
    """One has a block of 6 s that nobody could cut; the other has nothing to do before its first piece and its last."""
    pieces = [piece(0, 6.0), piece(1, 1.0, began=1.0, task=1), piece(1, 0.5, began=6.0, task=1)]
    assert idle(pieces, began=0.0, seconds=6.5) == Idle(0.0, 0.0, 0.0)


@pytest.mark.parametrize(("began", "before", "after"), [(-3600.0, 0.0, 1.0), (3600.0, 1.0, 0.0), (0.25, 0.25, 0.75)])
def test_idle_time_is_part_of_the_run_where_clocks_differ(began, before, after):
    """A worker's clock is an hour behind the driver's, or ahead of it."""
    assert idle([piece(0, 4.0, began=began)], began=0.0, seconds=5.0) == Idle(before, 0.0, after)


def test_a_pause_between_two_actions_is_no_idle_time():
    """A lane ran before and after it; the run's seconds are those in which it was run."""
    assert idle([piece(0, 1.0), piece(0, 1.0, began=100.0)], began=0.0, seconds=2.5) == Idle(0.0, 0.5, 0.0)


def test_a_run_without_pieces_has_no_idle_time():
    """Nothing is known of it."""
    assert run([], seconds=1.0).idle is None


def said(pieces, **options):
    return list(findings(run(pieces, **options)))


def both(seconds, *, began=0.0, origin="initial"):
    """Return a piece of another element on each of two slots."""
    return [piece(slot, seconds, began=began, task=slot, origin=origin) for slot in range(2)]


def test_a_run_that_kept_its_slots_busy_is_told_nothing():
    """A twentieth of the run is not worth a line."""
    assert said(both(9.6), seconds=10.0) == []


@pytest.mark.parametrize("runner", ["StagedRunner", "LiveRunner"])
def test_the_time_in_which_no_piece_ran_is_told_without_a_reason(runner):
    """Nobody knows whether elements were expanded, jobs started, deferred work waited, or an attempt was lost."""
    assert said([*both(0.4, began=4.0), *both(0.4, began=5.0)], seconds=6.0, runner=runner) == [
        "no piece ran: 5.20 s of 6.00 s (4.00 s before the first, 0.60 s between two, 0.60 s after the last)"
    ]


@pytest.mark.parametrize("pieces", [[piece(0, 0.0)], [piece(0, 0.09)]])
def test_what_takes_no_time_is_no_straggler(pieces):
    """An element without work held up nobody, be it the only one."""
    assert straggler(pieces, 2) is None


def test_nothing_is_compared_where_nothing_took_time():
    """Two lines, and that no piece ran."""
    lines = str(run([piece(0, 0.0, began=0.5)], seconds=1.0)).splitlines()
    assert [line.partition(":")[0] for line in lines] == [
        "CountFn",
        "2 tasks in 1 stage; 0 splits of 0 elements",
        "no piece ran",
    ]


def test_slow_starts_of_an_element_are_told_together():
    """From 0.1 s on, the element that lost most first."""
    pieces = [piece(0, 1.0, opening=0.5), piece(1, 1.0, opening=0.4), piece(1, 1.0, opening=0.25), piece(1, 1.0)]
    pieces += [piece(2, 1.0, opening=0.09)]
    assert slow_starts(pieces) == [SlowStart("e1", 0.4, 2, 0.65), SlowStart("e0", 0.5, 1, 0.5)]
    assert [str(start) for start in slow_starts(pieces)] == [
        "up to 0.40 s before the first claim of 'e1', 2 times, 0.65 s in all",
        "0.50 s before the first claim of 'e0'",
    ]


def test_findings_stand_in_the_text_before_what_was_slow():
    """Straggler, no piece, slow starts, slow blocks."""
    pieces = [piece(0, 4.0, began=1.0, opening=0.5), piece(0, 4.0, began=1.0, task=1)]
    report = attrs.evolve(run(pieces, seconds=6.0), slow_blocks=(("e0", "7", 0.3),))
    assert str(report).splitlines()[2:] == [
        "the work alone: 4.00 s with all slots busy to the end, about 8.00 s without splitting",
        "straggler: 'e0' is the only element; it was split into 2 parts; cause: much work",
        "no piece ran: 2.00 s of 6.00 s (1.00 s before the first, 0.00 s between two, 1.00 s after the last)",
        "slow start: 0.50 s before the first claim of 'e0'",
        "slow block: at least 0.30 s at 7 of 'e0'",
    ]


def test_findings_take_no_longer_for_many_pieces():
    """Twenty thousand on a thousand slots."""
    assert len(list(findings(report_of(20_000, slots=1000)))) == 1


def test_elements_with_work_but_no_record_are_named():
    """A file without the tag, say; not an empty one, nor one of which a part gave a record."""
    gave = piece(0, 1.0)
    none = [attrs.evolve(piece(number, 1.0), records=0) for number in (0, 1, 2, 3)]
    none[3] = attrs.evolve(none[3], units=0.0)
    bulk = attrs.evolve(piece(4, 1.0), records=0, elements=7)
    assert barren([gave, *none, bulk]) == Barren(9, 10, "e1")
    said = "elements with work but no record: 9 of 10, such as 'e1'"
    assert said in list(findings(run([gave, *none, bulk], seconds=3.0)))
    assert barren([gave, none[0], none[3]]) is None

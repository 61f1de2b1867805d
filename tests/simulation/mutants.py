"""Seeded bugs, one for each rule that makes runs exactly once: the simulation must find each of them.

Each is a function that patches sdf, with the plans in which its rule matters, a seed near one that finds it, and what
its failures may say.
"""

import attrs

from sdf.execution.bulk.invoker import TableInvoker
from sdf.execution.bulk.table import Table
from sdf.execution.executor import Executor
from sdf.lanes import lane
from sdf.lanes import stealing as balance
from sdf.lanes.assignment import Assignment
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import Sealed
from sdf.lanes.replayed import Replayed
from sdf.lanes.segmented import Segmented
from sdf.quarantine import suspects
from sdf.quarantine.failures import WITHDRAWN
from sdf.saving.history import History
from sdf.saving.saving import Saving
from sdf.scheduling.ledger import Ledger

TWICE = "two results|not exactly once|something else|ReplayError|LedgerError|TilingError|SplitError|do not add up"
HANGS = "jobs commit nothing|hangs|not committed|StageError"
SEGMENT = "a segment holds other records|ProtocolError|LedgerError|not exactly once"


# Lanes.


def sealing_removed(patch):
    def ends(self, attempt, now):
        self._stealing.ends(attempt)
        self._send(attempt.name, Sealed())
        return []

    patch.setattr(Replayed, "ends", ends)


def stealing_from_doubled_lanes(patch):
    patch.setattr(balance.Attempt, "alone", lambda self: self.lane.sealed is None)


def replay_without_truncation(patch):
    release = Ledger.release

    def content(self, owner):
        return [node.item for node in self._owned.get(owner, {}).values()]

    def release_whole(self, owner, item_id):
        before = self._nodes[item_id].item
        release(self, owner, item_id)
        return before

    patch.setattr(Ledger, "content", content)
    patch.setattr(Ledger, "content_with_sizes", content)
    patch.setattr(Ledger, "release", release_whole)


def refused_splits_dropped(patch):
    judged = lane.Lane._judged
    patch.setattr(lane.Lane, "_judged", lambda self, accepted: judged(self, True))


def content_of_a_lost_attempt_forgotten(patch):
    patch.setattr(Ledger, "content", lambda self, owner: [])
    patch.setattr(Ledger, "content_with_sizes", lambda self, owner: [])


def a_second_attempt_shares_nothing(patch):
    """It is given what is left of the share, not what the first one was given."""
    connected = Coordinator.connected

    def connect(self, name, hello, now):
        connected(self, name, hello, now)
        if name in self._attempts:
            self._attempts[name].again.clear()

    patch.setattr(Coordinator, "connected", connect)


def deferred_work_is_not_waited_for(patch):
    """A lane is sealed though deferred work of it is not due."""
    patch.setattr(balance.Stealing, "_may_leave", lambda self: iter(self._idle.values()))


def a_given_back_item_is_run_as_well(patch):
    judged = lane.Lane._judged

    def keeps(self, accepted):
        if isinstance(self._offer, lane.messages.Returned):
            accepted = False
        judged(self, accepted)

    patch.setattr(lane.Lane, "_judged", keeps)


# Late elements.


def lanes_end_while_elements_are_expanded(patch):
    """No lane waits for the last elements, so they come when all lanes are sealed."""
    patch.setattr(balance.Stealing, "more_comes", property(lambda self: False, lambda self, value: None), raising=False)


def late_elements_go_to_sealed_lanes(patch):
    def queue(self, backlog):
        while len(backlog):
            self._lanes[0].queue.push(backlog.pop())

    patch.setattr(Assignment, "_queue", queue)


# Saved lanes.


def an_unjudged_split_does_not_hold_up_the_end(patch):
    """The segment ends while the coordinator has not decided who runs the residual."""

    def advance(self):
        if self._offer is not None and self._executor.running is not None:
            self._judged(False)
        return before(self)

    before = lane.Lane.advance
    patch.setattr(lane.Lane, "advance", advance)


def refused_residuals_are_left_to_the_next_segment(patch):
    def advance(self):
        if self._offer is None and self._failure is None and self._end_running() and self._is_over():
            return lane.CLOSE
        return before(self)

    before = lane.Lane.advance
    patch.setattr(lane.Lane, "advance", advance)


def what_was_all_given_back_is_counted(patch):
    """To the driver a work item that was deferred before a claim is no longer the lane's."""

    def end(self):
        running = self._executor.running
        before_ids = list(self.segment.ids)
        ended = before(self)
        if ended and running is not None and running.item.id >= 0 and self.segment.ids == before_ids:
            self.segment.ids.append(running.item.id)
        return ended

    before = lane.Lane._end_running
    patch.setattr(lane.Lane, "_end_running", end)


def what_a_lost_attempt_held_is_forgotten(patch):
    patch.setattr(Ledger, "content", lambda self, owner: [])


def a_committed_segment_stays_with_its_lane(patch):
    """So another attempt runs it again."""

    def commit_first(self, owner, count, last_id, part):
        return [item.id for item in self.content(owner)[:count]]

    patch.setattr(Ledger, "commit_first", commit_first)


def a_late_attempt_shares_a_lane(patch):
    """Each attempt must be an owner of its own."""
    patch.setattr(Segmented, "lane_of", Replayed.lane_of)
    patch.setattr(Segmented, "connects", Replayed.connects)


def deferred_work_stays_at_a_lane_without_an_attempt(patch):
    patch.setattr(Coordinator, "_adopt", lambda self: None)


# The log.


def splits_are_not_logged(patch):
    patch.setattr(Saving, "_split", lambda self, item_id, primary, residuals: None)


def a_commit_is_logged_for_its_first_item_only(patch):
    of_segment = History.of_segment
    patch.setattr(History, "of_segment", lambda self, ids, segment: of_segment(self, list(ids)[:1], segment))


# Stages.


def a_second_receipt_counts_too(patch):
    commit = Ledger.commit

    def twice(self, owner, attempt, outcome):
        todo = commit(self, owner, attempt, outcome)
        if todo is None and outcome.parts:
            part = outcome.parts[0]
            element = self.item(part.item_id)
            items = self.add_element(element.element, element.restriction, [(element.restriction, element.size)])
            todo = [(item, 0.0) for item in items]
        return todo

    patch.setattr(Ledger, "commit", twice)


def unstarted_work_is_lost(patch):
    commit = Ledger.commit

    def forgets(self, owner, attempt, outcome):
        todo = commit(self, owner, attempt, outcome)
        return todo and [each for each in todo if each[0].parent is not None]

    patch.setattr(Ledger, "commit", forgets)


# Tables.


def rows_behind_forgotten(patch):
    patch.setattr(TableInvoker, "_settle", lambda self, running: None)


def stage_replayed_without_truncation(patch):
    patch.setattr(Ledger, "content", lambda self, owner: [node.item for node in self._owned[owner].values()])


def a_part_of_a_row_begins_one_block_late(patch):
    span_of = Table.span_of

    def late(self, row, rows):
        start, stop = span_of(self, row, rows)
        inside = rows.start[1] > 0 and row == rows.first
        return min(start + inside, stop), stop

    patch.setattr(Table, "span_of", late)


# Quarantine.


def one_death_beside_others_convicts(patch):
    patch.setattr(suspects, "_DEATHS_WHEN_IDLE", 0)


def a_hint_is_always_believed(patch):
    """The block that was claimed last is set aside at once, though the DoFn may have claimed ahead."""
    patch.setattr(suspects.Suspects, "_lies_in_front", lambda self, item: False)

    def hinted(self, item, before, block, after):
        self._attempts[block.id] = 1
        self._set_aside(block, attrs.evolve(self._last))
        return [part for part in (before, after) if part is not None]

    examine = suspects.Suspects._examine

    def remember(self, item, failure, idle):
        self._last = failure
        return examine(self, item, failure, idle)

    patch.setattr(suspects.Suspects, "_hinted", hinted)
    patch.setattr(suspects.Suspects, "_examine", remember)


def what_lies_behind_a_bad_block_is_forgotten(patch):
    hinted = suspects.Suspects._hinted
    patch.setattr(
        suspects.Suspects, "_hinted", lambda self, item, before, block, after: hinted(self, item, before, block, None)
    )


def what_a_stage_that_was_given_up_had_is_forgotten(patch):
    failed_attempt = suspects.Suspects.failed_attempt

    def forgotten(self, items, failure, *, idle):
        return failed_attempt(self, [] if failure.how == WITHDRAWN else items, failure, idle=idle)

    patch.setattr(suspects.Suspects, "failed_attempt", forgotten)


# Deferrals.


def a_deferral_loses_its_rest(patch):
    end = Executor.end

    def cut(self, known_as=None):
        part = end(self, known_as)
        if part is not None and part.primary is not None and part.residuals[-1].deferred:
            return attrs.evolve(part, residuals=part.residuals[:-1])
        return part

    patch.setattr(Executor, "end", cut)


# In which plans each rule matters.
ALL = {}
LANES, LANES_KEPT = {"runner": "lanes"}, {"runner": "lanes", "saved": False}
LATE = {"runner": "lanes", "late": True}
LANES_SAVED = {"runner": "lanes", "saved": True}
SAVED, QUARANTINE = {"saved": True}, {"quarantine": True}
STAGES, STAGES_TABLES = {"runner": "stages"}, {"runner": "stages", "tables": True}

MUTANTS = {
    sealing_removed: (LANES_KEPT, 0, TWICE + "|not committed"),
    stealing_from_doubled_lanes: (LANES_KEPT, 0, TWICE),
    replay_without_truncation: (LANES_KEPT, 0, TWICE),
    refused_splits_dropped: (LANES_KEPT, 0, TWICE + "|" + SEGMENT),
    content_of_a_lost_attempt_forgotten: (LANES_KEPT, 0, TWICE + "|does not belong|" + HANGS),
    a_second_attempt_shares_nothing: (LANES_KEPT, 0, TWICE),
    deferred_work_is_not_waited_for: (LANES, 0, TWICE + "|" + HANGS),
    a_given_back_item_is_run_as_well: (LANES, 8, TWICE + "|" + SEGMENT),
    lanes_end_while_elements_are_expanded: (LATE, 0, "."),
    late_elements_go_to_sealed_lanes: (LATE, 91, "."),
    an_unjudged_split_does_not_hold_up_the_end: (LANES_SAVED, 0, SEGMENT),
    refused_residuals_are_left_to_the_next_segment: (LANES_SAVED, 0, SEGMENT),
    what_was_all_given_back_is_counted: (LANES_SAVED, 0, SEGMENT),
    what_a_lost_attempt_held_is_forgotten: (LANES_SAVED, 0, HANGS + "|" + TWICE),
    a_committed_segment_stays_with_its_lane: (LANES_SAVED, 0, "cannot be|not exactly once|" + HANGS),
    a_late_attempt_shares_a_lane: (LANES_SAVED, 0, "."),
    deferred_work_stays_at_a_lane_without_an_attempt: (LANES_SAVED, 253, HANGS),
    splits_are_not_logged: (SAVED, 0, "other work|other messages|JournalCorruptError|not exactly once|open work"),
    a_commit_is_logged_for_its_first_item_only: (SAVED, 0, "other work|JournalCorruptError|open work"),
    a_second_receipt_counts_too: (STAGES, 20, TWICE + "|KeyError"),
    unstarted_work_is_lost: (STAGES, 0, TWICE + "|" + HANGS),
    rows_behind_forgotten: (STAGES_TABLES, 0, TWICE),
    stage_replayed_without_truncation: (STAGES_TABLES, 0, "a replay gave something else|" + TWICE),
    a_part_of_a_row_begins_one_block_late: (STAGES_TABLES, 0, "not exactly once|OutputError"),
    one_death_beside_others_convicts: (QUARANTINE, 1, "an innocent block is set aside"),
    a_hint_is_always_believed: (QUARANTINE, 0, "an innocent block is set aside|a bad block is not set aside"),
    what_lies_behind_a_bad_block_is_forgotten: (QUARANTINE, 0, TWICE + "|" + HANGS),
    what_a_stage_that_was_given_up_had_is_forgotten: (QUARANTINE, 0, HANGS + "|" + TWICE),
    a_deferral_loses_its_rest: (ALL, 0, TWICE + "|" + SEGMENT),
}

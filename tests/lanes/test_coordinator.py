"""The coordinator, message by message: whose work goes where when lanes come late, or leave early."""

import math
import pickle

import pytest
from simulation.user import BlocksFn, in_tables
from support.timed import TimedFn

from sdf.errors import InvalidValueError, LedgerError, ProcessError, SdfError, SinkError, StageError
from sdf.execution.bulk.table import Rows
from sdf.execution.expansion import expand
from sdf.execution.work_items import DEFERRED, INITIAL, WHILE_IT_RAN
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import (
    MOST_ITEMS,
    Assign,
    Bye,
    CommitEvery,
    Fail,
    Flush,
    Heartbeat,
    Hello,
    Leave,
    Raised,
    Ready,
    Sealed,
    SegmentDone,
    Split,
    StealRequest,
    Wait,
)
from sdf.lanes.segmented import RaisedError
from sdf.lanes.stealing import Stealing
from sdf.lanes.wire import MOST_BYTES_ASSIGNED
from sdf.model.restrictions import OffsetRange
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue
from sdf.serialization.pickling import TooLongError
from sdf.serialization.values import Parts


class Run:
    """A coordinator over elements of ten offsets, one for each lane unless told, and what it has sent to each."""

    def __init__(self, lanes, elements=None, saved=None, commit_seconds=math.inf, limits=(), more_comes=False):
        self.work = RunState(TimedFn())
        backlog = WorkQueue(self.work.costs)
        for item in self.work.add([expand(TimedFn(), 10) for _ in range(elements or lanes)]):
            backlog.push(item)
        shares = deal(backlog, self.work.costs, lanes, cut=self.work.cut)
        self.sent = {number: [] for number in range(lanes)}
        self.coordinator = Coordinator(
            self.work,
            shares,
            send=lambda name, message: self.sent[name].append(message),
            min_piece_seconds=0.05,
            patience_seconds=10.0,
            saved=saved,
            commit_seconds=commit_seconds,
            limits=limits,
            more_comes=more_comes,
        )

    def expanded(self, elements, now, *, last=False):
        self.coordinator.expanded([expand(TimedFn(), 10) for _ in range(elements)], now, last=last)

    def begins(self, lane, now):
        self.coordinator.connected(lane, Hello(lane, "worker", 0.0), now)
        self.coordinator.received(lane, Ready(0, 0, 0.0, 0.0), now)

    def has_run(self, lane, items, now, seconds_each=0.1):
        self.coordinator.received(lane, Ready(10 * items, items, 10.0 * items, seconds_each * items), now)

    def of(self, lane, kind):
        return [message for message in self.sent[lane] if isinstance(message, kind)]


def test_what_a_lane_has_that_does_not_begin_is_run_by_those_that_have():
    """All of it, so that when it begins at last it has nothing left to do."""
    run = Run(3)
    run.begins(0, 0.0)
    run.begins(1, 0.0)
    run.has_run(0, 1, 0.4)
    assert len(run.of(0, Assign)) == 2
    run.has_run(0, 2, 0.8)
    run.has_run(1, 1, 0.8)
    assert [len(run.of(lane, Sealed)) for lane in range(2)] == [1, 1]
    run.begins(2, 0.9)
    assert (len(run.of(2, Assign)), len(run.of(2, Sealed))) == (0, 1)
    run.work.ledger.prove()


@pytest.mark.parametrize(("asked", "origin"), [(True, WHILE_IT_RAN), (False, DEFERRED)])
def test_what_is_cut_off_was_deferred_only_if_nobody_asked_for_it(asked, origin):
    """The report says so, and deferred work waits for longer each time."""
    run = Run(1)
    run.begins(0, 0.0)
    ((item,),) = (message.items for message in run.of(0, Assign))
    describe = Parts(item.restriction).describe
    front, rest = (describe(OffsetRange(*bounds)) for bounds in ((0, 5), (5, 10)))
    run.coordinator.received(0, Split(item.id, asked, front, ((rest, 0.0, None),), 1.0, 0.1), 0.1)
    assert [one.origin for one in run.work.ledger.items()] == [INITIAL, origin]


def test_rows_behind_a_deferred_one_are_not_deferred_with_it():
    """So they come back to the lane at once, and none of them has deferred so often that it is an error."""
    fn, sent = BlocksFn(), []
    work = RunState(fn)
    (item,) = share = [*work.add(in_tables(fn, [(str(row), 10) for row in range(5)], 5))]
    coordinator = Coordinator(
        work, [share], send=lambda _, message: sent.append(message), min_piece_seconds=0.05, patience_seconds=10.0
    )
    coordinator.connected(0, Hello(0, "worker", 0.0), 0.0)
    coordinator.received(0, Ready(0, 0, 0.0, 0.0), 0.0)
    describe = Parts(item.restriction).describe
    parts = [(describe(Rows(*bounds)), 0.0, None) for bounds in (((1, 0), (5, 0)), ((0, 0), (1, 0)))]
    coordinator.received(0, Split(item.id, False, None, tuple(parts), 0.0, 0.1), 0.1)
    origins = {one.restriction.first: one.origin for one in work.ledger.items() if one.id != item.id}
    assert origins == {0: DEFERRED, 1: WHILE_IT_RAN}
    coordinator.received(0, Ready(0, 1, 0.0, 0.1), 0.1)
    assert [one.restriction.first for message in sent if isinstance(message, Assign) for one in message.items] == [0, 1]


def test_while_elements_are_expanded_one_lane_does_the_work_of_those_that_do_not_begin():
    """They may wait for the slots of the tasks that expand."""
    run = Run(2, more_comes=True)
    run.begins(0, 0.0)
    run.has_run(0, 1, 0.4)
    assert len(run.of(0, Assign)) == 2


def test_elements_that_are_expanded_late_go_to_idle_lanes_at_once():
    """An even share to each."""
    run = Run(3, more_comes=True)
    for lane in range(3):
        run.begins(lane, 0.0)
    for lane in (0, 1):
        run.has_run(lane, 1, 0.4)
    run.expanded(4, 0.5)
    assert [sum(len(sent.items) for sent in run.of(lane, Assign)) for lane in range(3)] == [2, 2, 1]


def test_elements_that_are_expanded_late_go_where_the_least_is_queued():
    """Also to a lane that has not begun; if it does not, others run them."""
    run = Run(3, more_comes=True)
    run.begins(0, 0.0)
    run.begins(1, 0.0)
    run.has_run(0, 1, 0.4)  # and takes over what the third was dealt
    run.expanded(3, 0.5, last=True)
    assert [len(run.of(lane, Assign)) for lane in range(2)] == [2, 1]
    for items in (1, 2, 3, 4):
        for lane in (0, 1):
            if sum(len(sent.items) for sent in run.of(lane, Assign)) == items and not run.of(lane, Sealed):
                run.has_run(lane, items, 0.5 + 0.1 * items)
    assert [len(run.of(lane, Sealed)) for lane in range(2)] == [1, 1]
    run.begins(2, 3.0)
    assert (len(run.of(2, Assign)), len(run.of(2, Sealed))) == (0, 1)
    run.work.ledger.prove()


def test_the_last_lane_cannot_be_sealed_before_all_elements_are_expanded(monkeypatch):
    """Whoever decides so: the action would end without them."""
    run = Run(2, more_comes=True)
    monkeypatch.setattr(Stealing, "leavers", lambda self, now: self.idle())
    run.begins(0, 0.0)
    run.begins(1, 0.0)
    run.has_run(0, 1, 0.4)
    with pytest.raises(LedgerError, match=r"the last lane must not end before all elements are expanded"):
        run.has_run(1, 1, 0.4)


@pytest.mark.parametrize("bye", [True, False])
def test_nobody_waits_for_a_lane_whose_reader_has_enough(bye):
    """It says so before it goes; one that goes without a word will be tried again."""
    run = Run(2)
    run.begins(0, 0.0)
    run.begins(1, 0.0)
    run.has_run(1, 1, 0.4)
    if bye:
        run.coordinator.received(0, Bye(), 0.5)
    run.coordinator.lost(0, 0.5)
    assert bool(run.of(1, Sealed)) is bye


def test_a_lane_that_was_left_early_is_run_again_when_somebody_wants_it_all():
    """What it had done was not sealed, so it does not count."""
    run = Run(1)
    run.begins(0, 0.0)
    run.coordinator.received(0, Bye(), 0.5)
    run.coordinator.lost(0, 0.5)
    run.begins(0, 5.0)
    run.has_run(0, 1, 6.0)
    assert (len(run.of(0, Assign)), len(run.of(0, Sealed))) == (2, 1)
    run.work.ledger.prove()


def test_a_lane_is_given_so_many_small_work_items_as_take_a_tenth_of_its_time_or_a_second():
    """A tenth of a second at first, and at most twice that, since their number is doubled."""
    run, done = Run(1, elements=20_000), 0
    run.begins(0, 0.0)
    took = {}
    while not run.of(0, Sealed):
        given = len(run.of(0, Assign)[-1].items)
        took[done] = given * 0.002
        done += given
        run.has_run(0, done, done * 0.002, seconds_each=0.002)
    assert done == 20_000
    for at_seconds, at_least, at_most in [(0.3, 0.1, 0.2), (3, 0.3, 0.6), (15, 1, 2), (30, 1, 2)]:
        seconds = next(seconds for before, seconds in took.items() if before * 0.002 >= at_seconds)
        assert at_least <= seconds <= at_most * 1.25, (at_seconds, seconds)


@pytest.mark.parametrize("last", [1, 2])
def test_a_lane_is_asked_for_what_it_was_just_given(last):
    """It may be silent for a second, and whoever is idle would wait for that."""
    run = Run(2, elements=2 * (1 + last))
    for lane in (0, 1):
        run.begins(lane, 0.0)
        run.has_run(lane, 1, 0.05, seconds_each=0.2)
    run.has_run(0, 1 + last, 0.1, seconds_each=0.2)
    assert [len(assign.items) for assign in run.of(1, Assign)] == [1, last]
    assert run.of(1, StealRequest) == [StealRequest(0.05)]


def test_progress_goes_on_while_a_lane_runs_what_it_was_given():
    """Its heartbeat counts also what has ended of that, which it tells in full only when all has."""
    run, done = Run(1, elements=100), 0
    run.begins(0, 0.0)
    for now in range(4):
        done += len(run.of(0, Assign)[-1].items)
        run.has_run(0, done, 0.01 * now, seconds_each=0.01)
    given = run.of(0, Assign)[-1].items
    assert len(given) == 16
    assert run.coordinator.progress(0.04).done == 10.0 * done
    run.coordinator.received(0, Heartbeat(given[3].id, True, 4.0, 1.0, 1.0, 12, 10.0 * (done + 3)), 5.0)
    assert run.coordinator.progress(5.0).done == 10.0 * (done + 3) + 4.0


class TextFn(TimedFn):
    """Elements are texts, with one unit of work in each."""

    def get_initial_restriction(self, element):
        return 0, 1


class WeighedRun(Run):
    """One lane's run over texts; messages are measured as the server does it, by the bytes of their pickle."""

    def __init__(self, texts):
        self.work, self.sent, self.refused = RunState(TextFn()), {0: []}, 0
        share = list(self.work.add([expand(TextFn(), text) for text in texts]))
        self.coordinator = Coordinator(
            self.work, [share], send=self.send, min_piece_seconds=0.05, patience_seconds=10.0
        )  # fmt: skip
        self.given = []

    def send(self, name, message):
        too_long = len(pickle.dumps(message)) > MOST_BYTES_ASSIGNED
        if too_long and isinstance(message, Assign) and len(message.items) > 1:
            self.refused += 1
            raise TooLongError("it is too long.")
        if isinstance(message, Assign):
            self.given.append(message.items)
        self.sent[0].append(message)

    def run_all(self):
        """Run an attempt to its end, every work item in no time; return the elements of each message."""
        self.given = []
        self.coordinator.connected(0, Hello(0, "worker", 0.0), 0.0)
        self.coordinator.received(0, Ready(0, 0, 0.0, 0.0), 0.0)
        done = told = 0
        while len(self.given) > told:
            done, told = done + len(self.given[-1]), len(self.given)
            self.coordinator.received(0, Ready(done, done, float(done), 0.0), 0.0)
        self.coordinator.lost(0, 0.0)
        return [[item.element for item in items] for items in self.given]


LARGE = [f"{number:020000}" for number in range(1500)]
MIXED = [f"{number:0{size}}" for number, size in enumerate([5] * 3000 + [700_000] * 3 + [5] * 3000)]


@pytest.mark.parametrize("texts", [LARGE, MIXED], ids=["all of 20 kB", "three of 700 kB among small ones"])
def test_what_a_lane_is_given_fits_in_a_message(texts):
    """All of it is given, once; so is what is given to an attempt that runs it again, in the same order."""
    run = WeighedRun(texts)
    first, again = run.run_all(), run.run_all()
    for messages in (first, again):
        assert all(len(pickle.dumps(message)) < MOST_BYTES_ASSIGNED for message in messages)
    elements = [element for message in first for element in message]
    assert sorted(elements) == sorted(texts)
    assert [element for message in again for element in message] == elements
    assert len(run.of(0, Sealed)) == 2
    run.work.ledger.prove()


def test_large_elements_are_still_given_many_at_a_time_and_seldom_pickled_in_vain():
    """A message costs as much as a hundred small work items."""
    run = WeighedRun(LARGE)
    messages = run.run_all()
    assert len(LARGE) / len(messages) > 20
    assert run.refused < len(messages) / 4


def test_a_few_large_elements_do_not_make_all_messages_small():
    """Once they are gone, it is given ever more again."""
    run = WeighedRun(MIXED)
    assert len(run.run_all()) < 100
    assert max(map(len, run.given)) > MOST_ITEMS / 2


def test_a_work_item_that_is_too_long_for_any_message_is_an_error_that_names_it():
    """And says what elements are for."""
    run = WeighedRun(["large"])

    def send(name, message):
        raise TooLongError("pickled it takes more than 1,073,741,824 bytes.")

    run.coordinator._assignment._send = send
    with pytest.raises(InvalidValueError, match=r"TextFn cannot be run on element 'large': pickled .* descriptors"):
        run.run_all()


def test_idle_attempts_hear_every_five_seconds_that_they_must_wait():
    """So they know that the driver is there; those that run are not told."""
    run = Run(2)
    run.begins(0, 0.0)
    run.begins(1, 0.0)
    run.coordinator.received(0, Heartbeat(run.of(0, Assign)[0].items[0].id, False, 1.0, 0.1, 1.0, 0, 1.0), 0.1)
    run.has_run(1, 1, 0.4)
    told = []
    for now in (4.9, 5.0, 9.9, 10.0):
        run.coordinator.tick(now)
        told.append(len(run.of(1, Wait)))
    assert told == [0, 1, 1, 2]
    assert run.of(0, Wait) == []


# What came of it


def test_slots_of_a_report_are_the_most_lanes_that_ran_at_once():
    """Twelve lanes on two slots: before any begins nobody knows how many there are."""
    run = Run(12)
    assert run.coordinator.report(0.0).slots == 12
    for lane in range(0, 12, 2):
        run.begins(lane, lane)
        run.begins(lane + 1, lane)
        run.coordinator.lost(lane, lane + 1)
        run.coordinator.lost(lane + 1, lane + 1)
    assert run.coordinator.report(12.0).slots == 2


def test_a_report_while_lanes_run_says_for_how_long():
    """So far; once they have gone it stands still, until others come."""
    run = Run(2)
    run.begins(0, 10.0)
    assert run.coordinator.report(13.0).seconds == 3.0
    run.coordinator.lost(0, 14.0)
    assert run.coordinator.report(99.0).seconds == 4.0
    run.begins(1, 100.0)
    assert run.coordinator.report(103.0).seconds == 7.0


def test_a_report_of_lanes_that_ran_and_have_not_ended_says_so():
    """Not that nothing has run."""
    run = Run(2)
    assert str(run.coordinator.report(0.0)) == "TimedFn: nothing of 2 elements has run yet"
    run.begins(0, 0.0)
    run.coordinator.lost(0, 5.0)
    assert str(run.coordinator.report(6.0)) == (
        "TimedFn: no lane has ended yet, of 2; a report tells of those that have"
    )


def test_a_report_of_some_lanes_claims_nothing_of_the_others():
    """Two have ended, one was left early: neither who would have held up the run is known, nor how busy slots were."""
    run = Run(3)
    for lane in (0, 1, 2):
        run.begins(lane, 0.0)
    run.coordinator.received(2, Bye(), 0.3)
    run.coordinator.lost(2, 0.3)
    for lane in (0, 1):
        ran = ((run.of(lane, Assign)[0].items[0].id, 0.0, 4.0, 10.0, 10, 0.0),)
        run.coordinator.received(lane, Ready(10, 1, 10.0, 4.0, ran), 4.0)
    for lane in (0, 1):
        run.coordinator.lost(lane, 4.0)
    report = run.coordinator.report(5.0)
    assert str(report).splitlines() == [
        "TimedFn: 20 records of 3 elements in 4.00 s",
        "2 tasks in 1 stage; 0 splits of 0 elements",
        "lanes that have ended: 2 of 3; the others are not in this report",
    ]
    assert (report.complete, report.straggler, report.idle) == (False, None, None)


@pytest.mark.parametrize("saved", [False, True])
def test_the_report_holds_a_row_that_took_long_beside_the_others_of_its_table(saved):
    """Several messages tell of both; what they say of the same row, or of the same others, adds up.

    In a saved run the attempt ends before its lane does: another table waits.
    """
    fn = BlocksFn()
    work = RunState(fn)
    share = [*work.add(in_tables(fn, [(str(row), 10) for row in range(10 if saved else 5)], 5))]
    save = (lambda item_ids, message: None) if saved else None
    coordinator = Coordinator(
        work, [share], send=lambda *_: None, min_piece_seconds=0.05, patience_seconds=10.0, saved=save
    )
    coordinator.connected(0, Hello(0, "worker", 0.0), 0.0)
    coordinator.received(0, Ready(0, 0, 0.0, 0.0), 0.0)
    others, dear = (0, 0.0, 1.0, 20.0, 20, 0.0, 2, -1), (0, 0.5, 3.0, 4.0, 0, 0.0, 1, 3)
    coordinator.received(0, Ready(20, 3, 24.0, 4.0, (others, dear)), 4.0)
    if saved:
        coordinator.received(0, SegmentDone(1, 0, [None], (50,), 1.0, 0.1), 8.0)
    more = (0, 4.0, 1.0, 20.0, 30, 0.0, 2, -1), (0, 4.5, 3.0, 6.0, 0, 0.0, 0, 3)
    coordinator.received(0, Ready(50, 5, 50.0, 8.0, more), 8.0)
    coordinator.lost(0, 8.0)
    pieces = coordinator.report(9.0).pieces
    assert [(piece.element_id, piece.seconds, piece.units, piece.records, piece.elements) for piece in pieces] == [
        (0, 2.0, 40.0, 50, 4),
        (3, 6.0, 10.0, 0, 1),
    ]


class SavedRun(Run):
    """A saved run, and the work items of each segment that was committed."""

    def __init__(self, lanes, elements=None):
        self.segments = []
        saved = lambda item_ids, message: self.segments.append(item_ids)  # noqa: E731
        super().__init__(lanes, elements, saved, 60.0)

    def given(self, name):
        return [item for message in self.of(name, Assign) for item in message.items]

    def commits(self, name, items, last_id, now):
        self.coordinator.received(name, SegmentDone(items, last_id, [None], (10 * items,), 1.0, 0.1), now)


def test_what_a_lost_attempt_has_committed_is_not_run_again_and_all_else_is():
    """At once, by whoever has nothing to do."""
    run = SavedRun(1, 2)
    run.begins(0, 0.0)
    run.has_run(0, 1, 0.1)
    first, second = run.given(0)
    run.commits(0, 1, first.id, 0.2)
    run.coordinator.lost(0, 0.3)
    run.sent[1] = []
    run.coordinator.connected(1, Hello(0, "worker", 0.0), 0.4)
    run.coordinator.received(1, Ready(0, 0, 0.0, 0.0), 0.4)
    assert run.segments == [[first.id]]
    assert [item.id for item in run.given(1)] == [second.id]
    assert run.coordinator.report(0.5).retries == 1
    assert run.coordinator.policy.lost_seconds == pytest.approx(0.1)


def test_once_an_attempt_is_lost_all_hear_that_segments_are_shorter():
    """Those that run, and those that come; small changes are not told."""
    run = SavedRun(4, 9)
    for name in range(3):
        run.begins(name, 0.0)
    assert [run.of(name, CommitEvery) for name in range(3)] == [[], [], []]
    run.coordinator.lost(0, 20.0)
    shorter = [CommitEvery(pytest.approx(math.sqrt(2 * 0.1 * 60.0)))]  # three have lived 20 s, one of them is lost
    assert [run.of(name, CommitEvery) for name in (1, 2)] == [shorter, shorter]
    run.sent[4] = []
    run.coordinator.connected(4, Hello(0, "worker", 0.0), 20.0)
    assert run.of(4, CommitEvery) == shorter
    run.commits(1, 1, run.given(1)[0].id, 21.0)
    assert run.of(1, CommitEvery) == shorter


def test_an_attempt_that_is_lost_with_nothing_to_lose_changes_no_interval():
    """It has ended as all do."""
    run = SavedRun(2, 2)
    run.begins(0, 0.0)
    run.begins(1, 0.0)
    run.has_run(0, 1, 1.0)
    run.commits(0, 1, run.given(0)[0].id, 1.0)
    run.coordinator.lost(0, 2.0)
    assert run.of(1, CommitEvery) == []


def test_a_second_attempt_at_a_lane_of_a_saved_run_has_work_of_its_own():
    """Nothing of what the first one runs; both may commit."""
    run = SavedRun(1, 2)
    run.sent[1] = []
    run.begins(0, 0.0)
    run.coordinator.connected(1, Hello(0, "worker", 0.0), 0.0)
    run.coordinator.received(1, Ready(0, 0, 0.0, 0.0), 0.0)
    (mine,), (other,) = run.given(0), run.given(1)
    assert mine.id != other.id
    run.commits(1, 1, other.id, 1.0)
    run.commits(0, 1, mine.id, 1.0)
    assert run.segments == [[other.id], [mine.id]]
    run.work.ledger.prove()


def test_a_segment_of_work_that_the_attempt_does_not_have_fails_the_attempt():
    """And commits nothing."""
    run = SavedRun(1, 2)
    run.begins(0, 0.0)
    (item,) = run.given(0)
    for items, last_id in ((1, item.id + 1), (2, item.id + 1), (0, item.id)):
        run.commits(0, items, last_id, 1.0)
    assert len(run.of(0, Fail)) == 3
    assert run.segments == []


def test_a_lost_attempt_can_commit_nothing_any_more():
    """Its work is another one's by now."""
    run = SavedRun(1)
    run.begins(0, 0.0)
    (item,) = run.given(0)
    run.coordinator.lost(0, 0.1)
    run.commits(0, 1, item.id, 0.2)
    assert run.segments == []
    assert [one.id for one in run.work.ledger.unowned()] == [item.id]


def run_with_an_idle_attempt():
    """Return a run of two attempts, of which the second has committed all that it had; and what the first one runs."""
    run = SavedRun(2, 1)
    for name in (0, 1):
        run.begins(name, 0.0)
    run.has_run(1, 1, 0.1)
    run.commits(1, 1, run.given(1)[0].id, 0.1)
    return run, run.given(0)[0]


def test_an_attempt_without_work_ends_only_when_those_that_end_with_it_have_committed():
    """One of these may be lost, and somebody must take over its work."""
    run, item = run_with_an_idle_attempt()
    run.has_run(0, 1, 1.0)
    assert len(run.of(0, Flush)) == 1
    assert run.of(1, Sealed) == []
    run.commits(0, 1, item.id, 1.1)
    run.has_run(0, 1, 1.2)
    assert len(run.of(0, Sealed)) == len(run.of(1, Sealed)) == 1


def test_what_a_lost_attempt_had_deferred_is_waited_for_by_another():
    """Else all might end before it is due, and a new Spark job would find nothing to do either."""
    run, item = run_with_an_idle_attempt()
    whole = Parts(item.restriction).describe(item.restriction)
    run.coordinator.received(0, Split(item.id, False, None, ((whole, 60.0, None),), 0.0, 0.1), 0.1)
    run.coordinator.lost(0, 0.2)
    run.coordinator.tick(50.0)
    assert run.of(1, Sealed) == []
    run.coordinator.tick(60.2)
    assert [one.restriction for one in run.given(1)[1:]] == [item.restriction]


def test_what_earlier_drivers_had_deferred_is_run_by_whoever_is_there_when_it_is_due():
    """A lane that never gets a slot would never run it."""
    run = SavedRun(2)
    (item,) = run.work.add([expand(TimedFn(), 10)])
    run.coordinator.delay(item, 5.0)
    run.begins(1, 0.0)
    run.coordinator.tick(4.9)
    assert item.id not in [one.id for one in run.given(1)]
    run.has_run(1, 2, 5.1)
    run.coordinator.tick(5.2)
    assert item.id in [one.id for one in run.given(1)]


def test_a_lane_for_a_slot_that_has_come_gets_work_whatever_its_number_in_its_job():
    """Jobs that were started later number their lanes from 0 on, and may have more than the first one."""
    run = SavedRun(1, elements=4)
    run.sent[7] = []
    run.begins(0, 0.0)
    run.coordinator.connected(7, Hello(7, "worker", 0.0), 0.1)
    run.coordinator.received(7, Ready(0, 0, 0.0, 0.0), 0.1)
    assert run.given(7)


def test_an_attempt_is_told_to_leave_once():
    """And not any more once it leaves; its last report asks for no work."""
    run = SavedRun(1, elements=4)
    run.begins(0, 0.0)
    run.coordinator.leave(0)
    run.coordinator.leave(0)
    assert len(run.of(0, Leave)) == 1
    run.coordinator.received(0, Bye(), 0.1)
    run.has_run(0, 1, 0.1)
    assert (len(run.of(0, Assign)), len(run.of(0, Sealed))) == (1, 1)
    run.coordinator.leave(0)
    run.coordinator.lost(0, 0.2)
    run.coordinator.leave(0)
    assert len(run.of(0, Leave)) == 1
    assert run.coordinator.policy.departed == 1


def test_a_retry_of_an_attempt_that_has_left_is_not_counted_when_it_leaves():
    """Another lane has taken the place of the first one; else each loss of an executor would bring two."""
    run = SavedRun(2)
    for name, attempt in ((0, 0), (1, 1)):
        run.coordinator.connected(name, Hello(0, "worker", 0.0, 5, attempt, name), 0.0)
        run.coordinator.received(name, Bye(), 0.1)
        run.coordinator.lost(name, 0.1)
    assert run.coordinator.policy.departed == 1


def test_work_that_was_lost_with_ten_attempts_in_a_row_fails_the_run():
    """It may be what ends their workers; the error names it."""
    run = SavedRun(1)
    for now in range(9):
        run.begins(0, float(now))
        run.coordinator.lost(0, now + 0.5)
    run.begins(0, 9.0)
    with pytest.raises(StageError, match=r"TimedFn: 10 workers or executors .* OffsetRange\(.*\) of element 10 to do"):
        run.coordinator.lost(0, 9.5)


@pytest.mark.parametrize("told", ["SinkError", "OSError", "errors", None])
def test_work_that_raises_in_each_attempt_fails_the_run_with_what_it_raised(told):
    """After as many attempts as Spark makes by default; a worker that is lost without a word may be lost more often."""
    run = SavedRun(1, 1)
    for name in range(12):
        run.sent[name] = []
        run.coordinator.connected(name, Hello(0, "worker", 0.0), float(name))
        run.coordinator.received(name, Ready(0, 0, 0.0, 0.0), float(name))
        if told:
            run.coordinator.received(name, Raised(told, "no"), name + 0.1)
        try:
            run.coordinator.lost(name, name + 0.2)
        except SdfError as raised:
            error = raised
            break
    if told:
        assert type(error) is RaisedError
        assert (type(error.error), str(error.error)) == (SinkError if told == "SinkError" else ProcessError, "no")
        assert name == 3
    else:
        assert "10 workers or executors in a row were lost" in str(error)
        assert name == 9


def test_the_report_holds_what_attempts_have_committed_that_have_left():
    """As far as they have told how it ran."""
    run = SavedRun(1, elements=3)
    run.begins(0, 0.0)
    item = run.given(0)[0]
    run.commits(0, 1, item.id, 1.0)
    run.coordinator.received(0, Bye(), 1.0)
    run.coordinator.received(0, Ready(10, 1, 10.0, 1.0, ((item.id, 10.0, 0.0, 1.0, 10, 0.0),)), 1.0)
    run.coordinator.lost(0, 1.1)
    report = run.coordinator.report(2.0)
    assert (report.records, len(report.tasks), len(report.pieces), report.lanes) == (10, 1, 1, 1)

"""The coordinator, message by message: whose work goes where when lanes come late, or leave early."""

import pytest
from test_bundle import CountFn

from sdf.backlog import Backlog
from sdf.expansion import expand
from sdf.planner import deal
from sdf.spark.coordinator import Coordinator
from sdf.spark.messages import Ask, Assign, Back, Beat, Bye, Hello, Ready, Sealed
from sdf.work import Work


class Run:
    """A coordinator over elements of ten offsets, one for each lane unless told, and what it has sent to each."""

    def __init__(self, lanes, elements=None):
        self.work = Work(CountFn())
        backlog = Backlog(self.work.costs)
        for item in self.work.add([expand(CountFn(), 10) for _ in range(elements or lanes)]):
            backlog.push(item)
        shares = deal(backlog, self.work.costs, lanes, cut=self.work.cut)
        self.sent = {number: [] for number in range(lanes)}
        self.coordinator = Coordinator(
            self.work,
            shares,
            send=lambda name, message: self.sent[name].append(message),
            min_piece_seconds=0.05,
            patience_seconds=10.0,
        )

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
    assert run.of(1, Ask) == [Ask(0.05)]


def test_a_lane_gives_back_what_turned_out_to_be_dear():
    """What has ended of it would be told only when all has: progress would stand still, and nobody know the cost."""
    run, done = Run(1, elements=100), 0
    run.begins(0, 0.0)
    for now in range(4):
        done += len(run.of(0, Assign)[-1].items)
        run.has_run(0, done, 0.01 * now, seconds_each=0.01)
    given = run.of(0, Assign)[-1].items
    assert len(given) == 16

    def beats(now):
        run.coordinator.received(0, Beat(given[0].id, True, 1.0, now, 1.0, 15), now)

    beats(0.4)
    assert run.of(0, Ask) == []
    beats(0.5)
    beats(0.6)
    assert run.of(0, Ask) == [Ask(0.05)]
    run.coordinator.received(0, Back(tuple(item.id for item in given[1:])), 0.7)
    run.has_run(0, done + 1, 0.8, seconds_each=0.05)
    assert len(run.of(0, Assign)[-1].items) == 1
    assert run.coordinator.progress(0.8).done == 10.0 * (done + 1)

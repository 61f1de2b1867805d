"""The two sides of a tracker: a claim and a cut at the same time agree, in whatever order their steps come."""

import itertools
import threading

import pytest

from sdf import ByteKeyRange, ByteKeyRangeTracker, GrowableOffsetRangeTracker, OffsetRange, OffsetRangeTracker
from sdf.execution.offset_claims import OffsetClaims
from sdf.execution.tracker_views import sides


class Baton:
    """Lets two threads do one step at a time, in the order of a schedule such as "csscc"."""

    def __init__(self, schedule):
        self.turns = list(schedule)
        self.changed = threading.Condition()
        self.over = set()
        self.switches = 0

    def step(self, me):
        """Wait for one's turn; turns of who has ended are skipped, and what is left at the end is free for all."""
        with self.changed:
            while True:
                while self.turns and self.turns[0] in self.over:
                    self.turns.pop(0)
                if not self.turns or self.turns[0] == me:
                    break
                self.switches += 1
                assert self.changed.wait(10), "the schedule hangs"
            if self.turns:
                self.turns.pop(0)
            self.changed.notify_all()

    def end(self, me):
        with self.changed:
            self.over.add(me)
            self.changed.notify_all()


class BatonLock:
    """A lock that takes a step for each try, so that a schedule can let the other side go on."""

    def __init__(self, step):
        self.lock, self.step = threading.Lock(), step

    def __enter__(self):
        self.step()
        while not self.lock.acquire(blocking=False):
            self.step()

    def __exit__(self, *error):
        self.lock.release()


def stepped(tracker, baton):
    """Return both sides, each access to what they share being a step of the thread that makes it."""

    def step():
        if threading.current_thread().name in ("c", "s"):
            baton.step(threading.current_thread().name)

    runner, seen = sides(tracker, lambda: None, lambda error: None)

    class Stepped(type(seen)):
        def __getattribute__(self, name):
            if name in ("_last", "_fence", "_stop"):
                step()
            return super().__getattribute__(name)

        def __setattr__(self, name, value):
            if name in ("_last", "_fence", "_stop"):
                step()
            super().__setattr__(name, value)

    seen.__class__ = Stepped
    seen._lock = BatonLock(step)
    return runner, seen


def at_once(schedule, claimed, position, fraction):
    """Claim and cut [0, 8) in two threads by the schedule; return what each got, the stop, and the switches."""
    baton = Baton(schedule)
    runner, seen = stepped(OffsetRangeTracker((0, 8)), baton)
    assert seen.try_claim(claimed)
    got = {}

    def run(me, action):
        got[me] = action()
        baton.end(me)

    threads = [
        threading.Thread(target=run, name="c", args=("c", lambda: seen.try_claim(position))),
        threading.Thread(target=run, name="s", args=("s", lambda: runner.try_split(fraction))),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    return got["c"], got["s"], runner.current_restriction().stop, baton.switches


MORE = pytest.mark.slow("the same test with other positions")


@pytest.mark.parametrize(
    ("claimed", "position", "fraction"),
    [(0, 5, 0.5), (2, 3, 0.25), pytest.param(0, 1, 0, marks=MORE), pytest.param(3, 7, 0.5, marks=MORE)],
)
def test_claim_and_cut_agree_in_every_order(claimed, position, fraction):
    """A claimed position is the primary's, a refused one is not, and a cut gives all the rest."""
    ended, switches = set(), 0
    for places in itertools.combinations(range(13), 4):
        schedule = "".join("c" if place in places else "s" for place in range(13))
        for order in (schedule, schedule[::-1]):
            granted, cut, stop, switched = at_once(order, claimed, position, fraction)
            assert granted == (position < stop), (order, granted, cut, stop)
            assert (stop == 8) if cut is None else cut == (OffsetRange(0, stop), OffsetRange(stop, 8)), order
            ended.add((granted, cut is None))
            switches += switched
    assert {(True, True), (False, False)} <= ended
    assert switches > 1000


@pytest.mark.parametrize(
    "tracker", [OffsetRangeTracker((0, 9)), GrowableOffsetRangeTracker((0, 9))], ids=["fixed", "growable"]
)
def test_claims_of_offsets_in_process_take_no_lock(tracker):
    """They happen per record; a lock would double what they cost. Only the first one takes it."""
    edges = []
    _, seen = sides(tracker, lambda: edges.append(seen.current_restriction()), lambda error: None)
    assert seen.try_claim(0)
    with seen._lock:
        assert seen.try_claim(1)
        assert seen.try_claim(5)
    assert (len(edges), seen.try_claim(9)) == (1, False)
    assert len(edges) == 2
    assert isinstance(seen, OffsetClaims)


@pytest.mark.parametrize(
    "tracker", [OffsetRangeTracker((0, 9)), ByteKeyRangeTracker(ByteKeyRange(b"a", b"k"))], ids=["offsets", "keys"]
)
def test_process_holds_a_tracker_of_the_same_name_and_kind(tracker):
    """`isinstance` and messages are what an author expects."""
    _, seen = sides(tracker, lambda: None, lambda error: None)
    assert isinstance(seen, type(tracker))
    assert type(seen).__name__ == type(tracker).__name__


def test_a_built_in_tracker_with_a_method_of_its_own_is_a_users_tracker():
    """What was replaced on the object stays replaced."""
    tracker = OffsetRangeTracker((0, 9))
    tracker.try_split = lambda fraction: None
    runner, seen = sides(tracker, lambda: None, lambda error: None)
    assert (seen.try_claim(0), runner.try_split(0.5), tracker.started) == (True, None, True)

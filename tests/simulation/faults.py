"""The one list of faults: which actor each hits, how often it is drawn, and in which plans it can strike."""

import random
from enum import Enum

from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED

# What has the opportunities for a fault.
STEP, LANE_STEP, STAGE_STEP, MESSAGE, SEGMENT = "step", "lane's step", "stage's step", "message", "segment"
TWIN_STEP, RECEIPT, ONCE = "twin's step", "receipt", "once"
MUCH, SOME, RARE = (1, 3), (3, 10, 30), (20, 60, 200)  # one in so many opportunities

LOST = "it takes its executor along"  # how a block fails, besides those of `sdf.quarantine.failures`


class Fault(Enum):
    """What it is called in counts and plans; the actor that it hits; its opportunities; how seldom it is; a condition.

    A condition is a Python expression over the fields of a plan.
    """

    CRASH = "an attempt's process dies", "worker", STEP, RARE, "True"
    COPY = "a task gets a second attempt", "executor", STEP, RARE, "True"
    TWIN_CRASH = "one of two attempts at a task dies", "worker", TWIN_STEP, SOME, "True"
    EXECUTOR_LOST = "an executor is lost", "executor", STEP, RARE, "True"
    INNOCENT_KILLED = "memory is short: an innocent process is killed", "worker", STEP, RARE, "True"
    OUTLIVES_JOB = "an attempt outlives its job", "executor", ONCE, MUCH, "runner == 'lanes'"
    CUT = "a connection breaks, its lane goes on", "lane", LANE_STEP, RARE, "runner == 'lanes'"
    LATE_MESSAGE = "a message is late", "lane", MESSAGE, SOME, "runner == 'lanes'"
    LEAVE = "a process is told to end", "lane", LANE_STEP, SOME, "runner == 'lanes' and saved"
    TOLD_TO_LEAVE = "a lane is told to leave", "driver", LANE_STEP, SOME, "runner == 'lanes' and saved"
    JOIN = "a slot comes, and a lane with it", "executor", LANE_STEP, RARE, "runner == 'lanes' and saved"
    GIVEN_UP = "an action is given up", "driver", ONCE, MUCH, "runner == 'lanes' and not saved"
    FREES_SLOT = "what expands elements lacks a slot", "driver", ONCE, MUCH, "runner == 'lanes' and late"
    DRIVER_DIES = "the driver dies", "driver", RECEIPT, (3, 10, 30, 100), "saved"
    LOG_END_LOST = "the end of its log is lost with it", "storage", ONCE, MUCH, "saved"
    SINK_RAISES = "a sink raises", "sink", SEGMENT, SOME, "saved"
    SLOW_SEGMENT = "a segment is written slowly", "storage", SEGMENT, SOME, "saved"
    SLOW_STORAGE = "the storage is slow for a while", "storage", SEGMENT, SOME, "saved"
    RECEIPT_LATE = "a receipt is late", "executor", RECEIPT, SOME, "runner == 'stages'"
    RECEIPT_DOUBLED = "a receipt comes twice", "executor", RECEIPT, SOME, "runner == 'stages'"
    EXPANDED_TWICE = "elements are expanded twice", "executor", ONCE, MUCH, "runner == 'stages' and late"
    WORKER_LOST = "a worker is lost with its child, nobody tells", "worker", ONCE, MUCH, "quarantine"
    STAGE_GIVEN_UP = "a stage is given up for an innocent task", "driver", STAGE_STEP, RARE, "quarantine"
    RAISES = RAISED, "user", ONCE, MUCH, "quarantine"  # these five are the plan's bad blocks
    DIES = DIED, "user", ONCE, MUCH, "quarantine"
    IS_KILLED = KILLED, "user", ONCE, MUCH, "quarantine"
    HANGS = HUNG, "user", ONCE, MUCH, "quarantine"
    TAKES_ALONG = LOST, "user", ONCE, MUCH, "quarantine"

    def __init__(self, says, actor, opportunity, rates, condition):
        self.says, self.actor, self.opportunity, self.rates = says, actor, opportunity, rates
        self._condition = compile(condition, says, "eval")

    def can_strike(self, **switches):
        """Return whether it can strike in a plan with these switches."""
        return bool(eval(self._condition, switches))


ALL_BAD = (Fault.RAISES, Fault.DIES, Fault.IS_KILLED, Fault.HANGS, Fault.TAKES_ALONG)
BAD_BLOCKS = {fault.says: fault for fault in ALL_BAD}
TWINS = ((Fault.COPY.name, 5, 6), (Fault.TWIN_CRASH.name, 10, 6))  # drawn together, as they seldom meet else
LEAVERS = ((Fault.LEAVE.name, 3, 4), (Fault.TOLD_TO_LEAVE.name, 3, 4))
DRAWN = [fault for fault in Fault if fault not in BAD_BLOCKS.values()]


class Faults:
    """Strikes as a plan says: each fault so many times at most, after a number of opportunities of its own.

    Args:
        plan: the plan.
        counts: how often each fault has struck.
        note: notes what has happened.
    """

    def __init__(self, plan, counts, note):
        self.number = 0  # of all that have struck
        self._left = {}  # by fault: how often it may still strike
        self._waits = {}  # opportunities until it does
        self._randoms = {}  # of each its own, so that without one the others strike as before
        self._rates = {}
        self._counts, self._note = counts, note
        self._of = {}  # by opportunity
        for name, rate, most in plan.faults:
            fault = Fault[name]
            self._left[fault], self._rates[fault] = most, rate
            self._randoms[fault] = random.Random(f"{plan.seed} {name}")
            self._wait(fault)
            self._of.setdefault(fault.opportunity, []).append(fault)

    def _wait(self, fault):
        rate = self._rates[fault]
        often = rate == 1 or not self._left[fault]
        self._waits[fault] = 0 if often else int(self._randoms[fault].expovariate(1 / rate))

    def strikes(self, fault):
        """Take an opportunity; return whether the fault strikes now."""
        if not self._left.get(fault, 0):
            return False
        if self._waits[fault] > 0:
            self._waits[fault] -= 1
            return False
        self.struck(fault)
        return True

    def of(self, opportunity):
        """Take an opportunity of several faults; return those that strike now."""
        found = self._of.get(opportunity)
        return [fault for fault in found if self.strikes(fault)] if found else ()

    def postpone(self, fault):
        """It cannot strike now: it strikes at the next opportunity."""
        self._counts[fault.says] -= 1
        self._left[fault] += 1
        self._waits[fault] = 0

    def struck(self, fault):
        """Count a fault."""
        self.number += 1
        self._counts[fault.says] += 1
        self._note("fault", fault.says)
        if fault in self._left:
            self._left[fault] -= 1
            self._wait(fault)

    def random_of(self, fault):
        """Return what a fault draws its details from."""
        return self._randoms[fault]


def draw_faults(choose, **switches):
    """Return the faults of a plan, as (name, one in so many opportunities, most)."""
    if choose.random() < 0.1:
        return TWINS
    if Fault.LEAVE.can_strike(**switches) and choose.random() < 0.2:
        return LEAVERS
    count = choose.choice([0, 1, 2, 3, 3, 5, 30])
    can = [fault for fault in DRAWN if fault.can_strike(**switches)]
    found = choose.sample(can, min(count, len(can)))
    if Fault.LOG_END_LOST in found and Fault.DRIVER_DIES not in found:
        found.append(Fault.DRIVER_DIES)
    if Fault.TWIN_CRASH in found and Fault.COPY not in found:
        found.append(Fault.COPY)
    return tuple(
        (fault.name, choose.choice(fault.rates), choose.choice([1, 1, 2, 4]))
        for fault in sorted(found, key=DRAWN.index)
    )

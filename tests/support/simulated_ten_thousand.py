"""A seeded simulation of a saved run of lanes over 10,000 blocks of which 37 fail, while all else goes wrong, too.

To `simulated_failing` this adds hosts: an executor is lost with all lanes and suspects on it. The sink raises now and
then, and the storage is slow now and then, for one segment or for all of a while.
"""

from collections import Counter

from sdf.execution.work_items import Outcome
from sdf.lanes.messages import SegmentDone
from sdf.quarantine.failures import KILLED, Failure
from support.simulated_failing import FailingSimulation
from support.ten_thousand import bad_of, sizes_of

SHORT_SECONDS = 3.0  # for which memory is short


class TenThousandBlocks(FailingSimulation):
    """One schedule."""

    kinds = ("", "", "", "parts", "unsized", "ahead", "defers")  # each of their blocks can be cut out
    commits_every_seconds = (0.5, 2.0, 10.0)
    most_steps = 2_000_000

    def begin(self):
        choose = self.random
        self.elements = [("", n) for n in sizes_of(choose)]
        self.lanes = choose.randint(2, 8)
        self.slots = self.lanes + 1
        self.hosts = choose.randint(2, 3)
        self.slow_until = self.short_until = 0.0  # of storage, and of memory
        self.given_up = 0
        super().begin()

    def choose_bad(self, blocks):
        return bad_of(self.random, blocks)

    # What else goes wrong.

    def happen(self, wanted):
        if len(self.attempts) > 4 * self.lanes:  # those that nobody knows any more would only cost time
            self.attempts = {at: one for at, one in self.attempts.items() if one.connected or not one.over}
        kind = self.random.random()
        if kind < (0.004 if self.tasks else 0.0003):  # suspects are few, and end soon
            self.lose_executor(self.random.randrange(self.hosts))
        elif kind > 0.9998:
            self.slow_until = self.now + 2.0
            self.counts["slow storage"] += 1
        elif kind > 0.9993 and (live := self.live()):
            self.end(self.random.choice(live))
            self.counts["crash"] += 1
        elif kind > 0.9990:
            self.kill_innocent()
        super().happen(wanted)

    def kill_innocent(self):
        """The system kills a process that did nothing wrong, as others beside it have taken the memory."""
        busy = [attempt for attempt in self.live() if not attempt.cut and attempt.lane._executor.running is not None]
        if len(busy) > 1:
            self.short_until = self.now + SHORT_SECONDS
            self.counts["innocents killed"] += 1
            self.fail(self.random.choice(busy), KILLED)

    def lose_executor(self, host):
        """All that runs on a host is gone; of its suspects, Spark runs the tasks again, or gives a job up."""
        lost = [attempt for attempt in self.live() if attempt.lane_number % self.hosts == host]
        for attempt in lost:
            self.tells.pop(attempt.lane_number, None)
            self.end(attempt)
        self.counts["executors lost"] += 1
        self.counts["lanes lost with executors"] += len(lost)
        suspects = [owner for at, owner in enumerate(self.tasks) if at % self.hosts == host]
        self.counts["suspects lost with executors"] += len(suspects)
        if suspects and not self.given_up:  # once: an innocent block may be unlucky, but not three times
            self.given_up += 1
            self.counts["suspects given up"] += 1
            item = self.tasks.pop(suspects[0])
            self.end_suspect(suspects[0], Failure(item.id, KILLED, "its executors were lost"))

    def end_suspect(self, owner, failure):
        """A suspect has failed while others ran."""
        done = SegmentDone(1, 0, (), (), 0.0, 0.0)
        self.coordinator.suspect_ended(owner, Outcome(0), failure, done, self.now, idle=False)

    def run_suspect(self, owner, item, *, idle):
        if self.random.random() < 0.05:
            self.tasks[owner] = item  # Spark runs the task again
            self.counts["sink errors of suspects"] += 1
            return
        if self.now < self.short_until and self.live() and self.random.random() < 0.3:
            self.counts["innocent suspects killed"] += 1
            at = self.random.randrange(*item.restriction)
            self.end_suspect(owner, Failure(item.id, KILLED, "killed though innocent", at))
            return
        super().run_suspect(owner, item, idle=idle)

    def writing_steps(self):
        slow = self.now < self.slow_until or self.random.random() < 0.02
        self.counts["segments written slowly"] += slow
        return self.random.randint(200, 400) if slow else super().writing_steps()

    def write(self, attempt):
        if self.random.random() < 0.03:
            self.counts["sink errors"] += 1
            self.end(attempt)
            return
        super().write(attempt)

    def check(self):
        """As of all simulations; and these 37 are set aside, each alone."""
        super().check()
        aside = Counter((block.element[0], *block.restriction) for block in self.suspects.failed)
        assert aside == {(name, i, i + 1): 1 for name, i in self.bad}
        return self.counts

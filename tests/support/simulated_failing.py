"""A seeded simulation of one saved run of lanes with quarantine: `simulated_saving`, where some blocks fail.

A block that fails takes the attempt along. Its worker starts another child, which tells the driver what happened; or
the worker is lost, too, and nobody does. Suspects run in tasks of their own, which may be lost as well, beside lanes
that crash, and drivers that die.
"""

import itertools
from collections import Counter

from sdf.execution.invoker import Residual
from sdf.execution.work_items import Outcome, Part
from sdf.lanes.lane import driver_id
from sdf.lanes.messages import Hello, SegmentDone
from sdf.lanes.suspect_work import as_failed
from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED, Failure
from sdf.quarantine.suspects import Suspects
from sdf.saving.history import History
from support.simulated_saving import KINDS, SavedSimulation

HOWS = [RAISED, RAISED, RAISED, DIED, KILLED, HUNG]


class FailingSimulation(SavedSimulation):
    """One schedule of a saved run in which some blocks fail."""

    kinds = tuple(kind for kind in KINDS if "later" not in kind)

    def choose_bad(self, blocks):
        """Return how each block fails that does."""
        most = self.random.choice([1, 1, 3, 6])
        return {block: self.random.choice(HOWS) for block in self.random.sample(blocks, min(most, len(blocks)))}

    def begin(self):
        self.task_ids = itertools.count(1)
        self.tells = {}  # by lane: what a child that comes next has to tell, and for which task
        super().begin()

    def take_over(self):
        if not hasattr(self, "bad"):
            choose = self.random
            self.elements = [
                (f"{number} {choose.choice(self.kinds)}", n) for number, (_, n) in enumerate(self.elements)
            ]
            self.bad = self.choose_bad([(name, i) for name, n in self.elements for i in range(n)])
        self.tasks = {}  # suspects that run, by owner
        super().take_over()

    def serve(self, items):
        self.suspects = Suspects(self.work, 10**6, failed=History(self.log).failed_blocks(), noted=self.noted)
        super().serve(items)

    def noted(self, item, block):
        self.log.append(["failed", item.id, block.attempts, block.error])
        self.committed.add(item.id)
        self.counts["set aside"] += 1

    # The children of a task.

    def hello(self, attempt):
        attempt.task_id = self.task_id
        return Hello(attempt.lane_number, "worker", 0.0, task_id=attempt.task_id)

    def start(self, lane_number):
        task_id, failure = self.tells.pop(lane_number, (None, None))
        self.task_id = next(self.task_ids) if task_id is None else task_id
        attempt = super().start(lane_number)
        if failure is not None:
            self.send_to_driver(attempt, as_failed(failure))
            self.counts["told"] += 1
        return attempt

    def step(self, attempt):
        before = len(attempt.records)
        super().step(attempt)
        if not attempt.over and len(attempt.records) > before and (how := self.bad.get(attempt.records[-1])):
            self.fail(attempt, how)

    def fail(self, attempt, how):
        """A block takes the attempt along."""
        running = attempt.lane._executor.running
        claimed = running.invoker.last_claimed if how == RAISED else None
        failure = Failure(driver_id(running.item), how, how, claimed)
        self.counts[how] += 1
        if self.random.random() < 0.9:
            self.tells[attempt.lane_number] = attempt.task_id, failure
        else:
            self.counts["lost with its worker"] += 1
        self.end(attempt)

    # Suspects.

    def happen(self, wanted):
        idle = not any(attempt.connected or not attempt.over for attempt in self.attempts.values())
        if self.random.random() < 0.1 and len(self.tasks) < 3:
            for owner, item in self.coordinator.take_suspects(3 - len(self.tasks), idle=idle and not self.tasks):
                self.tasks[owner] = item
        if self.tasks and self.random.random() < 0.1:
            owner = self.random.choice(list(self.tasks))
            if self.random.random() < 0.1:
                self.counts["suspects lost"] += 1  # Spark runs the task again
            else:
                self.run_suspect(owner, self.tasks.pop(owner), idle=idle and not self.tasks)
        super().happen(wanted)

    def run_suspect(self, owner, item, *, idle):
        """Run a suspect as a task of its own does: it claims each block, and may be cut off after any of them."""
        self.counts["suspects"] += 1
        start, stop = item.restriction
        name = item.element[0]
        whole = "whole" in name
        bad = next((i for i in range(start, stop) if (name, i) in self.bad), None)
        cuts = not whole and stop - start > 1 and self.random.random() < 0.3
        until = self.random.randint(start + 1, stop - 1) if cuts else stop
        if bad is not None and bad < until:
            how = self.bad[name, bad]
            claimed = min(bad + 2, stop - 1) if "ahead" in name else stop - 1 if "listed" in name else bad
            failure = Failure(item.id, how, how, claimed)
            self.coordinator.suspect_ended(owner, Outcome(0), failure, None, self.now, idle=idle)
            return
        number = next(self.segments)
        self.written[number] = [(name, i) for i in range(start, until)]
        rest = type(item.restriction)(until, stop)
        kept = type(item.restriction)(start, until)
        parts = (Part(item.id, kept, (Residual(rest),)),) if cuts else ()
        done = SegmentDone(1, item.id, (number,), (until - start,), 0.0, 0.0)
        self.coordinator.suspect_ended(owner, Outcome(1, parts), None, done, self.now, idle=idle)

    def run_job(self):
        """A job ends when no suspect runs, nor can be run."""
        going = super().run_job()
        steps = 0
        while going and (self.tasks or len(self.suspects)):
            self.happen([])
            steps += 1
            assert steps < self.most_steps, "suspects hang"
        return going

    def check(self):
        """All but the blocks that fail is committed once; each of these is set aside, alone if it can be cut out."""
        self.run()
        self.work.ledger.prove()
        aside = Counter(
            (block.element[0], i) for block in self.suspects.failed for i in range(*block.restriction)
        )  # fmt: skip
        wholes = {name for name, n in self.elements if "whole" in name or "untold" in name}
        assert set(self.bad) <= set(aside), "a bad block is not set aside"
        assert all(block in self.bad or block[0] in wholes for block in aside), "an innocent block is set aside"
        history = History(self.log)
        records = Counter(itertools.chain.from_iterable(self.written[number] for number in history.messages(0)))
        assert records + aside == Counter((name, i) for name, n in self.elements for i in range(n)), "not once"
        assert self.work_left(history) == [], "the log has open work"
        return self.counts

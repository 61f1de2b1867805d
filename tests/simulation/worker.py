"""A worker: runs an attempt at a task in a child; with quarantine it tells what the child has failed of."""

from sdf.errors import CoordinatorError
from simulation.faults import Fault

HANG_SECONDS = 5.0


class Failed(GeneratorExit):
    """A block has taken the process of an attempt along: nobody reads the outputs any more."""

    def __init__(self, failure):
        super().__init__(failure.error)
        self.failure = failure


class Worker:
    """The process of a task's attempt, and its children, one after the other.

    Args:
        world: the world.
        child: makes a child; called with the failure of the child before it, or None.
        is_lane: whether it runs a lane: then the next child tells the failure; else the worker does, as its result.
    """

    def __init__(self, world, child, *, is_lane):
        self.world, self.is_lane = world, is_lane
        self._make = child
        self.child = child(None)

    def steps(self):
        while True:
            try:
                result = yield from self.child.steps()
            except CoordinatorError as error:
                self.world.counts["gave its slot"] += "gives its slot" in str(error)
                return None
            except Failed as failed:
                if not self.world.plan.quarantine or self.world.faults.strikes(Fault.WORKER_LOST):
                    return None
                self.world.note("failed", failed.failure.item_id, failed.failure.how)
                if not self.is_lane:
                    return self.child.failed(failed.failure)
                self.world.counts["told"] += 1
                self.child.gone()
                self.child = self._make(failed.failure)
            else:
                return self.child if self.is_lane else result

    def is_cut(self):
        """Return whether the driver hears nothing of it any more."""
        return self.is_lane and self.child.connection.cut

    def is_killed(self):
        return self.child.is_killed()

    def suffer(self, fault):
        self.child.suffer(fault)

    def gone(self):
        self.child.gone()

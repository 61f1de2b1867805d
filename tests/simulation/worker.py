"""A worker: runs an attempt at a task; with quarantine in a child, and it tells what the child has failed of."""

from sdf.errors import CoordinatorError
from simulation.faults import Fault

HANG_SECONDS = 5.0


class Failed(GeneratorExit):
    """The process of an attempt is gone: nobody reads the outputs any more."""

    def __init__(self, failure=None):
        super().__init__()
        self.failure = failure


class Worker:
    """The process of a task's attempt.

    Args:
        world: the world.
        child: runs the attempt.
        is_lane: whether that is a lane.
    """

    def __init__(self, world, child, *, is_lane):
        self.world, self.child, self.is_lane = world, child, is_lane

    def steps(self):
        try:
            result = yield from self.child.steps()
        except CoordinatorError as error:
            self.world.counts["gave its slot"] += "gives its slot" in str(error)
            return None
        except Failed as failed:
            if not self.world.plan.quarantine or self.world.faults.strikes(Fault.WORKER_LOST):
                return None
            self.world.note("failed", failed.failure.item_id, failed.failure.how)
            return self.child.failed(failed.failure)
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

"""Lanes whose every step a test orders: the same actors, without Spark and without events."""

import attrs

from sdf.execution.measured_run import Running
from simulation import plan as plans
from simulation.driver import LanesDriver
from simulation.lane import LaneChild
from simulation.world import World

SECONDS = 0.001  # that a round takes


class Scripted:
    """A run of lanes that is kept.

    Args:
        elements: what runs, and...
        lanes: ...on how many.
        fn: what runs them, if it is not the usual DoFn.
        rows: they are in tables of so many rows at most; None for no tables.

    Attributes:
        children: the attempts, in the order of their starts.
        results: the records of each lane that has ended.
    """

    def __init__(self, elements, *, lanes, fn=None, rows=None):
        drawn = plans.draw(0, runner=plans.LANES, saved=False, late=False, tables=rows is not None, quarantine=False)
        drawn = attrs.evolve(drawn, elements=tuple(elements), lanes=lanes, rows=rows or 1, faults=(), block_seconds=0.0)
        self.world = World(drawn, fn)
        self.driver = LanesDriver(self.world)
        self.coordinator, self.counts, self.clock = self.driver.coordinator, self.world.counts, self.world.clock
        self.children, self.results, self._steps = [], {}, {}

    def start(self, number):
        """Start an attempt at a lane."""
        child = LaneChild(self.world, self.driver, None, number)
        self.children.append(child)
        self._steps[child.name] = child.steps()
        return child

    def live(self):
        return [child for child in self.children if child.name in self._steps]

    def step(self, child):
        """Let an attempt give one record, or find out what it runs next."""
        for _ in self._steps[child.name]:
            return
        del self._steps[child.name]
        self.counts["completed"] += 1
        assert self.results.setdefault(child.lane_number, child.records) == child.records
        child.connection.close()

    def round(self):
        """Deliver all that was sent, first to the driver and then to the lanes; only then each attempt takes a step."""
        self.clock.now += SECONDS
        for child in self.live():
            while child.connection.to_driver:
                child.connection.tell_driver()
        for child in self.live():
            while child.connection.to_lane:
                child.connection.tell_lane()
        for child in self.live():
            self.step(child)

    def run(self):
        """Take rounds, and let the coordinator look at its clock, until all attempts have ended."""
        while self.live():
            self.round()
            self.coordinator.tick(self.clock.now)


def outputs_of(running: Running):
    """Yield the outputs of what a lane runs."""
    with running.outputs() as outputs:
        yield from outputs

"""The sink of a saved run, and where all that attempts write goes."""

import itertools

from sdf.sinks import Sink
from simulation.faults import SEGMENT, Fault


class Written:
    """The records of each segment, or of each attempt at a stage's task."""

    def __init__(self, world):
        self._world = world
        self._numbers = itertools.count()
        self.records = {}
        self._slow_until = 0.0  # of the storage

    def write(self, records):
        """Yield the seconds that each step of writing a segment takes; return its number, None if the sink raises."""
        world, faults = self._world, self._world.faults
        struck = faults.of(SEGMENT)
        if Fault.SLOW_STORAGE in struck:
            self._slow_until = world.clock.now + 2.0
        slow = Fault.SLOW_SEGMENT in struck or world.clock.now < self._slow_until
        yield world.random.uniform(2, 10) if slow else world.plan.block_seconds * world.random.randint(1, 3)
        return None if Fault.SINK_RAISES in struck else self.keep(records)

    def keep(self, records):
        """Keep records; return the number by which they are found."""
        number = next(self._numbers)
        self.records[number] = records
        self._world.note("written", number, len(records))
        return number


class MessageSink(Sink):
    """Keeps the messages that it commits."""

    def __init__(self):
        self.committed = None

    def identity(self):
        return "messages"

    def prepare(self, run):
        """Nothing to prepare."""

    def write(self, records, place):
        raise NotImplementedError("`Written` writes")

    def commit(self, messages, token):
        self.committed = list(messages)

    def abort(self, messages, token):
        """Nothing is visible."""

    def clean(self, token):
        """Nothing is left."""

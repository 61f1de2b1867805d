"""The storage: the log of a saved run, which outlives its drivers, but not always to its end."""

from support.memory import Memory

from sdf.saving.run_log import RunLog
from simulation.faults import Fault


class Storage:
    """See the module's docstring.

    Args:
        world: the world.
    """

    def __init__(self, world):
        self._world = world
        self._files = {}

    def log(self, driver="reader"):
        """Return the log, not yet read."""
        clock = self._world.clock
        return RunLog(Memory(self._files), driver=driver, clock=lambda: int(clock.time() * 1000))

    def lose_end(self, writer):
        """A driver has died: what it had not waited for may be lost; return whether something is."""
        names = sorted(name for name in self._files if name.startswith("log/"))
        most = min(writer.log.next_number - writer.durable, len(names))
        if not most or not self._world.faults.strikes(Fault.LOG_END_LOST):
            return False
        lost = min(self._world.faults.random_of(Fault.LOG_END_LOST).choice([1, 3, 5]), most)
        self._world.counts["lost records of the log"] += lost
        for name in names[len(names) - lost :]:
            del self._files[name]
        return True


class Writer:
    """Writes the log at once; see `sdf.saving.log_writer.LogWriter`. A crash loses what nobody has waited for."""

    seconds = 0.0

    def __init__(self, log, *, clock):
        self.log = log
        self.durable = log.next_number

    def add(self, *records):
        self.log.append(records)

    def flush(self):
        self.durable = self.log.next_number

    def check(self):
        """Nothing fails."""

    def close(self):
        """Nothing is open."""

"""Seeded simulations of lanes that run while elements are still expanded."""

from sdf.errors import CoordinatorError
from sdf.execution.expansion import expand
from sdf.scheduling.run_state import RunState
from support.simulated_lanes import Simulation
from support.simulated_tables import TableSimulation, in_tables, rows_in


class LateSimulation(Simulation):
    """Some elements are expanded late; tasks that expand them may lack a slot."""

    def begin(self):
        cuts = sorted(self.random.randint(0, len(self.elements)) for _ in range(self.random.randint(1, 4)))
        parts = [self.elements[start:stop] for start, stop in zip([0, *cuts], [*cuts, None], strict=True)]
        self.work = RunState(self.fn)
        self.late = parts[1:]
        self.serve(self.work.add(self.expand(parts[0])))

    def expand(self, elements):
        return [expand(self.fn, element) for element in elements]

    @property
    def more_comes(self):
        return bool(self.late)

    def happen(self, wanted):
        if self.late and self.random.random() < 0.02:
            part = self.late.pop(0)
            self.counts["late"] += len(part)
            self.counts["late, an attempt is idle"] += bool(part and self.coordinator._stealing.idle())
            self.coordinator.expanded(self.expand(part), self.now, last=not self.late)
        elif self.late and self.random.random() < 0.01:
            self.coordinator.frees_slot(self.now)
        else:
            super().happen(wanted)

    def step(self, attempt):
        """As `Simulation.step`; an attempt may be told to give its slot back, and Spark runs it again."""
        try:
            super().step(attempt)
        except CoordinatorError:
            self.counts["gave its slot"] += 1
            self.end(attempt)

    def complete(self, attempt):
        self.counts["ended before the last was expanded"] += bool(self.late)
        super().complete(attempt)


class LateTables(LateSimulation, TableSimulation):
    """The same with elements in tables."""

    rows = 0

    def expand(self, elements):
        expanded = [*in_tables(self.fn, elements, self.random.choice(self.most))]
        self.rows += rows_in(expanded)
        return expanded

"""Both runners under simulated time, where elements differ a hundredfold, speeds change, and slots come late or go."""

import itertools
import math
from contextlib import nullcontext

import pytest
from simulated import Overheads, Ranges, Slot, World, none
from simulated_live import LiveSimulation
from simulated_saved import SavedLanes, SavedStages, always
from simulated_staged import StagedSimulation

from sdf.execution.measured_run import Running

OVERHEADS = Overheads(
    message_seconds=0.001, job_seconds=0.08, stage_seconds=0.02, launch_seconds=0.00025, restart_seconds=5.0
)


@pytest.mark.parametrize("simulation", [LiveSimulation, StagedSimulation])
def test_no_slot_idles_for_long(simulation):
    """Spark's own scheduling of as many tasks as slots takes 2.7 times the ideal here."""
    world = World(10, 200, 100.0, 1.5, 0.2, 10.0, 0.0, 0.0, OVERHEADS)
    assert 1 <= simulation(world, clock=none).run() / world.ideal <= 1.04


@pytest.mark.parametrize("simulation", [LiveSimulation, StagedSimulation])
def test_runs_end_where_slots_come_late_and_are_lost(simulation):
    """The ledger proves that nothing was left out; what ran in a lost slot runs again."""
    world = World(10, 200, 100.0, 1.5, 0.2, 10.0, 0.5, 0.3, OVERHEADS)
    assert sum(map(len, world.lost_at)) > 5
    assert 1 <= simulation(world, clock=none).run() / world.ideal <= 1.5


@pytest.mark.parametrize(("simulation", "at_most"), [(LiveSimulation, 1.3), (StagedSimulation, 1.6)])
def test_dear_elements_that_come_last_are_run_side_by_side(simulation, at_most):
    """One task would keep ten of them, and what it gives back would be one task again: 3.5 times the ideal.

    4,000 elements of one block, of which the last twenty take a thousand times as long as the others: 6.7 s each.
    """
    costs = [1.0] * 3980 + [1000.0] * 20
    scale = 8 * 20 / sum(costs)
    world = Ranges(8, [cost * scale for cost in costs], list(itertools.pairwise(range(4001))), OVERHEADS)
    assert 1 <= simulation(world, clock=none).run() / world.ideal <= at_most


def saved_makespan(kind, lost_every, *, falls):
    """Return the makespan, over the ideal, of a saved run whose slots are lost every so many seconds."""
    world = World(4, 40, 200.0, 1.5, 0.2, 10.0, 200.0 / lost_every, 0.0, OVERHEADS)
    simulation = kind(world, commit_seconds=60.0, closing_seconds=0.1, clock=none)
    with nullcontext() if falls else always(60.0):
        return simulation.run() / world.ideal


@pytest.mark.parametrize("kind", [SavedLanes, SavedStages])
def test_where_slots_live_shorter_than_a_segment_its_length_falls(kind):
    """Each is lost every 20 s, and a commit every 60 s: most of what is done would never be committed."""
    assert saved_makespan(kind, 20.0, falls=True) < 0.85 * saved_makespan(kind, 20.0, falls=False)


@pytest.mark.parametrize("kind", [SavedLanes, SavedStages])
def test_without_losses_segments_are_as_long_as_given(kind):
    """Nothing changes."""
    assert saved_makespan(kind, math.inf, falls=True) == saved_makespan(kind, math.inf, falls=False)


def test_each_retry_of_a_task_has_half_the_budget():
    """When losses begin late, budgets are long; with the same again Spark, which tries four times, would give up."""
    world = World(4, 40, 120.0, 1.5, 0.2, 10.0, 0.0, 0.0, OVERHEADS)
    world.lost_at = [[40.0 + 4 * slot + 20.0 * n for n in range(60)] for slot in range(4)]
    simulation = SavedStages(world, commit_seconds=60.0, closing_seconds=0.1, clock=none)
    assert simulation.run() / world.ideal < 1.7
    assert max(simulation.retries.values()) < 4


def slow_world(elements):
    """Return even work for four slots, 20 s each, of which one is five times slower, and its blocks by element."""
    costs = [0.05] * 1600
    each = len(costs) // elements
    world = Ranges(4, costs, [(each * number, each * (number + 1)) for number in range(elements)], OVERHEADS)
    world.slots[0] = Slot([0.2], 1e9, 0.0)
    world.ideal = sum(costs) / 3.2
    return world


@pytest.mark.parametrize(("simulation", "at_most"), [(LiveSimulation, 1.01), (StagedSimulation, 1.15)])
@pytest.mark.parametrize("elements", [1, 4, 200])
def test_a_slow_slot_gives_away_what_it_would_be_last_with(simulation, at_most, elements):
    """What is left is counted in seconds at the slot's own speed, not in work: so it gives again and again."""
    world = slow_world(elements)
    assert 1 <= simulation(world, clock=none).run() / world.ideal <= at_most


def test_seconds_left_at_a_usual_speed_would_leave_a_slow_slot_last(monkeypatch):
    """The last test would fail: a lane that is stopped most of the time would look as near its end as the others."""
    monkeypatch.setattr(Running, "_cost", lambda self: 0.05 * (self.units()[0] > 0) or None)
    world = slow_world(4)
    assert LiveSimulation(world, clock=none).run() / world.ideal > 1.02

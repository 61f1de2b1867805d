"""StagedRunner's planning under simulated time: how close does it come to the ideal where a range has a dear part?"""

import itertools

import pytest
from simulated import Overheads, Ranges, none
from simulated_staged import StagedSimulation

OVERHEADS = Overheads(
    message_seconds=0.02, job_seconds=0.05, stage_seconds=0.03, launch_seconds=0.002, restart_seconds=5.0
)


def costs(slots, seconds, share, times, at):
    """Return the seconds of each block of a range, of which a share is dearer than the others: 50 ms each.

    Args:
        slots: how many there are.
        seconds: of work for each of them.
        share: of the blocks is dear...
        times: ...so many times as much as the others.
        at: which share of the range lies before them.
    """
    each = 0.05 / times
    blocks = round(slots * seconds / (each * (1 - share + share * times)))
    first = int(blocks * at)
    dear = range(first, first + round(blocks * share))
    return [0.05 if block in dear else each for block in range(blocks)]


def simulate(slots, costs, elements):
    """Return how long a run takes, over the ideal, and in how many stages."""
    world = Ranges(slots, costs, elements, OVERHEADS)
    simulation = StagedSimulation(world, clock=none)
    return simulation.run() / world.ideal, simulation.stages


MORE = pytest.mark.slow("the same test with other places and shorter runs")


@pytest.mark.parametrize("at", [0.05, 0.5, 0.94, *(pytest.param(at, marks=MORE) for at in (0.2, 0.33, 0.62, 0.8))])
@pytest.mark.parametrize(("share", "times"), [(0.05, 50), (0.005, 1000)])
@pytest.mark.parametrize(
    ("slots", "seconds", "most"),
    [(2, 20, 1.15), (8, 20, 1.15), pytest.param(2, 60, 1.1, marks=MORE), pytest.param(8, 60, 1.1, marks=MORE)],
)
def test_a_dear_part_is_shared_out(slots, seconds, most, share, times, at):
    """Wherever it lies."""
    blocks = costs(slots, seconds, share, times, at)
    over, stages = simulate(slots, blocks, [(0, len(blocks))])
    assert 1 <= over <= most, stages


@pytest.mark.parametrize(("slots", "most"), [(2, 1.13), (8, 1.13)])
@pytest.mark.parametrize("elements", [1, 100, 2000])
def test_a_short_run_of_even_work_loses_little_between_its_stages(slots, most, elements):
    """The next stage is there when the tasks end: with 5 s per slot up to 1.2 if it were planned only then."""
    blocks = 2000
    bounds = [blocks * number // elements for number in range(elements + 1)]
    over, stages = simulate(slots, [slots * 5 / blocks] * blocks, list(itertools.pairwise(bounds)))
    assert 1 <= over <= most, stages

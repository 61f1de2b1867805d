"""10,000 blocks of which 30 raise, 5 kill their process and 2 hang, at places drawn at random."""

import itertools

from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED

BLOCKS = 10_000
RAISING, KILLING, HANGING = 30, 5, 2


def bad_of(random, blocks):
    """Return how each of 37 blocks fails, chosen from a list of blocks."""
    places = random.sample(blocks, RAISING + KILLING + HANGING)
    bad = dict.fromkeys(places[:RAISING], RAISED)
    bad |= {place: random.choice([DIED, KILLED]) for place in places[RAISING : RAISING + KILLING]}
    return bad | dict.fromkeys(places[RAISING + KILLING :], HUNG)


def sizes_of(random):
    """Return how many blocks each element has."""
    elements = random.choice([1, 3, 20, 200])
    bounds = [0, *sorted(random.sample(range(1, BLOCKS), elements - 1)), BLOCKS]
    return [stop - start for start, stop in itertools.pairwise(bounds)]

"""Plans: what is simulated, drawn from one root seed; how they are written down, and how one that fails is shrunk."""

import itertools
import json
import random

import attrs

from sdf.quarantine.failures import DIED, HUNG, KILLED, RAISED
from simulation.faults import DRAWN, LOST, Fault, draw_faults
from simulation.user import KINDS, blocks_of

LANES, STAGES = "lanes", "stages"
SWITCHES = ("saved", "late", "tables", "quarantine")
HOWS = (RAISED, RAISED, RAISED, DIED, KILLED, HUNG, LOST)


def is_possible(*, runner, saved, late, tables, quarantine):
    """Return whether the product has this combination of switches today."""
    if saved and late:  # a saved run expands all elements before it begins
        return False
    return not (quarantine and runner == LANES)  # lanes set nothing aside


COMBINATIONS = [
    switches
    for runner in (LANES, STAGES)
    for number in range(1 << len(SWITCHES))
    if is_possible(
        **(switches := {"runner": runner} | {name: bool(number >> at & 1) for at, name in enumerate(SWITCHES)})
    )
]


@attrs.frozen
class Plan:
    """What is simulated. The seed alone says which schedule it gets.

    Attributes:
        seed: of all choices.
        runner: `LANES` or `STAGES`.
        saved, late, tables, quarantine: the switches.
        elements: (name, number of blocks) of each; the name holds its kinds.
        bad: how blocks fail, as (name, block, how).
        faults: see `simulation.faults.draw_faults`.
        lanes: how many lanes there are.
        hosts: how many hosts there are...
        slots: ...and how many slots each has.
        rows: the most rows in a table.
        parts: elements are expanded in so many parts.
        commit_seconds: how long a segment may last.
        block_seconds: about how long a block takes.
        message_seconds: about how long a message takes.
        defer_seconds: how long what is deferred waits.
    """

    seed: int
    runner: str
    saved: bool
    late: bool
    tables: bool
    quarantine: bool
    elements: tuple
    bad: tuple = ()
    faults: tuple = ()
    lanes: int = 2
    hosts: int = 2
    slots: int = 2
    rows: int = 100
    parts: int = 1
    commit_seconds: float = 1.0
    block_seconds: float = 0.01
    message_seconds: float = 0.001
    defer_seconds: float = 0.05

    def combination(self):
        """Return its runner and its switches, as text."""
        return " ".join([self.runner, *(name for name in SWITCHES if getattr(self, name))])

    def written(self):
        """Return how it differs from what is drawn from its seed, as JSON; empty if it does not."""
        drawn = draw(self.seed)
        fields = attrs.asdict(self, recurse=False)
        differs = {name: value for name, value in fields.items() if value != getattr(drawn, name)}
        return json.dumps(differs) if differs else ""

    def command(self):
        """Return the command that repeats it."""
        plan = self.written()
        return f"PYTHONPATH=tests .venv/bin/python -m simulation --seed {self.seed}" + (plan and f" --plan '{plan}'")


def read(seed, written):
    """Return a plan that was written down."""
    fields = {name: frozen(value) for name, value in json.loads(written or "{}").items()}
    return attrs.evolve(draw(seed), **fields)


def frozen(value):
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def draw(seed, **given):
    """Draw a plan; some fields may be given."""
    choose = random.Random(f"{seed} plan")
    switches = choose.choice(
        [each for each in COMBINATIONS if all(each.get(name, v) == v for name, v in given.items())]
    )
    elements = draw_elements(choose, **switches)
    bad = draw_bad(choose, elements) if switches["quarantine"] else ()
    drawn = Plan(
        seed=seed,
        **switches,
        elements=elements,
        bad=bad,
        faults=draw_faults(choose, **switches),
        lanes=choose.choice([1, 1, 2, 3, 4]),
        hosts=choose.randint(1, 3),
        slots=choose.randint(1, 3),
        rows=choose.choice([1, 2, 5, 100]),
        parts=choose.randint(2, 5) if switches["late"] else 1,
        commit_seconds=choose.choice([0.0, 0.05, 0.3, 2.0, 1e9]),
        block_seconds=choose.choice([0.002, 0.01, 0.05]),
        message_seconds=choose.choice([0.0002, 0.002, 0.02]),
        defer_seconds=choose.choice([0.0, 0.05, 0.05, 0.5]),
    )
    return attrs.evolve(drawn, **given)


def draw_elements(choose, *, tables, saved, **_):
    """Return a few elements of different sizes, seldom many of few blocks; tables have more of the plain kind."""
    if saved and choose.random() < 0.2:
        return tuple((f"{at} later", 1) for at in range(choose.randint(1, 5)))  # a segment may have run nothing
    number, sizes = choose.randint(1, 3), [0, 1, 3, 12, 40]
    if choose.random() < (0.6 if tables else 0.1):
        number, sizes = choose.randint(5, 40), [0, 1, 1, 2, 3, 8]
    kinds = (
        *KINDS,
        *["", "", "dear", "defers", "refused"] * 4 * tables,
        *["defers", "later", "later defers"] * 2 * saved,
    )
    return tuple((f"{at} {choose.choice(kinds)}", choose.choice(sizes)) for at in range(number))


def draw_bad(choose, elements):
    blocks = blocks_of(elements)
    most = choose.choice([0, 1, 1, 3, 6])
    return tuple((*block, choose.choice(HOWS)) for block in choose.sample(blocks, min(most, len(blocks))))


BLOCKS = 10_000
RAISING, KILLING, HANGING = 30, 5, 2


def ten_thousand(seed, *, saved):
    """Draw a plan over 10,000 blocks of which 30 raise, 5 kill their process and 2 hang, and all faults strike."""
    choose = random.Random(f"{seed} ten thousand")
    switches = {"runner": STAGES, "saved": saved, "late": not saved, "tables": False, "quarantine": True}
    count = choose.choice([1, 3, 20, 200])
    bounds = [0, *sorted(choose.sample(range(1, BLOCKS), count - 1)), BLOCKS]
    kinds = ("", "fast", "parts", "unsized", "ahead", "defers", "hold 7", "hold 100")
    sizes = [stop - start for start, stop in itertools.pairwise(bounds)]
    elements = tuple((f"{at} {choose.choice(kinds)}", size) for at, size in enumerate(sizes))
    hows = [RAISED] * RAISING + [choose.choice([DIED, KILLED]) for _ in range(KILLING)] + [HUNG] * HANGING
    blocks = choose.sample(blocks_of(elements), len(hows))
    can = [fault for fault in DRAWN if fault.can_strike(**switches)]
    return attrs.evolve(
        draw(seed, **switches),
        elements=elements,
        bad=tuple((*block, how) for block, how in zip(blocks, hows, strict=True)),
        faults=tuple((fault.name, 20 * max(fault.rates), 10) for fault in can),
        hosts=choose.randint(2, 4),
        slots=choose.randint(1, 3),
        parts=choose.randint(2, 4) if switches["late"] else 1,
        commit_seconds=choose.choice([0.5, 2.0, 10.0]),
        block_seconds=choose.choice([0.002, 0.02]),
    )


def smaller(plan):
    """Yield plans that are smaller in one thing, those that leave most out first."""
    count = len(plan.elements)
    kept = [plan.elements[: count // 2], plan.elements[count // 2 :]] if count > 1 else []
    kept += [plan.elements[:at] + plan.elements[at + 1 :] for at in range(count)] if 2 < count <= 12 else []
    for elements in kept:
        yield with_elements(plan, elements)
    if len(plan.faults) > 1:
        yield attrs.evolve(plan, faults=())
    for at in range(len(plan.faults)):
        yield attrs.evolve(plan, faults=plan.faults[:at] + plan.faults[at + 1 :])
    for at in range(len(plan.bad)):
        yield attrs.evolve(plan, bad=plan.bad[:at] + plan.bad[at + 1 :])
    for name in SWITCHES:
        off = {"runner": plan.runner} | {each: getattr(plan, each) and each != name for each in SWITCHES}
        if getattr(plan, name) and is_possible(**off):
            fits = tuple(each for each in plan.faults if Fault[each[0]].can_strike(**off))
            yield attrs.evolve(plan, **off, faults=fits, bad=plan.bad if off["quarantine"] else ())
    for at, (name, size) in enumerate(plan.elements):
        for less in {size // 2, size - 1} - {size, -1}:
            yield with_elements(plan, (*plan.elements[:at], (name, less), *plan.elements[at + 1 :]))
    for at, (name, rate, most) in enumerate(plan.faults):
        if most > 1:
            yield attrs.evolve(plan, faults=(*plan.faults[:at], (name, rate, 1), *plan.faults[at + 1 :]))
    for name in ("lanes", "hosts", "slots", "parts"):
        if getattr(plan, name) > 1:
            yield attrs.evolve(plan, **{name: getattr(plan, name) - 1})


def with_elements(plan, elements):
    """Return a plan over other elements; their bad blocks stay."""
    blocks = set(blocks_of(elements))
    return attrs.evolve(plan, elements=elements, bad=tuple(each for each in plan.bad if each[:2] in blocks))


def shrink(plan, failure_of, most=300):
    """Return the smallest plan that was found to fail with the same type of error; the plan itself if it does not fail.

    Args:
        plan: a plan that fails.
        failure_of: returns how a plan fails, as the type of the error and its message; None if it does not.
        most: how many plans to try.
    """

    def kind_of(plan):
        return (failure_of(plan) or "").partition(":")[0]

    kind, tried = kind_of(plan), 0
    shrinks = bool(kind)
    while shrinks:
        shrinks = False
        for each in smaller(plan):
            if tried == most:
                return plan
            tried += 1
            if kind_of(each) == kind:
                plan, shrinks = each, True
                break
    return plan

"""How well does each policy schedule on up to ten thousand slots, and what does it ask of the driver?

The real planner and the real coordinator under simulated time, beside Spark's own scheduling of whole elements and of
32 pieces per slot cut by hand. Elements cost as a Pareto distribution has it; slots have speeds that change; slots are
lost, and what ran there runs again. The ideal: no slot ever idle, nothing done twice.

    python benchmarks/simulate.py
    python benchmarks/simulate.py --slots 10000 --only LiveRunner --losses 0
"""

import resource

from harness import Bench
from simulated import World, plain
from simulated_live import LiveSimulation
from simulated_staged import StagedSimulation

NAMES = ["flatMap", "32 per slot by hand", "StagedRunner", "LiveRunner"]
LINES = ["#9aa4b0", "#c77d0a", "#2f6fb2", "#d1495b"]


def run(name, world):
    """Return makespan, the driver's seconds, and how many messages or tasks there were."""
    elements, slots = len(world.unit_work), len(world.slots)
    if name == "flatMap":
        return plain(world), 0.0, elements
    if name == "32 per slot by hand":
        pieces = max(1, round(32 * slots / elements))
        return plain(world, pieces), 0.0, pieces * elements
    simulation = StagedSimulation(world) if name == "StagedRunner" else LiveSimulation(world)
    return simulation.run(), simulation.driver.seconds, simulation.sent


def drawn(found):
    """Return a picture of efficiency over slots, a line for each policy; ``found`` maps its name to (slots, share)."""
    counts = sorted({slots for points in found.values() for slots, _ in points})
    place = {slots: 60 + 480 * number / max(1, len(counts) - 1) for number, slots in enumerate(counts)}
    parts = ['<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 300" font-family="sans-serif" font-size="12">']
    parts += ['<rect width="760" height="300" fill="white"/>']
    for percent in range(0, 101, 20):
        y = 260 - 2.3 * percent
        parts += [
            f'<path d="M60 {y}H540" stroke="#d1d9e0"/><text x="52" y="{y + 4}" text-anchor="end">{percent} %</text>'
        ]
    parts += [f'<text x="{x}" y="280" text-anchor="middle">{slots:,}</text>' for slots, x in place.items()]
    for (name, points), colour in zip(found.items(), LINES, strict=False):
        path = " ".join(f"{place[slots]:.0f},{260 - 230 * share:.1f}" for slots, share in points)
        parts += [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>']
        parts += [f'<text x="550" y="{264 - 230 * points[-1][1]:.0f}" fill="{colour}">{name}</text>']
    return "\n".join([*parts, "</svg>"]) + "\n"


def main():
    bench = Bench(__doc__)
    bench.option("--slots", [10, 100, 1000], quick=[10, 100])
    bench.option("--elements", 100, quick=20, help="per slot")
    bench.option("--seconds", 600.0, quick=100.0, help="the ideal makespan")
    bench.option("--alpha", 1.5, help="of the Pareto distribution")
    bench.option("--spread", 0.2, help="of the speeds of the slots")
    bench.option("--period", 60.0, help="seconds after which a slot has another speed")
    bench.option("--losses", 0.1, help="how often a slot is lost, on average")
    bench.option("--only", NAMES)
    given = bench.begin()
    table = bench.table(
        f"{given.seconds:g} s of work per slot, {given.elements} elements per slot, Pareto {given.alpha:g}, "
        f"{given.losses:g} losses per slot",
        {
            "policy": "{}", "slots": "{:,}", "over ideal": "{:.3f}", "messages or tasks": "{:,}", "driver": "{:.1f} s",
            "of a core": "{:.2%}", "memory": "{:,.0f} MB",
        },
    )  # fmt: skip
    found = {}
    for slots in given.slots:
        sizes = slots * given.elements, given.seconds, given.alpha, given.spread, given.period, given.losses
        for name in given.only:
            makespan, seconds, messages = run(name, World(slots, *sizes))
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6
            table.row(name, slots, makespan / given.seconds, messages, seconds, seconds / makespan, peak)
            found.setdefault(name, []).append((slots, given.seconds / makespan))
            if name == "LiveRunner" and not given.losses:
                bench.claim(f"{name}, {slots:,} simulated slots, over ideal", makespan / given.seconds, at_most=1.03)
                bench.claim(
                    f"{name}, {slots:,} simulated slots, driver's share of a core", seconds / makespan, at_most=0.2
                )
    bench.picture("efficiency over slots", drawn(found))
    bench.end()


if __name__ == "__main__":
    main()

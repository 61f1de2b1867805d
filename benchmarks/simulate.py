"""How well does each policy schedule on up to ten thousand slots, and what does it ask of the driver?

The real planner and the real coordinator run under simulated time, beside Spark's own scheduling of one even task per
slot, and of 32 per slot, cut by hand. The costs of elements have a Pareto distribution. Slots change their speed, some
come late, and some are lost. Lost work runs again; with StagedRunner also lost stored records, when the result is read.
LiveRunner has as many lanes as there will be slots. In the ideal no slot is idle and nothing is done twice. Memory is
the driver's, beyond that of the world. Each policy runs in its own process.

Then saved runs whose slots are lost again and again: with segments that last as long as losses let them
(`sdf.scheduling.commit_interval`), and with segments that always last ``commit_seconds``.

    python benchmarks/simulate.py
    python benchmarks/simulate.py --slots 10000 --only LiveRunner --losses 0
"""

import itertools
import math
from contextlib import nullcontext

from harness import Bench, forget_peak, in_processes, peak_megabytes, resident_megabytes
from simulated import Overheads, World, plain
from simulated_live import LiveSimulation
from simulated_saved import SavedLanes, SavedStages, always
from simulated_staged import StagedSimulation

NAMES = ["flatMap", "32 per slot by hand", "StagedRunner", "LiveRunner"]
LIMITS = {"LiveRunner": 1.03, "StagedRunner": 1.03}


def run(name, slots, sizes):
    """Return makespan, the driver's seconds, how many messages or tasks and stages there were, and megabytes."""
    world = World(slots, *sizes)
    before = resident_megabytes()
    forget_peak()
    if name in ("flatMap", "32 per slot by hand"):
        tasks = slots if name == "flatMap" else 32 * slots
        return plain(world, tasks), 0.0, tasks, 1, 0.0
    simulation = StagedSimulation(world) if name == "StagedRunner" else LiveSimulation(world)
    makespan = simulation.run()
    stages = simulation.stages if name == "StagedRunner" else 1
    return makespan, simulation.driver.seconds, simulation.sent, stages, peak_megabytes() - before


def run_saved(name, slots, sizes, fixed, commit_seconds, closing_seconds):
    """Return makespan and number of segments of a saved run."""
    kind = SavedLanes if name == "LiveRunner" else SavedStages
    simulation = kind(World(slots, *sizes), commit_seconds=commit_seconds, closing_seconds=closing_seconds)
    with always(commit_seconds) if fixed else nullcontext():
        return simulation.run(), simulation.segments


def main():
    bench = Bench(__doc__)
    bench.option("--slots", [10, 100, 1000], quick=[10, 100])
    bench.option("--elements", 100, quick=20, help="per slot")
    bench.option("--seconds", 600.0, quick=100.0, help="the ideal makespan")
    bench.option("--alpha", 1.5, help="of the Pareto distribution")
    bench.option("--spread", 0.2, above=-1e-9, help="of the speeds of the slots")
    bench.option("--period", 60.0, help="seconds after which a slot has another speed")
    bench.option("--losses", 0.1, above=-1e-9, help="how often a slot is lost, on average")
    bench.option("--late", 0.05, above=-1e-9, help="share of the slots that come within half of the makespan")
    bench.option("--message-ms", 1.0, help="between lane and driver, one way")
    bench.option("--job-ms", 80.0, help="from then until its tasks are in Spark's queue")
    bench.option("--stage-ms", 22.0, help="for which the driver's thread waits until Spark has taken a stage")
    bench.option("--launch-ms", 0.25, help="between two tasks that Spark's driver starts")
    bench.option("--restart-seconds", 5.0, help="until a lost slot runs tasks again")
    bench.option("--only", NAMES, choices=NAMES)
    bench.option("--lost-every", [600.0, 120.0, 60.0, 30.0], help="saved: mean seconds between two losses of a slot")
    bench.option("--commit-seconds", 60.0, help="saved: how long a segment may last")
    bench.option("--closing-seconds", 0.2, help="saved: what closing one takes")
    given = bench.begin()
    if given.spread >= 1:
        bench.refuse(f"--spread must be below 1 (got {given.spread!r})")
    overheads = Overheads(
        given.message_ms / 1e3, given.job_ms / 1e3, given.stage_ms / 1e3, given.launch_ms / 1e3, given.restart_seconds
    )
    table = bench.table(
        f"{given.seconds:g} s of work per slot, {given.elements} elements per slot, Pareto {given.alpha:g}, "
        f"{given.losses:g} losses per slot, {given.late:.0%} of the slots late",
        {
            "policy": "{}", "slots": "{:,}", "over ideal": "{:.3f}", "messages or tasks": "{:,}", "stages": "{:,}",
            "driver": "{:.1f} s", "of a core": "{:.2%}", "memory": "{:,.0f} MB",
        },
    )  # fmt: skip
    for slots in given.slots:
        sizes = (
            slots * given.elements, given.seconds, given.alpha, given.spread, given.period, given.losses, given.late,
            overheads,
        )  # fmt: skip
        for name in given.only:
            makespan, seconds, messages, stages, megabytes = in_processes(1, run, name, slots, sizes)[0]
            table.row(name, slots, makespan / given.seconds, messages, stages, seconds, seconds / makespan, megabytes)
            if name in LIMITS and not given.losses and not given.late:
                what = f"{name}, {slots:,} simulated slots, {given.elements} elements and {given.seconds:g} s each"
                bench.claim(f"{what}, over ideal", makespan / given.seconds, at_most=LIMITS[name])
                bench.claim(f"{what}, driver's share of a core", seconds / makespan, at_most=0.2)
    saved_runs(bench, given, overheads)
    bench.end()


def saved_runs(bench, given, overheads):
    slots = given.slots[0]
    table = bench.table(
        f"a saved run on {slots} slots, {given.seconds:g} s of work per slot; commit_seconds={given.commit_seconds:g}, "
        f"closing a segment takes {given.closing_seconds:g} s, a lost slot is back after {given.restart_seconds:g} s",
        {"policy": "{}", "slots are lost every": "{}", "segments": "{}", "over ideal": "{:.3f}", "committed": "{:,}"},
    )
    for name, every in itertools.product(
        [name for name in given.only if name in LIMITS], [math.inf, *given.lost_every]
    ):
        sizes = (
            slots * given.elements, given.seconds, given.alpha, given.spread, given.period, given.seconds / every, 0.0,
            overheads,
        )  # fmt: skip
        over = {}
        for fixed in (False, True):
            makespan, segments = in_processes(
                1, run_saved, name, slots, sizes, fixed, given.commit_seconds, given.closing_seconds
            )[0]
            over[fixed] = makespan / given.seconds
            lengths = "as given" if fixed else "as losses let them"
            table.row(name, "never" if every == math.inf else f"{every:g} s", lengths, over[fixed], segments)
        if every <= given.commit_seconds:
            what = f"{name}, saved, slots lost every {every:g} s: segments as losses let them, over as given"
            bench.claim(what, over[False] / over[True], at_most=0.75 if name == "LiveRunner" else 1.0)


if __name__ == "__main__":
    main()

"""How long does a saved run take on up to ten thousand slots whose executors are lost, over the ideal of those there?

The real lanes and the real coordinator run under simulated time (`simulated_saved.py`). An executor has several slots,
which are all lost at once: a tenth of the executors in every ten minutes, seeded. A replacement comes so many seconds
later, with no work of the lost one. The costs of elements have a Pareto distribution, and slots change their speed.
The ideal: the time in which the slots that were there add up to the work. Segments last as long as losses let them,
``commit_seconds`` at most. Each size runs in its own process.

    python benchmarks/simulate_moving.py
    python benchmarks/simulate_moving.py --slots 10000
"""

import random
import time

from harness import Bench, in_processes
from simulated import Overheads, World
from simulated_saved import SavedLanes

WINDOW_SECONDS = 600.0
OVERHEADS = {"message_seconds": 1e-3, "job_seconds": 0.08, "stage_seconds": 0.022, "launch_seconds": 0.25e-3}


class Moving(World):
    """A world whose executors are lost, and replaced.

    Args:
        slots: how many.
        elements: how many.
        seconds: what the makespan would be if nothing were lost.
        executor_slots: of each executor.
        lost_share: of the executors, in ten minutes.
        replaced_seconds: from a loss until the replacement is there.
    """

    def __init__(self, slots, elements, seconds, executor_slots, lost_share, replaced_seconds):
        overheads = Overheads(**OVERHEADS, restart_seconds=replaced_seconds)
        super().__init__(slots, elements, seconds, 1.5, 0.2, 60.0, 0.0, 0.0, overheads)
        executors = -(-slots // executor_slots)
        choose = random.Random(f"losses of {slots}")
        lost_at = [[] for _ in range(executors)]
        lost = 0
        for number in range(int(3 * seconds / WINDOW_SECONDS)):
            until = round(lost_share * executors * (number + 1))
            for executor in choose.sample(range(executors), until - lost):
                at = choose.uniform(number, number + 1) * WINDOW_SECONDS
                if not lost_at[executor] or at >= lost_at[executor][-1] + replaced_seconds:
                    lost_at[executor].append(at)
            lost = until
        self.losses = lost_at
        self.lost_at = [lost_at[slot // executor_slots] for slot in range(slots)]

    def ideal_of_present(self):
        """Return when the slots that were there add up to the work."""
        total = sum(slot.by(self.ideal) for slot in self.slots)
        least, most = self.ideal, 2 * self.ideal
        while most - least > 1e-3:
            middle = (least + most) / 2
            done = sum(self._done(number, middle) for number in range(len(self.slots)))
            least, most = (middle, most) if done < total else (least, middle)
        return most

    def _done(self, number, until):
        slot = self.slots[number]
        gone = [(at, min(until, at + self.overheads.restart_seconds)) for at in self.lost_at[number] if at < until]
        return slot.by(until) - sum(slot.by(back) - slot.by(at) for at, back in gone)


def run(slots, elements, seconds, executor_slots, lost_share, replaced_seconds, commit_seconds, closing_seconds):
    """Return makespan, ideal, losses of executors, segments, seconds of the driver, and seconds that this took."""
    began = time.process_time()
    world = Moving(slots, slots * elements, seconds, executor_slots, lost_share, replaced_seconds)
    simulation = SavedLanes(world, commit_seconds=commit_seconds, closing_seconds=closing_seconds)
    makespan = simulation.run()
    losses = sum(at < makespan for executor in world.losses for at in executor)
    return (
        makespan, world.ideal_of_present(), losses, simulation.segments, simulation.driver.seconds,
        time.process_time() - began,
    )  # fmt: skip


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--slots", [10, 100, 1000, 10000], quick=[10, 100])
    bench.option("--executor-slots", 4)
    bench.option("--elements", 20, help="per slot")
    bench.option("--seconds", 3600.0, quick=600.0, help="of work per slot")
    bench.option("--lost-share", 0.1, help="of the executors, in ten minutes")
    bench.option("--replaced-seconds", 60.0, help="from a loss until the replacement is there")
    bench.option("--commit-seconds", 60.0, help="how long a segment may last")
    bench.option("--closing-seconds", 0.2, help="what closing one takes")
    given = bench.begin()
    table = bench.table(
        f"LiveRunner, saved: {given.seconds:g} s of work per slot, executors of {given.executor_slots} slots, "
        f"{given.lost_share:.0%} lost in ten minutes and replaced after {given.replaced_seconds:g} s",
        {
            "slots": "{:,}", "s": "{:,.0f}", "ideal": "{:,.0f}", "over ideal": "{:.3f}", "executors lost": "{:,}",
            "segments": "{:,}", "driver": "{:.1f} s", "simulated in": "{:.0f} s",
        },
    )  # fmt: skip
    for slots in given.slots:
        makespan, ideal, losses, segments, driver, taken = in_processes(
            1, run, slots, given.elements, given.seconds, given.executor_slots, given.lost_share,
            given.replaced_seconds, given.commit_seconds, given.closing_seconds,
        )[0]  # fmt: skip
        table.row(slots, makespan, ideal, makespan / ideal, losses, segments, driver, taken)
        bench.claim(f"LiveRunner, saved, {slots:,} simulated slots, over ideal", makespan / ideal, at_most=1.1)
    bench.end()


if __name__ == "__main__":
    main()

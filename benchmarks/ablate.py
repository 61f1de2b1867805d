"""What does each heuristic and each constant of scheduling bring? Without it, or with another value, what gets worse?

Both runners run under simulated time, and the driver takes no time, so a row (`ablation_rows.py`) gives the same figure
each time: the makespan over the ideal. For each variant the tables show the row that gets worse most, and the change in
tasks or messages. What keeps the driver quick, or Spark from too many jobs, shows elsewhere: with a thousand slots and
the driver's real time, in the plan for a million elements, and in a run of 100,000 elements.

    python benchmarks/ablate.py
"""

import math
import time
from concurrent.futures import ProcessPoolExecutor
from statistics import mean, median
from unittest.mock import patch

import attrs
import growth
import simulated_staged
from ablation_rows import ROWS
from harness import Bench, in_processes
from pyspark import cloudpickle
from simulate import run
from simulated import Overheads, none
from simulated_live import LiveSimulation
from simulated_staged import StagedSimulation

from sdf import run_sdf
from sdf.execution import executor, measured_run
from sdf.lanes import attempts, heartbeat, stealing
from sdf.scheduling import cost_model, factoring, lineage_rates, size_line, stage_planner, work_queue

STAGED, LIVE = "StagedRunner", "LiveRunner"
BOTH = STAGED, LIVE
SIMULATIONS = {STAGED: StagedSimulation, LIVE: LiveSimulation}
GAIN = 0.005  # what is left out makes a row worse by that much at least
OVERHEADS = Overheads(
    message_seconds=0.001, job_seconds=0.08, stage_seconds=0.022, launch_seconds=0.00025, restart_seconds=5.0
)


@attrs.frozen(eq=False)
class Variant:
    """What is changed, where, and to what.

    Attributes:
        what: in words.
        where: a module or class.
        name: of what is changed there.
        value: that takes its place.
        runners: that have it.
    """

    what: str
    where: object
    name: str
    value: object
    runners: tuple[str, ...] = BOTH

    def applied(self):
        return patch.object(self.where, self.name, self.value)


def always(value):
    return lambda *_: value


def per_unit(self):
    return 0.0, self.seconds / (self._units * self._largest) if self._units else 0.0


_observe = cost_model.CostModel.observe


def observe_without(self, outcome, wholes=(), *, gave_back=False):
    return _observe(self, outcome, wholes)


def staged(what, where, name, value):
    return Variant(what, where, name, value, (STAGED,))


def live(what, where, name, value):
    return Variant(what, where, name, value, (LIVE,))


NOTHING = Variant("as it is", factoring, "_SHARE", factoring._SHARE)
LEFT_OUT = [
    staged("tasks of any length, however short the run has been", factoring, "_LONGEST_OF_ELAPSED", math.inf),
    staged(
        "tasks no shorter after a wrong estimate", factoring, "_LONGEST_IF_SURPRISED", factoring._LONGEST_OF_ELAPSED
    ),
    staged("tasks of no least length in a short run", factoring, "_LEAST_LONGEST_SECONDS", 0.0),
    staged("each slot gets all of its part of what is left", factoring, "_SHARE", 1.0),
    staged("no task is larger than wanted", factoring, "_OVERFULL", 1.0),
    live("any piece fills up a lane", factoring, "_LEAST_PART", 0.0),
    staged("no estimate counts as wrong", cost_model, "_WRONG_FACTOR", math.inf),
    staged("work items given back do not tell of an estimate", cost_model.CostModel, "observe", observe_without),
    Variant("a residual costs what its size says", lineage_rates.LineageRates, "rate", always(None)),
    staged("a queued residual keeps its rate", lineage_rates.LineageRates, "_follow", always(None)),
    Variant("cost by unit alone, none per work item", size_line.SizeLine, "fit", per_unit),
    staged("no margin for starting a stage", stage_planner, "_START_MARGIN", 1.0),
    staged("pieces are no larger where opening takes long", stage_planner, "_OPENINGS", 0.0),
    staged("no stage before a slot is idle", stage_planner.StagePlanner, "_plans_ahead", always(False)),
    staged("pieces shorter than starting a stage", factoring.Tuning, "with_least", lambda self, _: self),
    staged("work that was just opened is split", measured_run.Running, "opening_seconds", always(0.0)),
    Variant(
        "the mean alone tells what is left",
        measured_run.Running,
        "seconds_left_at_most",
        measured_run.Running.seconds_left,
    ),
    live("nothing is expected of what has just begun", executor.Executor, "_expected_seconds", always(0.0)),
    live("a steal halves units instead of seconds", measured_run.Running, "halve", lambda self: self.split(0.5)),
    live("a lane splits what takes longer to open", measured_run.Running, "opening_seconds", always(None)),
    live("any change is news", heartbeat, "_SHARE", 0.0),
    live("one work item at a time for a lane", attempts, "_MOST_SECONDS", 0.0),
    live("queues of lanes that have not begun are taken at once", stealing, "_START_SECONDS", 0.0),
    live("no idle attempt makes room for a lost lane", stealing, "_SLOT_SECONDS", math.inf),
]
OTHER_VALUES = [
    staged("each slot gets half of its part of what is left", factoring, "_SHARE", 0.5),
    staged("tasks at most as long as the run has been", factoring, "_LONGEST_OF_ELAPSED", 1.0),
    staged("half as long tasks after a wrong estimate", factoring, "_LONGEST_IF_SURPRISED", 0.1),
    staged("twice the least length in a short run", factoring, "_LEAST_LONGEST_SECONDS", 0.8),
    Variant("pieces up to twice as large as wanted", factoring, "_OVERFULL", 2.0),
    live("at least half a share fills up a lane", factoring, "_LEAST_PART", 0.5),
    staged("ten work items per task while no cost is known", factoring, "_ITEMS_WHILE_COST_UNKNOWN", 10),
    staged("the first budget is 0.25 s", simulated_staged, "FIRST_BUDGET_SECONDS", 0.25),
    staged("the first budget is 1 s", simulated_staged, "FIRST_BUDGET_SECONDS", 1.0),
    staged("an estimate counts as wrong at 1.5 times", cost_model, "_WRONG_FACTOR", 1.5),
    Variant("sizes count in full though they differ little", size_line, "_ALIKE", 0.01),
    Variant("sizes count only where they differ much", size_line, "_ALIKE", 1.0),
    Variant("queued residuals are weighed seldom", work_queue, "_PIECES_PER_CHANGE", 1),
    staged("twice as much margin for starting a stage", stage_planner, "_START_MARGIN", 2.0),
    staged("a piece takes at least as long as two openings", stage_planner, "_OPENINGS", 2.0),
    staged("stages wait up to 1 s for more idle slots", stage_planner, "_FEW_SECONDS", 1.0),
    Variant("the latest cost is that of 25 ms", measured_run, "_RECENT_SECONDS", 0.025),
    Variant("the latest cost is that of 2 s", measured_run, "_RECENT_SECONDS", 2.0),
    live("20 % is news", heartbeat, "_SHARE", 0.2),
    live("news waits up to 5 s", heartbeat, "_NEWS_SECONDS", 5.0),
    live("news waits up to 0.1 s", heartbeat, "_NEWS_SECONDS", 0.1),
    live("five times as many heartbeats at first", heartbeat, "_QUIET_SHARE", 0.02),
    live("10 s of work items at a time for a lane", attempts, "_MOST_SECONDS", 10.0),
    live("10 ms of work items at a time for a lane at first", attempts, "_LEAST_SECONDS", 0.01),
    live("half of what a lane has run at a time", attempts, "_BATCH_SHARE", 0.5),
    live("queues of lanes that have not begun wait for 2 s", stealing, "_START_SECONDS", 2.0),
    live("an idle attempt makes room at once", stealing, "_SLOT_SECONDS", 0.0),
    live("an idle attempt makes room after 1 s", stealing, "_SLOT_SECONDS", 1.0),
]
OF_THE_DRIVER = [
    staged("as it is", factoring, "_SHARE", factoring._SHARE),
    staged("a stage for each slot that falls idle", stage_planner, "_SLOTS_PER_IDLE", math.inf),
    staged("queued residuals are weighed at each change", work_queue, "_PIECES_PER_CHANGE", math.inf),
    live("as it is", factoring, "_SHARE", factoring._SHARE),
    live("a heartbeat every 2 s", heartbeat, "_QUIET_SECONDS", 2.0),
    live("entries that are not valid any more stay", stealing, "_STALE", math.inf),
]
VARIANTS = [NOTHING, *LEFT_OUT, *OTHER_VALUES, *OF_THE_DRIVER]  # other processes know them by their places


def measure(runner, place, rows):
    """Return for each row the makespan over the ideal, and the number of tasks or messages."""
    found = {}
    with VARIANTS[place].applied():
        for row in rows:
            runs = []
            for world in ROWS[row]():
                simulation = SIMULATIONS[runner](world, clock=none)
                runs.append((simulation.run() / world.ideal, simulation.sent))
            found[row] = mean(over for over, _ in runs), sum(sent for _, sent in runs)
    return found


def makespans(bench, given):
    """Run each variant in each row."""
    with ProcessPoolExecutor(2) as pool:
        runs = {
            (variant, runner): pool.submit(measure, runner, place, given.rows)
            for place, variant in enumerate([NOTHING, *LEFT_OUT, *OTHER_VALUES])
            for runner in variant.runners
        }
        base = {runner: runs[NOTHING, runner].result() for runner in BOTH}
        table = bench.table("as it is; makespan over the ideal", {"": "{}", **dict.fromkeys(BOTH, "{:.3f}")})
        for row in given.rows:
            table.row(row, *(base[runner][row][0] for runner in BOTH))
        formats = {
            "": "{}", "runner": "{}", "row that gets worse most": "{}", "as it is": "{:.3f}", "then": "{:.3f}",
            "all rows": "{:+.3f}", "tasks or messages": "{:+.0%}",
        }  # fmt: skip
        for title, variants in (("left out", LEFT_OUT), ("other values", OTHER_VALUES)):
            table = bench.table(f"{title}; makespan over the ideal, and the mean change over all rows", formats)
            for variant in variants:
                gains = []
                for runner in variant.runners:
                    found, before = runs[variant, runner].result(), base[runner]
                    worst = max(found, key=lambda row: found[row][0] - before[row][0])
                    gains.append(found[worst][0] - before[worst][0])
                    change = mean(found[row][0] - before[row][0] for row in found)
                    sent = sum(sent for _, sent in found.values()) / sum(sent for _, sent in before.values()) - 1
                    table.row(variant.what, runner, worst, before[worst][0], found[worst][0], change, sent)
                if variants is LEFT_OUT and not given.quick:
                    bench.claim(f"what a row loses: {variant.what}", max(gains), at_least=GAIN)


def of_the_driver(place, slots):
    with VARIANTS[place].applied():
        (runner,) = VARIANTS[place].runners
        return run(runner, slots, (100 * slots, 600.0, 1.5, 0.2, 60.0, 0.0, 0.0, OVERHEADS))


def planned(many):
    with patch.object(work_queue, "_MANY", many):
        return growth.plan(1_000_000, dealing=True)


def drivers(bench, given):
    """See what the driver takes."""
    table = bench.table(
        f"{given.slots:,} slots, 600 s of work each: what is asked of the driver",
        {
            "": "{}", "runner": "{}", "over ideal": "{:.3f}", "messages or tasks": "{:,}", "stages": "{:,}",
            "of a core": "{:.2%}", "memory": "{:,.0f} MB",
        },
    )  # fmt: skip
    for variant in OF_THE_DRIVER:
        makespan, seconds, sent, stages, megabytes = in_processes(
            1, of_the_driver, VARIANTS.index(variant), given.slots
        )[0]
        table.row(variant.what, *variant.runners, makespan / 600, sent, stages, seconds / makespan, megabytes)
    if given.quick:
        return
    table = bench.table("1,000,000 work items dealt out to 1,000 lanes", {"": "{}", "s": "{:.2f}"})
    for what, many in (("as it is", work_queue._MANY), ("all of them in one heap", math.inf)):
        table.row(what, in_processes(1, planned, many)[0][1])


def elements(bench, given):
    """Run many elements with Spark."""
    sc = bench.spark(2)
    cloudpickle.register_pickle_by_value(growth)  # the workers cannot import it
    rdd = sc.parallelize(range(given.elements), 2)
    run_sdf(rdd, growth.OneFn()).count()  # so that all have warm workers
    taken = {factoring._ITEMS_WHILE_COST_UNKNOWN: [], 10**9: []}
    for _ in range(given.rounds):
        for most, seconds in taken.items():
            with patch.object(factoring, "_ITEMS_WHILE_COST_UNKNOWN", most):
                began = time.perf_counter()
                result = run_sdf(rdd, growth.OneFn())
                result.count()
                seconds.append(time.perf_counter() - began)
                result.unpersist()
    table = bench.table(f"{given.elements:,} elements that do next to nothing, StagedRunner", {"": "{}", "s": "{:.2f}"})
    for what, seconds in zip(("as it is", "any number per task while no cost is known"), taken.values(), strict=True):
        table.row(what, median(seconds))


def main():
    bench = Bench(__doc__)
    bench.option("--rows", list(ROWS), quick=list(ROWS)[:2], choices=list(ROWS))
    bench.option("--slots", 1000, quick=10, help="to see what the driver takes")
    bench.option("--elements", 100_000, quick=1000, help="of a run with Spark")
    given = bench.begin()
    makespans(bench, given)
    drivers(bench, given)
    elements(bench, given)
    bench.end()


if __name__ == "__main__":
    main()

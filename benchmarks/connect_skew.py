"""How close to the ideal makespan does a run on Spark Connect come, beside mapInPandas over work cut by hand?

The kinds of work are those of `skew.py`, and so is the ideal: the same work units dealt out evenly, one task per slot.
The results are staged as Parquet files, which is in the figures of run_sdf; the other ways only count.

    python benchmarks/connect_skew.py --kind wait --slots 4
    python benchmarks/connect_skew.py --kind cpu --slots 2
"""

import os
import sys
import tempfile
from pathlib import Path

from harness import Bench, in_turn
from skew import Spend, SpendFn, spend_all, workloads

from sdf import run_sdf

WAYS = BY_HAND, STAGED = ["mapInPandas, 32 per slot", "run_sdf"]


class Task:
    """Runs the shares of blocks whose numbers come in; a function for ``mapInPandas``."""

    def __init__(self, shares, workload, spend):
        self.shares = shares
        self.workload = workload
        self.spend = spend

    def __call__(self, frames):
        for frame in frames:
            for number in frame["id"]:
                done = sum(1 for _ in spend_all(self.shares[number], self.workload, self.spend))
                yield frame.iloc[:1].assign(id=done)


def actions(spark, workload, spend, slots, staging):
    """Return for each way a function that runs the work and counts its records."""

    def by_hand(shares):
        shares = [share for share in shares if len(share)]
        partitions = min(len(shares), 32 * slots)
        tasks = spark.range(0, len(shares), 1, partitions).mapInPandas(Task(shares, workload, spend), "id long")
        return lambda: sum(row.id for row in tasks.collect())

    def sdf():
        frame = spark.createDataFrame(workload.elements, "first long, last long")
        found = run_sdf(frame, SpendFn(workload, spend), schema="block long", staging=staging, progress=False)
        return found.count()

    return {
        "ideal": by_hand(workload.dealt_out(slots)),
        BY_HAND: by_hand([range(*piece) for piece in workload.cut(32 * slots)]),
        STAGED: sdf,
    }


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--kind", "wait", choices=["cpu", "wait"])
    bench.option("--slots", 4)
    bench.option("--seconds", 20.0, quick=0.2, help="of work per slot")
    bench.option("--only", "", quick="giant", help="workloads with this in their name")
    given = bench.begin()
    here = str(Path(__file__).parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([here, str(Path(here).parent), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(f"local[{given.slots}]").getOrCreate()
    spend = Spend(given.kind)
    table = bench.table(
        f"{given.slots} slots that {'compute' if given.kind == 'cpu' else 'wait'}, {given.seconds:g} s of work each; "
        f"makespan over the ideal",
        {"": "{}", "ideal": "{:.2f} s", **dict.fromkeys(WAYS, "{:.3f}")},
    )
    with tempfile.TemporaryDirectory() as staging:
        warm = actions(spark, workloads(0.5, given.slots)[0], spend, given.slots, staging)
        in_turn(warm, 0)
        for workload in workloads(given.seconds, given.slots):
            if given.only not in workload.name:
                continue
            runs = actions(spark, workload, spend, given.slots, staging)
            taken = in_turn(runs, given.rounds, warm_up=False)
            over = {way: taken[way].median / taken["ideal"].median for way in WAYS}
            table.row(workload.name, taken["ideal"].median, *over.values())
            what = f"{workload.name}, {given.slots} slots that {given.kind}, {given.seconds:g} s"
            if given.seconds == 20:
                bench.claim(f"run_sdf on Spark Connect, {what}", over[STAGED], at_most=1.25)
    bench.end()


if __name__ == "__main__":
    main()

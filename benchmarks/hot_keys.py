"""How long does a function over groups take if one key has most of the values, and how long the grouping before it?

Each value costs a moment of Python. The ideal is all of that on all slots.

The run of the claims is

    python benchmarks/hot_keys.py --values 2000000
"""

import shutil
import tempfile
import time

from harness import Bench

from sdf import LiveRunner, group_by_key, run_sdf
from sdf.io import ReadGroups

SLOTS = 4
HOT = 0.9  # of all values
KEYS = 1000
EACH_SECONDS = 50e-6
SALTS = 32
AT_ONCE = 200  # values for which a slot waits together: a clock cannot wait 50 us


def key_of(number):
    return "hot" if number % 10 < 10 * HOT else f"cold {number % KEYS}"


def cost(values):
    """Count values, and wait as long as their work would take: four slots wait on two cores."""
    count = 0
    for count, _ in enumerate(values, start=1):
        if count % AT_ONCE == 0:
            time.sleep(AT_ONCE * EACH_SECONDS)
    time.sleep(count % AT_ONCE * EACH_SECONDS)
    return count


def add(one, other):
    return one + other


def whole(key, values):
    return cost(values)


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--values", 400_000, quick=20_000)
    given = bench.begin()
    sc = bench.spark(SLOTS)
    from pyspark.sql import SparkSession

    session = SparkSession(sc)
    count = given.values
    ideal = count * EACH_SECONDS / SLOTS
    pairs = sc.parallelize(range(count), SLOTS * 2).map(lambda number: (key_of(number), number)).cache()
    pairs.count()
    frame = session.createDataFrame(pairs, "key string, value long").cache()
    frame.count()
    folder = tempfile.mkdtemp()
    table = bench.table(
        f"{count:,} values of 50 us each, 90 % under one key, {SLOTS} slots that wait",
        {"way": "{}", "s": "{:.2f}", "over the ideal": "{:.2f}", "of it grouping s": "{:.2f}"},
    )

    def ours():
        began = time.perf_counter()
        groups = group_by_key(pairs, path=folder, files=2 * SLOTS)
        grouped = time.perf_counter() - began
        parts = run_sdf(groups, ReadGroups(whole, parts=True), runner=LiveRunner(), progress=False)
        total = parts.reduceByKey(add).values().sum()
        return total, time.perf_counter() - began, grouped, groups

    def salted():
        salted = pairs.zipWithIndex().map(lambda pair: ((pair[0][0], pair[1] % SALTS), pair[0][1]))
        return salted.groupByKey(SALTS).map(lambda pair: (pair[0][0], cost(pair[1]))).reduceByKey(add).values().sum()

    def plain():
        return pairs.groupByKey().mapValues(cost).values().sum()

    def pandas():
        def apply(key, rows):
            import pandas as pd

            return pd.DataFrame({"n": [cost(rows["value"])]})

        return frame.groupBy("key").applyInPandas(apply, "n long").groupBy().sum("n").collect()[0][0]

    ours()  # starts Python in each slot
    for _ in range(given.rounds):
        total, seconds, grouped, groups = ours()
        assert total == count
        table.row("group_by_key, ReadGroups", seconds, seconds / ideal, grouped)
        for name, way in (("a salt by hand", salted), ("groupByKey", plain), ("applyInPandas", pandas)):
            began = time.perf_counter()
            assert way() == count
            took = time.perf_counter() - began
            table.row(name, took, took / ideal, None)
    import pyarrow.parquet

    (element,) = groups.collect()
    rows = [pyarrow.parquet.read_metadata(path).num_rows for path, _ in element.files]
    bench.claim("hot key: after grouping, over the ideal", (seconds - grouped) / ideal, at_most=1.15)
    bench.claim("hot key: the longest grouped file over the mean", max(rows) * len(rows) / sum(rows), at_most=1.5)
    shutil.rmtree(folder)
    bench.end()


if __name__ == "__main__":
    main()

"""Many runs on real executors while Python workers and executors are killed at random moments."""

import random
from collections import Counter

import pytest
from support.fns import SlowCountFn, expected
from support.killing import Killer
from support.warm import PLAIN

from sdf import LiveRunner, run_sdf

FAULTS = ("pyspark.daemon", "CoarseGrainedExecutorBackend", "splits", "retries", "replays")


@pytest.mark.parametrize(
    "runs",
    [
        pytest.param(3, marks=pytest.mark.slow("test_moving.py::test_an_executor_dies")),
        pytest.param(32, marks=pytest.mark.soak),
    ],
)
def test_every_record_once_whatever_is_killed_when(start_spark, runs):
    """The same multiset in each run, and a second action gives the same lists while more is killed."""
    sc = start_spark(
        "local-cluster[3,1,1024]", spark_task_maxFailures="40", spark_deploy_maxExecutorRetries="-1", **PLAIN
    )
    counts = Counter()
    for seed in range(4 * runs):
        if seed >= runs and min(counts[happened] for happened in FAULTS) >= runs // 10 + 1:
            break  # where chance left something out, more runs bring it
        draw = random.Random(seed)
        elements = [
            ("big", draw.randint(300, 800)),
            *((str(n), draw.randint(0, 9)) for n in range(draw.randint(0, 25))),
        ]
        result = run_sdf(
            sc.parallelize(elements),
            SlowCountFn(),
            runner=LiveRunner(lanes=draw.choice([2, 3, 3, 5]), patience_seconds=2),
        )
        planned = result.report.splits
        killer = Killer([sc._gateway.proc.pid], seed)
        killer.start()
        try:
            first = result.collect()
            splits = result.report.splits - planned
            second = result.collect()
        finally:
            killer.ended.set()
            killer.join()
        assert Counter(first) == expected(elements), f"seed {seed}"
        assert second == first, f"seed {seed}"
        counts.update(killer.killed)
        counts.update(runs=1, splits=splits, retries=result.report.retries, replays=result.report.replays)
    print(dict(counts))
    for happened in FAULTS:
        assert counts[happened] >= runs // 10 + 1, counts  # it is few on a machine that is busy

"""Programs as users type them: `make lint` has a type checker read them, and nobody runs them.

Each type must be as it is asserted, and each mistake must be one: a comment that ignores no error is an error itself.
"""

from collections.abc import Iterator
from typing import Any

from pyspark import RDD, SparkContext
from pyspark.sql import DataFrame
from typing_extensions import assert_type

from sdf import (
    DoFn,
    OffsetRange,
    Pace,
    Quarantine,
    RunReport,
    SaveSummary,
    StreamSummary,
    TaggedOutput,
    Until,
    run_direct,
    run_sdf,
    save_sdf,
    stream_sdf,
)
from sdf.sinks import TextFiles
from sdf.spark.result import Result


class CountFn(DoFn[tuple[str, int], str]):
    """Names the types of its elements and of its outputs."""

    def get_initial_restriction(self, element: tuple[str, int]) -> OffsetRange:
        return OffsetRange(0, element[1])

    def process(self, element: tuple[str, int], tracker: Any, mark: str = "") -> Iterator[str | TaggedOutput]:
        for i in tracker.claims():
            yield f"{element[0]}{i}{mark}"
        yield TaggedOutput("bad", 1)


class PlainFn(DoFn):
    """Names none, as most do."""

    def get_initial_restriction(self, element: Any) -> tuple[int, int]:
        return 0, 1

    def process(self, element: Any, tracker: Any) -> Iterator[int]:
        yield from tracker.claims()


def results(sc: SparkContext, frame: DataFrame) -> None:
    pairs = sc.parallelize([("a", 1)])
    assert_type(run_sdf(pairs, CountFn()), Result[str])
    assert_type(run_sdf(pairs, CountFn()).map(len), RDD[int])
    assert_type(run_sdf(pairs, CountFn(), side_inputs={"mark": "!"}).report, RunReport)
    assert_type(run_sdf(pairs, CountFn(), tags=("bad",)), dict[str, Result[Any]])
    assert_type(run_sdf(pairs, CountFn(), on_failure=Quarantine()), dict[str, Result[Any]])
    assert_type(run_sdf(pairs, PlainFn()), Result[Any])
    assert_type(run_sdf(frame, CountFn(), schema="s string", staging="staged"), DataFrame)
    assert_type(run_sdf(frame, CountFn(), schema={}, staging="staged", tags=("bad",)), dict[str, DataFrame])
    assert_type(run_direct([("a", 1)], CountFn()), list[str])
    assert_type(run_direct([("a", 1)], CountFn(), tags=("bad",)), dict[str, list[Any]])
    assert_type(save_sdf(pairs, CountFn(), TextFiles("out")), SaveSummary)
    assert_type(stream_sdf(pairs, [CountFn(), PlainFn()], TextFiles("out"), checkpoint="state"), StreamSummary)


def mistakes(sc: SparkContext, numbers: RDD[int]) -> None:
    pairs, fn, sink = sc.parallelize([("a", 1)]), CountFn(), TextFiles("out")
    run_sdf(numbers, fn)  # type: ignore[misc]  # the elements are pairs
    save_sdf(numbers, fn, sink)  # type: ignore[misc]
    run_direct(["a"], fn)  # type: ignore[misc]
    run_sdf(pairs, CountFn)  # type: ignore[call-overload]  # an instance
    run_sdf(pairs, fn, on_failure="quarantine")  # type: ignore[call-overload]  # a Quarantine
    run_sdf(pairs, fn, runer=None)  # type: ignore[call-overload]  # runner
    run_sdf(pairs, fn, schema="s string")  # type: ignore[call-overload]  # only for a DataFrame
    stream_sdf(pairs, fn, sink, checkpoint="state", until=Pace())  # type: ignore[arg-type]  # an Until
    stream_sdf(pairs, fn, sink)  # type: ignore[call-arg]  # it needs a checkpoint
    Quarantine(max_failures="3")  # type: ignore[arg-type]  # an integer
    Until(idle=True, max_batch=3)  # type: ignore[call-arg]  # max_batches

"""Count to N for each of several elements, one of them huge: python examples/count_fn.py"""

from pyspark import SparkContext

from sdf import DoFn, OffsetRange, run_sdf


class CountFn(DoFn):
    """Element: a name and a number N. Position: an integer. Output: (name, 0), ..., (name, N - 1)."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in tracker.claims():  # ends where the rest is someone else's
            yield element[0], i


if __name__ == "__main__":
    with SparkContext.getOrCreate() as sc:
        counted = run_sdf(sc.parallelize([("small", 5), ("huge", 3_000_000)]), CountFn())
        print(counted.countByKey())
        print(counted.report)

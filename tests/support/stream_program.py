"""A stream into a table as a program, to be killed: python stream_program.py HOME KIND [URL]. It reads to the end."""

import os
import sys
import time

from sdf import DoFn, OffsetRange, Pace, stream_sdf

ELEMENTS = (300, 80, 20, 5)
CLAIM_SECONDS = 0.004


class RowsFn(DoFn):
    """Element: its number and a count. Gives so many rows."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            time.sleep(CLAIM_SECONDS)
            yield {"element": element[0], "i": i}


def expected(elements=ELEMENTS):
    return sorted((number, i) for number, count in enumerate(elements) for i in range(count))


def sink_of(kind, home, url):
    if kind == "delta":
        from sdf.sinks import DeltaTable

        return DeltaTable(f"{home}/table")
    from sdf.sinks import SqlTable

    return SqlTable(url, "lines")


if __name__ == "__main__":
    from pyspark import SparkConf, SparkContext

    home, kind, *url = sys.argv[1:]
    sc = SparkContext(conf=SparkConf().setMaster("local[3]").set("spark.ui.enabled", "false"))
    sc.setLogLevel("OFF")
    print("begins", flush=True)
    summary = stream_sdf(
        sc.parallelize(list(enumerate(ELEMENTS)), 2),
        RowsFn(),
        checkpoint=os.environ.get("SDF_CHECKPOINT", f"{home}/checkpoint"),
        sink=sink_of(kind, home, *url or [None]),
        pace=Pace(batch_seconds=0.1),
    )
    print(summary.records, summary.done, flush=True)
    os._exit(0)

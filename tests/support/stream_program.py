"""A stream into a table as a program, to be killed: python stream_program.py HOME KIND [URL]. It reads to the end.

Of the kind "kafka" it reads a topic; URL are the servers.
"""

import os
import sys
import time

from sdf import DoFn, OffsetRange, Pace, Until, stream_sdf

ELEMENTS = (300, 80, 20, 5)  # of a topic: messages of each partition
TOPIC = "resumed"
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


def rows_of_table(home):
    import deltalake

    rows = deltalake.DeltaTable(f"{home}/table").to_pyarrow_table().to_pylist()
    return sorted((row["element"], row["i"]) for row in rows)


def fns_of(kind, url):
    """Return what the elements are, the DoFns that read them, and further options."""
    if kind != "kafka":
        return list(enumerate(ELEMENTS)), RowsFn(), {"pace": Pace(batch_seconds=0.1)}
    from sdf.io import TailKafka, WatchTopics

    def to_row(record):
        time.sleep(CLAIM_SECONDS)
        yield {"element": record.partition, "i": record.offset}

    config = {"bootstrap.servers": url, "log_level": 0}
    fns = [WatchTopics(config), TailKafka(config, poll_seconds=0.1), to_row]
    return [TOPIC], fns, {"pace": Pace(batch_seconds=0.1, max_records=60), "until": Until(idle=True)}


def sink_of(kind, home, url):
    if kind in ("delta", "kafka"):
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
    elements, fns, options = fns_of(kind, *url or [None])
    summary = stream_sdf(
        sc.parallelize(elements, 2),
        fns,
        checkpoint=os.environ.get("SDF_CHECKPOINT", f"{home}/checkpoint"),
        sink=sink_of(kind, home, *url or [None]),
        **options,
    )
    print(summary.records, summary.done, flush=True)
    os._exit(0)

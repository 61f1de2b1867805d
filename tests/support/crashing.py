"""A stream that dies at a numbered point: before and after everything that its driver does to storage, Spark and sink.

As a program it dies for good, at no point if that is 0: python crashing.py CHECKPOINT OUT POINT [READY]. With READY, a
directory, it says there that it could begin, and begins when a second one has said so. Its JVM dies with it; or it is
the one of PYSPARK_GATEWAY_PORT, which goes on with what the dead driver had begun.
"""

import json
import os
import sys
import time
from contextlib import contextmanager
from pathlib import Path

from sdf import DoFn, ManualWatermark, OffsetRange, Pace, TaggedOutput, Until
from sdf.spark.stream import micro_batches as batches
from sdf.spark.stream import stream
from sdf.spark.stream.steps import Step
from sdf.storage.places import storage_at

ELEMENTS = [3, 4]
LAST = "4.3", 8  # the name that outlasts all others, and how many records it has


class NamesFn(DoFn):
    """Element: N. Gives N names, each with a number of records."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            yield f"{element}.{i}", 5 + i


class RecordsFn(DoFn):
    """Element: a name and a number. Gives as many records; now and then it defers the rest.

    Before the last record of the last name it once claims nothing, and moves its watermark.
    """

    def create_watermark_estimator(self, element, restriction):
        return ManualWatermark(0)

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for claims, i in enumerate(range(*tracker.current_restriction())):
            waits = element == LAST and i == LAST[1] - 1 and tracker.watermark.current() == 0
            if waits and claims == 0:
                tracker.watermark.advance(1)
            if waits or claims == 4:
                tracker.defer_remainder()
                return
            if not tracker.try_claim(i):
                return
            yield f"{element[0]}.{i}"


def marked(element, mark):
    """Give each name on, and that it was here as a tagged output; a function between two DoFns, with a side input."""
    yield element
    yield TaggedOutput("seen", f"{element[0]}{mark}")


def expected():
    """Return the records of the main output."""
    return sorted(f"{n}.{i}.{j}" for n in ELEMENTS for i in range(n) for j in range(5 + i))


def all_expected():
    """Return the records of all outputs."""
    return sorted([*expected(), *(f"{n}.{i}!" for n in ELEMENTS for i in range(n))])


class Points:
    """Counts points, and calls ``die`` at one of them; where the stream is then cannot be told from a crash.

    Args:
        die: called at that point.
        at: its number, or its name: the first point of that name; None for no point.
        seen: the names of the points that were passed.
    """

    def __init__(self, die, at=None):
        self.die = die
        self.at = at
        self.seen = []

    def pass_(self, name):
        self.seen.append(name)
        if self.at in (len(self.seen), name):
            self.die()

    def around(self, name, function):
        def wrapped(*args, **options):
            self.pass_(f"before {name}")
            result = function(*args, **options)
            self.pass_(f"after {name}")
            return result

        return wrapped


@contextmanager
def passing(points):
    """Let what the driver of a stream does to its journal, and its stages, pass points."""

    def dying(where, who, **options):
        storage = storage_at(where, who, **options)
        for what in ("create", "replace", "remove"):
            setattr(storage, what, at_files(what, getattr(storage, what)))
        return storage

    def at_files(what, method):
        return lambda name, *data: points.around(f"{what} {kind(name)}", method)(name, *data)

    class DyingStep(Step):
        def run(self, *args, **options):
            return points.around(f"stage of step {self.number}", super().run)(*args, **options)

        def expand(self, *args, **options):
            return points.around(f"expansion for step {self.number}", super().expand)(*args, **options)

    kept = stream.storage_at, batches.Step
    stream.storage_at, batches.Step = dying, DyingStep
    try:
        yield
    finally:
        stream.storage_at, batches.Step = kept


def run(sc, checkpoint, out, points, max_batches=None):
    """Run the stream to its end; its sink writes a file for each batch, with the watermark."""

    def sink(batch):
        records = [*batch.rdd.glom().collect(), sorted(batch.outputs["seen"].collect())]
        name = "sink" if any(records) else "sink that hears of a watermark"
        points.pass_(f"before {name}")
        path = Path(out) / str(batch.id)
        path.write_text(json.dumps([batch.watermark]))
        points.pass_(f"inside {name}")
        path.write_text(json.dumps([batch.watermark, *records]))
        points.pass_(f"after {name}")

    with passing(points):
        return stream.stream_sdf(
            sc.parallelize(ELEMENTS, 2),
            [NamesFn(), marked, RecordsFn()],
            checkpoint=checkpoint,
            foreach_batch=sink,
            tags=("seen",),
            side_inputs={"mark": "!"},
            pace=Pace(batch_seconds=0.05, watermark_seconds=0.001, max_items=2),
            until=Until(max_batches=max_batches),
        )


def kind(name):
    """Return what a file of the journal is: its directory, and what was written ahead."""
    directory, _, rest = name.partition("/")
    return f"{directory} {rest.split('.')[-2]}" if directory == "ahead" else directory


def records(out):
    """Return what is in a sink's files, of all outputs."""
    return sorted(
        record
        for path in Path(out).iterdir()
        for partition in json.loads(path.read_text())[1:]
        for record in partition
    )  # fmt: skip


if __name__ == "__main__":
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    checkpoint, out, point, *ready = sys.argv[1:]
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        gateway = launch_gateway()
        jsc = gateway.jvm.JavaSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
        sc = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jconf=jsc.getConf()))
    else:
        sc = SparkContext(conf=SparkConf().setMaster("local[2]").set("spark.ui.enabled", "false"))
        sc.setLogLevel("OFF")
    for directory in map(Path, ready):
        (directory / str(os.getpid())).touch()
        while len(list(directory.iterdir())) < 2:
            time.sleep(0.01)
    run(sc, checkpoint, out, Points(lambda: os._exit(9), int(point)))
    os._exit(0)  # the JVM may be another's

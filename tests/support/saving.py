"""A sink of folders, and saved runs whose driver dies or is overtaken at a numbered point of what it does.

As a program it dies for good, at no point if that is 0: python saving.py HOME RUNNER SINK POINT. Its JVM is the one of
PYSPARK_GATEWAY_PORT, which goes on with what the dead driver had begun.
"""

import json
import os
import pickle
import shutil
import sys
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from sdf import LiveRunner, StagedRunner, save_sdf
from sdf.errors import SinkError
from sdf.saving import log_writer, outputs, run_log
from sdf.sinks import JsonLinesFiles, Sink, on_disk
from sdf.storage.disk import Disk
from support.crashing import Points
from support.fns import SlowCountFn
from support.sinking import make_mortal

ELEMENTS = [("a", 0), ("b", 1), ("c", 60), ("d", 7), ("c", 3)]
nobody = Points(lambda: None)
current = [nobody]  # the points of the run that is under way; sinks are pickled, so they cannot hold them


class Death(BaseException):
    """Ends a driver as a crash does: nothing of the product catches it."""


class Life(Points):
    """Points of a driver that dies at one of them, and does nothing more."""

    def __init__(self, at=None):
        super().__init__(self.end, at)
        self.dead = False

    def end(self):
        self.dead = True
        raise Death

    def pass_(self, name):
        if self.dead:
            raise Death
        super().pass_(name)


def reaching(at, whole, run):
    """Call ``run`` with a point to reach; it returns the points that were passed, and a result. Return the result.

    A run that splits elsewhere, or is faster, passes fewer points than the whole one did, and may end before that one:
    then run once more, with the point at the same share of these.
    """
    seen, result = run(at)
    if len(seen) < at:
        _, result = run(max(1, at * len(seen) // len(whole)))
    return result


@attrs.frozen
class FolderSink(Sink):
    """Pickles records into files; the commit renames a folder. Its calls on the driver are points."""

    path: str = attrs.field(converter=str)

    def identity(self):
        return ["folder", self.path]

    def beside(self):
        return f"{self.path}.sdf"

    def stage(self, token):
        return Path(f"{self.path}.stage-{token}")

    def prepare(self, run):
        current[-1].pass_("before prepare")
        token = Path(self.path, "token")
        if os.path.exists(self.path) and not (token.exists() and token.read_text() == str(run.token)):
            raise SinkError(f"{self.path} is there already.")
        self.stage(run.token).mkdir(exist_ok=True)
        current[-1].pass_("after prepare")

    def write(self, records, place):
        rows = list(records)
        path = self.stage(place.token) / place.name
        path.write_bytes(pickle.dumps(rows))
        return {"files": 1, "bytes": path.stat().st_size, "name": place.name} if rows else None

    def commit(self, messages, token):
        current[-1].pass_("before commit")
        if not os.path.exists(self.path):
            folder = Path(f"{self.path}.commit")
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for message in messages:
                shutil.copy(self.stage(token) / message["name"], folder)
            current[-1].pass_("inside commit")
            (folder / "token").write_text(str(token))
            os.rename(folder, self.path)
        current[-1].pass_("after commit")

    def abort(self, messages, token):
        self.clean(token)

    def clean(self, token):
        current[-1].pass_("before clean")
        shutil.rmtree(self.stage(token), ignore_errors=True)
        current[-1].pass_("after clean")


class CallsArePoints:
    """Stands before a sink of the product among the bases: its calls on the driver are points."""

    __slots__ = ()

    def prepare(self, run):
        current[-1].around("prepare", super().prepare)(run)

    def commit(self, messages, token):
        current[-1].around("commit", super().commit)(messages, token)

    def clean(self, token):
        current[-1].around("clean", super().clean)(token)


@attrs.frozen
class LinesSink(CallsArePoints, JsonLinesFiles):
    """A sink of the product; `run` makes points of what its commit does, too."""


SINKS = {"FolderSink": FolderSink, "LinesSink": LinesSink}


def rows(path):
    """Return the records in a folder, None if there is none."""
    if not os.path.exists(path):
        return None
    return sorted(
        row
        for file in Path(path).iterdir()
        if file.name != "token" and not file.name.startswith("_")
        for row in rows_of(file)
    )


def rows_of(file):
    if file.suffix == ".jsonl":
        return [tuple(json.loads(line)) for line in file.read_text().splitlines()]
    return pickle.loads(file.read_bytes())


@contextmanager
def passing(points):
    """Let what a driver does pass points. Entries of the log are written often, and packed by four."""

    class PointsDisk(Disk):
        pass

    for what in ("create", "replace", "remove", "read", "size", "names", "sync"):
        setattr(PointsDisk, what, at_files(what, getattr(Disk, what), points))
    current.append(points)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outputs, "storage_at", lambda where, who, beyond=None: PointsDisk(where))
        patch.setattr(run_log, "_PACKED", 4)
        patch.setattr(log_writer, "_EVERY_SECONDS", 0.02)
        make_mortal(patch, points, on_disk)
        try:
            yield
        finally:
            current.remove(points)


def run(sc, home, runner, points=nobody, fn=None, sink="FolderSink", **options):
    """Save a run in a folder, passing points; ``options`` are further ones of `save_sdf`."""
    with passing(points):
        return save_sdf(
            sc.parallelize(ELEMENTS, 2),
            SlowCountFn(0.004) if fn is None else fn,
            SINKS[sink](home / "out"),
            commit_seconds=0.05,
            runner=runner,
            **options,
        )


def at_files(what, method, points):
    return lambda disk, name, *data: points.around(f"{what} {name.partition('/')[0]}", method)(disk, name, *data)


if __name__ == "__main__":
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    from support import saving  # so that its classes do not come from __main__

    home, runner, sink, point = sys.argv[1:]
    gateway = launch_gateway()
    jsc = gateway.jvm.JavaSparkContext(gateway.jvm.org.apache.spark.SparkContext.getOrCreate())
    sc = SparkContext(gateway=gateway, jsc=jsc, conf=SparkConf(_jconf=jsc.getConf()))
    runners = {"StagedRunner": StagedRunner, "LiveRunner": LiveRunner}
    saving.run(sc, Path(home), runners[runner](), Points(lambda: os._exit(9), int(point)), sink=sink)
    os._exit(0)  # the JVM is another's

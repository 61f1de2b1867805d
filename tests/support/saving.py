"""A sink of folders, and saved runs whose driver dies or is overtaken at a numbered point of what it does."""

import os
import pickle
import shutil
from pathlib import Path

import attrs

from sdf import save_sdf
from sdf.errors import SinkError
from sdf.sinks import Sink
from sdf.spark import save
from sdf.storage.disk import Disk
from support.crashing import Points
from support.fns import SlowCountFn

ELEMENTS = [("a", 0), ("b", 1), ("c", 60), ("d", 7), ("c", 3)]
nobody = Points(lambda: None)
current = [nobody]  # the points of the run that is under way; sinks are pickled, so they cannot hold them


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


def rows(path):
    """Return the records in a folder, None if there is none."""
    if not os.path.exists(path):
        return None
    return sorted(
        row for file in Path(path).iterdir() if file.name != "token" for row in pickle.loads(file.read_bytes())
    )


def run(sc, home, runner, points=nobody, fn=None):
    """Save a run in a folder, passing points."""

    class PointsDisk(Disk):
        def create(self, name, data):
            points.around(f"create {kind(name)}", super().create)(name, data)

        def replace(self, name, data):
            points.around(f"replace {kind(name)}", super().replace)(name, data)

        def read(self, name):
            return points.around(f"read {kind(name)}", super().read)(name)

        def remove(self, name):
            points.around(f"remove {kind(name)}", super().remove)(name)

    kept = save.storage_at
    save.storage_at = lambda where, who: PointsDisk(where)
    current.append(points)
    try:
        return save_sdf(
            sc.parallelize(ELEMENTS, 2),
            SlowCountFn(0.004) if fn is None else fn,
            FolderSink(home / "out"),
            commit_seconds=0.05,
            runner=runner,
        )
    finally:
        current.remove(points)
        save.storage_at = kept


def kind(name):
    return name.partition("/")[0]

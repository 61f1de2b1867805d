"""An application on a cluster, as a process of its own, which runs sdf as often as a test says so."""

import json
import os
import subprocess
import time
from collections import Counter
from pathlib import Path

from support.killing import end

HERE = Path(__file__).parent
PROGRAM = str(HERE / "cluster_program.py")
FILES = [str(HERE / "killing.py")]  # what it imports on its workers beside sdf
WAIT_SECONDS = 300  # on a busy machine


class Application:
    """See the module's docstring; a context manager.

    Args:
        home: a folder that all hosts see.
        command: what submits ``cluster_program.py``; the folder is appended.
        environment: what is added to the process's; None takes a variable away.
    """

    def __init__(self, home, command, environment):
        self.home, self._count = Path(home), 0
        self.home.mkdir(parents=True)
        self.log = self.home / "log"
        full = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
        with open(self.log, "wb") as log:
            self._process = subprocess.Popen(
                [*command, PROGRAM, str(self.home)],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env=full,
                cwd=self.home,
            )

    def begin(self, way, counts=(), **options):
        """Begin a run, and return it: `collected` or `saved` of the program, ..."""
        run = Run(self, self.home / str(self._count), counts)
        self._count += 1
        run.folder.mkdir()
        todo = {"way": way, **({"counts": counts} if counts else {}), **options}
        self._tell(run.folder, todo)
        return run

    def drivers(self):
        """Return what each driver, one after another, has said of itself."""
        path = self.home / "drivers"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def executors(self):
        """Return the ids of the executors that Spark has."""
        path = self.home / "executors.json"
        return set(json.loads(path.read_text())) if path.exists() else set()

    def kill_driver(self):
        """Kill the JVM and the Python of the driver."""
        driver = self.drivers()[-1]
        end([driver["jvm"], driver["pid"]])

    def wait(self, condition, what):
        """Wait until something holds, and return it."""
        ends = time.monotonic() + WAIT_SECONDS
        while not (found := condition()):
            ended = self._process.poll()
            if ended is not None or time.monotonic() > ends:
                raise OSError(f"{what}: not so ({ended}); the log ends {self.log.read_text()[-3000:]}")
            time.sleep(0.05)
        return found

    def _tell(self, folder, todo):
        (folder / "todo.new").write_text(json.dumps(todo))
        (folder / "todo.new").rename(folder / "todo.json")

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        for number in range(self._count):
            (self.home / str(number) / "go").touch()  # one that a test has given up
        folder = self.home / str(self._count)
        folder.mkdir()
        self._tell(folder, None)
        try:
            code = self._process.wait(WAIT_SECONDS)
        finally:
            self._process.kill()
        assert kind or code == 0, self.log.read_text()[-3000:]


class Run:
    """One run of an application."""

    def __init__(self, application, folder, counts):
        self.application, self.folder, self._counts = application, folder, counts

    def claims(self):
        """Return what was claimed so far: element, block, the executor's JVM, and the folder of its workers."""
        path = self.folder / "claims"
        lines = path.read_text().splitlines() if path.exists() else []
        found = [line.split(" ") for line in lines if line.count(" ") == 3]
        return [(int(number), int(i), int(jvm), folder) for number, i, jvm, folder in found]

    def executors(self):
        """Return how many claims each JVM has made, and in which folder."""
        return Counter((jvm, folder) for _, _, jvm, folder in self.claims())

    def wait(self, condition, what):
        """Wait until something holds; the run must go on meanwhile."""

        def met():
            assert not (self.folder / "result.json").exists(), f"{what}: over before, {self.result()}"
            return condition()

        return self.application.wait(met, what)

    def at_work(self, count, claims=10):
        """Wait until so many executors have made some claims each, and return these, the busiest one last."""

        def found():
            working = [who for who, made in reversed(self.executors().most_common()) if made >= claims]
            return working if len(working) >= count else None

        return self.wait(found, f"{count} executors at work")

    def go(self, name="go"):
        """Let it be fast from now on."""
        (self.folder / name).touch()

    def result(self):
        """Wait for its end, and return what it said."""
        self.application.wait((self.folder / "result.json").exists, "a result")
        result = json.loads((self.folder / "result.json").read_text())
        assert "error" not in result, result["error"]
        return result

    def check(self, faults=0):
        """Wait for its end; each row is there once. Print figures, and return what it said."""
        result = self.result()
        rows = {name: result[name] for name in ("expected", "lost", "doubled")}
        print(f"\n{rows}, {len(self.claims())} claims, {faults} faults, {result['seconds']} s, {result['executors']}")
        assert rows == {"expected": sum(self._counts), "lost": 0, "doubled": 0}
        return result


def spark_submit(**settings):
    """Return a command that submits a program."""
    import pyspark

    settings = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false", **settings}
    given = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    return [str(Path(pyspark.__file__).parent / "bin/spark-submit"), *given]

"""How many faults in sdf do the tests notice? A sample of mutants of its core, each against the tests that reach it.

`mutant_sample.py` draws the sample. Each mutant is a copy of sdf with one change, which tests import in a process of
their own. A recording first tells which lines each test without Spark reaches; the tests of connectors and sinks are
not asked. Then each mutant meets the tests that reach its statement: those of its own folder first; those that take
long last, each alone and for some seconds only; and those of `make test-all` after those of `make test`. Work without
an end counts as noticed. ``--spark`` goes on with some tests of `make test` with Spark, for mutants that nothing has
noticed.

    pip install cosmic-ray coverage
    python benchmarks/mutants.py build/mutants/after                         # goes on where it stopped
    python benchmarks/mutants.py build/mutants/before --tests ../another-checkout    # the same mutants, its tests
    python benchmarks/mutants.py build/mutants/after --spark
    python benchmarks/mutants.py build/mutants/after --show
"""

import argparse
import ast
import contextlib
import difflib
import json
import os
import resource
import shutil
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import hypothesis  # noqa: F401, here and not in each process anew
import pyspark  # noqa: F401
import pytest
from coverage import Coverage
from mutant_sample import PACKAGES, mutated, sample

ROOT = Path(__file__).parent.parent
FOLDERS = (*PACKAGES, "checking", "quarantine", "limits", "serialization", "reporting", "simulation", "test_direct.py")
SPARK = {
    "model": ("test_run_sdf.py", "test_outputs_outside_claims.py", "live/test_live.py"),
    "scheduling": ("test_run_sdf.py", "test_run_reports.py", "live/test_live.py", "test_exactly_once.py"),
    "execution": ("test_run_sdf.py", "test_bulk_runs.py", "live/test_live.py", "test_run_reports.py"),
    "lanes": ("live/test_live.py", "test_save_sdf.py", "test_run_reports.py", "test_rate_limits.py"),
    "journal": ("stream/test_stream.py", "stream/test_stream_keys.py", "test_save_sdf.py"),
    "saving": ("test_save_sdf.py", "test_retry_failed.py", "test_abort_save.py", "test_save_crashes.py"),
}
LONG_SECONDS = 2  # of CPU; a test that takes more is long
LONG_LIMIT, MOST_LONG = 10, 5  # seconds for a long test, and how many of them a mutant meets
SPARK_LIMIT = 900
OPTIONS = (
    "-q", "-m", "not soak", "-p", "no:cacheprovider", "--hypothesis-seed=0",
    "-W", "ignore::pytest.PytestAssertRewriteWarning",  # hypothesis is imported before pytest looks
)  # fmt: skip


def statement_lines(code, line):
    """Return the lines of the innermost statement at a line, without its body; None if it runs at import only."""
    nodes = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.stmt)]
    around = [node for node in nodes if node.lineno <= line <= node.end_lineno]
    one = max(around, key=lambda node: node.lineno, default=None)  # None: a decorator is in no statement
    if one is None or isinstance(one, ast.FunctionDef) or not any(isinstance(node, ast.FunctionDef) for node in around):
        return None
    body = getattr(one, "body", None)
    return range(one.lineno, max(line, body[0].lineno - 1 if body else one.end_lineno) + 1)


class Chosen:
    """A plugin: runs some tests, or all, in this order, and writes down which failed first."""

    def __init__(self, tests, note, *options):
        self.tests, self.note, self.options = tests, note, ("-x", *options)

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        if self.tests:
            by_name = {item.nodeid: item for item in items}
            items[:] = [by_name[test] for test in self.tests if test in by_name]

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.note.write_text(report.nodeid)


class StoppedError(BaseException):
    """A test has taken `LONG_SECONDS`."""


class Recorder:
    """A plugin: which lines of sdf each test reaches in its first seconds, and how long it takes."""

    options = ()

    def __init__(self, sdf, note):
        self.sdf, self.note, self.tests = sdf, note, {}
        self.coverage = Coverage(
            data_file=None, include=[f"{sdf}/{package}/*" for package in PACKAGES], config_file=False
        )

    def pytest_configure(self):
        self.coverage.start()
        signal.signal(signal.SIGPROF, self._stop)

    def _stop(self, *_):
        self.stopped = True
        raise StoppedError

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item):
        self.coverage.switch_context(item.nodeid)
        self.stopped, self.failed, began = False, False, time.process_time()
        try:
            return (yield)
        finally:
            seconds, slow = round(time.process_time() - began, 2), item.get_closest_marker("slow") is not None
            if self.stopped or not self.failed:
                self.tests[item.nodeid] = {"seconds": seconds, "long": self.stopped, "slow": slow}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self):
        signal.setitimer(signal.ITIMER_PROF, LONG_SECONDS)  # here, where an exception is one of the test
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report):
        self.failed |= not report.passed  # or it was skipped

    def pytest_sessionfinish(self):
        self.coverage.stop()
        data, lines, numbers = self.coverage.get_data(), {}, {test: number for number, test in enumerate(self.tests)}
        for file in data.measured_files():
            by_line = data.contexts_by_lineno(file).items()
            reached = {line: [numbers[test] for test in tests if test in numbers] for line, tests in by_line}
            lines[Path(file).relative_to(self.sdf).as_posix()] = reached
        self.note.write_text(json.dumps({"tests": self.tests, "lines": lines}))


class Trial:
    """Mutants of a copy of sdf against the tests of a checkout. The directory keeps what came of them."""

    def __init__(self, directory, tests, sdf):
        self.directory, self.tests, self.area = directory, tests, directory / "area"
        shutil.rmtree(self.area, ignore_errors=True)
        shutil.copytree(sdf, self.area / "sdf")
        self.failed, self.kept = self.area / "failed", directory / "results.json"
        self.results = json.loads(self.kept.read_text()) if self.kept.exists() else {}

    def keep(self, name, result):
        """Note what came of a mutant."""
        self.results[name] = result
        self.kept.with_suffix(".new").write_text(json.dumps(self.results, indent=1))
        self.kept.with_suffix(".new").rename(self.kept)

    def session(self, files, plugin, *, cpu_limit, wall_limit):
        """Run pytest in a process of its own; return its exit code, None if it was ended, and the CPU seconds."""
        child = os.fork()
        if not child:
            os.setsid()
            log = os.open(self.area / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.chdir(self.tests)
            sys.path.insert(0, str(self.area))
            os.environ.update(PYTHONPATH=str(self.area), HYPOTHESIS_STORAGE_DIRECTORY=str(self.area / "hypothesis"))
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_limit, cpu_limit + 5))
            code = 3
            try:
                options = [*OPTIONS, f"--basetemp={self.area / 'temporary'}", *plugin.options]
                code = pytest.main([*options, *map(str, files)], plugins=[plugin])
            except BaseException:
                sys.excepthook(*sys.exc_info())
            os._exit(int(code))
        deadline = time.monotonic() + wall_limit
        while not (ended := os.wait4(child, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.02)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)  # what it has started, too
        _, status, used = ended if ended[0] else os.wait4(child, 0)
        return (os.WEXITSTATUS(status) if os.WIFEXITED(status) else None), used.ru_utime + used.ru_stime

    @contextlib.contextmanager
    def mutant(self, file, way):
        """Change one file of the copy; its bytecode may look as young as the next mutant's, so it goes each time."""
        path = self.area / "sdf" / file
        before = path.read_text()
        after = mutated(before, way)
        try:
            self._write(path, after)
            yield "\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), file, file, "", "", 0, ""))
        finally:
            self._write(path, before)

    @staticmethod
    def _write(path, code):
        path.write_text(code)
        for compiled in (path.parent / "__pycache__").glob(f"{path.stem}.*.pyc"):
            compiled.unlink()

    def reached(self):
        """Return which tests there are and which lines they reach; recorded once."""
        note = self.directory / "reached.json"
        if not note.exists():
            folders = [path for name in FOLDERS if (path := self.tests / "tests" / name).exists()]
            plugin = Recorder(self.area / "sdf", note)
            code, seconds = self.session(folders, plugin, cpu_limit=20_000, wall_limit=40_000)
            if code not in (0, 1):  # 1: tests that take long were stopped, which counts as a failure
                note.unlink(missing_ok=True)
                sys.exit(f"the recording did not come to its end (pytest: {code}); see {self.area / 'log'}, call again")
            print(f"recorded in {seconds:.0f} CPU seconds", flush=True)
        return json.loads(note.read_text())

    def rounds(self, known, file, line):
        """Yield the tests that reach a statement, as they run together, each time with whether they are long."""
        about, reached, every = known["tests"], known["lines"].get(file, {}), [*known["tests"]]
        lines = statement_lines((self.area / "sdf" / file).read_text(), line) or reached
        names = {every[number] for one in lines for number in reached.get(str(one), ())}
        near = f"tests/{file.partition('/')[0]}/"
        ordered = sorted(names, key=lambda name: (near not in name, about[name]["seconds"], name))
        for slow in (False, True):
            some = [name for name in ordered if about[name]["slow"] is slow]
            short = [name for name in some if not about[name]["long"]]
            yield [name for name in short if near in name], False
            yield [name for name in short if near not in name], False
            functions = {}
            for name in some:
                if about[name]["long"]:
                    functions.setdefault(name.partition("[")[0], name)
            yield from (([name], True) for name in [*functions.values()][:MOST_LONG])

    def meet(self, known, file, line, way):
        """Return what came of a mutant without Spark."""
        about, spent, state, by = known["tests"], 0.0, "survived", None
        rounds = [*self.rounds(known, file, line)]  # by the lines of sdf as it is
        with self.mutant(file, way) as diff:
            for names, is_long in rounds:
                if not names:
                    continue
                self.failed.unlink(missing_ok=True)
                limit = LONG_LIMIT if is_long else 10 + int(3 * sum(about[name]["seconds"] for name in names))
                files = dict.fromkeys(self.tests / name.partition("::")[0] for name in names)
                plugin = Chosen(names, self.failed)
                code, used = self.session(files, plugin, cpu_limit=limit, wall_limit=120 + 20 * limit)
                spent += used
                if code:
                    state, by = "noticed", self.failed.read_text() if self.failed.exists() else "import"
                    break
                if code is None and not is_long:
                    state, by = "timeout", names[0]
                    break
        slow = by is not None and about.get(by, {}).get("slow", False)
        told = {"file": file, "line": line, "state": state, "by": by, "slow": slow}
        return {**told, "seconds": round(spent, 1), "diff": diff}

    def meet_spark(self, result, way):
        """Return the result with what tests with Spark say of it."""
        files = [self.tests / "tests" / "spark" / name for name in SPARK[result["file"].partition("/")[0]]]
        self.failed.unlink(missing_ok=True)
        with self.mutant(result["file"], way):
            plugin = Chosen([], self.failed, "-m", "not slow and not soak")
            code, _ = self.session(files, plugin, cpu_limit=SPARK_LIMIT, wall_limit=SPARK_LIMIT)
        noticed = self.failed.read_text() if self.failed.exists() else "import" if code else None
        return {**result, "spark": noticed or ("survived" if code == 0 else f"survived {SPARK_LIMIT} s")}


def state_of(result):
    """Return in which column a result counts."""
    if result["state"] == "survived":
        return "survived" if result.get("spark", "survived").startswith("survived") else "only with Spark"
    return "only by slow tests" if result["slow"] else result["state"]


def show(results):
    """Print what came of the mutants, by package, and those that nothing noticed."""
    columns = "noticed", "timeout", "only by slow tests", "only with Spark", "survived"
    print("| package | mutants |", " | ".join(columns), "|\n|---|", "---|" * (1 + len(columns)), sep="")
    for package in (*PACKAGES, ""):
        counts = Counter(state_of(one) for one in results.values() if one["file"].startswith(package))
        print("|", package or "all", "|", counts.total(), "|", " | ".join(str(counts[each]) for each in columns), "|")
    print(f"\n{sum(one['seconds'] for one in results.values()):,.0f} CPU seconds without Spark")
    for name, one in sorted(results.items(), key=lambda pair: (pair[1]["file"], pair[1]["line"])):
        if state_of(one) == "survived":
            print(f"\nsdf/{one['file']}:{one['line']}  ({name})\n{one['diff']}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path, help="for results; a second call goes on")
    parser.add_argument("--tests", type=Path, default=ROOT, help="a checkout whose tests are meant, if not this one's")
    parser.add_argument("--sdf", type=Path, default=ROOT / "sdf", help="the package that is changed")
    parser.add_argument("--only", default="", help="mutants whose name has this in it")
    parser.add_argument("--spark", action="store_true", help="run with Spark what nothing has noticed")
    parser.add_argument("--show", action="store_true", help="only print what is known")
    given = parser.parse_args()
    trial = Trial(given.directory.resolve(), given.tests.resolve(), given.sdf.resolve())
    known = {} if given.show else trial.reached()
    for name, (file, line, way) in ({} if given.show else sample(given.sdf.resolve())).items():
        result = trial.results.get(name)
        if given.only in name and result is None:
            trial.keep(name, trial.meet(known, file, line, way))
        elif given.only in name and given.spark and result["state"] == "survived" and "spark" not in result:
            trial.keep(name, trial.meet_spark(result, way))
    show(trial.results)


if __name__ == "__main__":
    main()

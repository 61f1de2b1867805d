"""What a traceback shows if user code raises on a worker: the user's frames, and hardly any of sdf."""

import linecache
import traceback

import pytest

from sdf import DoFn, LiveRunner, OffsetRange, StagedRunner, run_sdf, save_sdf
from sdf.errors import ClaimError, ProcessError
from sdf.sinks import TextFiles


def crest(number):
    return 1 / number


class CrestFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, 3)

    def process(self, element, tracker):
        for position in tracker.claims():
            yield str(crest(position))


class TwiceFn(CrestFn):
    """Makes a mistake that sdf notices."""

    def process(self, element, tracker):
        first = tracker.current_restriction().start  # of any part
        tracker.try_claim(first)
        tracker.try_claim(first - 1)
        yield "never"


def saved(rdd, fn, runner, folder):
    save_sdf(rdd, fn, TextFiles(folder / "out"), runner=runner)


def ran(rdd, fn, runner, folder):
    run_sdf(rdd, fn, runner=runner)


def frames(error):
    return [frame.name for frame in traceback.extract_tb(error.__traceback__)]


@pytest.mark.parametrize(("run", "runner"), [(ran, StagedRunner), (saved, StagedRunner), (saved, LiveRunner)])
def test_the_workers_traceback_begins_at_the_users_code(sc, tmp_path, run, runner):
    """What called it says nothing, and the error itself is not in it once more."""
    with pytest.raises(ProcessError) as caught:
        run(sc.parallelize(["a"]), CrestFn(), runner(), tmp_path)
    lines = str(caught.value.__cause__).strip('\n"').splitlines()
    assert [line.split(", in ")[1] for line in lines if line.startswith("  File")] == ["process", "crest"]
    assert "    return 1 / number" in lines
    assert lines[-1] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(("run", "call"), [(ran, "run_sdf"), (saved, "save_sdf")])
def test_the_drivers_traceback_ends_in_the_call_of_sdf(sc, tmp_path, run, call):
    """How the driver waited for the worker says nothing."""
    with pytest.raises(ProcessError) as caught:
        run(sc.parallelize(["a"]), CrestFn(), StagedRunner(), tmp_path)
    assert frames(caught.value)[-2:] == [run.__name__, call]


def test_a_mistake_that_sdf_notices_is_shown_with_the_line_that_made_it(sc, tmp_path):
    """The frames below the user's are kept."""
    with pytest.raises(ClaimError) as caught:
        ran(sc.parallelize(["a"]), TwiceFn(), StagedRunner(), tmp_path)
    text = str(caught.value.__cause__)
    assert text.index("in process\n") < text.index("tracker.try_claim(first - 1)") < text.index("ClaimError")


def test_a_line_of_a_notebooks_cell_is_shown(sc, tmp_path):
    """A worker has no source of it. The driver has."""
    name, source = "/tmp/ipykernel_1/2.py", "def broken():\n    return 1 / 0\n"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    cell = {"__name__": "__main__"}  # pickled by value
    exec(compile(source, name, "exec"), cell)

    class CellFn(CrestFn):
        def __init__(self):
            self.broken = cell["broken"]

        def process(self, element, tracker):
            yield self.broken()

    with pytest.raises(ProcessError) as caught:
        ran(sc.parallelize(["a"]), CellFn(), StagedRunner(), tmp_path)
    assert f'File "{name}", line 2, in broken\n    return 1 / 0\n' in str(caught.value.__cause__)


def test_an_error_whose_text_is_no_utf8_arrives_escaped(sc, tmp_path):
    """As one that names a file whose name is not. PySpark cannot send it, and the job would hang."""

    class SurrogateFn(CrestFn):
        def process(self, element, tracker):
            raise FileNotFoundError("caf\udce9.txt")
            yield

    with pytest.raises(ProcessError, match=r"raised FileNotFoundError: caf\\udce9\.txt") as caught:
        ran(sc.parallelize(["a"]), SurrogateFn(), StagedRunner(), tmp_path)
    assert 'raise FileNotFoundError("caf' in str(caught.value.__cause__)


def test_an_error_of_the_driver_keeps_its_frames(sc):
    """Only what comes from a worker is cut off."""

    class UnpicklableFn(CrestFn):
        def __reduce__(self):
            raise OSError("no")

    with pytest.raises(Exception, match="no") as caught:
        run_sdf(sc.parallelize(["a"]), UnpicklableFn())
    assert frames(caught.value)[-1] != "run_sdf"

"""A saved run with quarantine dies at every numbered point: each good row is saved once, the bad ones are listed."""

import functools
import os
from contextlib import suppress

import pytest
from support import saving
from support.crashing import Points
from support.fns import SlowCountFn, expected
from support.saving import ELEMENTS, Death, Life, nobody, passing, reaching, rows

from sdf import Quarantine, StagedRunner
from sdf.errors import JournalFencedError
from sdf.saving.command import main

SINKS = ["LinesSink", "FolderSink"]
RAISE = {("b", 0), ("c", 17), ("c", 59), ("d", 3)}
KILL = ("c", 30)
BAD = sorted({*RAISE, KILL})
ROWS = sorted(row for row in expected(ELEMENTS).elements() if row not in BAD)


class FaultyFn(SlowCountFn):
    """As SlowCountFn; some numbers raise, and one ends its process."""

    def process(self, element, tracker):
        for row in super().process(element, tracker):
            if row == KILL:
                os._exit(7)
            if row in RAISE:
                raise ValueError("no number")
            yield row


def every(some, more, soaking):
    """Parametrize with sink and the step between the points that are tried."""
    few = [
        pytest.param(sink, step, marks=marks)
        for step, marks in ((some, ()), (more, pytest.mark.slow(f"the same test in larger steps of {some}")))
        for sink in SINKS
    ]
    many = [pytest.param(sink, soaking, marks=pytest.mark.soak) for sink in SINKS]
    return pytest.mark.parametrize(("sink", "step"), [*few, *many])


def save(sc, folder, sink, points):
    return saving.run(sc, folder, StagedRunner(), points, FaultyFn(0.004), sink, on_failure=Quarantine())


def check_end(folder, summary):
    """All good rows are there once, and the bad ones are listed once, in the summary and in the log."""
    assert rows(folder / "out") == ROWS
    assert summary.records == len(ROWS)
    listed = sorted((block.element[0], block.restriction.start) for block in summary.failures)
    assert listed == BAD
    assert all(block.restriction.stop == block.restriction.start + 1 for block in summary.failures)
    checkpoint = next(path for path in folder.iterdir() if path.name.endswith("out.sdf"))
    with passing(nobody):
        assert main(["verify", str(checkpoint)]) == 0


@pytest.fixture(scope="module")
def whole(module_sc, tmp_path_factory):
    """Give a function that runs undisturbed, once for all tests, and returns the points that were passed."""

    @functools.cache
    def points_of(sink):
        folder, points = tmp_path_factory.mktemp("whole"), Life()
        check_end(folder, save(module_sc, folder, sink, points))
        return points.seen

    return points_of


@every(120, 80, 1)
def test_a_run_with_bad_blocks_survives_a_death_at_every_point(sc, tmp_path, whole, sink, step):
    """Every third time its second driver dies, too. What was set aside before a death stays so, and is not lost."""
    points = whole(sink)
    tried = range(1, len(points) + 1, step)

    def died(at):
        number = len(list(tmp_path.iterdir()))
        folder = tmp_path / f"{at} {number}"
        folder.mkdir()
        lives = [Life(at), *([Life(7 + 13 * number % 60)] if number % 3 == 0 else []), nobody]
        seen = []
        for life in lives:
            with suppress(Death):
                check_end(folder, save(sc, folder, sink, life))
            seen += [] if life is nobody else life.seen
            found = rows(folder / "out")
            assert found == ROWS or (found is None and "after commit" not in seen)
            assert found is None or "before commit" in seen or life is nobody
        assert found == ROWS
        return lives[0].seen, [life.seen[-1] if life.dead else None for life in lives[:-1]]

    deaths = [death for at in tried for death in reaching(at, points, died)]
    names = sorted({death for death in deaths if death})
    print(f"\n{len(points)} points, {len(deaths) - deaths.count(None)} deaths of {len(deaths)} tried: {names}")
    assert deaths.count(None) < 0.4 * len(deaths)


@every(120, 60, 3)
def test_of_two_drivers_of_a_run_with_bad_blocks_one_saves_it(sc, tmp_path, whole, sink, step):
    """One stops at any point, as by SIGSTOP, while the other one begins and ends; then it goes on: it has lost."""
    points = whole(sink)
    tried = range(1, len(points) + 1, step)

    def stopped(at):
        folder, overtaken = tmp_path / f"{at} {len(list(tmp_path.iterdir()))}", False
        folder.mkdir()
        first = Points(lambda: check_end(folder, save(sc, folder, sink, nobody)), at)
        try:
            check_end(folder, save(sc, folder, sink, first))
        except JournalFencedError:
            overtaken = True
        check_end(folder, save(sc, folder, sink, nobody))
        return first.seen, overtaken

    overtaken = sum(reaching(at, points, stopped) for at in tried)
    print(f"\n{len(points)} points: of {len(tried)} drivers {overtaken} were overtaken")
    assert overtaken > 0.3 * len(tried)

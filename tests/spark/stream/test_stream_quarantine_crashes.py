"""A stream with quarantine dies at every point of its driver: good lines are in the sink once, the bad ones listed."""

import os
import sqlite3
from contextlib import suppress

import attrs
import pytest
from support import crashing
from support.saving import CallsArePoints, Death, Life, current, nobody

from sdf import Pace, Quarantine, Until
from sdf.io import TailLines
from sdf.journal.chain import verify
from sdf.journal.pending import from_data
from sdf.sinks import SqlTable
from sdf.spark.stream import stream
from sdf.storage.places import storage_at

LINES = [str(number) for number in range(12)]
LINES[0] = LINES[5] = "bad"
LINES[8] = "dies"
GOOD = [line for line in LINES if line.isdigit()]


def as_rows(line):
    if line == "dies":
        os._exit(7)
    yield {"number": int(line)}


@attrs.frozen
class PointsTable(CallsArePoints, SqlTable):
    """The sink of the stream."""


class Home:
    """A file with bad lines, a table and a journal."""

    def __init__(self, sc, folder):
        folder.mkdir()
        self.sc, self.folder = sc, folder
        self.file = folder / "a.log"
        self.file.write_text("".join(f"{line}\n" for line in LINES))
        with sqlite3.connect(folder / "t.db") as database:
            database.execute("CREATE TABLE t (number INTEGER)")

    def run(self, points):
        current.append(points)
        try:
            with crashing.passing(points):
                return stream.stream_sdf(
                    self.sc.parallelize([str(self.file)], 1),
                    [TailLines(), as_rows],
                    checkpoint=str(self.folder / "journal"),
                    sink=PointsTable(f"sqlite:///{self.folder}/t.db", "t"),
                    until=Until(idle=True),
                    pace=Pace(batch_seconds=0.01),
                    on_failure=Quarantine(),
                )
        finally:
            current.remove(points)

    def rows(self):
        with sqlite3.connect(self.folder / "t.db") as database:
            return [str(number) for (number,) in database.execute("SELECT number FROM t ORDER BY number")]

    def failed(self):
        """Return the lines that the journal says were set aside, in order."""
        chain = verify(storage_at(str(self.folder / "journal"), "the test"))
        data = self.file.read_bytes()
        held = [from_data(one["restriction"]) for block in chain for one in block.data.get("failed", ())]
        return [data[one.start : one.stop].decode().strip() for one in held]

    def check_end(self):
        assert self.rows() == GOOD
        assert self.failed() == [line for line in LINES if not line.isdigit()]


def test_a_stream_with_bad_lines_survives_deaths_one_after_the_other(sc, tmp_path):
    """Each life dies at a later point than the one before it, so they die in all that a driver does."""
    home, died = Home(sc, tmp_path / "home"), []
    for point in range(20, 100, 11):
        life = Life(point)
        with suppress(Death):
            home.run(life)
        died += life.seen[-1:] if life.dead else []
        assert home.rows() == GOOD[: len(home.rows())]
    home.run(nobody)
    home.check_end()
    assert len(set(died)) > 3


CHAINED = pytest.mark.slow("test_a_stream_with_bad_lines_survives_deaths_one_after_the_other")


@pytest.mark.parametrize("every", [pytest.param(150, marks=CHAINED), pytest.param(1, marks=pytest.mark.soak)])
def test_a_stream_with_bad_lines_survives_a_death_at_every_point(sc, tmp_path, every):
    """Every third time its second driver dies, too."""
    home, whole = Home(sc, tmp_path / "whole"), Life()
    assert len(home.run(whole).failures) == 3
    home.check_end()
    assert {"before commit", "after commit", "after create ahead pin-0", "after replace HEAD"} <= set(whole.seen)
    tried = range(1, len(whole.seen) + 1, every)
    died, wanted = [], 0
    for number, at in enumerate(tried):
        home = Home(sc, tmp_path / str(at))
        for point in (at, 1 + 13 * number % 60) if number % 3 == 0 else (at,):
            life = Life(point)
            with suppress(Death):
                home.run(life)
            wanted += 1
            died += life.seen[-1:] if life.dead else []
            assert home.rows() == GOOD[: len(home.rows())]
        home.run(nobody)
        home.check_end()
    print(f"\n{len(whole.seen)} points, {len(died)} deaths of {wanted} tried: {sorted(set(died))}")
    assert len(died) > 0.6 * wanted

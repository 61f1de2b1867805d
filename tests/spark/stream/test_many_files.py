"""Streams of many files that are quiet: what has no news is not run, not written, and not looked for."""

import os
import threading

import pytest
from support.streaming import grouped
from support.watching import lines, sink

from sdf import stream_sdf
from sdf.io import TailLines, WatchFiles
from sdf.spark.stream.micro_batches import Stream
from sdf.spark.stream.steps import Step
from sdf.storage.disk import Disk

FILES = 120
LONG = "long" * 300  # by its first 1,024 bytes a file is known, and until it has them they change


class Counts:
    """What the driver did."""

    def __init__(self):
        self.written = self.stages = self.parts = self.rounds = 0


@pytest.fixture
def counts(monkeypatch):
    """Count bytes written to the journal, stages, the parts in them, and rounds."""
    done = Counts()

    def counting(kind, name, count):
        original = getattr(kind, name)

        def counted(*arguments, **options):
            count(*arguments)
            return original(*arguments, **options)

        monkeypatch.setattr(kind, name, counted)

    def write(disk, name, data):
        done.written += len(data)

    def stage(step, number, plan, *more):
        done.stages += 1
        done.parts += sum(map(len, plan.tasks))

    def count_round(stream):
        done.rounds += 1

    counting(Disk, "create", write)
    counting(Disk, "replace", write)
    counting(Step, "run", stage)
    counting(Stream, "_batch", count_round)
    return done


@pytest.fixture
def home(tmp_path):
    """A directory of files, and one for a sink."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "out").mkdir()
    for number in range(FILES):
        (tmp_path / "logs" / f"{number}.log").write_text(f"first {number}\n{LONG}\n")
    return tmp_path


def follow(sc, home, foreach_batch=None, **options):
    chain = [WatchFiles(interval_seconds=0.1, modified="ignore"), TailLines(poll_seconds=0.05)]
    return stream_sdf(
        sc.parallelize([str(home / "logs")], 1),
        chain,
        checkpoint=home / "journal",
        foreach_batch=foreach_batch or sink(home / "out"),
        **grouped(batch_seconds=0.2, **options),
    )


def idle_rounds(counts, monkeypatch, stop, rounds, then=lambda: None):
    """After the stream has done some rounds that ran nothing, note what these did, and stop it."""
    original, before, done = Stream._batch, [], {}

    def batch(stream):
        advanced = original(stream)
        if not stream._has_run:
            before.append((counts.written, counts.stages))
            if len(before) == rounds:
                done["written"], done["stages"] = (after - at for after, at in zip(before[-1], before[0], strict=True))
                then()
                stop.set()
        else:
            before.clear()
        return advanced

    monkeypatch.setattr(Stream, "_batch", batch)
    return done


def test_an_idle_stream_writes_nothing_and_runs_nothing(sc, home, counts, monkeypatch):
    """Round after round, scans among them; each file was looked at by the driver."""
    stop = threading.Event()
    done = idle_rounds(counts, monkeypatch, stop, 30)
    follow(sc, home, stop=stop)
    assert done == {"written": 0, "stages": 0}
    given = [line for line in lines(home / "out") if line != LONG]
    assert sorted(given) == sorted(f"first {number}" for number in range(FILES))


def test_a_new_line_writes_and_runs_as_much_as_is_new(sc, home, counts):
    """The other files are neither planned nor shipped nor written, whatever their number, also after a resume."""
    follow(sc, home, idle=True)
    follow(sc, home, idle=True)
    first, counts.written, counts.parts = counts.written, 0, 0
    with open(home / "logs" / "7.log", "a") as file:
        file.write("second 7\n")
    assert follow(sc, home, idle=True).records == 1
    assert counts.parts == 1
    assert counts.written < 10_000 < first


def test_a_file_that_changes_without_growing_is_looked_at(sc, home):
    """Another one of its size, as a program that writes it anew leaves it."""
    follow(sc, home, idle=True)
    path = home / "logs" / "7.log"
    path.write_text(f"FIRST 7\n{LONG}\n")
    os.utime(path, ns=(1, 1))
    assert follow(sc, home, idle=True).records == 2
    assert "FIRST 7" in lines(home / "out")


def test_a_line_that_comes_while_a_file_is_read_is_not_taken_for_old(sc, home):
    """What the driver saw before the file was read counts, not what it sees afterwards."""
    late, keep = home / "logs" / "7.log", sink(home / "out")

    def give(batch):
        keep(batch)
        if batch.id == 1:
            with open(late, "a") as file:
                file.write("second 7\n")

    follow(sc, home, give, idle=True)
    assert "second 7" in lines(home / "out")

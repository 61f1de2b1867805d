"""retry_failed: what a saved run has set aside is run again, and its records are added to the result, once."""

import functools
import itertools
import json
import os
import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
from support.crashing import Points
from support.saving import CallsArePoints, Death, Life, LinesSink, nobody, passing, reaching

from sdf import DoFn, Quarantine, TaggedOutput, UnsplittableTracker, abort_save, retry_failed, save_sdf
from sdf.errors import (
    InvalidTypeError,
    InvalidValueError,
    JournalError,
    JournalFencedError,
    SinkError,
    TooManyFailuresError,
)
from sdf.saving.command import main
from sdf.sinks import DataSourceSink, DeltaTable, JsonLinesFiles, ParquetFiles, Sink, SqlTable, TextFiles

BLOCKS = 30
BAD = {(0, 0), (0, 1), (1, 17), (2, BLOCKS - 1)}
ALL = sorted((element, block) for element in range(3) for block in range(BLOCKS))


@attrs.define
class ReadFn(DoFn):
    """Element: a number; gives a record for each of 30 blocks. The bad ones raise, the deadly ones end the process."""

    bad: set = attrs.field(factory=set)
    as_text: bool = False
    deadly: set = attrs.field(factory=set)

    def get_initial_restriction(self, element):
        return (0, BLOCKS)

    def process(self, element, tracker):
        for block in tracker.claims():
            if (element, block) in self.bad:
                raise ValueError(f"cannot read {block}")
            if (element, block) in self.deadly:
                os._exit(7)
            yield f"{element} {block}" if self.as_text else {"element": element, "block": block}


def lines(path):
    """Return the records in files of lines; each file of a directory counts."""
    found = [line for file in Path(path).glob("[!_]*") for line in file.read_text().splitlines()]
    return sorted(
        tuple(json.loads(line).values()) if line[0] == "{" else tuple(map(int, line.split())) for line in found
    )


def parquet(path):
    import pyarrow.parquet as pq

    return sorted(map(tuple, (row.values() for row in pq.read_table(path).to_pylist())))


def delta(path):
    import deltalake

    table = deltalake.DeltaTable(path).to_pyarrow_table()
    return sorted(zip(table["element"].to_pylist(), table["block"].to_pylist(), strict=True))


def database(path):
    with sqlite3.connect(f"{path}.db") as connection:
        return sorted(connection.execute("SELECT element, block FROM t"))


def sql(path):
    with sqlite3.connect(f"{path}.db") as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t (element INTEGER, block INTEGER)")
    return SqlTable(f"sqlite:///{path}.db", "t")


def iceberg(path):
    from pyiceberg.catalog import load_catalog

    properties = {"type": "sql", "uri": f"sqlite:///{path}.catalog", "warehouse": f"file://{path}.warehouse"}
    with suppress(Exception):
        load_catalog("default", **properties).create_namespace("n")
    from sdf.sinks import IcebergTable

    return IcebergTable("n.t", catalog=properties)


def of_iceberg(path):
    from pyiceberg.catalog import load_catalog

    rows = load_catalog("default", **dict(iceberg(path).catalog)).load_table("n.t").scan().to_arrow()
    return sorted(zip(rows["element"].to_pylist(), rows["block"].to_pylist(), strict=True))


SINKS = {
    "JsonLinesFiles": (JsonLinesFiles, lines),
    "DeltaTable": (DeltaTable, delta),
    "TextFiles": (TextFiles, lines),
    "ParquetFiles": (ParquetFiles, parquet),
    "IcebergTable": (iceberg, of_iceberg),
    "SqlTable": (sql, database),
}


def save(sc, sink, checkpoint, bad=BAD, **options):
    return save_sdf(
        sc.parallelize(range(3), 3),
        ReadFn(set(bad), isinstance(sink, TextFiles)),
        sink,
        checkpoint=checkpoint,
        **{"on_failure": Quarantine(), **options},
    )


def retry(sc, sink, checkpoint, bad=(), deadly=(), **options):
    fn = ReadFn(set(bad), isinstance(sink, TextFiles), set(deadly))
    return retry_failed(sc, fn, sink, checkpoint=checkpoint, **options)


def of(failures):
    return sorted((block.element, block.restriction.start) for block in failures)


def without(bad):
    return [one for one in ALL if one not in bad]


def every_sink(*some):
    """Parametrize with the sinks, a few of them in `make test`."""
    rest = pytest.mark.slow("test_what_was_mended_is_added_once[JsonLinesFiles] and [DeltaTable]")
    return pytest.mark.parametrize("kind", [pytest.param(kind, marks=() if kind in some else rest) for kind in SINKS])


@every_sink("JsonLinesFiles", "DeltaTable")
def test_what_was_mended_is_added_once(sc, tmp_path, kind):
    """A block that fails again waits for the next retry; then there is nothing to do, for either call."""
    make, read = SINKS[kind]
    path, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    saved = save(sc, make(path), checkpoint)
    assert read(path) == without(BAD)
    some = retry(sc, make(path), checkpoint, {(1, 17)})
    assert of(some.failures) == [(1, 17)]
    assert not some.resumed
    assert read(path) == without({(1, 17)})
    rest = retry(sc, make(path), checkpoint)
    assert rest.failures == ()
    assert rest.records == len(ALL)
    assert rest.files >= saved.files
    assert read(path) == ALL
    for again in (retry(sc, make(path), checkpoint), save(sc, make(path), checkpoint)):
        assert (again.records, again.failures, again.report) == (len(ALL), (), None)
    assert read(path) == ALL
    assert [found.name for found in tmp_path.rglob("*stage-*")] == []


def test_a_block_that_fails_again_has_its_new_error(sc, tmp_path, capsys):
    """The summaries and the log say so."""
    sink, checkpoint = JsonLinesFiles(tmp_path / "out"), str(tmp_path / "log")
    save(sc, sink, checkpoint)

    class Worse(ReadFn):
        def process(self, element, tracker):
            for _ in tracker.claims():
                raise OSError("worse")
            yield

    Worse.__qualname__, Worse.__module__ = ReadFn.__qualname__, ReadFn.__module__
    again = retry_failed(sc, Worse(), sink, checkpoint=checkpoint)
    assert of(again.failures) == sorted(BAD)
    assert all("OSError: worse" in block.error for block in again.failures)
    assert main(["show", checkpoint]) == 0
    said = capsys.readouterr().out
    assert said.count("OSError: worse") == len(BAD)
    assert "cannot read" not in said
    assert set(map(str, save(sc, sink, checkpoint).failures)) == set(map(str, again.failures))
    assert lines(tmp_path / "out") == without(BAD)


def test_an_open_retry_is_shown_and_changes_nothing_for_save_sdf(sc, tmp_path, capsys):
    """A retry that raises adds nothing yet; its blocks are still listed; the same call goes on."""
    sink, checkpoint = JsonLinesFiles(tmp_path / "out"), str(tmp_path / "log")
    save(sc, sink, checkpoint)
    with pytest.raises(TooManyFailuresError, match="max_failures is 0"):
        retry(sc, sink, checkpoint, BAD, on_failure=Quarantine(max_failures=0))
    assert main(["show", checkpoint]) == 0
    said = capsys.readouterr().out
    assert "retry_failed has begun to run again what was set aside" in said
    assert said.count("set aside: ") == len(BAD)
    saved = save(sc, sink, checkpoint)
    assert of(saved.failures) == sorted(BAD)
    assert saved.report is None
    with pytest.raises(JournalError, match="removes nothing that is visible"):
        abort_save(sink, checkpoint=checkpoint)
    assert lines(tmp_path / "out") == without(BAD)
    ended = retry(sc, sink, checkpoint, on_failure=Quarantine(max_failures=4))
    assert ended.resumed
    while ended.failures:  # what had failed again before that call stays set aside until the next one
        ended = retry(sc, sink, checkpoint)
    assert lines(tmp_path / "out") == ALL


def test_parquet_files_keep_the_schema_of_the_result(sc, tmp_path):
    """The first records of a retry do not decide anew: they may lack a field, or have whole numbers."""

    class RowFn(ReadFn):
        def process(self, element, tracker):
            for one in super().process(element, tracker):
                yield {"element": 1, "block": 2} if (one["element"], one["block"]) in BAD else one | {"x": 0.5}

    sink = ParquetFiles(tmp_path / "out")
    save_sdf(sc.parallelize(range(3), 3), RowFn(BAD), sink, on_failure=Quarantine())
    retry_failed(sc, RowFn(), sink)
    import pyarrow.parquet as pq

    schemas = {str(pq.read_schema(file)) for file in (tmp_path / "out").glob("*.parquet")}
    assert len(schemas) == 1
    assert pq.read_table(tmp_path / "out")["x"].null_count == len(BAD)


def test_each_output_gets_what_is_its_own(sc, tmp_path):
    """Tagged outputs, too."""

    class TaggingFn(ReadFn):
        def process(self, element, tracker):
            for one in super().process(element, tracker):
                yield TaggedOutput("odd", one) if one["block"] % 2 else one

    sinks = {name: JsonLinesFiles(tmp_path / name) for name in ("main", "odd")}
    save_sdf(sc.parallelize(range(3), 3), TaggingFn(BAD), sinks, on_failure=Quarantine())
    summary = retry_failed(sc, TaggingFn(), sinks)
    assert summary.records_by_output == {"main": 45, "odd": 45}
    assert lines(tmp_path / "odd") == [one for one in ALL if one[1] % 2]
    assert sorted(lines(tmp_path / "main") + lines(tmp_path / "odd")) == ALL


def test_an_element_that_cannot_be_cut_is_run_again_whole(sc, tmp_path):
    """None of its records was saved before."""

    class WholeFn(ReadFn):
        def create_tracker(self, element, restriction):
            return UnsplittableTracker(super().create_tracker(element, restriction))

        def process(self, element, tracker):
            for block in range(BLOCKS):
                if not tracker.try_claim(block):
                    return
                if (element, block) in self.bad:
                    raise ValueError
                yield {"element": element, "block": block}

    sink = JsonLinesFiles(tmp_path / "out")
    saved = save_sdf(sc.parallelize(range(3), 3), WholeFn({(1, 17)}), sink, on_failure=Quarantine())
    assert [tuple(block.restriction) for block in saved.failures] == [(0, BLOCKS)]
    assert retry_failed(sc, WholeFn(), sink).failures == ()
    assert lines(tmp_path / "out") == ALL


# Crashes.


@attrs.frozen
class PointsDelta(CallsArePoints, DeltaTable):
    """A sink that appends."""


CASES = [(LinesSink, lines, "lines"), (PointsDelta, delta, "delta")]


def every(some, more, soaking, *, cases=2):
    """Parametrize with sink, how to read it, and the step between the points that are tried.

    In `make test` with so many of the cases.
    """
    few = [
        pytest.param(*case, step, id=f"{name}-{step}", marks=marks)
        for step, marks in ((some, ()), (more, pytest.mark.slow(f"the same test in larger steps of {some}")))
        for *case, name in (CASES[:cases] if step == some else CASES)
    ]
    many = [pytest.param(*case, soaking, id=f"{name}-{soaking}", marks=pytest.mark.soak) for *case, name in CASES]
    return pytest.mark.parametrize(("sink", "read", "step"), [*few, *many])


class Home:
    """A saved run with blocks that were set aside, as often as it is wanted, always in the same place."""

    def __init__(self, sc, folder, sink, read):
        self.sc, self.read = sc, read
        self.path, self.kept = folder / "home", folder / "kept"
        self.sink = sink(str(self.path / "out"))
        self.path.mkdir()
        with passing(nobody):
            save(sc, self.sink, str(self.path / "log"))
        shutil.copytree(self.path, self.kept)

    def renew(self):
        shutil.rmtree(self.path)
        shutil.copytree(self.kept, self.path)

    def retry(self, points, **faults):
        with passing(points):
            return retry(self.sc, self.sink, str(self.path / "log"), commit_seconds=0.05, **faults)

    def rows(self):
        return self.read(str(self.path / "out"))

    def check_end(self, bad=()):
        assert self.rows() == without(bad)
        assert [path for path in self.path.rglob("*") if "stage-" in path.name or "tmp" in path.name] == []
        with passing(nobody):
            assert main(["verify", str(self.path / "log")]) == 0

    @functools.cached_property
    def points(self):
        """The points of a retry that nothing disturbs."""
        points = Life()
        self.renew()
        assert self.retry(points).records == len(ALL)
        self.check_end()
        self.renew()
        return points.seen


@pytest.fixture(scope="module")
def home(module_sc, tmp_path_factory):
    """Give a function that returns the run of a sink as it was saved, once for all tests."""

    @functools.cache
    def made(sink, read):
        return Home(module_sc, tmp_path_factory.mktemp("retried"), sink, read)

    def home_of(sink, read):
        found = made(sink, read)
        found.renew()
        return found

    return home_of


# Dear: each death is followed by a run.
@every(41, 27, 1)  # the last of three is far from the end: a live run may pass fewer points than the one before it
def test_a_retry_survives_a_death_at_every_point(home, sink, read, step):
    """The same call ends it. Soaking, no point is left out. Nothing is there before its commit, and nothing twice."""
    home = home(sink, read)
    points = home.points
    assert {"after prepare", "before commit", "after commit", "before clean"} <= set(points)
    assert sink is not LinesSink or "after link" in points[points.index("before commit") :]
    died = 0
    tried = range(1, len(points) + 1, step)
    for at in tried:
        home.renew()
        life = Life(at)
        with suppress(Death):
            home.retry(life)
        if not life.dead:  # a retry that is faster passes fewer points: another one dies at the same share of these
            home.renew()
            life = Life(max(1, at * len(life.seen) // len(points)))
            with suppress(Death):
                home.retry(life)
        died += life.dead
        there = home.rows()
        assert set(there) <= set(ALL)
        assert len(set(there)) == len(there)
        if "before commit" not in life.seen:
            assert there == without(BAD)
        second = Life(at // 2 or None)  # now and then it dies once more
        with suppress(Death):
            home.retry(second)
        assert home.retry(nobody).failures == ()
        home.check_end()
    print(f"\n{len(points)} points, died at {died} of {len(tried)}")
    assert died > 0.7 * len(tried)


@every(57, 19, 2)
def test_of_two_drivers_that_retry_one_adds(home, sink, read, step):
    """One stops at any point, as by SIGSTOP, while the other one begins and ends; then it goes on: it has lost."""
    home = home(sink, read)
    points = home.points
    tried = range(1, len(points) + 1, step)

    def overtake():
        assert home.retry(nobody).failures == ()
        assert home.rows() == ALL

    def stopped(at):
        home.renew()
        first, overtaken = Points(overtake, at), False
        try:
            assert home.retry(first).records == len(ALL)
        except JournalFencedError:
            overtaken = True
        assert home.rows() == ALL
        return first.seen, overtaken

    overtaken = sum(reaching(at, points, stopped) for at in tried)
    print(f"\n{len(points)} points, of {len(tried)} drivers {overtaken} were overtaken")
    assert overtaken > 0.3 * len(tried)


@every(90, 30, 2, cases=1)
def test_a_retry_in_which_blocks_fail_again_survives_a_death_at_every_point(home, sink, read, step):
    """One raises, one ends its process: both are listed, all others are added once, and the next retry adds the two."""
    home = home(sink, read)
    faults, points = {"bad": {(1, 17)}, "deadly": {(0, 1)}}, Life()
    again = [(0, 1), (1, 17)]
    assert of(home.retry(points, **faults).failures) == again
    home.check_end(again)
    tried = range(1, len(points.seen) + 1, step)

    def dies(at):
        home.renew()
        life = Life(at)
        with suppress(Death):
            home.retry(life, **faults)
        assert set(home.rows()) <= set(without(again))
        assert len(set(home.rows())) == len(home.rows())
        assert of(home.retry(nobody, **faults).failures) == again
        home.check_end(again)
        assert home.retry(nobody).failures == ()
        home.check_end()
        return life.seen, life.dead

    died = sum(reaching(at, points.seen, dies) for at in tried)
    print(f"\n{len(points.seen)} points, died at {died} of {len(tried)}")
    assert died > 0.6 * len(tried)


class DiesInClean(Life):
    """Dies when all is visible, before it removes what the sink keeps for it."""

    def pass_(self, name):
        super().pass_(name)
        if name == "before clean" and "after commit" in self.seen:
            self.end()


def test_the_next_retry_removes_what_one_that_died_at_its_end_has_left(home):
    """It begins another commit, so nobody would come back to that of the dead driver."""
    home = home(LinesSink, lines)
    with pytest.raises(Death):
        home.retry(DiesInClean(), bad={(1, 17)})
    assert list(home.path.rglob("*stage-*")) != []
    assert home.retry(nobody).failures == ()
    home.check_end()


@every(45, 15, 3, cases=1)
def test_a_retry_may_not_go_on_if_one_that_died_had_overtaken_it(home, sink, read, step):
    """The other one dies at any of its points; a third one ends what they began."""
    home = home(sink, read)
    points, numbers = home.points, itertools.count()
    tried = range(1, len(points) + 1, step)

    def stopped(at):
        home.renew()
        other, overtaken = Life(len(points) * (1 + next(numbers) % 4) // 5), False

        def overtake():
            with suppress(Death):
                home.retry(other)

        first = Points(overtake, at)
        try:
            assert home.retry(first).records == len(ALL)
        except JournalFencedError:
            overtaken = True
            assert other.seen
        assert home.retry(nobody).failures == ()
        home.check_end()
        return first.seen, (other.dead, overtaken)

    found = [reaching(at, points, stopped) for at in tried]
    died, overtaken = (sum(each) for each in zip(*found, strict=True))
    print(f"\n{len(tried)} others: {died} died, and {overtaken} had taken over")
    assert min(died, overtaken) > 0.2 * len(tried)


# Misuse.


class OwnSink(Sink):
    def identity(self):
        return "own"

    def prepare(self, run):
        pass

    def write(self, records, place):
        list(records)

    def commit(self, messages, token):
        pass

    def abort(self, messages, token):
        pass


class Writer:
    def write(self, records):
        pass

    def commit(self, messages):
        pass

    def abort(self, messages):
        pass


def test_wrong_calls_are_refused_before_any_job(sc, tmp_path):
    """Each with what was given, and what to do."""
    sink, checkpoint = JsonLinesFiles(tmp_path / "out"), str(tmp_path / "log")
    with pytest.raises(JournalError, match=r"no run that is done .* so nothing to retry"):
        retry(sc, sink, checkpoint)
    assert list(tmp_path.rglob("*.json*")) == []
    save(sc, sink, checkpoint)

    class OtherFn(ReadFn):
        pass

    for call, kind, pattern in [
        (lambda: retry(sc.parallelize([1]), sink, checkpoint), InvalidTypeError, "takes a SparkContext or a SparkSess"),
        (lambda: retry_failed(sc, ReadFn, sink), InvalidTypeError, "needs an instance of a DoFn"),
        (
            lambda: retry(sc, sink, checkpoint, on_failure="raise"),
            InvalidTypeError,
            "retry_failed.. on_failure must be",
        ),
        (lambda: retry(sc, sink, checkpoint, commit_seconds=0), InvalidValueError, "retry_failed.. commit_seconds"),
        (lambda: retry(sc, sink, checkpoint, progress=3), InvalidTypeError, "retry_failed.. progress"),
        (lambda: retry(sc, sink, checkpoint, runner=3), InvalidTypeError, "retry_failed.. "),
        (lambda: retry(sc, OwnSink(), checkpoint), InvalidValueError, "cannot add records to what OwnSink"),
        (lambda: retry(sc, DataSourceSink(Writer()), checkpoint), InvalidValueError, "what DataSourceSink of output"),
        (lambda: retry(sc, JsonLinesFiles(tmp_path / "x"), checkpoint), JournalError, "another run.*the sinks"),
        (lambda: retry_failed(sc, OtherFn(), sink, checkpoint=checkpoint), JournalError, "another run.*the DoFn"),
    ]:
        with pytest.raises(kind, match=pattern):
            call()
    assert lines(tmp_path / "out") == without(BAD)
    assert retry(sc, sink, checkpoint).failures == ()


def test_a_run_that_is_not_done_is_not_retried(sc, tmp_path):
    """`save_sdf` ends it first."""
    sink, checkpoint = JsonLinesFiles(tmp_path / "out"), str(tmp_path / "log")
    with pytest.raises(TooManyFailuresError):
        save(sc, sink, checkpoint, on_failure=Quarantine(max_failures=0))
    with pytest.raises(JournalError, match="no run that is done"):
        retry(sc, sink, checkpoint)
    assert save(sc, sink, checkpoint).records == len(ALL) - len(BAD)


def test_a_result_that_is_gone_is_not_added_to(sc, tmp_path):
    """Put back, it is."""
    sink, checkpoint = JsonLinesFiles(tmp_path / "out"), str(tmp_path / "log")
    save(sc, sink, checkpoint)
    (tmp_path / "out").rename(tmp_path / "moved")
    with pytest.raises(SinkError, match=r"the result of this run .* is not there any more"):
        retry(sc, sink, checkpoint)
    assert not (tmp_path / "out").exists()
    (tmp_path / "moved").rename(tmp_path / "out")
    assert retry(sc, sink, checkpoint).failures == ()
    assert lines(tmp_path / "out") == ALL

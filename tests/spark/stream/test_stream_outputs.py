"""A stream's tags, side inputs, functions in its chain, and a sink for each tag."""

import sqlite3

import pytest
from support.following import GrowingFn
from support.streaming import grouped

from sdf import DoFn, OffsetRange, Pace, TaggedOutput, Until, stream_sdf
from sdf.errors import InvalidTypeError, InvalidValueError, JournalError, OutputError, ProcessError, ReadError
from sdf.io import FileBlocks, FileInfo, ReadJsonLines, ReadLines, TailLines, Watch, WatchFiles
from sdf.sinks import SqlTable


class Numbers(GrowingFn):
    """Gives the words of a file that are numbers; the others with the tag "bad"."""

    def process(self, element, tracker):
        for word in super().process(element, tracker):
            yield int(word) if word.isdigit() else TaggedOutput("bad", word)


def doubled(number):
    """Gives a number twice; 13 with the tag "unlucky"."""
    yield TaggedOutput("unlucky", number) if number == 13 else number
    yield number


def above(number, least):
    """Gives a number that is large enough."""
    if number >= least:
        yield number


class Above(DoFn):
    """As above(); a step of its own."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker, least):
        for _ in tracker.claims():
            yield from above(element, least)


def words_above(path, least):
    """Gives the numbers of a file that are large enough."""
    with open(path) as file:
        yield from (int(word) for word in file.read().split() if int(word) >= least)


class Kept:
    """Keeps the outputs of each batch by its key."""

    def __init__(self, *fails_at):
        self.batches, self.calls, self.fails_at = {}, 0, fails_at

    def __call__(self, batch):
        self.calls += 1
        given = {name: sorted(rdd.collect()) for name, rdd in batch.outputs.items()}
        assert given["main"] == sorted(batch.rdd.collect())
        assert self.batches.setdefault(batch.key, given) == given
        if self.calls in self.fails_at:
            raise RuntimeError("down")

    def all(self, name):
        return sorted(record for batch in self.batches.values() for record in batch[name])


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that runs a stream of the words of a file."""
    words = tmp_path / "words"

    def run(text, fns, keep=None, **options):
        words.write_text(text)
        options = {"checkpoint": tmp_path / "journal", "idle": True, "batch_seconds": 0.1, **options}
        return stream_sdf(sc.parallelize([str(words)]), fns, foreach_batch=keep, **grouped(**options))

    return run


def test_tagged_outputs_of_all_steps_come_with_the_batch(stream):
    """Each with the records of its tag, of the first step as of the last."""
    keep = Kept()
    summary = stream("1 x 13 y", [Numbers(), doubled], keep, tags=("bad", "unlucky"))
    (given,) = keep.batches.values()
    assert given == {"main": [1, 1, 13], "bad": ["x", "y"], "unlucky": [13]}
    assert summary.records == 3


def test_a_batch_that_has_only_tagged_records_is_given(stream):
    """They are not lost because the main output is empty."""
    keep = Kept()
    stream("x y", [Numbers(), doubled], keep, tags=("bad", "unlucky"))
    assert list(keep.batches.values()) == [{"main": [], "bad": ["x", "y"], "unlucky": []}]


def test_tagged_records_come_again_with_their_batch(stream):
    """Read again from the pins; new words belong to the next batch."""
    keep = Kept(1)
    with pytest.raises(RuntimeError, match="down"):
        stream("x", Numbers(), keep, tags=("bad",))
    stream("x y 1", Numbers(), keep, tags=("bad",))
    assert (keep.all("bad"), keep.all("main")) == (["x", "y"], [1])


def test_an_undeclared_tag_is_named(stream):
    """As in a run."""
    with pytest.raises(OutputError, match=r"TaggedOutput\('bad', 'x'\).*tags=\('bad',"):
        stream("x", Numbers(), Kept())


def test_a_function_may_be_the_whole_chain(sc, tmp_path):
    """Each element is a block of it; one that gives nothing may return None."""
    given = []
    options = {"checkpoint": tmp_path / "journal", "batch_seconds": 0.1}
    fn = lambda element: None if element == 2 else range(element)  # noqa: E731, a lambda is a function too
    rdd = sc.parallelize([1, 2, 3])
    summary = stream_sdf(rdd, fn, foreach_batch=lambda batch: given.extend(batch.rdd.collect()), **grouped(**options))
    assert (sorted(given), summary.done) == ([0, 0, 1, 2], True)


def only_json(file):
    """Gives the files that a reader is for, by their names."""
    if file.path.endswith(".json"):
        yield FileInfo(file.path, file.size, file.mtime, file.version)


def test_a_function_may_stand_between_a_watch_and_a_reader(sc, tmp_path):
    """Here it chooses files; what the reader cannot read is tagged."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"a": 1}\nnonsense\n')
    (tmp_path / "in" / "b.txt").write_text("no json")
    seen = []
    stream_sdf(
        sc.parallelize([str(tmp_path / "in")]),
        [WatchFiles(interval_seconds=0.1), only_json, ReadJsonLines(on_error="tag")],
        checkpoint=tmp_path / "journal",
        foreach_batch=lambda batch: seen.append((batch.rdd.collect(), batch.outputs["bad"].count())),
        tags=("bad",),
        until=Until(idle=True),
        pace=Pace(batch_seconds=0.1),
    )
    assert seen == [([{"a": 1}], 1)]


def with_metadata(block):
    """Gives a block to its reader, and what is known of it with the tag "blocks"."""
    yield TaggedOutput("blocks", (block.id, block.start, block.stop))
    yield block


def test_what_is_known_of_blocks_comes_with_their_records(sc, tmp_path):
    """Both in the batch that reads them, to be joined by the ids of the blocks."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a").write_text("1\n22\n333\n4444\n")
    seen = []
    stream_sdf(
        sc.parallelize([str(tmp_path / "in")]),
        [WatchFiles(interval_seconds=0.1), FileBlocks(6), with_metadata, ReadLines(with_block_id=True)],
        checkpoint=tmp_path / "journal",
        foreach_batch=lambda batch: seen.append((batch.rdd.groupByKey().collect(), batch.outputs["blocks"].collect())),
        tags=("blocks",),
        until=Until(idle=True),
        pace=Pace(batch_seconds=0.1),
    )
    ((lines, blocks),) = seen
    assert [(start, stop) for _, start, stop in sorted(blocks)] == [(0, 6), (12, 14), (6, 12)]
    named = {block: start for block, start, _ in blocks}
    assert {named[block]: sorted(found) for block, found in lines} == {0: ["1", "22", "333"], 6: ["4444"]}


def test_side_inputs_go_to_whoever_takes_their_names(stream, sc, tmp_path):
    """A function or a process(); an RDD is collected. They may differ in the next run."""
    keep = Kept()
    stream("1 5 9", [Numbers(), above], keep, tags=("bad",), side_inputs={"least": 5})
    stream("1 5 9 4 6", [Numbers(), above], keep, tags=("bad",), side_inputs={"least": 6})
    assert keep.all("main") == [5, 6, 9]

    def known(number, allowed):
        return [number] if number in allowed else []

    again, side_inputs = Kept(), {"allowed": sc.parallelize([1, 9])}
    stream("1 5 9", [Numbers(), known], again, tags=("bad",), side_inputs=side_inputs, checkpoint=tmp_path / "other")
    assert again.all("main") == [1, 9]


@pytest.mark.parametrize(
    ("options", "flaw"),
    [
        ({"side_inputs": {"least": 1}, "tags": ("bad",)}, "other values of the side inputs"),
        ({"side_inputs": {"least": 5}, "tags": ("bad", "more")}, r"tags=\('bad',\), not \('bad', 'more'\)"),
    ],
)
def test_a_batch_that_comes_again_must_be_given_what_it_had(stream, options, flaw):
    """Else it would hold other records under its key; with that it goes on."""
    keep, chain = Kept(1), [Numbers(), above]
    before = {"side_inputs": {"least": 5}, "tags": ("bad",)}
    with pytest.raises(RuntimeError, match="down"):
        stream("1 5 9", chain, keep, **before)
    with pytest.raises(JournalError, match=rf"batch 1 was read with {flaw}.*max_batches=1"):
        stream("1 5 9", chain, keep, **options)
    stream("1 5 9", chain, keep, **before, max_batches=1)
    stream("1 5 9 2", chain, keep, **options)
    assert keep.all("main") == ([2, 5, 9] if options["side_inputs"]["least"] == 1 else [5, 9])


def test_what_only_a_step_that_failed_takes_may_change(stream):
    """What came before it is pinned, and no sink has had a record; a crash after that gives the batch again."""
    keep, words = Kept(1), "1 5 9"
    chain = [Watch(lambda path: [path], interval_seconds=0.1), words_above]
    with pytest.raises(ProcessError, match="TypeError"):
        stream(words, chain, keep, side_inputs={"least": "5"})
    with pytest.raises(RuntimeError, match="down"):
        stream(words, chain, keep, side_inputs={"least": 5}, tags=("bad",))
    with pytest.raises(JournalError, match=r"batch 1 was read with other values.*tags=\('bad',\), not \(\)"):
        stream(words, chain, keep, side_inputs={"least": 6})
    stream(words, chain, keep, side_inputs={"least": 5}, tags=("bad",))
    assert (keep.calls, list(keep.batches.values())) == (2, [{"main": [5, 9], "bad": []}])


def test_tags_of_a_batch_that_is_half_done_may_be_added_or_reordered(stream):
    """As long as none goes of which a pinned step has given a record."""
    keep, chain = Kept(), [Numbers(), Above()]
    with pytest.raises(ProcessError, match="TypeError"):
        stream("x 5", chain, keep, side_inputs={"least": "5"}, tags=("none", "bad"))
    with pytest.raises(JournalError, match=r"tags=\('none', 'bad'\), not \('more',\)"):
        stream("x 5", chain, keep, side_inputs={"least": 5}, tags=("more",))
    stream("x 5", chain, keep, side_inputs={"least": 5}, tags=("bad", "more"))
    assert list(keep.batches.values()) == [{"main": [5], "bad": ["x"], "more": []}]


def test_a_stream_that_an_invalid_byte_has_stopped_goes_on_with_tags(sc, tmp_path):
    """As its error advises."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.log").write_bytes(b"good\n\xff\n")
    keep = Kept()

    def run(tail, tags=()):
        options = {"checkpoint": tmp_path / "journal", "idle": True, "batch_seconds": 0.1, "tags": tags}
        watch = WatchFiles(modified="ignore", interval_seconds=0.1)
        return stream_sdf(
            sc.parallelize([str(tmp_path / "in")]), [watch, tail], foreach_batch=keep, **grouped(**options)
        )

    with pytest.raises(ReadError, match=r"on_error='tag', and tags=\('bad',\)"):
        run(TailLines())
    run(TailLines(on_error="tag"), tags=("bad",))
    assert (keep.all("main"), [bad.data for bad in keep.all("bad")]) == (["good"], [b"\xff"])


def test_a_set_as_a_side_input_is_the_same_in_any_process():
    """Its order is not."""
    from sdf.spark.stream.given import given_to

    words = [f"word {number}" for number in range(99)]
    hashes = [given_to([_fn()], {"least": set(order)}, (), "test").hashes for order in (words, words[::-1])]
    assert hashes[0] == hashes[1]
    assert given_to([_fn()], {"least": set(words[1:])}, (), "test").hashes != hashes[0]


def _fn():
    from sdf.model.each import as_dofn

    return as_dofn(above)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"side_inputs": {"most": 1}}, InvalidTypeError, r"side_inputs has \['most'\], which no process\(\) and no"),
        ({"side_inputs": [1]}, InvalidTypeError, "side_inputs must map names to values"),
        ({"side_inputs": {}}, InvalidTypeError, r"above\(\) cannot be called as above\(element\)"),
        ({"tags": "bad"}, InvalidTypeError, "tags must be a tuple of names"),
        ({"tags": ("main",)}, InvalidValueError, "none of them 'main'"),
    ],
)
def test_wrong_arguments_are_named(stream, tmp_path, options, error, message):
    """Before anything is written."""
    with pytest.raises(error, match=message):
        stream("1", [Numbers(), above], Kept(), **{"side_inputs": {"least": 1}, **options})
    assert not (tmp_path / "journal").exists()


class Death(BaseException):
    """Ends a driver as a crash does."""


class Tables:
    """Two tables of SQLite, one for each output."""

    def __init__(self, home):
        self.path = home / "tables.db"
        with sqlite3.connect(self.path) as connection:
            connection.execute("CREATE TABLE good (n INTEGER NOT NULL)")
            connection.execute("CREATE TABLE bad (word TEXT NOT NULL)")
        url = f"sqlite:///{self.path}"
        self.sinks = {"main": SqlTable(url, "good"), "bad": SqlTable(url, "bad")}

    def rows(self, table):
        with sqlite3.connect(self.path) as connection:
            return sorted(row[0] for row in connection.execute(f"SELECT * FROM {table}"))


class RowsFn(GrowingFn):
    def process(self, element, tracker):
        for word in super().process(element, tracker):
            yield {"n": int(word)} if word.isdigit() else TaggedOutput("bad", {"word": word})


@pytest.mark.parametrize("commits", [1, 2, 3])
@pytest.mark.parametrize("when", ["before", "after"])
def test_each_output_goes_into_its_table_once(stream, tmp_path, monkeypatch, when, commits):
    """The driver dies around a commit of the one or the other; each table has each row once."""
    tables, made = Tables(tmp_path), []
    original = SqlTable.commit

    def commit(self, messages, token):
        made.append(token)
        if when == "before" and len(made) == commits:
            raise Death
        original(self, messages, token)
        if when == "after" and len(made) == commits:
            raise Death

    monkeypatch.setattr(SqlTable, "commit", commit)
    for text in ("1 x", "1 x 2 y"):
        try:
            stream(text, RowsFn(), sink=tables.sinks)
        except Death:
            stream(text, RowsFn(), sink=tables.sinks)
    assert (tables.rows("good"), tables.rows("bad")) == ([1, 2], ["x", "y"])
    assert len({token.app for token in made if token.version == 1}) == 2  # a token for each output


def test_an_output_without_a_sink_is_named(stream, tmp_path):
    """Where there are tags, each needs its own."""
    tables = Tables(tmp_path)
    with pytest.raises(InvalidValueError, match=r"stream_sdf\(\) needs a sink for each output, \('main', 'bad'\)"):
        stream("1", RowsFn(), sink=tables.sinks["main"], tags=("bad",))


class Paths(GrowingFn):
    """Gives the words of a file that are paths, for the next step; others with the tag "bad"."""

    def process(self, element, tracker):
        for word in super().process(element, tracker):
            yield word if "/" in word else TaggedOutput("bad", word)


def test_a_step_that_had_nothing_to_do_is_not_run_again_when_its_batch_comes_again(stream, tmp_path):
    """Else the batch would hold more than the sink has had: what came meanwhile belongs to the next one."""
    keep, other = Kept(2), tmp_path / "other"
    other.write_text("a")
    chain = [Paths(), GrowingFn()]
    stream(f"{other}", chain, keep, tags=("bad",))
    with pytest.raises(RuntimeError, match="down"):
        stream(f"{other} x", chain, keep, tags=("bad",))
    other.write_text("a b")
    stream(f"{other} x", chain, keep, tags=("bad",))
    assert (keep.all("bad"), keep.all("main")) == (["x"], ["a", "b"])


class MarkedFn(TailLines):
    """Has a side input."""

    def process(self, element, tracker, mark):
        yield from super().process(element, tracker)


def numbered(line, offset):
    """Gives a line as a number, and what is none with the tag "bad"; has a side input."""
    yield int(line) + offset if line.isdigit() else TaggedOutput("bad", line)


def twice(number):
    """Gives a number twice; nothing for a 3."""
    return None if number == 103 else [number, number]


def test_functions_at_the_end_of_a_chain_get_the_outputs_as_they_come(sc, tmp_path):
    """In the task that gives them: so they stay in order, and are no elements of their own. Tags pass the next one."""
    path, seen = tmp_path / "a.log", []
    path.write_text("".join("x\n" if number % 10 == 7 else f"{number}\n" for number in range(2000)))
    fn = TailLines(poll_seconds=0.05)
    summary = stream_sdf(
        sc.parallelize([str(path)]),
        [fn, numbered, twice],
        checkpoint=tmp_path / "journal",
        foreach_batch=lambda batch: seen.append((batch.rdd.collect(), batch.outputs["bad"].collect())),
        tags=("bad",),
        side_inputs={"offset": 100},
        until=Until(idle=True),
        pace=Pace(batch_seconds=0.1),
    )
    expected = [number + 100 for number in range(2000) if number % 10 != 7 and number != 3 for _ in range(2)]
    assert [record for records, _ in seen for record in records] == expected
    assert [line for _, bad in seen for line in bad] == ["x"] * 200
    assert summary.records == len(expected)
    assert type(fn) is TailLines  # the caller's own is as it was


def test_an_error_of_a_function_names_it_and_the_output(sc, tmp_path):
    """Also where it runs in the task of the DoFn before it."""
    (tmp_path / "a.log").write_text("1\n2\nx\n")
    with pytest.raises(ProcessError, match=r"to_int\(\) of element 'x' raised ValueError"):
        stream_sdf(
            sc.parallelize([str(tmp_path / "a.log")]),
            [TailLines(), to_int],
            checkpoint=tmp_path / "journal",
            foreach_batch=lambda batch: batch.rdd.count(),
            until=Until(idle=True),
        )


def to_int(line):
    yield int(line)


@pytest.mark.parametrize("chain", [[TailLines(), numbered], [MarkedFn(), twice]], ids=["function", "process"])
def test_what_a_chain_needs_and_is_not_given_is_named(sc, tmp_path, chain):
    """A side input of a function, or of the DoFn before one; before any job."""
    with pytest.raises(InvalidTypeError, match=r"missing a required argument: '(offset|mark)'"):
        stream_sdf(sc.parallelize(["a"]), chain, checkpoint=tmp_path / "journal", foreach_batch=print)

"""What goes wrong around a batch is an error of sdf, with names: late use, a job of the sink, a missing file."""

import os
import shutil
from operator import add

import pytest
from support.following import GrowingFn
from support.streaming import grouped

from sdf import DoFn, OffsetRange, stream_sdf
from sdf.errors import ContractError, SourceChangedError, StageError
from sdf.io import ReadLines, WatchFiles
from sdf.spark import jobs


@pytest.fixture
def stream(sc, tmp_path):
    """Give a function that runs a stream of words with a sink."""
    (tmp_path / "words").write_text("a b ")

    def run(foreach_batch):
        rdd = sc.parallelize([str(tmp_path / "words")])
        options = {"checkpoint": tmp_path / "journal", "idle": True, "batch_seconds": 0.1}
        return stream_sdf(rdd, GrowingFn(), foreach_batch=foreach_batch, **grouped(**options))

    return run


@pytest.mark.parametrize("used_before", [False, True])
@pytest.mark.parametrize(
    "derive", [lambda rdd: rdd, lambda rdd: rdd.map(str.upper), lambda rdd: rdd.filter(bool).map(len)]
)
def test_records_that_are_used_when_their_batch_is_over(stream, derive, used_before):
    """Say so, and name the batch; also what was made of them, and if a job has run on them before."""
    kept = []

    def keep(batch):
        kept.append(derive(batch.rdd))
        if used_before:
            assert kept[0].count() == 2

    stream(keep)
    with pytest.raises(StageError, match=r"the records of batch 1 were used when that batch was over.*foreach_batch"):
        kept[0].collect()


def test_records_of_a_batch_whose_sink_has_failed_are_over_too(stream):
    """The stream has ended."""
    kept = []

    def keep(batch):
        kept.append(batch.rdd)
        raise RuntimeError("down")

    with pytest.raises(RuntimeError, match="down"):
        stream(keep)
    with pytest.raises(StageError, match="the records of batch 1 were used"):
        kept[0].collect()


def test_records_are_an_rdd_like_any_other(stream):
    """While the batch lasts: narrow and wide, with and without a key."""
    seen = []

    def use(batch):
        counted = batch.rdd.map(lambda word: (word, 1)).reduceByKey(add).collectAsMap()
        seen.append((batch.rdd.count(), counted, batch.rdd.union(batch.rdd).count()))

    stream(use)
    assert seen == [(2, {"a": 1, "b": 1}, 4)]


def test_a_job_of_the_sink_that_fails_names_batch_and_stream(stream):
    """And the error of the user's function, with its traceback as the cause."""

    def use(batch):
        batch.rdd.map(int).collect()

    with pytest.raises(StageError, match=r"batch 1 of GrowingFn, in the sink.*invalid literal for int\(\)") as caught:
        stream(use)
    assert "Traceback" in str(caught.value.__cause__)


def test_a_file_that_is_gone_when_its_batch_comes_again_is_named(sc, tmp_path):
    """The sink was down, the file was removed, the batch comes again: an error of sdf, as reading it first would be."""
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "a.log").write_text("a1\na2\n")

    def run(foreach_batch):
        chain = [WatchFiles(interval_seconds=0.1), ReadLines()]
        options = {"checkpoint": tmp_path / "journal", "idle": True, "batch_seconds": 0.1}
        return stream_sdf(
            sc.parallelize([str(tmp_path / "logs")]), chain, foreach_batch=foreach_batch, **grouped(**options)
        )

    def down(batch):
        raise RuntimeError("down")

    with pytest.raises(RuntimeError, match="down"):
        run(down)
    (tmp_path / "logs" / "a.log").unlink()
    with pytest.raises(SourceChangedError, match=r"a\.log has gone; it had 6 bytes"):
        run(lambda batch: batch.rdd.collect())


def test_a_process_that_foreach_batch_forks_and_that_goes_on_is_named(stream):
    """It would be a second driver."""

    def forks(batch):
        if child := os.fork():
            os.waitpid(child, 0)

    with pytest.raises(ContractError, match=r"foreach_batch\(\): a process that it forked came back from it"):
        stream(forks)


def test_a_context_that_is_stopped_meanwhile_is_said(stream, monkeypatch):
    """Whatever Spark makes of it in the sink."""
    monkeypatch.setattr(jobs, "_is_stopped", lambda context: True)

    def down(batch):
        raise RuntimeError("down")

    with pytest.raises(StageError, match="the SparkContext was stopped while this call worked") as raised:
        stream(down)
    assert str(raised.value.__cause__) == "down"


def test_a_stream_that_goes_on_with_a_copied_checkpoint_warns(sc, tmp_path, caplog):
    """Another one may go on with the original. Once it has committed, it has a place of its own."""
    (tmp_path / "words").write_text("a b ")

    def run(journal):
        caplog.clear()
        options = {"checkpoint": tmp_path / journal, "idle": True, "batch_seconds": 0.1}
        stream_sdf(
            sc.parallelize([str(tmp_path / "words")]),
            GrowingFn(),
            foreach_batch=lambda batch: None,
            **grouped(**options),
        )
        return f"its last driver had this checkpoint in {tmp_path / 'one'}" in caplog.text

    assert not run("one")
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    assert [run("two"), run("one")] == [True, False]
    with open(tmp_path / "words", "a") as words:
        words.write("c ")
    assert [run("two"), run("two"), run("one")] == [True, False, False]


@pytest.mark.parametrize(("then", "warns"), [(["b", "a"], False), (["a"], True), (["a", "b", "c"], True)])
def test_a_stream_that_is_started_again_with_other_elements_warns(sc, tmp_path, caplog, then, warns):
    """It reads those that it began with, and nothing tells it what is to become of others."""
    for elements in (["a", "b"], then):
        caplog.clear()
        stream_sdf(sc.parallelize(elements), NamesFn(), checkpoint=tmp_path / "journal", foreach_batch=print)
    assert ("reads no other ones" in caplog.text) == warns


class NamesFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for _ in tracker.claims():
            yield element

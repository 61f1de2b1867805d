"""What an attack on save_sdf found: each would have been silent, too late, or impossible to follow."""

import os
import re
import subprocess
import sys

import pytest
from support.fns import CountFn
from support.saving import rows

from sdf import save_sdf, stream_sdf
from sdf.errors import InvalidValueError, JournalError, SinkError
from sdf.sinks import DeltaTable, JsonLinesFiles, ParquetFiles

ELEMENTS = [("a", 3)]


def save(sc, sink, fn=None, **options):
    return save_sdf(sc.parallelize(ELEMENTS), fn or CountFn(), sink, **options)


def test_equal_sets_and_dicts_are_the_same_run_in_any_process():
    """The order of a set differs between two processes."""
    program = (
        "from sdf.spark.identity import _described as d\n"
        "names = {'alpha', 'beta', 'gamma', 'delta', 'epsilon'}\n"
        "print(d({'k': [names, frozenset(names)], 'x': {1: names, 2: 'b'}}, None, 'x'))"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in "123456"
    }
    assert len(seen) == 1
    from sdf.spark.identity import _described

    def described(value):
        return _described(value, value, "x")

    assert described({"a": 1, "b": 2}) == described({"b": 2, "a": 1})
    assert described({"a": 1, "b": 2}) != described({"a": 2, "b": 1})
    assert described(["set", 2, 1]) != described(["set", 1, 2])


def test_a_result_that_was_removed_is_not_there(sc, tmp_path):
    """The same call does not say that all is well."""
    sink = JsonLinesFiles(tmp_path / "out")
    save(sc, sink)
    (tmp_path / "out").rename(tmp_path / "moved")
    with pytest.raises(SinkError, match=r"its result is not at .* any more.*remove the checkpoint, too"):
        save(sc, sink)
    (tmp_path / "moved").rename(tmp_path / "out")
    assert save(sc, sink).records == 3


@pytest.mark.parametrize(
    ("sinks", "message"),
    [
        (lambda at: {"main": JsonLinesFiles(at / "y"), "bad": JsonLinesFiles(at / "y/sub")}, "'bad' goes to .*within"),
        (lambda at: tagging(at / "x"), "of output 'main' puts records .* which has no sink"),
        (lambda at: {"main": JsonLinesFiles(at / "x"), "bad": tagging(at / "y")}, "'bad' puts .* which is its own"),
    ],
    ids=["nested", "no bad", "bad itself"],
)
def test_sinks_that_do_not_go_together_are_refused_before_any_work(sc, tmp_path, sinks, message):
    """Nothing is made on the disk, so that the mended call begins anew."""
    with pytest.raises(InvalidValueError, match=message):
        save(sc, sinks(tmp_path))
    assert list(tmp_path.iterdir()) == []


def tagging(path):
    pa = pytest.importorskip("pyarrow")
    return ParquetFiles(path, schema={"x": pa.int64()}, on_error="tag")


@pytest.mark.parametrize("where", ["out", "out/checkpoint"])
def test_a_checkpoint_within_the_target_is_refused(sc, tmp_path, where):
    """The commit makes the target by one rename."""
    with pytest.raises(InvalidValueError, match=r"is within .*give a place beside it"):
        save(sc, JsonLinesFiles(tmp_path / "out"), checkpoint=tmp_path / where)
    assert list(tmp_path.iterdir()) == []


def test_a_stream_and_a_saved_run_do_not_share_a_checkpoint(sc, tmp_path):
    """Each would hide the other."""
    save(sc, JsonLinesFiles(tmp_path / "out"), checkpoint=tmp_path / "saved")
    with pytest.raises(JournalError, match="is the checkpoint of a saved run"):
        stream_sdf(sc.parallelize(ELEMENTS), CountFn(), checkpoint=tmp_path / "saved", foreach_batch=print)
    stream_sdf(sc.parallelize(ELEMENTS), CountFn(), checkpoint=tmp_path / "stream", foreach_batch=lambda batch: None)
    with pytest.raises(JournalError, match="is the checkpoint of a stream"):
        save(sc, JsonLinesFiles(tmp_path / "more"), checkpoint=tmp_path / "stream")


def test_a_run_that_was_begun_otherwise_can_be_given_up(sc, tmp_path):
    """The error says how, as the default checkpoint lies beside the target."""

    class FailsFn(CountFn):
        def process(self, element, tracker):
            for record in super().process(element, tracker):
                yield record
                raise ValueError

    sink = JsonLinesFiles(tmp_path / "out")
    with pytest.raises(Exception, match="ValueError"):
        save(sc, sink, FailsFn())
    with pytest.raises(JournalError, match="or give that run up with abort_save"):
        save(sc, sink)


def test_paths_that_a_library_reads_otherwise_are_refused():
    """fsspec takes them for patterns, delta-rs for another path."""
    pytest.importorskip("s3fs")
    pytest.importorskip("deltalake")
    for name in ("a[1]", "a*b", "a?b"):
        with pytest.raises(InvalidValueError, match="stand for patterns"):
            JsonLinesFiles(f"s3://bucket/{name}")
    with pytest.raises(InvalidValueError, match="hexadecimal"):
        DeltaTable("/tmp/p%20q")


def test_columns_that_differ_in_case_are_refused_when_they_are_found(sc, tmp_path):
    """Delta ignores the case, and would refuse the commit for good."""
    pa = pytest.importorskip("pyarrow")
    pytest.importorskip("deltalake")
    with pytest.raises(InvalidValueError, match=re.escape("in another case, which Delta ignores")):
        DeltaTable(tmp_path / "t", schema={"a": pa.int64(), "A": pa.int64()})


def test_rows_are_as_they_were(sc, tmp_path):
    """In a directory with an odd name."""
    save(sc, JsonLinesFiles(tmp_path / "a[1] *?%20"))
    assert rows(tmp_path / "a[1] *?%20") == [("a", 0), ("a", 1), ("a", 2)]

"""Readers of files on Spark: the records of every runner are those of run_direct, and of Spark's own reader."""

import re
from collections import Counter

import pytest

from sdf import LiveRunner, StagedRunner, run_direct, run_sdf
from sdf.io import BadRecord, FileBlocks, MatchFiles, ReadLines

RUNNERS = [StagedRunner, LiveRunner]
RUNNER = pytest.mark.parametrize("runner", RUNNERS, ids=lambda runner: runner.__name__)
FILES = {
    "one.txt": b"",
    "two.txt": b"a\n\nb\r\nc\rd",
    "three.txt": "".join(f"{number} ä\n" for number in range(50_000)).encode(),
    "sub/four.txt": b"\n".join(b"x" * (number % 3000) for number in range(2000)),
    "sub/five.txt": "\ufeffwith a mark\nof byte order\n".encode(),
}


@pytest.fixture
def tree(tmp_path):
    for name, data in {**FILES, "_SUCCESS": b"not data\n", "sub/.crc": b"not data\n"}.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    return tmp_path


@RUNNER
@pytest.mark.parametrize("block_size", [None, 30_000])
def test_the_lines_of_a_directory(sc, tree, runner, block_size):
    """Listed by one DoFn, read by the next, with places."""
    fn = ReadLines(with_position=True, block_size=block_size)
    expected = Counter(run_direct(run_direct([str(tree)], MatchFiles()), fn))
    files = run_sdf(sc.parallelize([str(tree)]), MatchFiles(), runner=runner())
    assert Counter(run_sdf(files, fn, runner=runner()).collect()) == expected
    assert expected.total() == 50_000 + 2000 + 4 + 2


@RUNNER
def test_the_same_lines_as_those_of_spark(sc, tree, runner):
    """Spark ends lines at a lone CR too, and so does not get the file that has one."""
    (tree / "two.txt").write_bytes(b"a\n\nb\r\nc")
    blocks = run_sdf(sc.parallelize([str(tree)]), MatchFiles(), runner=runner())
    blocks = run_sdf(blocks, FileBlocks(50_000), runner=runner())
    found = Counter(run_sdf(blocks, ReadLines(), runner=runner()).collect())
    assert found == Counter(sc.textFile(f"{tree}/*.txt,{tree}/sub/*.txt").collect())


@RUNNER
def test_lines_that_cannot_be_read_have_an_rdd_of_their_own(sc, tmp_path, runner):
    """With their places."""
    path = tmp_path / "f"
    path.write_bytes(b"good\n\xff\n" * 1000)
    outputs = run_sdf(
        sc.parallelize([str(path)]), ReadLines(on_error="tag", block_size=999), tags=("bad",), runner=runner()
    )
    assert outputs["main"].collect() == ["good"] * 1000
    bad = outputs["bad"].collect()
    assert sorted(record.offset for record in bad) == [5 + 7 * number for number in range(1000)]
    error = "UnicodeDecodeError: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte"
    assert {(record.path, record.data, record.error) for record in bad} == {(str(path), b"\xff", error)}
    assert type(bad[0]) is BadRecord


def test_a_second_action_reads_what_the_first_one_read(sc, tmp_path):
    """A lane reads the pinned parts again, whatever was appended since."""
    path = tmp_path / "f"
    path.write_bytes(b"a\nb\nc")
    lines = run_sdf(sc.parallelize([str(path)]), ReadLines(), runner=LiveRunner())
    first = lines.collect()
    with path.open("ab") as file:
        file.write(b" and more\nd\n")
    assert sorted(lines.collect()) == sorted(first) == ["a", "b", "c"]


@RUNNER
def test_a_file_that_changed_since_it_was_listed_fails_the_run(sc, tmp_path, runner):
    """On a worker; the text says which, and how."""
    path = tmp_path / "f"
    path.write_bytes(b"a\nb\n")
    files = run_direct([str(path)], MatchFiles())
    path.write_bytes(b"a\n")
    with pytest.raises(Exception, match=re.escape(f"{path} has shrunk from 4 to 2 bytes")):
        run_sdf(sc.parallelize(files), ReadLines(), runner=runner()).collect()

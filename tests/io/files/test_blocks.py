"""FileBlocks: which parts a file has, and what they are called."""

import itertools
import os
import re

import attrs
import pytest

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError
from sdf.io import FileBlock, FileBlocks, FileInfo
from sdf.testing import check_dofn


def blocks_of(size, block_size, **options):
    """Return the blocks of a file that is not there: only what is known of it counts."""
    return run_direct([FileInfo("/no/such/file", size, 1.5, "7")], FileBlocks(block_size), **options)


def edges(blocks):
    return [(block.start, block.stop) for block in blocks]


@pytest.mark.parametrize(
    ("size", "block_size", "expected"),
    [
        (13, 10, [(0, 10), (10, 13)]),
        (20, 10, [(0, 10), (10, 20)]),
        (20, 20, [(0, 20)]),
        (20, 21, [(0, 20)]),
        (1, 1, [(0, 1)]),
        (0, 10, []),
    ],
)
def test_blocks_lie_on_the_multiples_of_their_size(size, block_size, expected):
    """The last is short; an empty file has none."""
    assert edges(blocks_of(size, block_size)) == expected


def test_every_small_file_in_every_small_block():
    """The blocks tile the file, whatever the split of the run."""
    for size, block_size, split_every in itertools.product(range(12), range(1, 14), (None, 1, 2)):
        expected = [(start, min(start + block_size, size)) for start in range(0, size, block_size)]
        for seed in (None, 1):
            found = blocks_of(size, block_size, split_every=split_every, seed=seed)
            assert sorted(edges(found)) == expected
            assert len({block.id for block in found}) == len(expected)


@pytest.mark.parametrize("split_every", [None, 1, 3])
def test_each_block_names_the_one_before_it(split_every):
    """The first has none; the chain holds across splits."""
    blocks = sorted(blocks_of(35, 4, split_every=split_every), key=lambda block: block.start)
    assert [block.previous for block in blocks] == [None] + [block.id for block in blocks[:-1]]


@pytest.mark.parametrize("size", range(1, 22))
def test_only_the_last_block_says_that_it_is_the_last(size):
    """The file ends with it."""
    *others, last = blocks_of(size, 5)
    assert last.is_last
    assert not any(block.is_last for block in others)


def test_a_block_knows_its_file():
    """Path and size, beside all that pins it."""
    file = FileInfo("/no/such/file", 13, 1.5, "7")
    block = blocks_of(13, 10)[1]
    assert (block.file, block.path, block.file_size) == (file, "/no/such/file", 13)


def test_ids_are_the_same_in_every_run_and_on_every_machine():
    """They hang on the file and on the part, and on nothing else such as a seed of hashes."""
    assert [block.id for block in blocks_of(13, 10)] == [
        "/no/such/file@ba2056e9:0-10",
        "/no/such/file@ba2056e9:10-13",
    ]


@pytest.mark.parametrize("change", [{"size": 14}, {"mtime": 2.5}, {"mtime": None}, {"version": "8"}, {"version": None}])
def test_a_file_that_has_changed_has_blocks_of_other_names(change):
    """What was made of the old ones is not taken for what the new ones give."""
    file = FileInfo("/no/such/file", 13, 1.5, "7")
    before = run_direct([file], FileBlocks(10))
    after = run_direct([attrs.evolve(file, **change)], FileBlocks(10))
    assert not {block.id for block in before} & {block.id for block in after}


def test_blocks_come_one_at_a_time():
    """A file of a petabyte gives its first blocks at once."""
    fn = FileBlocks(1 << 20)
    element = FileInfo("/no/such/file", 1 << 50)
    tracker = fn.create_tracker(element, fn.get_initial_restriction(element))
    first = list(itertools.islice(fn.process(element, tracker), 3))
    assert edges(first) == [(0, 1 << 20), (1 << 20, 2 << 20), (2 << 20, 3 << 20)]
    assert tracker.progress().completed == 2 << 20


def test_planning_does_not_cut_a_file_into_its_blocks():
    """They would have to be in memory at once."""
    fn = FileBlocks(1 << 20)
    element = FileInfo("/no/such/file", 1 << 50)
    assert len(list(fn.split_restriction(element, fn.get_initial_restriction(element)))) == 1


def test_a_path_is_looked_up_but_not_opened(tmp_path, monkeypatch):
    """Its size is all that counts."""
    path = tmp_path / "f"
    path.write_bytes(b"0123456789abc")
    monkeypatch.setattr("builtins.open", None)
    monkeypatch.setattr("io.open", None)
    monkeypatch.setattr(os, "open", None)
    assert edges(run_direct([path], FileBlocks(10))) == [(0, 10), (10, 13)]


def test_a_block_is_cut_on_the_grid_of_its_file():
    """So the parts are those that start in it."""
    file = FileInfo("/no/such/file", 100)
    found = run_direct([FileBlock(file, 10, 20), FileBlock(file, 20, 30)], FileBlocks(7))
    assert edges(found) == [(14, 21), (21, 28), (28, 35)]


def test_a_run_is_split_between_blocks_only():
    """So no part has nothing to give."""
    fn = FileBlocks(10)
    element = FileInfo("/no/such/file", 35)
    for fraction in (0, 0.1, 0.5, 0.8):
        tracker = fn.create_tracker(element, fn.get_initial_restriction(element))
        assert tracker.try_claim(0)
        assert tracker.try_split(fraction)[1].start in (10, 20, 30)
    assert tracker.try_claim(10)
    assert tracker.try_claim(20)
    assert tracker.try_split(0) is None


@pytest.mark.parametrize("size", [0, 1, 12, 13, 40])
def test_file_blocks_pass_the_check_of_the_contract(size):
    """Every split, and what is next to one."""
    for block_size in (1, 3, 5, 13, 50):
        check_dofn(FileBlocks(block_size), FileInfo("/no/such/file", size))


@pytest.mark.parametrize(
    ("block_size", "error", "message"),
    [
        (0, InvalidValueError, "FileBlocks block_size must be >= 1 (got 0)."),
        (-5, InvalidValueError, "FileBlocks block_size must be >= 1 (got -5)."),
        (1.5, InvalidTypeError, "FileBlocks block_size must be an integer, a number of bytes (got 1.5)."),
        (None, InvalidTypeError, "FileBlocks block_size must be an integer, a number of bytes (got None)."),
        (True, InvalidTypeError, "FileBlocks block_size must be an integer, a number of bytes (got True)."),
    ],
)
def test_a_block_size_that_is_none_is_refused(block_size, error, message):
    """At once."""
    with pytest.raises(error, match=re.escape(message)):
        FileBlocks(block_size)


def test_a_directory_has_no_blocks(tmp_path):
    """The message sends to MatchFiles."""
    with pytest.raises(SourceError, match=re.escape(f"{str(tmp_path)!r} is a directory. Let MatchFiles")):
        run_direct([str(tmp_path)], FileBlocks(10))

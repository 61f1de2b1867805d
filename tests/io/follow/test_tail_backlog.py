"""TailLines: a long file that several tasks read at once, cut where lines end."""

from itertools import chain

import attrs
import pytest
from support.following import Following

from sdf import UNBOUNDED
from sdf.io import TailLines
from sdf.io.follow import tail as tail_module

TEXTS = {
    None: b"a\nbb\r\n\n\nccc\ndddd\nlast",
    b"ab": b"xabyabababzab\nab.a",
}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Let parts be as small as the file asks for, and lines be read one at a time."""
    monkeypatch.setattr(tail_module, "_LEAST_PART_BYTES", 1)


def follow(path, delimiter=None):
    return Following(TailLines(poll_seconds=3, delimiter=delimiter), str(path))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.log"


@pytest.mark.parametrize("delimiter", TEXTS)
def test_the_parts_give_the_lines_of_the_file_in_order(path, delimiter):
    """For any length of a part, and any number of parts, from any line on; and again from what was pinned."""
    text, most = TEXTS[delimiter], 0
    path.write_bytes(text)
    for length in (None, *range(1, len(text) + 2)):
        for parts in range(2, 9):
            alone, divided = follow(path, delimiter), follow(path, delimiter)
            lines = divided.read_divided(parts, length)
            assert list(chain.from_iterable(lines)) == alone.read()
            assert len(lines) <= parts
            most = max(most, len(lines))
            divided.again()
            with path.open("ab") as file:
                file.write(b".more" + (delimiter or b"\n"))
            assert divided.read() == alone.read()
            path.write_bytes(text)
    assert most > 4


def test_what_is_left_of_a_part_goes_on_as_if_it_were_alone(path):
    """With the bytes by which its file is known, and to the end of the file."""
    path.write_bytes(b"".join(b"%d\n" % number for number in range(1000)))
    tail = follow(path)
    first, second, *_ = tail.fn.split_backlog(tail.element, tail.left, 4, None)
    assert (first.until, first.stop) == (second.start, UNBOUNDED)
    tail.left = second
    lines = tail.read()
    assert tail.left.until is None
    assert lines + tail.read() == [str(number) for number in range(int(lines[0]), 1000)]


def test_the_last_part_may_be_cut_again(path):
    """As it is when the next batch finds that there is much more."""
    path.write_bytes(b"a\n" * 20)
    tail = follow(path)
    assert list(chain.from_iterable(tail.read_divided(3, 4))) == ["a"] * 20
    path.write_bytes(b"a\n" * 60)
    assert [len(lines) for lines in tail.read_divided(3, 4)] == [3, 2, 35]


@pytest.mark.parametrize("change", ["it is short", "it was renamed", "it was written anew", "it is finite"])
def test_a_file_is_not_cut(path, change):
    """If one task reads it in a batch, or if what is unread may lie in several files."""
    path.write_bytes(b"first\n" * 20)
    tail = follow(path)
    tail.read()
    left = tail.left
    if change == "it is short":
        path.write_bytes(b"first\n" * 21)
    elif change == "it is finite":
        left = attrs.evolve(left, stop=500)
    else:
        path.rename(path.with_suffix(".1"))
    if change == "it was written anew":
        path.write_bytes(b"other\n" * 200)
    assert tail.fn.split_backlog(tail.element, left, 4, 10) == [left]


def test_a_file_that_is_cut_short_meanwhile_ends_no_stream(path):
    """A part that others follow leaves what is gone; the stream then looks at the file as it does at any other."""
    path.write_bytes(b"abc\n" * 100)
    tail = follow(path)
    first, second, third = tail.fn.split_backlog(tail.element, tail.left, 3, None)
    path.write_bytes(b"abc\n" * 40)
    tail.left = first
    assert (tail.read(), tail.left.start) == (["abc"] * 34, second.start)
    tail.left = second
    assert (tail.read(), tail.left.start) == (["abc"] * 6, 160)
    tail.left = third
    assert (tail.read(), tail.left.start) == ([], third.start)

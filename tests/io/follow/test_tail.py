"""TailLines: a growing file from byte to byte, whatever happens to it, and its parts again from what was pinned."""

import itertools
import os
import re
import shutil
import time

import attrs
import pytest
from fsspec.implementations.local import LocalFileSystem
from support.following import Following

from sdf import run_direct
from sdf.errors import InvalidValueError, ReadError, SourceChangedError, SourceError
from sdf.execution.invoker import Invoker
from sdf.io import MatchFiles, TailLines
from sdf.io.follow import clock, copies, file_states


class Tail(Following):
    """Reads a file again and again."""

    def __init__(self, path, element=None, **options):
        super().__init__(TailLines(**{"poll_seconds": 3, "rotated_seconds": 0, **options}), element or str(path))

    def read_all(self):
        """Read until nothing comes, twice in a row: a new file begins in a part of its own."""
        lines, idle = [], 0
        while idle < 2 and self.left is not None:
            more = self.read()
            idle = 0 if more else idle + 1
            lines += more
        return lines

    def has_ended(self):
        """Tell whether there is nothing more, which is a part of its own, and takes some looks."""
        looks = [self.read() for _ in range(10) if self.left is not None]
        return self.left is None and not any(looks)


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "a.log"
    path.write_bytes(b"")
    return path


def test_a_line_is_given_when_it_has_its_end(path):
    """Half a line is left for later."""
    tail = Tail(path)
    append(path, b"a\nbc")
    assert tail.read() == ["a"]
    assert tail.read() == []
    append(path, b"d\n")
    assert tail.read() == ["bcd"]
    tail.again()


@pytest.mark.parametrize("text", [b"a\nbb\r\n\n\rccc\n", "é\nö\n".encode()])
def test_however_a_file_grows_its_lines_are_the_same(tmp_path, text):
    """All ways to write it in up to three pieces."""
    whole = text.decode().replace("\r\n", "\n").split("\n")[:-1]
    for number, cuts in enumerate(itertools.combinations(range(len(text) + 1), 2)):
        path = tmp_path / str(number)
        path.write_bytes(b"")
        tail, lines = Tail(path), []
        for start, stop in itertools.pairwise((0, *cuts, len(text))):
            append(path, text[start:stop])
            lines += tail.read()
        assert lines == whole
        tail.again()


def test_where_nothing_is_new_nothing_is_claimed(path):
    """So a stream that idles writes no blocks; the rest is deferred for as long as was asked."""
    tail = Tail(path)
    attempt = Invoker(tail.fn, tail.element, tail.left)
    assert list(attempt.run()) == []
    assert (attempt.primary, attempt.residuals[0].delay_seconds) == (None, 3)


def test_a_file_that_was_rotated_is_read_to_its_end_first(path):
    """Also its last line without an end; then comes the new one of its name."""
    tail = Tail(path)
    append(path, b"1\n2")
    assert tail.read() == ["1"]
    os.rename(path, path.with_suffix(".1"))
    append(path.with_suffix(".1"), b"2\n3\n4")
    assert tail.read() == ["22", "3"]  # nothing has its name yet: the writer may still be at it
    path.write_bytes(b"new\n")
    assert tail.read_all() == ["4", "new"]
    tail.again()


def follow(path, **options):
    """Follow the file that a path names now, as `WatchFiles` gives it, and not what may come in its place."""
    return Tail(path, element=run_direct([str(path)], MatchFiles())[0], **options)


def test_a_renamed_file_is_followed_until_it_is_quiet(path):
    """A program that has not opened the new file yet writes on in the old one."""
    tail = follow(path, rotated_seconds=3600)
    append(path, b"1\nhalf")
    assert tail.read() == ["1"]
    moved = path.with_suffix(".1")
    os.rename(path, moved)
    path.write_bytes(b"new\n")
    assert (tail.read(), tail.delay_seconds) == ([], 3)
    append(moved, b" line\n2\n3")
    assert tail.read() == ["half line", "2"]
    tail.fn.rotated_seconds = 0
    assert tail.read() == ["3"]
    assert tail.has_ended()
    tail.again()


def test_a_quiet_file_that_is_renamed_is_followed_for_a_while(path):
    """That counts from when it was renamed, if it had not been written to for long: a line may be on its way."""
    append(path, b"1\n")
    os.utime(path, (1, 1))
    tail = follow(path, rotated_seconds=3600)
    assert tail.read() == ["1"]
    os.rename(path, path.with_suffix(".1"))
    assert (tail.read(), tail.delay_seconds) == ([], 3)
    append(path.with_suffix(".1"), b"2\n")
    assert tail.read() == ["2"]


@pytest.mark.parametrize("away", ["directory", "file"])
def test_a_file_that_is_away_for_a_moment_is_followed(tmp_path, away):
    """As where a volume was not mounted."""
    path = tmp_path / "logs" / "a.log"
    path.parent.mkdir()
    path.write_bytes(b"1\n")
    tail = follow(path, rotated_seconds=3600)
    assert tail.read() == ["1"]
    there = path.parent if away == "directory" else path
    os.rename(there, tmp_path / "away")
    assert [tail.read() for _ in range(5)] == [[]] * 5
    os.rename(tmp_path / "away", there)
    append(path, b"2\n")
    assert tail.read() == ["2"]
    assert tail.left.missed == 0
    tail.again()


def test_the_file_of_a_link_is_read_to_its_end_when_it_is_rotated(tmp_path):
    """It is renamed in its own directory."""
    target, link = tmp_path / "pods" / "0.log", tmp_path / "logs" / "a.log"
    target.parent.mkdir()
    link.parent.mkdir()
    target.write_bytes(b"1\n")
    link.symlink_to(target)
    tail = Tail(link)
    assert tail.read() == ["1"]
    append(target, b"2\n")
    os.rename(target, target.with_suffix(".1"))
    target.write_bytes(b"3\n")
    assert tail.read_all() == ["2", "3"]


@pytest.mark.parametrize("by", ["name", "file"])
def test_a_link_that_leads_elsewhere_now(tmp_path, by):
    """What it led to is read to its end; where the name is followed, then comes what it leads to."""
    link = tmp_path / "logs" / "a.log"
    for day in ("1", "2", "logs"):
        (tmp_path / day).mkdir()
    (tmp_path / "1" / "a.log").write_bytes(b"1\n")
    (tmp_path / "2" / "a.log").write_bytes(b"3\n")
    link.symlink_to(tmp_path / "1" / "a.log")
    tail = Tail(link) if by == "name" else follow(link)
    assert tail.read() == ["1"]
    append(tmp_path / "1" / "a.log", b"2\n")
    os.remove(link)
    link.symlink_to(tmp_path / "2" / "a.log")
    assert tail.read_all() == (["2", "3"] if by == "name" else ["2"])
    tail.again()


def drained(tail):
    """Return what is left of a stream that is drained."""
    tail.left = tail.fn.truncate(tail.element, tail.left)
    found = []
    while tail.left is not None:
        found += tail.read()
    return found


@pytest.mark.parametrize("drain", [False, True])
@pytest.mark.parametrize("times", [1, 2, 5])
def test_a_file_that_is_rotated_while_its_writer_may_still_be_at_it(path, times, drain):
    """None of those that come after it is left out, nor what comes late."""
    tail = Tail(path, rotated_seconds=3600)
    append(path, b"first\n")
    assert tail.read() == ["first"]
    for number in range(times):
        for old in range(number, 0, -1):
            os.rename(path.with_suffix(f".{old}"), path.with_suffix(f".{old + 1}"))
        os.rename(path, path.with_suffix(".1"))
        append(path, b"%d\n" % number)
        assert tail.read() == []
    append(path.with_suffix(f".{times}"), b"late\n")
    if not drain:
        assert tail.read() == ["late"]
        tail.fn.rotated_seconds = 0
    found = drained(tail) if drain else tail.read_all()
    assert found == ["late"] * drain + [str(number) for number in range(times)]
    tail.again()


def test_draining_keeps_what_came_since_the_last_look(path):
    """Though it is the second rotation."""
    tail = Tail(path, rotated_seconds=3600)
    append(path, b"1\n")
    assert tail.read() == ["1"]
    os.rename(path, path.with_suffix(".1"))
    append(path, b"2\n")
    assert tail.read() == []
    os.rename(path.with_suffix(".1"), path.with_suffix(".2"))
    os.rename(path, path.with_suffix(".1"))
    append(path, b"3\n")
    assert drained(tail) == ["2", "3"]
    tail.again()


def test_a_new_file_with_the_name_and_the_number_of_one_that_was_renamed_is_begun(path):
    """That was deleted, and its number given again."""
    append(path, b"old\n")
    tail = Tail(path)
    assert tail.read() == ["old"]
    os.rename(path, path.with_suffix(".1"))
    assert tail.read() == []
    path.with_suffix(".1").write_bytes(b"new\n")
    os.rename(path.with_suffix(".1"), path)
    assert tail.read_all() == ["new"]


@pytest.mark.parametrize("drain", [False, True])
def test_a_link_that_is_led_elsewhere_twice(tmp_path, drain):
    """While the writer of the first file may still be at it."""
    link = tmp_path / "logs" / "a.log"
    link.parent.mkdir()
    tail = None
    for day in "123":
        (tmp_path / day).mkdir()
        (tmp_path / day / "a.log").write_text(f"{day}\n")
        if tail is not None:
            os.remove(link)
        link.symlink_to(tmp_path / day / "a.log")
        tail = tail or Tail(link, rotated_seconds=3600)
        assert tail.read() == (["1"] if day == "1" else [])
    tail.fn.rotated_seconds = 3600 if drain else 0
    assert (drained(tail) if drain else tail.read_all()) == ["2", "3"]
    tail.again()


def test_a_file_that_was_renamed_and_has_its_name_again_may_be_cut_short(path):
    """As ever."""
    append(path, b"1\n22\n")
    tail = follow(path)
    assert tail.read() == ["1", "22"]
    os.rename(path, path.with_suffix(".1"))
    append(path.with_suffix(".1"), b"333\n")
    tail.fn.rotated_seconds = 3600
    assert tail.read() == ["333"]
    os.rename(path.with_suffix(".1"), path)
    assert tail.read() == []
    os.truncate(path, 0)
    append(path, b"4\n")
    assert tail.read_all() == ["4"]


def test_a_file_whose_time_is_set_ahead_is_not_quiet(path):
    """It is renamed, and still written to."""
    append(path, b"1\n")
    tail = follow(path, rotated_seconds=3600)
    assert tail.read() == ["1"]
    os.rename(path, path.with_suffix(".1"))
    for line in ("2", "3"):
        append(path.with_suffix(".1"), line.encode() + b"\n")
        os.utime(path.with_suffix(".1"), (2e10, 2e10))
        assert tail.read() == [line]


def test_a_file_with_a_time_to_come_may_have_ended(path):
    """As where a clock was set back."""
    tail = Tail(path)
    append(path, b"1\n")
    assert tail.read() == ["1"]
    os.utime(path, (2e10, 2e10))
    os.rename(path, path.with_suffix(".1"))
    append(path, b"2\n")
    assert tail.read_all() == ["2"]


def test_draining_says_what_may_be_lost(path, caplog):
    """The file is not there, just then."""
    tail = follow(path)
    append(path, b"1\n")
    assert tail.read() == ["1"]
    (path.parent / "far" / "away").mkdir(parents=True)
    os.rename(path, path.parent / "far" / "away" / "a.log")
    assert tail.fn.truncate(tail.element, tail.left) is None
    assert "has gone; if there was more than was read, that is lost" in caplog.text


@pytest.mark.parametrize("folder", ["sub", "sub/sub"])
def test_a_directory_that_has_become_a_file_is_no_error(tmp_path, folder):
    """Its files have gone."""
    path = tmp_path / folder / "a.log"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"1\n")
    tail = follow(path)
    assert tail.read() == ["1"]
    shutil.rmtree(tmp_path / "sub")
    (tmp_path / "sub").write_text("a file")
    assert tail.has_ended()


def test_a_file_that_has_gone_is_no_more_followed(path, caplog):
    """That more of it may have been lost is said; another of its name is another element."""
    tail = follow(path)
    append(path, b"1\n")
    tail.read()
    path.with_suffix(".new").write_bytes(b"2\n")
    os.replace(path.with_suffix(".new"), path)
    assert tail.has_ended()
    assert "has gone after byte 2; if there was more, that is lost" in caplog.text


def test_a_directory_that_has_gone_is_no_error(tmp_path):
    """Its files have gone with it."""
    path = tmp_path / "sub" / "a.log"
    path.parent.mkdir()
    path.write_bytes(b"1\n")
    tail = follow(path)
    assert tail.read() == ["1"]
    shutil.rmtree(path.parent)
    assert tail.has_ended()


def test_another_file_with_its_number_is_not_taken_for_it(path, monkeypatch):
    """File systems give the number of a file that has gone to the next one."""
    tail = follow(path)
    append(path, b"1\n2\n")
    tail.read()
    os.remove(path)
    other = path.with_name("other.log")
    other.write_bytes(b"x\ny\nz\n")
    tail.left = attrs.evolve(tail.left, file=attrs.evolve(tail.left.file, version=str(other.stat().st_ino)))
    assert tail.has_ended()


def test_another_file_with_its_first_name_and_its_number_is_not_taken_for_it(path):
    """It was renamed, which was seen, so what has its name is no more it, cut short."""
    tail = follow(path, rotated_seconds=3600)
    append(path, b"1\n2\n")
    tail.read()
    moved = path.with_suffix(".1")
    os.rename(path, moved)
    assert (tail.read(), tail.delay_seconds, tail.read()) == ([], 3, [])
    assert len(tail.pins) == 2
    os.rename(moved, path)
    path.write_bytes(b"3\n")  # the test's way to a file system that gives its number again
    assert [tail.read() for _ in range(3)] == [[]] * 3
    tail.fn.rotated_seconds = 0
    assert tail.has_ended()


def test_a_file_that_was_cut_short_and_begins_as_before_is_begun_anew(path):
    """Where all files begin with one long header, what was read last tells."""
    header = b"#" * 100 + b"\n"
    tail = follow(path)
    append(path, header + b"1\n2\n")
    assert len(tail.read()) == 3
    path.write_bytes(header + b"3\n4\n5\n")
    assert tail.read_all() == [header.decode().strip(), "3", "4", "5"]


def test_a_long_line_takes_no_more_memory_than_it_needs(path, monkeypatch):
    """Not all the rest of the file."""
    monkeypatch.setattr("sdf.io.follow.tail._PIECE_BYTES", 64)
    append(path, b"x" * 100 + b"\n" + b"y\n" * 10_000)
    tail, most, read = Tail(path), [], copies.read_bytes

    def noted(path, start, stop):
        most.append(stop - start)
        return read(path, start, stop)

    monkeypatch.setattr("sdf.io.follow.tail.read_bytes", noted)
    assert len(tail.read()) == 10_001
    assert max(most) <= 256


def test_a_file_that_was_replaced_and_has_gone_is_begun_anew(path):
    """Its rest is lost, which is said in the log."""
    tail = Tail(path)
    append(path, b"1\n2\n")
    tail.read()
    path.with_suffix(".new").write_bytes(b"3\n")
    os.replace(path.with_suffix(".new"), path)
    assert tail.read_all() == ["3"]


def test_a_file_that_was_cut_short_is_begun_anew(path):
    """As by copytruncate."""
    tail = Tail(path)
    append(path, b"1\n2\n")
    tail.read()
    path.write_bytes(b"3\n")
    assert tail.read_all() == ["3"]
    append(path, b"4\n")
    assert tail.read() == ["4"]


def test_a_file_that_was_cut_short_and_has_grown_beyond_is_begun_anew(path):
    """It is known by its first bytes."""
    tail = Tail(path)
    append(path, b"1\n2\n")
    tail.read()
    path.write_bytes(b"3\n4\n5\n6\n")
    assert tail.read_all() == ["3", "4", "5", "6"]


def test_a_file_that_has_gone_is_waited_for(path):
    """Until one has its name again."""
    tail = Tail(path)
    append(path, b"1\n")
    tail.read()
    os.remove(path)
    assert (tail.read(), tail.read()) == ([], [])
    path.write_bytes(b"2\n")
    assert tail.read_all() == ["2"]


def test_a_file_that_cannot_be_reached_has_not_gone(path, monkeypatch):
    """It is an error, and not the end of the file."""
    tail = Tail(path)
    append(path, b"1\n")
    tail.read()

    def refuse(path, inner):
        raise PermissionError("not for you")

    monkeypatch.setattr("sdf.io.files.pinned._regular", refuse)
    with pytest.raises(SourceError, match=r"TailLines cannot reach .*: PermissionError: not for you"):
        tail.read()


def test_a_pinned_part_that_has_gone_cannot_be_given_again(path):
    """An error, rather than the bytes of another file."""
    tail = Tail(path)
    append(path, b"1\n2\n")
    tail.read()
    os.remove(path)
    path.write_bytes(b"3\n4\n5\n")
    (pinned, _) = tail.pins[0]
    with pytest.raises(SourceChangedError, match="bytes up to 4 were planned to be read, but only 0 of that file"):
        list(Invoker(tail.fn, tail.element, pinned).run())


def test_a_pinned_part_may_be_gone(path, caplog):
    """If that is no error, it gives nothing, and counts as read."""
    tail = Tail(path, fail_on_data_loss=False)
    append(path, b"1\n2\n")
    tail.read()
    (pinned, _) = tail.pins[0]
    for take_away in (lambda: os.truncate(path, 2), lambda: os.remove(path)):
        take_away()
        attempt = Invoker(tail.fn, tail.element, pinned)
        assert (list(attempt.run()), attempt.residuals) == ([], [])
    assert "bytes up to 4 were planned to be read, but only 0 of that file are there" in caplog.text


@pytest.mark.parametrize("by", ["name", "file"])
def test_a_file_that_is_restored_from_a_backup_is_read_again(path, by):
    """It has another inode number, and the same bytes; where its name is followed, also what comes later."""
    tail = Tail(path) if by == "name" else follow(path)
    append(path, b"1\n2\n")
    assert tail.read() == ["1", "2"]
    append(path, b"3\n")
    assert tail.read() == ["3"]
    shutil.copy(path, path.with_name("backup"))
    os.remove(path)
    os.link(path.with_name("backup"), path)
    os.rename(path.with_name("backup"), path.parent / "elsewhere")
    assert str(path.stat().st_ino) != tail.left.file.version
    tail.again()
    append(path, b"4\n")
    if by == "name":
        assert tail.read() == ["4"]
        assert tail.left.file.version == str(path.stat().st_ino)


def test_what_has_other_bytes_is_not_taken_for_a_backup(path):
    """Neither at the start, nor before where reading goes on."""
    tail = Tail(path)
    append(path, b"1\n" + b"2\n" * 100)
    tail.read()
    for text in (b"x\n" + b"2\n" * 100, b"1\n" + b"2\n" * 99 + b"3\n", b"1\n2\n"):
        path.with_suffix(".new").write_bytes(text)
        os.replace(path.with_suffix(".new"), path)
        with pytest.raises(SourceChangedError, match="only 0 of that file"):
            tail.again()


def test_what_may_be_lost_is_in_the_part_that_ends(path):
    """So the journal has it."""
    tail = follow(path)
    append(path, b"1\n")
    tail.read()
    os.remove(path)
    assert tail.has_ended()
    assert [pin.lost for pin, _ in tail.pins if pin.lost] == [
        f"{path} has gone after byte 2; if there was more, that is lost"
    ]


def test_bytes_that_go_before_a_drain_reads_them_are_lost(path):
    """If that is no error, the part says so, and is the same when it comes again."""
    tail = Tail(path, fail_on_data_loss=False)
    append(path, b"1\n2\n")
    tail.left = tail.fn.truncate(tail.element, tail.left)
    os.truncate(path, 2)
    assert tail.read() == ["1"]
    assert [pin.lost for pin, _ in tail.pins] == [f"{path}: bytes 2 to 4 have gone"]
    tail.again()


def test_draining_gives_the_last_line_without_an_end(path):
    """What is there now is all that will be read."""
    tail = Tail(path)
    append(path, b"1\n2")
    tail.read()
    tail.left = tail.fn.truncate(tail.element, tail.left)
    assert (tail.read(), tail.left) == (["2"], None)


def test_a_file_that_is_renamed_while_it_is_read_is_read_on(path, monkeypatch):
    """What has its name by then is as long, and comes after it."""
    monkeypatch.setattr("sdf.io.follow.tail._PIECE_BYTES", 4)
    append(path, b"".join(b"a%d\n" % number for number in range(9)))
    tail = Tail(path)
    attempt = Invoker(tail.fn, tail.element, tail.left)
    lines = []
    for line in attempt.run():
        if not lines:
            os.rename(path, path.with_suffix(".1"))
            append(path, b"".join(b"b%d\n" % number for number in range(9)))
        lines.append(line)
    tail.left = attempt.residuals[0].restriction
    assert [*lines, *tail.read_all()] == [f"{name}{number}" for name in "ab" for number in range(9)]


def test_a_file_that_is_renamed_while_it_is_looked_for_has_not_gone(path, monkeypatch):
    """It is looked for again."""
    tail = follow(path)
    append(path, b"1\n")
    tail.read()
    os.rename(path, path.with_suffix(".1"))
    append(path.with_suffix(".1"), b"2\n")
    listed, names = LocalFileSystem.ls, [path.with_suffix(".1"), path.with_suffix(".2")]

    def rename_and_list(self, *args, **kwargs):
        found = listed(self, *args, **kwargs)
        if len(names) == 2:
            os.rename(names.pop(0), names[0])
        return found

    monkeypatch.setattr(LocalFileSystem, "ls", rename_and_list)
    assert tail.read() == ["2"]
    assert names == [path.with_suffix(".2")]


def test_a_file_that_is_renamed_into_a_directory_below_is_read_on(path):
    """As into one for old files."""
    tail = follow(path, rotated_seconds=3600)
    append(path, b"1\n")
    tail.read()
    append(path, b"2\n")
    (path.parent / "old").mkdir()
    os.rename(path, path.parent / "old" / "a.log")
    assert tail.read() == ["2"]


def test_a_part_in_which_there_is_nothing_comes_again(path):
    """Its file was cut short, which was noticed, and it has no byte to look at."""
    tail = Tail(path)
    append(path, b"1\n2\n")
    tail.read()
    path.write_bytes(b"")
    assert (tail.read(), len(tail.pins)) == ([], 2)
    attempt = Invoker(tail.fn, tail.element, tail.pins[1][0])
    assert (list(attempt.run()), attempt.residuals) == ([], [])


def test_that_a_file_has_ended_is_pinned(path):
    """Though more was written to it since."""
    tail = follow(path)
    append(path, b"1\n")
    tail.read()
    moved = path.with_suffix(".1")
    os.rename(path, moved)
    assert tail.has_ended()
    append(moved, b"2\n")
    assert all(tail.fn.create_tracker(tail.element, pinned).is_bounded() for pinned, _ in tail.pins)
    tail.again()


def cut_short(path):
    path.write_bytes(b"new\nl")


def replace(path):
    os.remove(path)
    path.write_bytes(b"new\nl")


def rotate(path):
    os.rename(path, path.with_suffix(".1"))
    append(path.with_suffix(".1"), b"old\n")
    path.write_bytes(b"new\nl")


@pytest.mark.parametrize(
    ("change", "lines"), [(cut_short, ["new", "l"]), (replace, ["new", "l"]), (rotate, ["old", "new", "l"])]
)
def test_draining_gives_what_is_there_in_the_next_file(path, change, lines):
    """And what was left in the one before, if that is still there; nothing that comes later."""
    tail = Tail(path, rotated_seconds=3600)
    append(path, b"1\n")
    tail.read()
    tail.pins = []  # some changes take away what was read
    change(path)
    tail.left = tail.fn.truncate(tail.element, tail.left)
    assert tail.fn.truncate(tail.element, tail.left) == tail.left
    append(path, b"later\n")
    found = []
    while tail.left is not None:
        assert tail.fn.create_tracker(tail.element, tail.left).is_bounded()
        found += tail.read()
    assert found == lines
    tail.again()


def test_draining_a_file_that_was_read_leaves_nothing(path):
    """Also where it was cut short since, and is empty."""
    tail = Tail(path)
    append(path, b"1\n")
    tail.read()
    assert tail.fn.truncate(tail.element, tail.left) is None
    path.write_bytes(b"")
    assert tail.fn.truncate(tail.element, tail.left) is None


@pytest.mark.parametrize("kept", [2, 5])
def test_it_can_be_stopped_between_pieces(path, monkeypatch, kept):
    """A runner whose time is up gets the rest back."""
    monkeypatch.setattr("sdf.io.follow.tail._PIECE_BYTES", 4)
    append(path, b"".join(b"%d\n" % number for number in range(10)))
    tail = Tail(path)
    attempt = Invoker(tail.fn, tail.element, tail.left)
    outputs, lines = attempt.run(), []
    for line in outputs:
        lines.append(line)
        if len(lines) == kept:
            assert attempt.split(0) is not None
    tail.left = attempt.residuals[0].restriction
    assert len(lines) < 10
    assert [*lines, *tail.read()] == [str(number) for number in range(10)]


def test_long_lines(path, monkeypatch):
    """Longer than a piece; and longer than is allowed."""
    monkeypatch.setattr("sdf.io.follow.tail._PIECE_BYTES", 4)
    append(path, b"x" * 50 + b"\ny\n")
    assert Tail(path).read() == ["x" * 50, "y"]
    append(path, b"z" * 50)
    with pytest.raises(ReadError, match="a line has more than 20 bytes"):
        Tail(path, max_record_bytes=20).read()


def test_offsets_are_those_in_the_file(path):
    """Also after it was replaced."""
    tail = Tail(path, with_position=True)
    append(path, b"1\n22\n")
    assert tail.read() == [((str(path), 0), "1"), ((str(path), 2), "22")]
    path.write_bytes(b"3\n")
    assert tail.read_all() == [((str(path), 0), "3")]


def test_wrong_options_are_named():
    """When the DoFn is made."""
    with pytest.raises(InvalidValueError, match=re.escape("poll_seconds must be a number >= 0 (got -1)")):
        TailLines(poll_seconds=-1)


def test_a_compressed_file_is_refused_by_its_name(tmp_path):
    """When its work is asked for, whatever its bytes would be as text; not where they are wanted as they are."""
    path = tmp_path / "a.log.gz"
    path.write_bytes(b"1\n")
    with pytest.raises(InvalidValueError, match=r"TailLines cannot follow a gzip file \(got '.*a.log.gz'\)"):
        TailLines(encoding=None).get_initial_restriction(str(path))
    assert Tail(path, compression=None).read() == ["1"]


@pytest.mark.parametrize("step", [-(10**8), -3600, 3600, 10**8])
@pytest.mark.parametrize("when", ["renamed, then set", "set, then renamed"])
def test_a_renamed_file_is_followed_however_the_clock_is_set(path, monkeypatch, when, step):
    """Its writer may still be at it; its times are by the clock of the machine, which says another time then."""
    seconds = {"passed": 0.0, "set": 0.0}
    zero = time.time()
    monkeypatch.setattr(clock, "_ZERO", zero)
    monkeypatch.setattr(clock.time, "monotonic", lambda: seconds["passed"])
    monkeypatch.setattr(clock.time, "time", lambda: zero + seconds["passed"] + seconds["set"])
    monkeypatch.setattr(file_states, "_touched", lambda opened, there: touched[0])
    append(path, b"1\n")
    tail = Tail(path, rotated_seconds=8)
    assert tail.read() == ["1"]
    seconds["set"] = step if when == "set, then renamed" else 0.0
    touched = [clock.time.time()]
    os.rename(path, path.with_suffix(".1"))
    append(path, b"3\n")
    assert tail.read() == []
    seconds["set"] = step
    for _ in range(7):
        seconds["passed"] += 1
        assert tail.read() == []
    append(path.with_suffix(".1"), b"2\n")
    touched = [clock.time.time()]
    assert tail.read() == ["2"]
    found = []
    for _ in range(10):
        seconds["passed"] += 1
        found += tail.read()
    assert found == ["3"]


def test_a_file_whose_time_is_yet_to_come_ends_as_soon_as_another(path, monkeypatch):
    """As where its host has another clock, or this process began after the clock was set back."""
    passed = [0.0]
    monkeypatch.setattr(file_states.time, "time", lambda: 1e9 + passed[0])
    monkeypatch.setattr(file_states, "_touched", lambda opened, there: touched[0])
    append(path, b"1\n")
    tail, touched = Tail(path, rotated_seconds=8), [1e11]
    assert tail.read() == ["1"]
    os.rename(path, path.with_suffix(".1"))
    append(path, b"3\n")
    for _ in range(6):
        assert tail.read() == []
        passed[0] += 1
    append(path.with_suffix(".1"), b"2\n")
    touched = [1e11 + 6]
    assert tail.read() == ["2"]
    found = []
    for _ in range(9):
        passed[0] += 1
        found.append(tail.read())
    assert found == [[]] * 7 + [["3"], []]

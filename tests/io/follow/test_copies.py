"""Followed files that are compressed, or copied and cut short, by rotation: what was not read yet is in the copy."""

import bz2
import gzip
import itertools
import os
import shutil

import pytest
from support.following import Following

from sdf.errors import InvalidValueError, SourceChangedError
from sdf.execution.invoker import Invoker
from sdf.io import TailLines, WatchFiles
from sdf.io.follow import copies
from sdf.io.follow.generation import generation


def zstd(data):
    return pytest.importorskip("zstandard").ZstdCompressor().compress(data)


PACKED = {".gz": gzip.compress, ".bz2": bz2.compress, ".zst": zstd}
suffixes = pytest.mark.parametrize("suffix", PACKED)


class Stream:
    """A directory that is watched, and the files in it that are followed, look by look."""

    def __init__(self, folder, rotated_seconds=0, **options):
        self.watch = Following(WatchFiles(**{"modified": "ignore", "interval_seconds": 0, **options}), str(folder))
        self.rotated_seconds, self.tails = rotated_seconds, []

    def scan(self):
        found = self.watch.read()
        self.tails += [Following(TailLines(rotated_seconds=self.rotated_seconds), file) for file in found]
        return [os.path.basename(file.path) for file in found]

    def look(self):
        return [line for tail in self.tails if tail.left is not None for line in tail.read()]

    def all(self):
        """Scan and look until nothing can come any more."""
        return [line for _ in range(12) for line in (*(self.scan() and ()), *self.look())]

    def again(self):
        for tail in self.tails:
            tail.again()


@pytest.fixture
def path(tmp_path):
    (tmp_path / "app.log").write_bytes(b"1\n2\n")
    return tmp_path / "app.log"


def append(path, data):
    with open(path, "ab") as file:
        file.write(data)


def compress(path, suffix, to=None):
    """As rotation does: the original goes when its copy is complete."""
    packed = to or path.with_name(path.name + suffix)
    packed.write_bytes(PACKED[suffix](path.read_bytes()))
    os.remove(path)


@suffixes
def test_what_was_not_read_is_read_from_the_compressed_file(path, suffix):
    """And nothing of it twice; the parts that were read before come again from it, too."""
    stream = Stream(path.parent)
    assert stream.all() == ["1", "2"]
    append(path, b"3\n4")
    os.rename(path, path.with_name("app.log.1"))
    compress(path.with_name("app.log.1"), suffix)
    path.write_bytes(b"new\n")
    assert sorted(stream.all()) == ["3", "4", "new"]
    stream.again()


@pytest.mark.parametrize("name", ["app.log-20261125.gz", "old/app.log.7.gz", "app-2026.log.gz"])
def test_the_compressed_file_may_have_names_that_rotation_gives(path, name):
    """In the directory, or right below."""
    stream = Stream(path.parent, recursive=False)
    assert stream.all() == ["1", "2"]
    append(path, b"3\n")
    (path.parent / "old").mkdir()
    compress(path, ".gz", path.parent / name)
    assert stream.all() == ["3"]


def test_what_was_not_begun_is_read_from_the_compressed_file(path):
    """It is known by its first bytes, which the scan has seen."""
    stream = Stream(path.parent)
    assert stream.scan() == ["app.log"]
    compress(path, ".gz")
    assert stream.all() == ["1", "2"]


def test_another_compressed_file_is_not_taken_for_it(path):
    """Nor is one that begins as it did, and goes on otherwise; both are files of their own."""
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    os.remove(path)
    (path.parent / "app.log.1.gz").write_bytes(gzip.compress(b"1\n3\n4\n"))
    (path.parent / "other.log.1.gz").write_bytes(gzip.compress(b"1\n2\n3\n"))
    assert stream.all() == []


def test_an_older_file_is_no_copy(path):
    """A copy has the time of the file, or is later."""
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    os.remove(path)
    (path.parent / "app.log.9").write_bytes(b"1\n2\n3\n")
    os.utime(path.parent / "app.log.9", (1e9, 1e9))
    assert stream.all() == []


@pytest.mark.parametrize("step", [-(10**9), -3600, 3600, 10**9])
def test_a_copy_is_found_though_the_clock_was_set_since_the_file_was_found(path, step):
    """It is older than the file was then, if the clock was set back."""
    os.utime(path, (1.5e9, 1.5e9))
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    append(path, b"3\n")
    os.utime(path, (1.5e9 + step, 1.5e9 + step))
    assert stream.all() == ["3"]
    append(path, b"4\n")
    compress(path, ".gz")
    os.utime(path.with_name("app.log.gz"), (1.5e9 + step + 1, 1.5e9 + step + 1))
    assert stream.all() == ["4"]
    stream.again()


@suffixes
def test_a_compressed_file_that_nobody_has_followed_is_read_once(path, suffix):
    """As what it is; also under its next name."""
    (path.parent / f"app.log.1{suffix}").write_bytes(PACKED[suffix](b"-1\n0"))
    stream = Stream(path.parent)
    assert sorted(stream.all()) == ["-1", "0", "1", "2"]
    os.rename(path.parent / f"app.log.1{suffix}", path.parent / f"app.log.2{suffix}")
    assert stream.all() == []
    stream.again()


@suffixes
def test_a_compressed_file_is_waited_for_until_it_is_complete(path, suffix):
    """Whether it has shown its first bytes yet or not."""
    data = PACKED[suffix](os.urandom(1_000_000).hex().encode() + b"\nlast\n")
    stream = Stream(path.parent, rotated_seconds=3600, interval_seconds=3600)
    stream.all()
    packed = path.parent / f"big.log{suffix}"
    for size in (0, 5, 700_000):
        packed.write_bytes(data[:size])
        assert (stream.scan(), stream.look()) == ([packed.name] if size == 700_000 else [], [])
    packed.write_bytes(data)
    assert stream.look()[1:] == ["last"]


def test_a_damaged_file_is_left_out_with_a_warning(path, caplog):
    """The others are followed on."""
    (path.parent / "bad.gz").write_bytes(b"this is no gzip")
    (path.parent / "cut.gz").write_bytes(gzip.compress(os.urandom(100_000))[:-9])
    stream = Stream(path.parent)
    assert stream.all() == ["1", "2"]
    append(path, b"3\n")
    assert stream.all() == ["3"]
    assert [tail.left for tail in stream.tails[1:]] == [None, None]
    assert [record.message.partition(" is left out")[0] for record in caplog.records] == [
        str(path.parent / "bad.gz"), str(path.parent / "cut.gz"),
    ]  # fmt: skip


def test_what_was_not_read_of_a_file_that_was_cut_short_is_read_from_its_copy(path):
    """As copytruncate makes it; the pattern leaves copies out."""
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    append(path, b"3\n4\n")
    shutil.copy(path, path.with_name("app.log.1"))
    os.truncate(path, 0)
    append(path, b"5\n")
    assert stream.all() == ["3", "4", "5"]
    assert len(stream.tails) == 1
    append(path, b"6\n")
    assert stream.all() == ["6"]


@pytest.mark.parametrize("drains", [False, True])
def test_a_copy_is_read_on_after_a_batch_that_ended_in_it(path, monkeypatch, drains):
    """And then the new content of the file, once."""
    monkeypatch.setattr("sdf.io.follow.tail._PIECE_BYTES", 4)
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    append(path, b"3\n4\n5\n6\n")
    shutil.copy(path, path.with_name("app.log.1"))
    path.write_bytes(b"new\n")
    (tail,) = stream.tails
    attempt, lines = tail.attempt(), []
    for line in attempt.run():
        lines.append(line)
        attempt.split(0)
    assert lines == ["3", "4"]
    tail.left = attempt.residuals[0].restriction
    if drains:
        tail.left = tail.fn.truncate(tail.element, tail.left)
    assert stream.all() == ["5", "6", "new"]


@pytest.mark.parametrize("step", ["renamed", "compressed"])
def test_a_copy_is_found_although_rotation_goes_on_with_it(path, monkeypatch, step):
    """It gets another name, or is compressed, after its directory was listed and before it is opened."""
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    append(path, b"3\n")
    copy, packed, steps, original = path.with_name("app.log.1"), path.with_name("app.log.1.gz"), [], copies.listed
    shutil.copy(path, copy)
    os.truncate(path, 0)
    if step == "compressed":
        packed.write_bytes(gzip.compress(copy.read_bytes())[:-9])  # not complete yet

    def listed(*args):
        for entry in sorted(original(*args), key=lambda entry: entry["name"], reverse=True):
            if entry["name"] == str(copy):
                steps.append(step)
                compress(copy, ".gz") if step == "compressed" else os.rename(copy, path.with_name("app.log.2"))
            yield entry

    monkeypatch.setattr(copies, "listed", listed)
    assert stream.all() == ["3"]
    assert steps == [step]


@pytest.mark.parametrize("reverse", [False, True])
def test_of_two_copies_the_longer_one_is_read(path, monkeypatch, reverse):
    """Somebody had copied the file before it was rotated. In which order a directory lists them does not matter."""
    listed = copies.listed

    def in_order(*args):
        return sorted(listed(*args), key=lambda entry: entry["name"], reverse=reverse)

    monkeypatch.setattr(copies, "listed", in_order)
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    append(path, b"3\n")
    shutil.copy(path, path.with_name("app.log.saved"))
    append(path, b"4\n")
    compress(path, ".gz", path.with_name("app.log.1.gz"))
    assert stream.all() == ["3", "4"]
    stream.again()


@pytest.mark.parametrize("fails", [False, True])
def test_a_part_of_which_the_copy_has_less_comes_again_as_far_as_it_is_there(path, fails):
    """Its last line was written, and read, after copytruncate made its copy and before it cut the file short."""
    first = "1" * 100
    path.write_text(f"{first}\n2\n")
    tail = Following(TailLines(fail_on_data_loss=fails), str(path))
    shutil.copy(path, path.with_name("app.log.1"))
    append(path, b"3\n")
    assert tail.read() == [first, "2", "3"]
    os.truncate(path, 0)
    ((part, _),) = tail.pins
    again = Invoker(tail.fn, tail.element, part).run()
    if fails:
        with pytest.raises(SourceChangedError, match="up to 105 were planned to be read, but only 103 of that file"):
            list(again)
    else:
        assert list(again) == [first, "2"]


def test_a_file_that_is_followed_by_its_name_goes_on_after_its_copy(path):
    """With the file that has the name now."""
    tail = Following(TailLines(rotated_seconds=0), str(path))
    assert tail.read() == ["1", "2"]
    append(path, b"3\n")
    compress(path, ".gz")
    assert tail.read() == ["3"]
    path.write_bytes(b"4\n")
    assert [line for _ in range(4) for line in tail.read()] == ["4"]


def test_a_file_that_is_cut_short_and_stays_empty_is_known(path):
    """However many scans see it so."""
    stream = Stream(path.parent)
    assert stream.all() == ["1", "2"]
    os.truncate(path, 0)
    assert stream.all() == []
    append(path, b"3\n")
    assert stream.all() == ["3"]


def test_an_empty_file_is_given_with_its_first_byte(path):
    """So it is known by that, whatever becomes of it before the next scan."""
    path.write_bytes(b"")
    stream = Stream(path.parent)
    assert stream.scan() == []
    append(path, b"1\n")
    assert stream.scan() == ["app.log"]
    append(path, b"2\n")
    os.rename(path, path.with_suffix(".1"))
    assert stream.all() == ["1", "2"]
    assert len(stream.tails) == 1


def test_a_new_file_with_the_number_of_a_compressed_one_is_given(path):
    """File systems give the number again; its generation, where they have one, tells that it is another file."""
    stream = Stream(path.parent)
    assert stream.all() == ["1", "2"]
    for number in range(3, 12):
        compress(path, ".gz", path.with_name(f"app.log.{number}.gz"))
        path.write_bytes(b"%d\n" % number)
        with open(path) as opened:
            if not generation(opened):
                pytest.skip("this file system has no generations")
        assert stream.all() == [str(number)]


def test_files_that_grow_are_not_compressed(path):
    """So that cannot be asked for."""
    with pytest.raises(InvalidValueError, match="TailLines compression must be 'infer' or None"):
        TailLines(compression="gzip")


@pytest.mark.parametrize("options", [{"with_block_id": True}, {"block_size": 1024}, {"index_dir": "indices"}])
def test_options_of_files_that_do_not_grow_are_refused(options):
    """Not left without use in silence."""
    with pytest.raises(InvalidValueError, match=f"TailLines has no {next(iter(options))}: a file that grows has no"):
        TailLines(**options)


def rotate(path, how, suffix):
    """Rotate a log as logrotate names old logs: by numbers that are shifted, or by dates. It keeps their times."""
    written = os.stat(path).st_mtime_ns
    if how == "date":
        to = path.with_name(f"{path.name}-2026112{len(list(path.parent.iterdir()))}")
    else:
        for old in range(8, 0, -1):
            for end in ("", ".gz"):
                there = path.with_name(f"{path.name}.{old}{end}")
                if there.exists():
                    os.rename(there, path.with_name(f"{path.name}.{old + 1}{end}"))
        to = path.with_name(f"{path.name}.1")
    if how == "copied":
        shutil.copy(path, to)
        os.truncate(path, 0)
    else:
        os.rename(path, to)
    if suffix:
        compress(to, suffix)
    os.utime(f"{to}{suffix}", ns=(written, written))


@pytest.mark.parametrize("drains", [False, True])
@pytest.mark.parametrize("times", [1, 2, 4])
@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("how", ["number", "date", "copied"])
def test_each_line_is_given_once_however_often_a_name_is_rotated_between_two_looks(path, how, suffix, times, drains):
    """What was read before the stream came to this file is not read again, nor is a file with another name."""
    seconds = itertools.count(1_000_000_000)

    def write(text):
        path.write_text(text)
        os.utime(path, (next(seconds),) * 2)

    write("old\n")
    rotate(path, how, suffix)
    write("a\n")
    path.with_name("app.log.wf1").write_bytes(b"wrong\n")
    tail = Following(TailLines(rotated_seconds=0), str(path))
    assert tail.read() == ["a"]
    write("a\nb\n")
    for number in range(times):
        rotate(path, how, suffix)
        write(f"{number}\n")
    if drains:
        tail.left = tail.fn.truncate(tail.element, tail.left)
    lines = []
    for _ in range(20):
        lines += tail.read() if tail.left is not None else []
    assert lines == ["b", *map(str, range(times))]
    tail.again()


def taking(number, folder):
    """Return a new file that has a free inode number, and files that have those which would be given before it."""
    made = [folder / f"made-{other}" for other in range(64)]
    for other in made:
        other.touch()
        if os.stat(other).st_ino == number:
            return other, made[: made.index(other)]
    pytest.skip("this file system, or another process, has taken the number")


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("whose", ["present", "before"])
def test_a_rotated_file_with_the_number_of_one_that_was_read_and_has_gone_is_given(path, whose, suffix):
    """File systems give numbers again: to the next file with the name, or to the copy of such a file."""
    seconds = itertools.count(1_000_000_000)

    def write(text):
        path.write_text(text)
        os.utime(path, (next(seconds),) * 2)

    tail = Following(TailLines(rotated_seconds=0), str(path))
    assert tail.read() == ["1", "2"]
    numbers = {"before": os.stat(path).st_ino}
    rotate(path, "number", "")
    write("a\n")
    assert [line for _ in range(3) for line in tail.read()] == ["a"]
    assert tail.left.before == str(numbers["before"])
    numbers["present"] = os.stat(path).st_ino
    rotate(path, "number", ".gz" if suffix or whose == "present" else "")
    if whose == "before":
        os.remove(path.with_name("app.log.2"))
    taken, others = taking(numbers[whose], path.parent)
    if suffix:
        write("0\n")
        os.remove(taken)
        rotate(path, "number", suffix)
    else:
        os.remove(taken)
        write("0\n")
        rotate(path, "number", "")
    (rotated,) = path.parent.glob(f"app.log.1{suffix}")
    for other in others:
        os.remove(other)
    if os.stat(rotated).st_ino != numbers[whose]:
        pytest.skip("this file system, or another process, has taken the number")
    write("1\n")
    assert [line for _ in range(5) for line in tail.read()] == ["0", "1"]
    del tail.pins[: whose == "before"]  # of that file nothing is left
    tail.again()


def test_a_compressed_file_with_the_number_of_an_empty_one_that_has_gone_is_not_read_as_it(path, caplog):
    """Its bytes are no lines. Nothing is known of the one that has gone."""
    path.write_bytes(b"")
    tail = Following(TailLines(rotated_seconds=0), str(path))
    assert tail.read() == []
    number = os.stat(path).st_ino
    rotate(path, "number", ".gz")
    taken, others = taking(number, path.parent)
    path.write_bytes(b"0\n")
    os.remove(taken)
    rotate(path, "number", ".gz")
    for other in others:
        os.remove(other)
    if os.stat(path.with_name("app.log.1.gz")).st_ino != number:
        pytest.skip("this file system, or another process, has taken the number")
    path.write_bytes(b"1\n")
    assert [line for _ in range(5) for line in tail.read()] == ["1"]
    assert "has gone after byte 0; if there was more, that is lost" in caplog.text
    tail.again()


def test_a_file_that_was_read_before_is_not_read_again_though_its_writer_goes_on(path):
    """It was written later than the file that came after it."""
    tail = Following(TailLines(rotated_seconds=0), str(path))
    assert tail.read() == ["1", "2"]
    os.rename(path, path.with_name("app.log.1"))
    path.write_bytes(b"")
    assert [tail.read() for _ in range(3)] == [[]] * 3
    append(path.with_name("app.log.1"), b"late\n")
    os.utime(path.with_name("app.log.1"), (2e10, 2e10))
    os.rename(path.with_name("app.log.1"), path.with_name("app.log.2"))
    os.rename(path, path.with_name("app.log.1"))
    path.write_bytes(b"3\n")
    assert [line for _ in range(4) for line in tail.read()] == ["3"]


def test_a_watched_file_that_was_copied_and_cut_short_twice_may_have_lost_lines(path, caplog):
    """Only the watch knows whether it gives the copies."""
    stream = Stream(path.parent, regex=r"app\.log")
    assert stream.all() == ["1", "2"]
    for text in ("33\n", "new\n"):
        rotate(path, "copied", "")
        append(path, text.encode())
    assert stream.all() == ["new"]
    assert "was copied and cut short more than once after byte 4; if there was more, that is lost" in caplog.text

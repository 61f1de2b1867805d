"""Files as readers see them: what pins one, what is noticed when it changes, which elements name one."""

import io
import itertools
import os
import pathlib
import pickle
import re
import shutil
import socket
from datetime import datetime, timezone

import attrs
import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem
from support.integers import KINDS

from sdf import run_direct
from sdf.errors import (
    InvalidTypeError,
    InvalidValueError,
    ProcessError,
    SourceChangedError,
    SourceError,
)
from sdf.io import FileBlock, FileBlocks, FileInfo, MatchFiles, ReadLines
from sdf.io.files.file_fn import FileFn, FileRange
from sdf.io.files.pinned import PinnedFile, as_file_info, look_up, open_file
from sdf.testing import check_dofn

LINES = [f"line {number:06}" for number in range(20_000)]
DATA = "\n".join(LINES).encode()


@pytest.fixture
def path(tmp_path):
    """A file of some hundred kilobytes, longer than any buffer."""
    path = tmp_path / "file.txt"
    path.write_bytes(DATA)
    return str(path)


def pinned(path):
    return run_direct([path], MatchFiles())[0]


def rewrite(path):
    """Write other bytes of the same number into a file, at another time."""
    before = os.stat(path)
    with open(path, "r+b") as file:
        file.write(b"X" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1_000_000))


def replace(path):
    """Put another file of the same size and time in its place."""
    before = os.stat(path)
    pathlib.Path(path + ".new").write_bytes(b"X" * before.st_size)
    os.utime(path + ".new", ns=(before.st_atime_ns, before.st_mtime_ns))
    os.replace(path + ".new", path)


def append(path):
    with open(path, "ab") as file:
        file.write(b" and more\nand more\n")


CHANGES = [
    (os.unlink, "has gone; it had 239999 bytes when this run was planned."),
    (lambda path: os.truncate(path, 239_998), "has shrunk from 239999 to 239998 bytes, since this run was planned."),
    (lambda path: os.truncate(path, 0), "has shrunk from 239999 to 0 bytes, since this run was planned."),
    (replace, "was replaced: it was "),
    (rewrite, "was written again: mtime was "),
]
NAMES = ["gone", "shrunk", "emptied", "replaced", "rewritten"]


class ChangingFn(ReadLines):
    """Changes the file when it has read a first piece of it."""

    def __init__(self, change, **options):
        super().__init__(**options)
        self.change = change

    def records(self, path, offset, data):
        if self.change is not None:
            self.change(path)
            self.change = None
        return super().records(path, offset, data)


# Changes


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=NAMES)
@pytest.mark.parametrize("kind", ["info", "block"])
def test_a_file_that_changes_before_it_is_read_is_an_error(path, change, message, kind):
    """The message names it, and what was expected."""
    element = pinned(path) if kind == "info" else run_direct([path], FileBlocks(100_000))[1]
    change(path)
    with pytest.raises(SourceChangedError, match=re.escape(f"{path} {message}")):
        run_direct([element], ReadLines())


@pytest.mark.parametrize(("change", "message"), CHANGES, ids=NAMES)
@pytest.mark.parametrize("block_size", [None, 100, 100_000])
def test_a_file_that_changes_while_it_is_read_is_an_error(path, change, message, block_size):
    """Not records of two versions: a part fails that ends after the change."""
    with pytest.raises(SourceChangedError, match=re.escape(path)):
        run_direct([path], ChangingFn(change, block_size=block_size))


def test_a_file_that_changes_between_a_split_and_its_rest_is_an_error(path):
    """The rest of a part has what was pinned with the part."""
    with pytest.raises(SourceChangedError, match="was written again"):
        run_direct([path], ChangingFn(rewrite, block_size=1 << 30), split_every=1)
    with pytest.raises(SourceChangedError, match="was written again"):
        run_direct([path], ChangingFn(rewrite, block_size=1000), split_every=1)


def test_what_a_change_broke_is_reported_as_the_change(path):
    """Bytes that cannot be decoded, of a file that is not what it was, are not what is wrong."""

    def spoil(path):
        rewrite(path)
        raise ValueError("half of a letter")

    with pytest.raises(SourceChangedError, match="was written again"):
        run_direct([path], ChangingFn(spoil))


def test_what_fails_without_a_change_is_reported_as_it_is(path):
    """The file has nothing to do with it."""

    def fail(path):
        raise ValueError("of the user")

    with pytest.raises(ProcessError, match="ValueError: of the user"):
        run_direct([path], ChangingFn(fail))


@pytest.mark.parametrize("block_size", [None, 1000])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_what_is_appended_belongs_to_a_later_read(path, block_size, when):
    """Also to a last line that had no end when it was looked up."""
    element = pinned(path)
    if when == "before":
        append(path)
    found = run_direct([element], ChangingFn(append if when == "meanwhile" else None, block_size=block_size))
    assert found == LINES
    assert run_direct([path], ReadLines())[-2:] == [f"{LINES[-1]} and more", "and more"]


@pytest.mark.parametrize("grown", [1, 100, 1 << 17])
def test_no_byte_past_the_pinned_size_is_shown(tmp_path, grown):
    """However it is read."""
    path = tmp_path / "f"
    path.write_bytes(b"0123456789")
    file = look_up(str(path), {}, "test")
    path.open("ab").write(b"x" * grown)
    with open_file(file) as opened:
        assert opened.read() == b"0123456789"
        assert opened.read() == b""
        assert (opened.seek(-3, io.SEEK_END), opened.read(100)) == (7, b"789")
        assert (opened.seek(4), opened.seek(2, io.SEEK_CUR), opened.readline()) == (4, 6, b"6789")
        assert (opened.seek(20), opened.read(1)) == (20, b"")
        assert opened.tell() == 20


def test_a_file_that_ends_early_while_open_is_an_error(path):
    """Not a short record."""
    file = look_up(path, {}, "test")
    with open_file(file) as opened:
        opened.read(1)
        os.truncate(path, 1000)
        with pytest.raises(SourceChangedError, match=re.escape(f"{path} ends at byte ")):
            opened.read()


@pytest.mark.parametrize(
    ("now", "flaw"),
    [
        ({}, None),
        ({"size": 11}, None),
        ({"size": 11, "mtime": 3.0}, None),
        ({"version": None}, None),
        ({"size": 9}, "f has shrunk from 10 to 9 bytes"),
        ({"size": 9, "version": "other"}, "f has shrunk from 10 to 9 bytes"),
        ({"version": "other"}, "f was replaced: it was v, it is other"),
        ({"size": 11, "version": "other"}, "f was replaced: it was v, it is other"),
        ({"mtime": 3.0}, "f was written again: mtime was 2.0, it is 3.0"),
        ({"mtime": 1.0}, "f was written again: mtime was 2.0, it is 1.0"),
    ],
)
def test_what_counts_as_a_change(now, flaw):
    """Smaller, another file of that name, or the same size at another time; to grow is fine."""
    file = FileInfo("f", 10, 2.0, "v")
    if flaw is None:
        file.check(attrs.evolve(file, **now))
    else:
        with pytest.raises(SourceChangedError, match=re.escape(flaw)):
            file.check(attrs.evolve(file, **now))


def test_what_nobody_tells_is_not_compared():
    """A file system without times, inodes and tags pins the size alone."""
    FileInfo("f", 10).check(FileInfo("f", 10, 3.0, "v"))


@pytest.mark.parametrize("listed", [0.0, 0.25, 0.999])
def test_fractions_of_a_second_do_not_make_a_change_where_there_is_a_tag(listed):
    """Some servers tell them in a listing, and not when asked for one file."""
    before = as_file_info("f", {"size": 1, "LastModified": _moment(1_700_000_000 + listed), "ETag": '"e"'})
    before.check(as_file_info("f", {"size": 1, "LastModified": _moment(1_700_000_000), "ETag": '"e"'}))


def _moment(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc)


@pytest.mark.parametrize(
    ("info", "mtime", "version"),
    [
        ({}, None, None),
        ({"mtime": 1.5, "ino": 7}, 1.5, "7"),
        ({"LastModified": _moment(7), "ETag": '"e"'}, 7.0, '"e"'),
        ({"LastModified": _moment(7), "ETag": ""}, 7.0, None),
        ({"Last-Modified": "Thu, 01 Jan 1970 00:00:07 GMT"}, 7.0, None),
        ({"mtime": _moment(7.5), "generation": 12}, 7.0, "12"),
        ({"created": _moment(7.5)}, 7.5, None),
        ({"created": "a word"}, None, None),
    ],
)
def test_what_file_systems_tell(info, mtime, version):
    """Each in its own words."""
    assert as_file_info("f", {"size": 3, **info}) == FileInfo("f", 3, mtime, version)


# Elements


@pytest.mark.parametrize("kind", ["str", "path", "url", "info", "block", "blocks"])
@pytest.mark.parametrize("block_size", [None, 1000])
def test_every_kind_of_element_is_read(path, kind, block_size):
    """The same lines."""
    elements = {
        "str": [path],
        "path": [pathlib.Path(path)],
        "url": ["file://" + path],
        "info": [pinned(path)],
        "block": [FileBlock(pinned(path), 0, len(DATA))],
        "blocks": run_direct([path], FileBlocks(7777)),
    }[kind]
    assert run_direct(elements, ReadLines(block_size=block_size)) == LINES


@pytest.mark.parametrize("element", [7, None, b"/tmp/f", ("a", 1), {"path": "f"}], ids=repr)
def test_an_element_of_another_type_is_refused(element):
    """The message shows it, and says what would do."""
    message = f"ReadLines reads a path, a FileInfo or a FileBlock (got {element!r})."
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        run_direct([element], ReadLines())


def test_a_directory_is_no_file(tmp_path):
    """The message sends to MatchFiles."""
    with pytest.raises(SourceError, match=re.escape(f"ReadLines: {str(tmp_path)!r} is a directory. Let MatchFiles")):
        run_direct([str(tmp_path)], ReadLines())


@pytest.mark.parametrize("name", ["nothing", "*.txt", "file/x"])
def test_a_path_without_a_file_is_an_error(tmp_path, name):
    """A pattern is none for a reader, and a file is no directory."""
    (tmp_path / "file").write_text("")
    message = f"ReadLines: there is no file {f'{tmp_path}/{name}'!r} on host {socket.gethostname()!r}. Patterns such as"
    with pytest.raises(SourceError, match=re.escape(message)):
        run_direct([f"{tmp_path}/{name}"], ReadLines())


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_what_blocks_or_has_no_end_is_no_file(tmp_path, kind):
    """A pipe would block whoever opens it, and a device seems to be empty."""
    path = "/dev/zero" if kind == "device" else str(tmp_path / "pipe")
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(SourceError, match=re.escape(f"ReadLines: {path!r} is no file, but a pipe, a socket or a")):
        run_direct([path], ReadLines())


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_file_that_has_become_something_else_is_an_error(path, make, when):
    """It is a change, and nobody waits for what a pipe gives."""

    def change(path):
        os.unlink(path)
        make(path)

    element = pinned(path)
    if when == "before":
        change(path)
    with pytest.raises(SourceChangedError, match=re.escape(f"{path} is no file any more; it was one of 239999 bytes")):
        run_direct([element], ChangingFn(None if when == "before" else change))


@pytest.mark.parametrize(
    ("name", "cause"),
    [("x" * 300, "OSError: .*too long"), ("a\0b", "ValueError: .*null byte")],
)
def test_a_path_that_cannot_be_is_an_error(path, name, cause):
    """The message names it, and what the file system said."""
    with pytest.raises(SourceError, match=f"ReadLines cannot reach .*: {cause}"):
        run_direct([f"{os.path.dirname(path)}/{name}"], ReadLines())


class ForbiddenFileSystem(LocalFileSystem):
    """Local files that may not be looked up or opened, as ``forbids`` says; root may do both."""

    protocol = "forbidden"
    forbids = ""

    def info(self, path, **kwargs):
        if self.forbids == "info":
            raise PermissionError("not for you")
        return super().info(path, **kwargs)

    def _open(self, path, mode="rb", **kwargs):
        if self.forbids == "open":
            raise PermissionError("not for you")
        return super()._open(path, mode, **kwargs)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(os.fspath(path).removeprefix("forbidden://"))


@pytest.mark.parametrize("forbids", ["info", "open"])
def test_a_file_that_this_user_may_not_read_is_an_error(path, monkeypatch, forbids):
    """The message names it, and what the file system said."""
    fsspec.register_implementation("forbidden", ForbiddenFileSystem, clobber=True)
    monkeypatch.setattr(ForbiddenFileSystem, "forbids", forbids)
    message = f"cannot reach 'forbidden://{path}': PermissionError: not for you"
    with pytest.raises(SourceError, match=re.escape(message)):
        run_direct([f"forbidden://{path}"], ReadLines())


def test_an_archive_that_is_not_there_is_an_error(tmp_path):
    """There is no file in which a file could be."""
    with pytest.raises(SourceError, match="ReadLines: there is no file in which 'zip://a::"):
        run_direct([f"zip://a::{tmp_path}/a.zip"], ReadLines())


def test_a_file_without_a_size_is_an_error():
    """Nothing would say where it ends."""
    with pytest.raises(SourceError, match="the server of 'f' does not say how large it is"):
        as_file_info("f", {"size": None})


@pytest.mark.parametrize("options", [{}, {"split_every": 1}])
def test_an_empty_file_has_no_lines(tmp_path, options):
    """And is done at once."""
    (tmp_path / "f").touch()
    assert run_direct([str(tmp_path / "f")], ReadLines(block_size=1), **options) == []


def test_other_file_systems_are_pinned_too():
    """In memory: size and time."""
    fs = fsspec.filesystem("memory")
    fs.pipe("/files/f", b"a\nb\n")
    file = pinned("memory://files/f")
    assert run_direct([file, "memory://files/f"], ReadLines()) == ["a", "b", "a", "b"]
    fs.pipe("/files/f", b"c\nd\n")
    with pytest.raises(SourceChangedError, match="memory:///files/f was written again"):
        run_direct([file], ReadLines())
    fs.rm("/files/f")
    with pytest.raises(SourceChangedError, match="memory:///files/f has gone"):
        run_direct([file], ReadLines())


@KINDS
def test_the_bounds_of_a_block_may_be_integers_of_any_kind(kind):
    """They are ints in the block, so that it pickles, compares and prints as any other."""
    block = FileBlock(FileInfo("f", 9), kind(2), kind(7))
    assert (block, type(block.start), type(block.stop)) == (FileBlock(FileInfo("f", 9), 2, 7), int, int)


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("f", 0, 1), InvalidTypeError, "FileBlock file must be a FileInfo, as MatchFiles gives it (got 'f')."),
        ((FileInfo("f", 9), "0", 1), InvalidTypeError, "FileBlock start must be an integer, the offset of a byte (got"),
        ((FileInfo("f", 9), 0, 1.0), InvalidTypeError, "FileBlock stop must be an integer, the offset of a byte (got"),
        ((FileInfo("f", 9), 0, True), InvalidTypeError, "FileBlock stop must be an integer, the offset of a byte (got"),
        ((FileInfo("f", 9), -1, 1), InvalidValueError, "0 <= start <= stop <= 9, the size of f (got start=-1, stop=1)"),
        ((FileInfo("f", 9), 2, 1), InvalidValueError, "0 <= start <= stop <= 9, the size of f (got start=2, stop=1)"),
        ((FileInfo("f", 9), 2, 10), InvalidValueError, "0 <= start <= stop <= 9, the size of f (got start=2, stop=10)"),
    ],
)
def test_a_block_that_is_not_in_its_file_is_refused(arguments, error, message):
    """At once."""
    with pytest.raises(error, match=re.escape(message)):
        FileBlock(*arguments)


# Parts


@pytest.mark.parametrize(("start", "stop", "step"), [*itertools.product((0, 3), (3, 10, 13), (1, 4, 5, 20))])
def test_block_size_is_the_first_split(start, stop, step):
    """Parts of so many bytes, from the start of the element."""
    element = FileBlock(FileInfo("f", 20), start, stop)
    fn = ReadLines(block_size=step)
    parts = list(fn.split_restriction(element, fn.get_initial_restriction(element)))
    assert [(part.start, part.stop) for part in parts] == [
        (at, min(at + step, stop)) for at in range(start, stop, step)
    ]
    assert {part.file for part in parts} <= {element.file}


def test_a_part_keeps_all_that_is_pinned_when_it_is_split():
    """Before it runs, while it runs, and the rest of it."""
    whole = FileRange(0, 100, FileInfo("f", 100, 1.0, "v"), "codec", "note")
    tracker = ReadLines().create_tracker("f", whole)
    assert tracker.try_claim(10)
    assert tracker.try_split(0.5) == (attrs.evolve(whole, stop=55), attrs.evolve(whole, start=55))
    assert tracker.current_restriction() == attrs.evolve(whole, stop=55)
    assert not tracker.try_claim(55)
    tracker.check_done()


@pytest.mark.parametrize(
    "value",
    [FileInfo("f", 1, 2.0, "v"), FileBlock(FileInfo("f", 1), 0, 1, "id"), FileRange(0, 1, FileInfo("f", 1), "c", "n")],
)
def test_values_pickle_and_show_what_they_are(value):
    """They travel; their text makes them again."""
    assert pickle.loads(pickle.dumps(value)) == value
    assert eval(repr(value)) == value
    assert hash(value) == hash(pickle.loads(pickle.dumps(value)))


def test_a_file_is_closed_when_a_part_ends(path, monkeypatch):
    """Also where nobody reads to its end, and where reading fails."""
    opened = []
    whole_open = io.FileIO

    def watched(*args, **kwargs):
        opened.append(whole_open(*args, **kwargs))
        return opened[-1]

    monkeypatch.setattr("io.FileIO", watched)
    run_direct([path], ReadLines(block_size=100_000), split_every=1)
    fn = ReadLines()
    element = pinned(path)
    outputs = fn.process(element, fn.create_tracker(element, fn.get_initial_restriction(element)))
    next(outputs)
    del outputs
    with pytest.raises(ProcessError):
        run_direct([path], ChangingFn(lambda path: 1 // 0))
    assert len(opened) == 3  # parts of one file share one
    assert all(file.closed for file in opened)


def test_a_file_stays_open_for_the_next_part_of_it(path, monkeypatch):
    """That is the only open file, and the end of the task closes it."""
    other = path + ".other"
    shutil.copy(path, other)
    blocks = [*run_direct([path], FileBlocks(70_000)), *run_direct([other], FileBlocks(70_000))]
    assert len(blocks) == 2 * 4
    opened = []

    class Watched(PinnedFile):
        def __init__(self, file, info, fs):
            assert all(before.closed for _, before in opened[:-1])
            opened.append((info.path, file))
            super().__init__(file, info, fs)

    monkeypatch.setattr("sdf.io.files.pinned.PinnedFile", Watched)
    lines = run_direct(blocks, ReadLines())
    assert [name for name, _ in opened] == [path, other]
    assert all(file.closed for _, file in opened)
    assert lines == run_direct([path, other], ReadLines())


@pytest.mark.parametrize("change", [lambda path: os.truncate(path, 3), lambda path: os.replace(f"{path}.new", path)])
def test_a_file_that_changed_between_two_parts_is_an_error(path, change):
    """Though it was still open."""
    shutil.copy(path, f"{path}.new")
    fn = ReadLines()
    first, second, *_ = run_direct([path], FileBlocks(70_000))

    def read(block):
        return list(fn.process(block, fn.create_tracker(block, fn.get_initial_restriction(block))))

    read(first)
    change(path)
    with pytest.raises(SourceChangedError):
        read(second)
    assert fn._kept.take(second.file) is None


def test_a_reader_is_pickled_without_its_open_file(path):
    """It opens the file again where it runs."""
    fn = ReadLines()
    element = pinned(path)
    list(fn.process(element, fn.create_tracker(element, fn.get_initial_restriction(element))))
    assert pickle.loads(pickle.dumps(fn))._kept.take(element) is None
    fn.teardown()
    assert fn._kept.take(element) is None


class ReadChunks(FileFn):
    """Chunks of a thousand bytes."""

    def process(self, element, tracker):
        part = tracker.current_restriction()
        first = -(-part.start // 1000) * 1000
        with self.open(part) as file:
            for start in tracker.claims(range(first, part.file.size, 1000)):
                file.seek(start)
                yield file.read(1000)


def test_a_reader_of_ones_own_may_loop_over_claims(path):
    """Which claim the end of the file, too, as for a range of offsets."""
    assert b"".join(run_direct([path], ReadChunks())) == DATA
    check_dofn(ReadChunks(), path, seconds=20)

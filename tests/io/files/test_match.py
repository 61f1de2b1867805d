"""MatchFiles: which files a path, a directory and a pattern name."""

import os
import pathlib
import re
import socket
import zipfile

import fsspec
import pytest
from fsspec.implementations.local import LocalFileSystem

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError
from sdf.io import FileInfo, MatchFiles, ReadLines
from sdf.testing import check_dofn

TREE = ["a.txt", "b.log", "_SUCCESS", ".hidden", "d/c.txt", "d/_tmp/x.txt", "d/e/f.txt", ".git/config", "z/a.txt"]


def make(root, names, data=b"x\n"):
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


@pytest.fixture
def tree(tmp_path):
    make(tmp_path, TREE)
    return tmp_path


@pytest.fixture
def memory():
    """The file system in memory, with the same files below /tree."""
    fs = fsspec.filesystem("memory")
    for name in TREE:
        fs.pipe(f"/tree/{name}", b"x\n")
    yield fs
    fs.rm("/tree", recursive=True)


def match(element, **options):
    return run_direct([element], MatchFiles(**options))


def names(root, element, **options):
    """Return the paths below a root of what an element names."""
    return [os.path.relpath(file.path, root) for file in match(element, **options)]


ELEMENTS = [
    ("", {}, ["a.txt", "b.log", "d/c.txt", "d/e/f.txt", "z/a.txt"]),
    ("", {"recursive": False}, ["a.txt", "b.log"]),
    ("", {"hidden": True}, sorted(TREE)),
    ("", {"hidden": True, "recursive": False}, [".hidden", "_SUCCESS", "a.txt", "b.log"]),
    ("", {"regex": r".*\.txt"}, ["a.txt", "d/c.txt", "d/e/f.txt", "z/a.txt"]),
    ("", {"regex": "a"}, []),
    ("", {"regex": "a.*"}, ["a.txt", "z/a.txt"]),
    ("d", {}, ["d/c.txt", "d/e/f.txt"]),
    ("d/", {}, ["d/c.txt", "d/e/f.txt"]),
    ("d/_tmp", {}, ["d/_tmp/x.txt"]),
    ("a.txt", {}, ["a.txt"]),
    ("a.txt", {"regex": "a.txt"}, ["a.txt"]),
    ("a.txt", {"regex": "b.*"}, []),
    ("_SUCCESS", {}, ["_SUCCESS"]),
    ("*.txt", {}, ["a.txt"]),
    ("*", {}, ["a.txt", "b.log"]),
    ("*/*.txt", {}, ["d/c.txt", "z/a.txt"]),
    ("**/*.txt", {}, ["a.txt", "d/c.txt", "d/e/f.txt", "z/a.txt"]),
    ("**/*.txt", {"hidden": True}, ["a.txt", "d/_tmp/x.txt", "d/c.txt", "d/e/f.txt", "z/a.txt"]),
    ("d/_tmp/*", {}, ["d/_tmp/x.txt"]),
    ("_S*", {}, ["_SUCCESS"]),
    (".h*", {}, [".hidden"]),
    ("*/_t*/*", {}, ["d/_tmp/x.txt"]),
    ("**/_tmp/*.txt", {}, ["d/_tmp/x.txt"]),
    ("_*/**", {"missing_ok": True}, []),
    ("[_a]*", {}, ["a.txt"]),
    ("?.[tl][xo][tg]", {}, ["a.txt", "b.log"]),
    ("[!b].*", {}, ["a.txt"]),
    ("**", {"regex": r".\.txt"}, ["a.txt", "d/c.txt", "d/e/f.txt", "z/a.txt"]),
]


@pytest.mark.parametrize(("element", "options", "expected"), ELEMENTS, ids=repr)
def test_what_an_element_names(tree, element, options, expected):
    """In the order of the paths; hidden are what begins with _ or . below what the element itself names."""
    assert names(tree, f"{tree}/{element}", **options) == expected


@pytest.mark.parametrize(("element", "options", "expected"), ELEMENTS, ids=repr)
def test_other_file_systems_name_the_same(memory, element, options, expected):
    """Paths come with the protocol, as a reader needs them."""
    found = match(f"memory://tree/{element}", **options)
    assert [file.path for file in found] == [f"memory:///tree/{name}" for name in expected]


def test_a_file_says_what_pins_it(tree):
    """Size, time and inode are those of the file."""
    status = os.stat(tree / "a.txt")
    assert match(tree / "a.txt") == [FileInfo(f"{tree}/a.txt", 2, status.st_mtime, str(status.st_ino))]


@pytest.mark.parametrize("element", ["", "*", "a.txt", "file://"])
def test_what_is_found_is_what_a_reader_takes(tree, element):
    """The file as listed is the file as looked up."""
    element = f"file://{tree}" if element == "file://" else f"{tree}/{element}"
    files = match(element)
    assert run_direct(files, ReadLines()) == ["x"] * len(files) != []


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_a_path_may_be_an_object(tree, kind):
    """Whatever os.fspath() takes."""
    assert names(tree, kind(tree / "d")) == ["d/c.txt", "d/e/f.txt"]


def test_a_relative_path_is_one_below_the_working_directory(tree, monkeypatch):
    """The paths that come out are absolute: a worker may work elsewhere."""
    monkeypatch.chdir(tree)
    assert [file.path for file in match("*.txt")] == [f"{tree}/a.txt"]
    assert [file.path for file in match("d/../a.txt")] in ([f"{tree}/d/../a.txt"], [f"{tree}/a.txt"])
    assert names(tree, ".") == ["a.txt", "b.log", "d/c.txt", "d/e/f.txt", "z/a.txt"]


def test_each_element_is_listed_by_itself(tree):
    """Elements keep their order; a file that two of them name comes twice."""
    found = run_direct([f"{tree}/z", f"{tree}/*.txt", f"{tree}/a.txt"], MatchFiles())
    assert [os.path.relpath(file.path, tree) for file in found] == ["z/a.txt", "a.txt", "a.txt"]


NAMES = [
    "a[1].txt",
    "a*.txt",
    "a?.txt",
    "a b.txt",
    "ä€.txt",
    "a#b.txt",
    "a%20b.txt",
    "a::b.txt",
    "~.txt",
    "a\nb.txt",
    "{a,b}",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_name_that_exists_is_that_file_whatever_its_signs(tmp_path, name):
    """Beside others that it would name as a pattern."""
    make(tmp_path, ["a1.txt", "ab.txt", "aXb.txt"], b"other\n")
    make(tmp_path, [name])
    files = match(f"{tmp_path}/{name}")
    assert [file.path for file in files] == [f"{tmp_path}/{name}"]
    assert run_direct(files, ReadLines()) == run_direct([f"{tmp_path}/{name}"], ReadLines()) == ["x"]


def test_a_directory_lists_names_of_any_signs(tmp_path):
    """Each can be read."""
    make(tmp_path, NAMES)
    files = match(tmp_path)
    assert [os.path.basename(file.path) for file in files] == sorted(NAMES)
    assert run_direct(files, ReadLines()) == ["x"] * len(NAMES)


def test_a_pattern_in_brackets_names_what_it_matches(tmp_path):
    """Where no file has that very name."""
    make(tmp_path, ["a1.txt", "a2.txt"])
    assert names(tmp_path, f"{tmp_path}/a[1].txt") == ["a1.txt"]


# Nothing there


@pytest.mark.parametrize(
    "element", ["nothing", "nothing/", "*.nothing", "nothing/*.txt", "a.txt/b", "a.txt/*", "a.txt/b/*", "x" * 300]
)
def test_an_element_that_names_nothing_is_an_error(tree, element):
    """Unless that may be; the message says how to say so."""
    host = f"on host {socket.gethostname()!r}"
    message = f"MatchFiles: {f'{tree}/{element}'!r} names no file {host}. Pass missing_ok=True if that may be."
    with pytest.raises(SourceError, match=re.escape(message)):
        match(f"{tree}/{element}")
    assert match(f"{tree}/{element}", missing_ok=True) == []


def test_a_pattern_that_matches_directories_only_is_an_error(tmp_path):
    """They are not listed, and nothing is left out without a word."""
    make(tmp_path, ["2026-01/a.txt", "2026-02/a.txt"])
    message = f"it matches directories, such as '{tmp_path}/2026-01': end it with '/*'"
    with pytest.raises(SourceError, match=re.escape(message)):
        match(f"{tmp_path}/2026-*")


def test_an_empty_directory_has_no_files(tmp_path):
    """That is no error."""
    assert match(tmp_path) == []


def test_what_is_no_file_is_not_read(tmp_path):
    """A pipe would block."""
    os.mkfifo(tmp_path / "pipe")
    make(tmp_path, ["a.txt"])
    assert names(tmp_path, tmp_path) == ["a.txt"]
    for element in ("pipe", "pip*"):
        host = f"on host {socket.gethostname()!r}"
        message = f"names no file {host}; what it matches is no file, such as '{tmp_path}/pipe'. Pass"
        with pytest.raises(SourceError, match=re.escape(message)):
            match(tmp_path / element)


class LockedFileSystem(LocalFileSystem):
    """Local files, of which a directory named locked cannot be listed; root can list all others."""

    protocol = "lockedfiles"

    def ls(self, path, detail=False, **kwargs):
        if str(path).rstrip("/").endswith("locked"):
            raise PermissionError(f"no listing of {path}")
        return super().ls(path, detail=detail, **kwargs)

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(os.fspath(path).removeprefix("lockedfiles://"))


@pytest.mark.parametrize("element", ["", "locked", "**/*.txt", "*/a.txt", "locked/*"])
def test_a_directory_that_cannot_be_listed_is_an_error(tmp_path, element):
    """Its files are not left out without a word, as fsspec would."""
    fsspec.register_implementation("lockedfiles", LockedFileSystem, clobber=True)
    make(tmp_path, ["a/a.txt", "locked/a.txt"])
    with pytest.raises(SourceError, match=r"MatchFiles cannot reach '.*locked': PermissionError: no listing"):
        match(f"lockedfiles://{tmp_path}/{element}", missing_ok=True)


# Links


def test_links_to_files_are_files(tmp_path):
    """They are what they lead to: its size, and what pins it."""
    make(tmp_path, ["real/a.txt"], b"0123456789\n")
    (tmp_path / "links").mkdir()
    (tmp_path / "links" / "b.txt").symlink_to(tmp_path / "real" / "a.txt")
    for element in ("links", "links/*", "links/b.txt"):
        files = match(tmp_path / element)
        assert [(file.path, file.size) for file in files] == [(f"{tmp_path}/links/b.txt", 11)]
        assert run_direct(files, ReadLines()) == ["0123456789"]


def test_links_to_directories_are_not_followed(tmp_path):
    """A link upwards would never end. The element itself may be one."""
    make(tmp_path, ["real/a.txt"])
    (tmp_path / "real" / "up").symlink_to(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert names(tmp_path, tmp_path) == ["real/a.txt"]
    assert names(tmp_path, tmp_path / "link") == ["link/a.txt"]


def test_a_link_to_nothing_is_left_out(tmp_path):
    """There is no file."""
    (tmp_path / "b.txt").symlink_to(tmp_path / "nothing")
    assert match(tmp_path) == []
    with pytest.raises(SourceError, match="names no file"):
        match(tmp_path / "b.txt")


def test_a_link_to_itself_is_left_out(tmp_path):
    """There is no file."""
    make(tmp_path, ["a.txt"])
    (tmp_path / "b.txt").symlink_to(tmp_path / "b.txt")
    for element in ("", "*.txt"):
        assert names(tmp_path, f"{tmp_path}/{element}") == ["a.txt"]
    with pytest.raises(SourceError, match="names no file"):
        match(tmp_path / "b.txt")


# Other file systems


def test_a_listing_is_never_remembered():
    """A file system that keeps listings, as that of S3 does, is asked anew."""

    class KeepingFileSystem(type(fsspec.filesystem("memory"))):
        protocol = "keeping"
        store, pseudo_dirs, kept = {}, [""], {}

        def ls(self, path, detail=True, **kwargs):
            key = self._strip_protocol(path)
            if key not in self.kept:
                self.kept[key] = super().ls(path, detail=detail, **kwargs)
            return self.kept[key]

        def invalidate_cache(self, path=None):
            self.kept.clear()

        @classmethod
        def _strip_protocol(cls, path):
            return super()._strip_protocol(path.removeprefix("keeping://"))

    fsspec.register_implementation("keeping", KeepingFileSystem, clobber=True)
    fs = fsspec.filesystem("keeping")
    fs.pipe("/k/a", b"1")
    assert [file.path for file in match("keeping://k")] == ["keeping:///k/a"]
    fs.pipe("/k/b", b"2")
    assert [file.path for file in match("keeping://k")] == ["keeping:///k/a", "keeping:///k/b"]


class SelfFileSystem(LocalFileSystem):
    """Local files, whose listings begin with the directory itself, as those of some servers do."""

    protocol = "selffiles"

    def ls(self, path, detail=False, **kwargs):
        return [self.info(path), *super().ls(path, detail=True)]

    @classmethod
    def _strip_protocol(cls, path):
        return super()._strip_protocol(os.fspath(path).removeprefix("selffiles://"))


def test_a_listing_that_has_its_directory_in_it_comes_to_an_end(tmp_path):
    """Each directory is listed once."""
    fsspec.register_implementation("selffiles", SelfFileSystem, clobber=True)
    make(tmp_path, ["d/e/a.txt"])
    for element in ("", "**/*.txt"):
        found = match(f"selffiles://{tmp_path}/{element}")
        assert [file.path.removeprefix("selffiles://") for file in found] == [f"{tmp_path}/d/e/a.txt"]


def test_files_in_an_archive_are_named_with_it(tmp_path):
    """Chained file systems, as fsspec has them."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("x/a.txt", "one\n")
        archive.writestr("x/b.txt", "two\n")
    files = match(f"zip://x/*.txt::{tmp_path}/a.zip")
    assert [file.path for file in files] == [f"zip://x/{name}.txt::{tmp_path}/a.zip" for name in "ab"]
    assert run_direct(files, ReadLines()) == ["one", "two"]


def test_a_cache_in_front_of_a_file_system_stays_in_front(memory):
    """The path says so."""
    files = match("simplecache::memory://tree/d/*.txt")
    assert [file.path for file in files] == ["simplecache::memory:///tree/d/c.txt"]
    assert run_direct(files, ReadLines()) == ["x"]


# Many, and the contract


def test_two_thousand_files(tmp_path):
    """One listing, one element."""
    make(tmp_path, [f"{number % 7}/{number:05}.txt" for number in range(2000)])
    found = match(tmp_path)
    assert len(found) == 2000
    assert found == sorted(found, key=lambda file: file.path)


@pytest.mark.parametrize("element", ["", "*", "a.txt"])
def test_match_files_passes_the_check_of_the_contract(tree, element):
    """A listing is made in one piece."""
    assert check_dofn(MatchFiles(), f"{tree}/{element}").claims == 1


@pytest.mark.parametrize("element", [b"/tmp", 7, None, ["/tmp"], FileInfo("/tmp", 0)], ids=repr)
def test_an_element_that_is_no_path_is_refused(element):
    """The message shows it."""
    with pytest.raises(InvalidTypeError, match=re.escape(f"a directory or a pattern (got {element!r}).")):
        match(element)


@pytest.mark.parametrize("regex", ["(", "*", 7, b"a\x00(", b"x"])
def test_a_regex_that_is_none_is_refused(regex):
    """At once."""
    error = InvalidValueError if isinstance(regex, str) else InvalidTypeError
    with pytest.raises(error, match="MatchFiles regex must be a regular expression"):
        MatchFiles(regex=regex)


def test_a_pattern_that_is_none_is_refused(tree, memory):
    """By every file system."""
    for root in (tree, "memory://tree"):
        with pytest.raises(InvalidValueError, match="MatchFiles cannot make anything of the pattern"):
            match(f"{root}/**a.txt")


def test_storage_options_that_are_no_mapping_are_refused():
    """At once."""
    with pytest.raises(InvalidTypeError, match=re.escape("MatchFiles storage_options must be a mapping")):
        MatchFiles(storage_options="s3")

"""WatchFiles: what a scan gives, what it remembers, and that a scan can be given again."""

import os
import re

import pytest
from following import Following

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.invoker import Invoker
from sdf.io import FileBlock, WatchFiles


class Watch(Following):
    """Makes one scan after the other."""

    def __init__(self, folder, **options):
        super().__init__(WatchFiles(**{"interval_seconds": 7, **options}), str(folder))

    def scan(self):
        found = self.read()
        assert self.delay_seconds == 7
        return found

    def names(self):
        return [os.path.basename(file.path) for file in self.scan()]


@pytest.fixture
def folder(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).write_text(name)
    return tmp_path


def test_files_are_given_once(folder):
    """And new ones when they come."""
    watch = Watch(folder)
    assert watch.names() == ["a", "b"]
    assert watch.names() == []
    (folder / "c").write_text("c")
    assert (watch.names(), watch.names()) == (["c"], [])


def test_a_scan_that_found_nothing_claims_nothing(folder):
    """So a stream that idles writes no blocks."""
    watch = Watch(folder)
    watch.scan()
    watch.scan()
    assert len(watch.pins) == 1


def test_a_late_file_with_an_old_time_is_not_missed(folder):
    """Files are compared one by one, not with a time."""
    watch = Watch(folder)
    watch.scan()
    (folder / "late").write_text("late")
    os.utime(folder / "late", (1, 1))
    assert watch.names() == ["late"]


@pytest.mark.parametrize(
    ("modified", "appended", "rewritten", "replaced"),
    [("reread", ["a"], ["a"], ["a"]), ("tail", [(1, 4)], [], ["a"]), ("ignore", [], [], ["a"])],
)
def test_what_becomes_of_a_file_that_changes(folder, modified, appended, rewritten, replaced):
    """By the policy; a file that took another's name is a new one under each."""

    def seen(found):
        return [(one.start, one.stop) if isinstance(one, FileBlock) else os.path.basename(one.path) for one in found]

    watch = Watch(folder, modified=modified)
    watch.scan()
    with open(folder / "a", "a") as file:
        file.write("123")
    assert seen(watch.scan()) == appended
    os.utime(folder / "a", (5, 5))
    assert seen(watch.scan()) == rewritten
    (folder / ".new").write_text("entirely new")
    os.replace(folder / ".new", folder / "a")
    assert seen(watch.scan()) == replaced


@pytest.mark.parametrize("modified", ["reread", "tail"])
def test_a_file_that_shrinks_is_given_whole(folder, modified):
    """What was read of it is not in it any more."""
    watch = Watch(folder, modified=modified)
    watch.scan()
    os.truncate(folder / "a", 0)
    assert watch.names() == ["a"]


def test_a_file_that_has_gone_is_forgotten(folder):
    """The state is as large as the listing; if it comes back it is new."""
    watch = Watch(folder)
    watch.scan()
    os.remove(folder / "a")
    assert watch.names() == []
    assert [os.path.basename(file.path) for file in watch.left.seen] == ["b"]
    (folder / "a").write_text("a")
    assert watch.names() == ["a"]


def test_a_pinned_scan_gives_the_same_again(folder):
    """Whatever has happened to the directory since."""
    watch = Watch(folder)
    watch.scan()
    (folder / "c").write_text("c")
    watch.scan()
    for name in "abc":
        os.remove(folder / name)
    for pinned, found in watch.pins:
        attempt = Invoker(watch.fn, watch.element, pinned)
        assert list(attempt.run()) == found
        assert attempt.residuals == []


def test_a_directory_that_is_not_there_yet_is_waited_for(tmp_path):
    """A stream may be started before its source."""
    watch = Watch(tmp_path / "later")
    assert watch.names() == []
    (tmp_path / "later").mkdir()
    (tmp_path / "later" / "a").write_text("a")
    assert watch.names() == ["a"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"interval_seconds": -1}, "interval_seconds must be a number >= 0 (got -1)"),
        ({"modified": "x"}, "modified must be 'reread', 'tail' or 'ignore' (got 'x')"),
        ({"regex": "("}, "regex must be a regular expression"),
    ],
)
def test_wrong_options_are_named(options, message):
    """When the DoFn is made."""
    with pytest.raises(InvalidValueError, match=re.escape(message)):
        WatchFiles(**options)


def test_an_element_that_is_no_path_is_named():
    """When its work is asked for."""
    with pytest.raises(
        InvalidTypeError, match=re.escape("WatchFiles watches a path, a directory or a pattern (got 5)")
    ):
        WatchFiles().get_initial_restriction(5)


def test_a_file_that_is_followed_is_given_once(folder):
    """Under whatever name, and also if it is cut short, which whoever follows it sees; not what comes in its place."""
    watch = Watch(folder, modified="ignore")
    assert watch.names() == ["a", "b"]
    os.rename(folder / "a", folder / "a.1")
    assert watch.names() == []
    (folder / "a").write_text("new")
    os.truncate(folder / "b", 0)
    assert watch.names() == ["a"]
    (folder / "c").write_text("c")
    os.replace(folder / "c", folder / "b")
    assert watch.names() == ["b"]
    watch.again()


@pytest.mark.parametrize("modified", ["reread", "tail", "ignore"])
@pytest.mark.parametrize("pattern", ["", "*", "[a-z]*"])
def test_a_directory_that_is_away_for_a_while_is_as_it_was(folder, modified, pattern):
    """Nothing is given again, however many scans have missed it."""
    watch = Watch(folder / pattern, modified=modified)
    assert watch.names() == ["a", "b"]
    os.rename(folder, folder.with_name("away"))
    for _ in range(5):
        assert watch.names() == []
    os.rename(folder.with_name("away"), folder)
    (folder / "c").write_text("c")
    assert watch.names() == ["c"]


def reuse(path, text, other):
    """Make a file, with the number that another has: the test's way to a file system that gives it again."""
    os.link(other, path)
    os.remove(other)
    path.write_text(text)


def test_another_file_with_the_number_of_one_that_has_gone_is_given(folder):
    """As where the oldest of some rotated files is removed, and the new one gets its number."""
    watch = Watch(folder, modified="ignore")
    watch.scan()
    os.rename(folder / "b", folder / "c")
    reuse(folder / "b", "new", folder / "a")
    assert watch.names() == ["b"]
    assert watch.names() == []
    watch.again()


def test_another_file_with_the_number_of_an_empty_one_is_given(folder):
    """An empty file has no bytes by which it is known."""
    (folder / "c").write_text("")
    watch = Watch(folder, modified="ignore")
    watch.scan()
    reuse(folder / "d", "new", folder / "c")
    assert watch.names() == ["d"]


def test_a_shorter_file_with_the_number_and_the_first_bytes_of_one_that_has_gone_is_given(folder):
    """As where each begins with the same long header."""
    header = "#" * 2000 + "\n"
    (folder / "c").write_text(header + "one\ntwo\n")
    watch = Watch(folder, modified="ignore")
    watch.scan()
    reuse(folder / "d", header + "three\n", folder / "c")
    assert watch.names() == ["d"]


@pytest.mark.parametrize("text", ["", "text\n", "x" * 2000])
def test_a_file_that_grows_and_is_renamed_is_not_given_again(folder, text):
    """Also an empty one, as long as its time is what it was."""
    (folder / "c").write_text(text)
    watch = Watch(folder, modified="ignore")
    watch.scan()
    os.rename(folder / "c", folder / "d")
    assert watch.names() == []
    with open(folder / "d", "a") as file:
        file.write("more\n")
    watch.scan()
    with open(folder / "d", "a") as file:
        file.write("and more\n")
    os.rename(folder / "d", folder / "e")
    assert watch.names() == []


def test_a_file_that_was_cut_short_and_is_renamed_later_is_not_given_again(folder):
    """It is known by its new first bytes."""
    watch = Watch(folder, modified="ignore")
    watch.scan()
    (folder / "a").write_text("other")
    assert watch.names() == []
    os.rename(folder / "a", folder / "c")
    assert watch.names() == []


def test_a_growing_file_claims_nothing(folder):
    """Once its first bytes are known."""
    (folder / "c").write_text("x" * 2000)
    watch = Watch(folder, modified="ignore")
    watch.scan()
    with open(folder / "c", "a") as file:
        file.write("more")
    watch.scan()
    assert len(watch.pins) == 1


def test_a_file_that_a_scan_missed_is_not_given_again(folder, tmp_path_factory):
    """A listing may miss what is renamed meanwhile; what three in a row have missed has gone."""
    away = tmp_path_factory.mktemp("away") / "a"
    watch = Watch(folder, modified="ignore")
    watch.scan()
    for missed in (1, 2, 3):
        os.rename(folder / "a", away)
        assert [watch.names() for _ in range(missed)] == [[]] * missed
        os.rename(away, folder / "a")
        assert watch.names() == (["a"] if missed == 3 else [])
    os.remove(folder / "a")
    assert [watch.names() for _ in range(3)] == [[]] * 3
    assert [os.path.basename(one.file.path) for one in watch.left.seen] == ["b"]


def test_a_link_beside_its_file_is_not_given(folder):
    """Neither in the scan that finds both, nor when it comes later."""
    os.symlink("a", folder / "c")
    watch = Watch(folder, modified="ignore")
    assert watch.names() == ["a", "b"]
    os.link(folder / "a", folder / "_d")
    os.rename(folder / "_d", folder / "A")
    assert watch.names() == []

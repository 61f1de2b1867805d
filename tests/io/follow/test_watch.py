"""WatchFiles: what a scan gives, what it remembers, and that a scan can be given again."""

import os
import re
import subprocess

import pytest
from support.following import Following

from sdf.errors import InvalidTypeError, InvalidValueError
from sdf.execution.invoker import Invoker
from sdf.io import FileBlock, TailLines, WatchFiles


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


@pytest.mark.parametrize("modified", ["reread", "tail", "ignore"])
@pytest.mark.parametrize("name", ["link", "link/", "link/*", "file"])
def test_what_a_link_leads_to_is_away_for_a_while(folder, modified, name):
    """As a volume that is not mounted; and a single file, with its directory."""
    (folder / "volume").mkdir()
    for one in "ab":
        os.rename(folder / one, folder / "volume" / one)
    (folder / "link").symlink_to(folder / "volume")
    watch = Watch(f"{folder}/volume/a" if name == "file" else f"{folder}/{name}", modified=modified)
    assert watch.names() == (["a"] if name == "file" else ["a", "b"])
    os.rename(folder / "volume", folder / "away")
    for _ in range(5):
        assert watch.names() == []
    os.rename(folder / "away", folder / "volume")
    assert watch.names() == []


@pytest.mark.parametrize("modified", ["reread", "tail", "ignore"])
def test_a_single_file_that_is_made_again_is_given(folder, modified):
    """It has gone, while its directory is there."""
    watch = Watch(folder / "a", modified=modified)
    assert watch.names() == ["a"]
    os.rename(folder / "a", folder / "old")
    assert [watch.names() for _ in range(3)] == [[]] * 3
    os.rename(folder / "old", folder / "a")
    (found,) = watch.scan()
    assert not isinstance(found, FileBlock)


@pytest.mark.parametrize("before", ["reread", "tail", "ignore"])
@pytest.mark.parametrize("after", ["reread", "tail", "ignore"])
def test_a_stream_may_go_on_with_another_policy(folder, before, after):
    """What was seen was seen."""
    watch = Watch(folder, modified=before)
    assert watch.names() == ["a", "b"]
    watch.fn = WatchFiles(interval_seconds=7, modified=after)
    (folder / "c").write_text("c")
    assert watch.names() == ["c"]


@pytest.mark.parametrize("away", ["directory", "file"])
@pytest.mark.parametrize("looks", range(12))
def test_what_comes_back_is_followed_or_given_again(folder, away, looks):
    """Where `TailLines` has given it up, `WatchFiles` has forgotten it: no line is lost, however long it was away."""
    watch = Watch(folder / "logs", modified="ignore", interval_seconds=0)
    watch.delay_seconds = 0
    (folder / "logs").mkdir()
    (folder / "logs" / "c").write_text("1\n")
    (file,) = watch.read()
    tail = Following(TailLines(rotated_seconds=0), file)
    assert tail.read() == ["1"]
    there = folder / "logs" if away == "directory" else folder / "logs" / "c"
    os.rename(there, folder / "away")
    for _ in range(looks):
        assert watch.read() == []
        if tail.left is not None:
            assert tail.read() == []
    os.rename(folder / "away", there)
    with open(folder / "logs" / "c", "a") as opened:
        opened.write("2\n")
    again = [Following(TailLines(), one).read() for one in watch.read()]
    has_ended = tail.left is None or tail.left.ended
    if has_ended:
        assert again == [["1", "2"]]
    else:
        assert tail.read() == ["2"]
    if away == "directory" or looks < 3:
        assert (has_ended, again) == (False, [])


@pytest.mark.parametrize("away", ["directory", "file"])
def test_what_was_cut_short_is_waited_for_as_long(folder, away):
    """It is still the file that `WatchFiles` knows."""
    watch = Watch(folder / "logs", modified="ignore", interval_seconds=3600)
    (folder / "logs").mkdir()
    path = folder / "logs" / "c"
    path.write_text("1\n22\n")
    (file,) = watch.read()
    tail = Following(TailLines(rotated_seconds=0), file)
    found = tail.read()
    path.write_text("3\n")
    found += [line for _ in range(3) for line in tail.read()]
    there = folder / "logs" if away == "directory" else path
    os.rename(there, folder / "away")
    found += [line for _ in range(20) for line in tail.read()]
    os.rename(folder / "away", there)
    with open(path, "a") as opened:
        opened.write("4\n")
    assert found + tail.read() == ["1", "22", "3", "4"]
    assert watch.read() == []


def test_looks_soon_after_one_another_are_one(folder, tmp_path_factory, monkeypatch):
    """A stream that was down has not looked meanwhile, so the time alone says nothing."""
    watch = Watch(folder, modified="ignore", interval_seconds=5)
    now = [1e9]
    monkeypatch.setattr("sdf.io.follow.file_states.time.time", lambda: now[0])
    tail = Following(TailLines(), watch.read()[0])
    assert tail.read() == []
    os.rename(folder / "a", tmp_path_factory.mktemp("away") / "a")
    for seconds in (0, 1, 3600, 1, 1, -7200, 1, 3600):
        now[0] += seconds
        assert tail.read() == []
    assert tail.left.missed == 4
    for _ in range(4):
        now[0] += 5
        assert tail.read() == []
    assert tail.left is None or tail.left.ended


def test_what_is_made_anew_before_it_is_forgotten_is_left_to_who_follows_it(folder, tmp_path_factory):
    """Two would follow it, else; with its number, which it has here as it is moved."""
    watch = Watch(folder, modified="ignore", interval_seconds=3600)
    file = next(file for file in watch.read() if file.path.endswith("a"))
    tail = Following(TailLines(), file)
    (folder / "a").write_text("old and long\n")
    assert [line for _ in range(2) for line in tail.read()] == ["old and long"]
    kept = tmp_path_factory.mktemp("away") / "a"
    os.rename(folder / "a", kept)
    assert (tail.read(), watch.read()) == ([], [])
    kept.write_text("new\n")
    os.rename(kept, folder / "a")
    assert watch.read() == []
    assert [line for _ in range(3) for line in tail.read()] == ["new"]


def test_where_a_link_led_is_known_before_it_is_followed(folder):
    """A driver may have died meanwhile, and the link lead elsewhere."""
    for day in "12":
        (folder / day).mkdir()
        (folder / day / "c").write_text(f"{day}\n")
    (folder / "logs").mkdir()
    (folder / "logs" / "c").symlink_to(folder / "1" / "c")
    watch = Watch(folder / "logs", modified="ignore")
    (file,) = watch.read()
    os.remove(folder / "logs" / "c")
    (folder / "logs" / "c").symlink_to(folder / "2" / "c")
    assert Following(TailLines(), file).read() == ["1"]
    assert [Following(TailLines(), one).read() for one in watch.read()] == [["2"]]


@pytest.mark.parametrize("before", ["reread", "tail"])
def test_a_file_that_another_policy_has_seen_is_known_by_its_bytes_from_then_on(folder, before):
    """It is written to and renamed before the next scan."""
    watch = Watch(folder, modified=before)
    assert watch.names() == ["a", "b"]
    watch.fn = WatchFiles(interval_seconds=7, modified="ignore")
    assert watch.names() == []
    with open(folder / "a", "a") as file:
        file.write("more")
    os.rename(folder / "a", folder / "c")
    assert watch.names() == []


@pytest.fixture
def two_disks(tmp_path):
    """Mount two disks, one in the other."""
    disks = [tmp_path / "disk", tmp_path / "disk" / "disk"]
    mounted = []
    for disk in disks:
        disk.mkdir()
        made = subprocess.run(["mount", "-t", "tmpfs", "tmpfs", disk], capture_output=True, text=True, check=False)
        if made.returncode:
            break
        mounted.append(disk)
    if len(mounted) == 2:
        yield disks
    for disk in reversed(mounted):
        subprocess.run(["umount", disk], check=True)
    if len(mounted) < 2:
        pytest.skip(f"no disk can be mounted here: {made.stderr}")


def test_files_of_two_disks_may_have_the_same_number(two_disks):
    """Each is given once, also when one of them grows and is renamed, so that it is the first one listed."""
    outer, inner = two_disks
    (outer / "z").write_text("head\nand more\n")
    for name in range(100):
        (inner / "a").write_text("head\n")
        if (inner / "a").stat().st_ino == (outer / "z").stat().st_ino:
            break
        os.rename(inner / "a", inner / f".{name}")
    assert (inner / "a").stat().st_ino == (outer / "z").stat().st_ino
    watch = Watch(outer, modified="ignore")
    assert watch.names() == ["a", "z"]
    with open(outer / "z", "a") as file:
        file.write("and more\n")
    os.rename(outer / "z", outer / "a")
    assert watch.names() == []
    with open(inner / "a", "a") as file:
        file.write("and more\n")
    os.rename(inner / "a", inner / "b")
    assert watch.names() == []


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

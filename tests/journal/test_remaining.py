"""Remaining work in a journal: what did not change is not written again, and what was stored comes back."""

import json
import random

import pytest

from sdf.errors import JournalError
from sdf.journal.pending import Pending, to_json
from sdf.journal.remaining import Remaining
from sdf.model.restrictions import OffsetRange


class Files:
    """Keeps files by number, and how many bytes were written."""

    def __init__(self):
        self.files, self.written = {}, 0

    def put(self, data):
        number = len(self.files)
        self.files[number] = data
        self.written += len(data)
        return {"sha256": number, "size": len(data)}

    def get(self, reference):
        return self.files[reference["sha256"]]


def part(number, due=0):
    return Pending(0, f"element {number}", OffsetRange(0, number + 1), due=due)


def parts_of(remaining):
    return {one.id: one.part for one in remaining}


MORE_SEEDS = [pytest.param(seed, marks=pytest.mark.slow("the same test with other seeds")) for seed in range(6, 20)]


@pytest.mark.parametrize("seed", [*range(6), *MORE_SEEDS])
def test_what_is_loaded_is_what_was_stored(seed):
    """After any changes, also if it was loaded in between; ids stay, and none is given twice."""
    chance, files, remaining, given = random.Random(seed), Files(), Remaining(), set()
    for commit in range(60):
        ids = [one.id for one in remaining]
        remaining.remove(chance.sample(ids, chance.randrange(len(ids) // 4 + 1)))
        known = set(parts_of(remaining))
        remaining.add([part(chance.randrange(99), due=commit) for _ in range(chance.choice([0, 1, 2, 40]))], now=0)
        new = set(parts_of(remaining)) - known
        assert not new & given
        given |= new
        stored = remaining.store(files.put, [part(commit)])
        again, committed = Remaining.load(files.get, stored, now=0)
        assert (parts_of(again), committed) == (parts_of(remaining), [part(commit)])
        if chance.random() < 0.3:
            remaining = again


def test_what_did_not_change_is_not_written_again():
    """With 5,000 parts, 1,000 commits of one part each write each byte a few times, into few files."""
    files, remaining = Files(), Remaining()
    remaining.add(map(part, range(5000)), now=0)
    remaining.store(files.put, [])
    whole, most = files.written, 0
    for number in range(1000):
        remaining.remove([number])
        remaining.add([part(number)], now=0)
        most = max(most, len(remaining.store(files.put, [])))
    assert most <= 14
    assert files.written < 4 * whole  # 1,000 times that if all were written each time


def test_work_that_only_ends_leaves_few_files():
    """Though each commit writes little more than the id of what has ended."""
    files, remaining = Files(), Remaining()
    remaining.add(map(part, range(1000)), now=0)
    for number in range(1000):
        remaining.remove([number])
        assert len(remaining.store(files.put, [])) <= 12


def test_nothing_is_written_if_nothing_has_changed():
    """The same files hold it."""
    files, remaining = Files(), Remaining()
    remaining.add([part(1)], now=0)
    stored = remaining.store(files.put, [])
    assert remaining.store(files.put, []) == stored
    assert len(files.files) == 1


def test_what_changes_while_it_is_not_read_is_not_written():
    """When it is due again, for example."""
    files, remaining = Files(), Remaining()
    remaining.add([part(1)], now=0)
    (work,) = remaining
    work.due, work.seen, work.tried = 99, "news", True
    again, _ = Remaining.load(files.get, remaining.store(files.put, []), now=0)
    assert [(one.due, one.seen, one.tried) for one in again] == [(0, None, False)]


@pytest.mark.parametrize(("now", "behind"), [(4, [False, True]), (3, [False, True]), (2, [False, False])])
def test_work_that_is_due_is_behind_until_it_has_run(now, behind):
    """So is none that waits: a driver that has just begun does not hurry for it."""
    remaining = Remaining()
    remaining.add([part(1, due=9), part(2, due=3)], now=now)
    assert [work.is_behind for work in remaining] == behind


@pytest.mark.parametrize("version", [2, 3])
def test_a_checkpoint_of_an_older_version_is_read_and_gets_ids(version):
    """All of it was in one file, and what of it was committed."""
    files, remaining = Files(), Remaining()
    remaining.add([part(5), part(7)], now=0)
    remaining.store(files.put, [part(9)])
    _, *lines = files.files[0].splitlines(keepends=True)
    head = {"committed": [to_json(part(9))], "v": version}
    reference = files.put(b"".join([json.dumps(head).encode() + b"\n", *lines]))
    again, committed = Remaining.load(files.get, [reference], now=0)
    assert parts_of(again) == parts_of(remaining)
    assert committed == [part(9)]


def test_a_checkpoint_of_another_version_is_refused():
    """Before anything in it is read."""
    files, remaining = Files(), Remaining()
    stored = remaining.store(files.put, [])
    state = json.loads(files.files[0])
    files.files[0] = json.dumps({**state, "v": 99}).encode()
    with pytest.raises(JournalError, match="has version 99, but this release of sdf reads version 4"):
        Remaining.load(files.get, stored, now=0)

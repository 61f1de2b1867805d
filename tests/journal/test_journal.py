"""The journal: what may be appended, what a resume reads, and what any crash or power loss leaves of it."""

import itertools
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time

import pytest
from support.clock import Clock
from support.power_loss import Disk as PoweredDisk
from support.power_loss import Recorder, restore

from sdf.errors import JournalCorruptError, JournalError, JournalFencedError, JournalRuleError
from sdf.journal.chain import block_name, canonical, find_head, sha256, verify
from sdf.journal.journal import Journal
from sdf.journal.pending import Pending
from sdf.journal.remaining import Remaining
from sdf.model.restrictions import OffsetRange
from sdf.saving.command import main
from sdf.storage import ballots
from sdf.storage.disk import Disk

CONFIG = {"fns": ["TailFn"]}


class CountingDisk(Disk):
    """Notes all that is asked of it."""

    def __init__(self, root):
        self.asked = []
        super().__init__(root)

    def read(self, name):
        data = super().read(name)
        self.asked.append(("read", name, len(data)))
        return data

    def size(self, name):
        self.asked.append(("stat", name))
        return super().size(name)

    def names(self, directory):
        self.asked.append(("list", directory))
        return super().names(directory)


def open_journal(path, inputs=("a",), clock=None, disk=Disk):
    return Journal(disk(path), config=CONFIG, inputs=list(inputs), clock=clock or Clock(100))


def fields(journal, records=0, watermark=None, state=b"left", status="running", **read):
    """Return what follows from the last block, with so many records more, and so much more of each input."""
    old = journal.head.data
    begun = old["kind"] == "commit"
    out = old["output"]["stop"] if begun else 0
    before = {one["id"]: one["stop"] for one in old["inputs"]} if begun else dict.fromkeys(old["inputs"], 0)
    return {
        "inputs": [{"id": name, "start": at, "stop": at + read.get(name, 0)} for name, at in before.items()],
        "output": {"start": out, "stop": out + records},
        "checkpoint": None if state is None else [journal.put(state)],
        "watermark": watermark,
        "status": status,
    }


def chain_of(path, commits, with_records=lambda number: 1, clock=None):
    """Commit so many batches; each leaves another state behind."""
    journal = open_journal(path, clock=clock)
    for number in range(commits):
        records = with_records(number)
        journal.commit(fields(journal, records, watermark=number, state=b"left %d" % number, a=records))
    return journal


# What may follow


@pytest.fixture
def three(tmp_path):
    """After [0, 10) with watermark 0, [10, 20) with 1, and [20, 20) with 3."""
    journal = open_journal(tmp_path, inputs=("a", "b"))
    for records, watermark in ((10, 0), (10, 1), (0, 3)):
        journal.commit(fields(journal, records, watermark, a=records))
    return journal


def changed(good, path, value):
    """Return a copy of a block's fields with one changed: ``output.start``, ``inputs.0.stop``."""
    copy = json.loads(json.dumps(good))
    *way, last = path.split(".")
    place = copy
    for step in way:
        place = place[int(step) if step.isdigit() else step]
    place[last] = value
    return copy


@pytest.mark.parametrize(
    ("path", "value", "rule"),
    [
        ("output.start", 21, "the output starts where the block before stopped"),
        ("output.start", 10, "the output starts where the block before stopped"),
        ("output.stop", 19, "0 <= start <= stop"),
        ("output.stop", 25.0, "0 <= start <= stop"),
        ("inputs.0.start", 19, "each input starts where the block before stopped"),
        ("inputs.0.stop", 19, "0 <= start <= stop"),
        ("inputs.1.id", "c", "the inputs are the same, in order"),
        ("watermark", None, "neither dropped nor lowered"),
        ("watermark", 2, "neither dropped nor lowered"),
        ("checkpoint", None, "a checkpoint is dropped only when all is done"),
    ],
)
def test_a_block_that_does_not_follow_is_refused(three, path, value, rule):
    """Nothing is written, and the right block can still be appended."""
    good = fields(three, 5, watermark=3, state=b"new", a=5)
    with pytest.raises(JournalRuleError, match=rule):
        three.commit(changed(good, path, value))
    assert find_head(three._storage).seq == 3
    assert three.commit(good).seq == 4


def test_inputs_in_another_order_are_refused(three):
    """An input is known by its place as well as its name."""
    good = fields(three, 5, watermark=3, state=b"new")
    with pytest.raises(JournalRuleError, match="the inputs are the same, in order"):
        three.commit({**good, "inputs": good["inputs"][::-1]})


def test_a_block_where_nothing_advances_is_refused(three):
    """An idle poll writes no block; a source that gives records without advancing is caught."""
    with pytest.raises(JournalRuleError, match="a block changes something"):
        three.commit(fields(three, 0, watermark=3))


@pytest.mark.parametrize(
    "advance", [{"records": 1}, {"watermark": 4}, {"state": b"new"}, {"status": "done"}, {"b": 1}], ids=str
)
def test_any_one_advance_is_enough(three, advance):
    """Also the watermark alone: it is an ordinary block with an empty output."""
    assert three.commit(fields(three, **{"watermark": 3, **advance})).seq == 4


def test_a_checkpoint_that_is_not_stored_is_refused(three):
    """What a block names is there before the block is."""
    with pytest.raises(JournalRuleError, match="is not stored"):
        three.commit({**fields(three, 5, watermark=3), "checkpoint": [{"sha256": "0" * 64, "size": 3}]})


def test_nothing_follows_when_all_is_done(three):
    """The chain is closed."""
    three.commit(fields(three, 1, watermark=3, state=None, status="done"))
    with pytest.raises(JournalRuleError, match="no block follows"):
        three.commit(fields(three, 1, watermark=3, status="running"))


def test_the_first_block_begins_at_zero(tmp_path):
    """There is nothing before it."""
    journal = open_journal(tmp_path)
    with pytest.raises(JournalRuleError, match="the output starts where the block before stopped"):
        journal.commit(changed(fields(journal, 20), "output.start", 10))


def test_a_clock_that_is_set_back_stops_nobody(tmp_path):
    """Blocks stay in order of time."""
    clock = Clock(100)
    journal = open_journal(tmp_path, clock=clock)
    clock.now = 50
    assert journal.commit(fields(journal, 1)).data["time"] == 100


@pytest.mark.parametrize("key", ["inputs", "output", "watermark", "checkpoint"])
def test_what_an_empty_block_must_carry(three, key):
    """Each of these is there also when the batch was empty; without it the block is refused."""
    empty = fields(three, 0, watermark=3, state=b"new")
    del empty[key]
    with pytest.raises((JournalRuleError, KeyError)):
        three.commit(empty)


def test_a_silent_input_keeps_its_place(tmp_path):
    """After 500 batches without a record of it."""
    journal = open_journal(tmp_path, inputs=("a", "b"))
    journal.commit(fields(journal, 1, b=7))
    for _ in range(500):
        journal.commit(fields(journal, 1, a=1))
    assert journal.head.data["inputs"] == [
        {"id": "a", "start": 499, "stop": 500}, {"id": "b", "start": 7, "stop": 7},
    ]  # fmt: skip


# Resuming


MORE = pytest.param(1000, marks=pytest.mark.slow("test_a_resume_reads_the_last_block_only[100]"))


@pytest.mark.parametrize("commits", [10, 100, MORE, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_resume_reads_the_last_block_only(tmp_path, commits):
    """The same few files, whatever the length of the chain; no directory is listed but that of the next batch."""
    chain_of(tmp_path, commits, with_records=lambda number: int(number < commits // 10))
    disk = CountingDisk(tmp_path)
    began = time.perf_counter()
    journal = Journal(disk, config=CONFIG, inputs=["a"], clock=Clock(100))
    journal.get(journal.head.data["checkpoint"][0])
    journal.ahead("pin-0")
    print(f"\n{commits} commits, resumed in {1000 * (time.perf_counter() - began):.2f} ms")
    asked = [(what, name) for what, name, *_ in disk.asked]
    assert asked == [
        ("read", "HEAD"),
        ("stat", block_name(commits)),
        ("read", block_name(commits)),
        ("stat", block_name(commits + 1)),
        ("list", "ahead"),
        ("read", "HEAD"),
        ("read", f"blobs/{journal.head.data['checkpoint'][0]['sha256']}"),
    ]
    assert journal.head.data["output"] == {"start": commits // 10, "stop": commits // 10}


@pytest.mark.parametrize("head", [None, b"", b'{"seq', b'{"seq":"2"}', b"[]"])
def test_a_head_that_says_nothing_is_done_without(tmp_path, head):
    """It is a hint; the last block is found by a listing."""
    last = chain_of(tmp_path, 20).head
    if head is None:
        os.remove(tmp_path / "HEAD")
    else:
        (tmp_path / "HEAD").write_bytes(head)
    disk = CountingDisk(tmp_path)
    assert find_head(disk) == last
    assert [one for one in disk.asked if one[0] == "list"] == [("list", "blocks")]
    assert len(disk.asked) < 20


@pytest.mark.parametrize("late", [1, 2, 9])
def test_a_listing_that_lags_hides_no_block(tmp_path, late):
    """As that of a mounted object store may; each block is asked for by its name."""

    class Lagging(Disk):
        def names(self, directory):
            return super().names(directory)[:-late]

    last = chain_of(tmp_path, 6).head
    os.remove(tmp_path / "HEAD")
    assert find_head(Lagging(tmp_path)) == last


@pytest.mark.parametrize("with_head", [True, False])
@pytest.mark.parametrize("what", ["block", "pin"])
def test_what_a_dead_driver_left_torn_is_written_by_the_next_one(tmp_path, monkeypatch, what, with_head):
    """On a disk without hard links; the dead one is told that it has lost, should it still live."""
    monkeypatch.setattr(ballots, "_DOUBT_SECONDS", 0)
    journal = chain_of(tmp_path, 3)
    torn = tmp_path / (block_name(4) if what == "block" else f"ahead/{4:020d}.pin-0.json")
    torn.parent.mkdir(exist_ok=True)
    torn.write_bytes(b"#sdf sealed 100")
    if not with_head:
        os.remove(tmp_path / "HEAD")
    assert len(list(verify(Disk(tmp_path)))) == 4
    following = open_journal(tmp_path)
    assert (following.head, following.ahead("pin-0")) == (journal.head, None)
    assert following.write_ahead("pin-0", "next") == "next"
    following.commit(fields(following, 1, watermark=9))
    with pytest.raises(JournalFencedError):
        journal.commit(fields(journal, 1, watermark=10))
    assert [block.seq for block in verify(Disk(tmp_path))] == [0, 1, 2, 3, 4]
    assert open_journal(tmp_path).head == following.head


@pytest.mark.parametrize("lost", [0, 1, 3, 5])
def test_a_chain_that_has_lost_head_and_another_block_is_not_gone_on_with(tmp_path, lost):
    """The stream would start over, or from where it was long ago."""
    chain_of(tmp_path, 6)
    os.remove(tmp_path / "HEAD")
    os.remove(tmp_path / block_name(lost))
    with pytest.raises(JournalCorruptError, match=rf"{lost}\.json: it is missing, and so is HEAD"):
        open_journal(tmp_path)


@pytest.mark.parametrize("behind", [1, 2, 7])
def test_a_head_that_lags_is_moved(tmp_path, behind):
    """A crash leaves it one behind; a copied directory may leave it further behind."""
    journal = chain_of(tmp_path, 10)
    old = list(verify(Disk(tmp_path)))[10 - behind]
    (tmp_path / "HEAD").write_text(json.dumps({"seq": old.seq, "hash": old.hash}))
    assert open_journal(tmp_path).head == journal.head
    assert json.loads((tmp_path / "HEAD").read_text())["seq"] == 10


@pytest.mark.parametrize("harm", [lambda path: path.write_bytes(b"garbage"), lambda path: path.unlink()])
def test_old_blocks_are_not_needed(tmp_path, harm):
    """Only `verify` misses them, and names the first."""
    last = chain_of(tmp_path, 10).head
    for number in (4, 6):
        harm(tmp_path / block_name(number))
    assert open_journal(tmp_path).head == last
    with pytest.raises(JournalCorruptError, match=f"{4:020d}"):
        list(verify(Disk(tmp_path)))


def test_a_flipped_bit_in_an_old_block_is_found(tmp_path):
    """By the hash that the next block has of it."""
    chain_of(tmp_path, 4)
    path = tmp_path / block_name(2)
    path.write_bytes(path.read_bytes().replace(b'"time":100', b'"time":101'))
    with pytest.raises((JournalCorruptError, JournalRuleError), match=f"{2:020d}|block 3"):
        list(verify(Disk(tmp_path)))


def test_a_flipped_bit_in_the_last_block_is_found(tmp_path):
    """By the hash in HEAD."""
    chain_of(tmp_path, 4)
    path = tmp_path / block_name(4)
    path.write_bytes(path.read_bytes().replace(b'"time":100', b'"time":101'))
    with pytest.raises(JournalCorruptError, match="HEAD has another hash"):
        open_journal(tmp_path)


@pytest.mark.parametrize(
    "content", [b"{}", b"nonsense", b'{"v":1}', b'{"v":1,"seq":4,"kind":"other"}', b'{"v":1,"seq":4,"kind":[]}']
)
def test_a_block_that_is_none_is_refused(tmp_path, content):
    """With its name, and what to do."""
    chain_of(tmp_path, 4)
    os.remove(tmp_path / "HEAD")
    (tmp_path / block_name(4)).write_bytes(content)
    with pytest.raises(JournalCorruptError, match=f"{4:020d}.*Restore the checkpoint from"):
        open_journal(tmp_path)


def test_a_version_that_is_not_known_is_refused(tmp_path):
    """A newer sdf may mean something else by it."""
    chain_of(tmp_path, 1)
    os.remove(tmp_path / "HEAD")
    (tmp_path / block_name(1)).write_bytes(b'{"v":2,"seq":1,"kind":"commit"}')
    with pytest.raises(JournalError, match="has version 2, but this release of sdf reads version 1"):
        open_journal(tmp_path)


def test_the_journal_of_another_stream_is_refused(tmp_path):
    """Before anything is read from it."""
    chain_of(tmp_path, 1)
    with pytest.raises(JournalError, match="belongs to another stream"):
        Journal(Disk(tmp_path), config={"fns": ["OtherFn"]}, inputs=["a"], clock=Clock(100))


@pytest.mark.parametrize(
    ("harm", "flaw"), [(b"left 9", "does not match the hash in its name"), (None, "it is missing")]
)
def test_a_checkpoint_that_is_not_there_is_refused(tmp_path, harm, flaw):
    """Or that holds something else."""
    journal = chain_of(tmp_path, 2)
    reference = journal.head.data["checkpoint"][0]
    path = tmp_path / "blobs" / reference["sha256"]
    path.unlink() if harm is None else path.write_bytes(harm)
    with pytest.raises(JournalCorruptError, match=flaw):
        journal.get(reference)


def test_the_command_that_an_error_names_finds_the_flaw(tmp_path):
    """It is copied from the message, and run."""
    reference = chain_of(tmp_path, 2).head.data["checkpoint"][0]
    (tmp_path / "blobs" / reference["sha256"]).unlink()
    with pytest.raises(JournalCorruptError) as caught:
        open_journal(tmp_path).get(reference)
    program, *arguments = re.search(r"`(.*)`", str(caught.value)).group(1).split()
    assert program == "python"
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, f"{caught.value}\n")


# Written ahead


def test_what_was_written_ahead_is_followed(tmp_path):
    """Also by a driver that would have planned something else."""
    journal = chain_of(tmp_path, 2)
    assert journal.write_ahead("pin-0", {"tasks": 3}) == {"tasks": 3}
    again = open_journal(tmp_path)
    assert again.write_ahead("pin-0", {"tasks": 5}) == {"tasks": 3}
    assert again.ahead("pin-0") == {"tasks": 3}
    assert again.ahead("pin-1") is None


def test_what_was_written_ahead_is_forgotten_with_the_commit(tmp_path):
    """The directory does not grow."""
    journal = chain_of(tmp_path, 2)
    journal.write_ahead("pin-0", 1)
    journal.write_ahead("pin-1", 2)
    journal.commit(fields(journal, 1, watermark=5))
    assert (journal.ahead("pin-0"), os.listdir(tmp_path / "ahead")) == (None, [])


@pytest.mark.parametrize("write", [lambda journal: journal.write_ahead("pin-0", 1), lambda journal: journal.commit({})])
def test_a_journal_that_was_removed_is_not_gone_on_with(tmp_path, write):
    """It would be a chain without a beginning."""
    journal = chain_of(tmp_path / "journal", 2)
    shutil.rmtree(tmp_path / "journal")
    with pytest.raises(JournalCorruptError, match=r"it has gone while a stream ran.*mount it"):
        write(journal)
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize(("name", "refused"), [("pin-0", True), ("plan-0", False), ("void", False)])
def test_a_batch_that_an_older_sdf_has_pinned_is_left_to_it(tmp_path, name, refused):
    """Its sink may have it. What was only planned nobody has seen."""
    chain_of(tmp_path, 2)
    (tmp_path / "ahead").mkdir(exist_ok=True)
    (tmp_path / "ahead" / f"{3:020d}.{4:020d}.{name}.json").write_text("{}")
    if refused:
        with pytest.raises(JournalError, match=r"an older sdf has begun batch 3 .*Let that sdf commit it"):
            open_journal(tmp_path)
        return
    journal = open_journal(tmp_path)
    assert journal.ahead("pin-0") is None
    journal.commit(fields(journal, 1, watermark=5))
    assert os.listdir(tmp_path / "ahead") == []


def test_a_changed_byte_of_what_was_written_ahead_is_found(tmp_path):
    """Each in turn, and none is followed; `verify` finds it too."""
    journal = chain_of(tmp_path, 2)
    journal.write_ahead("pin-0", {"read": [0, 3]})
    (path,) = (tmp_path / "ahead").iterdir()
    good = path.read_bytes()
    for place in range(len(good)):
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(JournalError):
            open_journal(tmp_path).ahead("pin-0")
        assert main(["verify", str(tmp_path)]) == 1


def test_what_was_written_ahead_of_another_block_is_replaced(tmp_path):
    """It names the hash of the block that it would have followed."""
    journal = chain_of(tmp_path, 2)
    journal.write_ahead("pin-0", "old")
    path = tmp_path / "ahead" / f"{3:020d}.pin-0.json"
    entry = {"content": "old", "prev": "0" * 64, "seq": 3, "v": 1}
    path.write_bytes(canonical({**entry, "sha256": sha256(canonical(entry))}))
    assert journal.write_ahead("pin-0", "new") == "new"
    assert open_journal(tmp_path).ahead("pin-0") == "new"


def test_the_second_of_two_drivers_is_fenced(tmp_path):
    """Whoever comes second to a block stops, and the chain stays whole."""
    chain_of(tmp_path, 2)
    one, two = open_journal(tmp_path), open_journal(tmp_path)
    one.commit(fields(one, 1, watermark=5))
    with pytest.raises(JournalFencedError, match="another driver is ahead of this one"):
        two.commit(fields(two, 2, watermark=5))
    assert open_journal(tmp_path).head == one.head


@pytest.mark.parametrize("name", ["start", "pin-0", "pin-1"])
def test_a_driver_whose_batch_another_has_committed_is_fenced_before_its_sink(tmp_path, name):
    """What it would have followed has been removed, so it would be the first again, with other records."""
    chain_of(tmp_path, 2)
    late, other = open_journal(tmp_path), open_journal(tmp_path)
    for driver in (late, other):
        driver.write_ahead("start", 1)
    other.write_ahead("pin-0", "given to the sink")
    other.commit(fields(other, 1, watermark=5))
    with pytest.raises(JournalFencedError, match="another driver is ahead of this one"):
        late.write_ahead(name, "something else")
    assert open_journal(tmp_path).ahead("pin-0") is None


@pytest.mark.parametrize("directory", ["blobs", "ahead", "blocks"])
def test_what_a_dead_driver_did_not_come_to_sync_is_synced_before_it_is_built_on(tmp_path, monkeypatch, directory):
    """It was killed between the two; then the next driver commits; then power is lost."""
    chain_of(tmp_path, 2)
    synced = []
    monkeypatch.setattr(Disk, "_sync", staticmethod(lambda path: synced.append(path.name)))
    open_journal(tmp_path).write_ahead("pin-0", 1)
    synced.clear()
    open_journal(tmp_path)
    assert directory in synced


def test_old_checkpoints_are_removed(tmp_path):
    """Those of the last block and of the one before it stay."""
    chain_of(tmp_path, 50)
    assert len(os.listdir(tmp_path / "blobs")) == 2


def test_a_checkpoint_that_comes_back_stays(tmp_path):
    """The same content has the same name."""
    journal = open_journal(tmp_path)
    for number in range(9):
        journal.commit(fields(journal, 1, state=b"one" if number % 2 else b"other"))
        assert journal.get(journal.head.data["checkpoint"][0])


def test_cleaning_removes_what_no_resume_can_need(tmp_path, capsys):
    """A blob of a batch that never was, what was written ahead of one that was, and files half written."""
    journal = chain_of(tmp_path, 3)
    journal.put(b"orphan")
    (tmp_path / "ahead").mkdir(exist_ok=True)
    (tmp_path / "ahead" / f"{2:020d}.pin-0.json").write_text("{}")
    (tmp_path / "blobs" / "half.tmp-1").write_text("")
    (tmp_path / "HEAD.tmp-2").write_text("")
    journal.write_ahead("pin-0", "wanted")
    before = files_of(tmp_path)
    assert main(["clean", str(tmp_path)]) == 0
    assert "removed 4 files" in capsys.readouterr().out
    assert len(files_of(tmp_path)) == len(before) - 4
    again = open_journal(tmp_path)
    assert (again.ahead("pin-0"), again.get(again.head.data["checkpoint"][0])) == ("wanted", b"left 2")


def files_of(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


# The command line


def test_show_prints_the_history(tmp_path, capsys):
    """A line a block, and one for each part of the remaining work: where each file or partition stands."""
    journal, remaining = open_journal(tmp_path), Remaining()
    for number in range(2):
        remaining.add([Pending(0, f"file {number}", OffsetRange(number, 9))], 0)
        read = fields(journal, 1, watermark=number, state=None, a=1)
        journal.commit({**read, "checkpoint": remaining.store(journal.put, [])})
    assert main(["show", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1:] == [
        "1  100  a [0, 1)  output [0, 1)  watermark 0  running",
        "2  100  a [1, 2)  output [1, 2)  watermark 1  running",
        "left: a  'file 0'  OffsetRange(start=0, stop=9)",
        "left: a  'file 1'  OffsetRange(start=1, stop=9)",
        "3 blocks, the chain is whole",
    ]


@pytest.mark.parametrize("harm", ["checkpoint", "head block", "head hash", "stray", "keys"])
def test_verify_finds_what_a_resume_would_stumble_over(tmp_path, capsys, harm):
    """Not only a chain that is broken."""
    head = chain_of(tmp_path, 3).head
    if harm == "checkpoint":
        (tmp_path / "blobs" / head.data["checkpoint"][0]["sha256"]).write_bytes(b"other")
    elif harm == "head block":
        (tmp_path / block_name(3)).unlink()
    elif harm == "head hash":
        (tmp_path / "HEAD").write_text(json.dumps({"seq": 3, "hash": "0" * 64}))
    elif harm == "stray":
        (tmp_path / "blocks" / "notes.txt").write_text("")
    else:
        (tmp_path / block_name(2)).write_bytes((tmp_path / block_name(2)).read_bytes().replace(b'"prev"', b'"prew"'))
    assert main(["verify", str(tmp_path)]) == 1
    assert "A crash cannot cause this" in capsys.readouterr().err


class DiskOfARunningStream(Disk):
    """While somebody reads a journal, the stream goes on, just before or after something is asked of it."""

    goes_on = None
    when = None

    def names(self, directory):
        names = super().names(directory)
        if directory == self.when:
            self.goes_on()
        return names

    def read(self, name):
        if os.path.dirname(name) == self.when == "blobs":
            self.goes_on()
        return super().read(name)


@pytest.mark.parametrize("when", ["blobs", "ahead"])
def test_verify_is_right_about_a_stream_that_runs(tmp_path, monkeypatch, capsys, when):
    """What it knows of may be gone when it comes to it: the blob of two batches ago, the plan of the last."""
    journal, batches = chain_of(tmp_path, 3), iter(range(6))
    journal.write_ahead("pin-0", "next")

    def goes_on():
        for number in itertools.islice(batches, 2):
            journal.commit(fields(journal, 1, watermark=number + 100, state=b"after %d" % number))
            journal.write_ahead("pin-0", number)

    monkeypatch.setattr(DiskOfARunningStream, "goes_on", staticmethod(goes_on))
    monkeypatch.setattr(DiskOfARunningStream, "when", when)
    monkeypatch.setattr("sdf.saving.command.storage_at", lambda where, who: DiskOfARunningStream(where))
    assert main(["verify", str(tmp_path)]) == 0
    assert journal.head.seq > 3
    assert "the chain is whole" in capsys.readouterr().out


def test_verify_says_where_the_chain_breaks(tmp_path, capsys):
    """And fails."""
    chain_of(tmp_path, 3)
    (tmp_path / block_name(2)).write_bytes(b"{}")
    assert main(["verify", str(tmp_path)]) == 1
    assert f"{2:020d}.json: it is not what sdf writes" in capsys.readouterr().err


# Power loss


def record_a_stream(path, monkeypatch, recorder):
    """Run three batches; return how long the trace was when each step had returned."""
    with monkeypatch.context() as patch:
        recorder.patch(patch)
        journal = open_journal(path)
        done = {}
        for number in range(3):
            journal.write_ahead("pin-0", {"batch": number})
            journal.write_ahead("pin-1", {"batch": number})
            done[len(recorder.trace)] = (number, "pinned")
            journal.commit(fields(journal, 1, watermark=number, state=b"left %d" % number, a=1))
            done[len(recorder.trace)] = (number + 1, "committed")
    return done


@pytest.mark.parametrize("is_volume", [False, True], ids=["disk", "volume"])
def test_any_loss_of_power_leaves_a_journal_to_go_on_with(tmp_path, monkeypatch, is_volume):
    """What was committed is there, what was pinned is there, nothing half written is believed."""
    monkeypatch.setattr(ballots, "_DOUBT_SECONDS", 0)
    live, after = tmp_path / "live", tmp_path / "after"
    live.mkdir()
    recorder = Recorder(is_volume=is_volume)
    committed = record_a_stream(live, monkeypatch, recorder)
    states = set()
    power = PoweredDisk(live)
    for length in range(len(recorder.trace) + 1):
        if length:
            power.apply(*recorder.trace[length - 1])
        promised = [entry for at, entry in committed.items() if at <= length]
        least = max((number for number, _ in promised), default=0)
        for state in power.survivors(64):
            key = tuple(sorted(state.items(), key=str))
            if (least, key) in states:
                continue
            states.add((least, key))
            shutil.rmtree(after, ignore_errors=True)
            after.mkdir()
            restore(state, after)
            with monkeypatch.context() as patch:
                Recorder(is_volume=is_volume).patch(patch)
                journal = open_journal(after)
                assert least <= journal.head.seq <= least + 1
                if journal.head.seq:
                    assert journal.get(journal.head.data["checkpoint"][0]) == b"left %d" % (journal.head.seq - 1)
                if promised and promised[-1][1] == "pinned" and journal.head.seq == least:
                    assert journal.ahead("pin-1") == {"batch": least}
                assert len(list(verify(Disk(after)))) == journal.head.seq + 1
                journal.write_ahead("pin-0", "next")
                journal.commit(fields(journal, 1, watermark=9, state=b"next"))
    assert len(states) > 70


MORE_SEEDS = [pytest.param(seed, marks=pytest.mark.slow("the same test with other seeds")) for seed in range(6, 20)]


@pytest.mark.parametrize("seed", [*range(6), *MORE_SEEDS])
def test_the_resumed_state_is_the_fold_of_the_chain(tmp_path, seed):
    """For random chains: what the last block says is what all blocks add up to."""
    chance = random.Random(seed)
    journal = open_journal(tmp_path, inputs=("a", "b", "c"))
    read = dict.fromkeys("abc", 0)
    for number in range(60):
        more = {name: chance.choice([0, 0, 0, 5]) for name in "abc"}
        read = {name: at + more[name] for name, at in read.items()}
        journal.commit(fields(journal, sum(more.values()), watermark=number, **more))
        if chance.random() < 0.2:
            journal = open_journal(tmp_path, inputs=("a", "b", "c"))
    head = open_journal(tmp_path, inputs=("a", "b", "c")).head.data
    assert {one["id"]: one["stop"] for one in head["inputs"]} == read
    assert head["output"]["stop"] == sum(read.values())

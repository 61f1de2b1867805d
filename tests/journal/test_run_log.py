"""The log of a saved run: what is appended is read again, of two drivers one writes, and damage is told."""

import itertools
import json
import zlib

import pytest

from sdf.errors import JournalCorruptError, JournalDiskError, JournalError, JournalFencedError
from sdf.journal import run_log
from sdf.journal.run_log import RunLog
from sdf.storage.disk import Disk

names = itertools.count()


@pytest.fixture(scope="module", autouse=True)
def nothing_synced():
    """A disk that syncs takes most of the time of these tests, and tests/storage has that."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("os.fsync", lambda handle: None)
        yield


@pytest.fixture(autouse=True)
def packs_of_four(monkeypatch):
    """So that few entries make several packs; one test uses the real number."""
    monkeypatch.setattr(run_log, "_PACKED", 4)


def open_log(storage, clock=lambda: 7):
    return RunLog(storage, driver=f"driver-{next(names)}", clock=clock)


def read(storage):
    """Return all records, read by a driver that begins."""
    return list(open_log(storage).read())


def begin(storage):
    """Return the log of a driver that has read all."""
    log = open_log(storage)
    list(log.read())
    return log


def fill(storage, entries, log=None):
    """Append entries of one record each, their number; return the log."""
    log = log or begin(storage)
    for _ in range(entries):
        log.append([log.next_number])
    return log


def files(tmp_path):
    return sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file())


def entry(number):
    return f"log/{number:020d}.json"


def pack(number):
    return f"packs/{number:020d}"


# Appending and reading


def test_an_empty_log_has_no_records(tmp_path):
    """To read it makes nothing on the disk."""
    assert read(Disk(tmp_path / "state")) == []
    assert not (tmp_path / "state").exists()


@pytest.mark.parametrize("entries", range(14))
def test_what_is_appended_is_read_in_order(tmp_path, entries):
    """By the next driver, which goes on with the next number; whatever is packed by then."""
    storage = Disk(tmp_path)
    fill(storage, entries)
    log = open_log(storage)
    assert list(log.read()) == list(range(entries))
    assert log.next_number == entries


def test_an_entry_holds_several_records(tmp_path):
    """Any JSON data, which comes back as it was."""
    storage = Disk(tmp_path)
    records = [["begin", {"a": [1, 2.5, None]}], ["split", "ü\u2028\n\r"], []]
    begin(storage).append(records)
    begin(storage).append([])
    assert read(storage) == records


def test_full_packs_replace_their_entries(tmp_path):
    """Ten entries make two packs of four, and two entries."""
    fill(Disk(tmp_path), 10)
    assert files(tmp_path) == [entry(8), entry(9), pack(0), pack(1)]


def test_a_pack_has_512_entries(tmp_path, monkeypatch):
    """The 512th append makes the pack."""
    monkeypatch.undo()
    storage = Disk(tmp_path)
    log = fill(storage, 511)
    assert len(files(tmp_path)) == 511
    fill(storage, 1, log)
    assert files(tmp_path) == [pack(0)]
    assert read(storage) == list(range(512))


def test_the_time_never_goes_back(tmp_path):
    """Though the clock does, also that of another driver."""
    storage = Disk(tmp_path)
    clock = iter([10, 5, 20, 3])
    log = fill(storage, 3, open_log(storage, lambda: next(clock)))
    assert log.time == 20
    log = open_log(storage, lambda: next(clock))
    list(log.read())
    assert log.time == 20
    fill(storage, 1, log)
    assert log.time == 20


# Fencing


def test_of_two_drivers_the_first_to_write_has_taken_over(tmp_path):
    """The other one is told so; nothing of its entry counts."""
    storage = Disk(tmp_path)
    one = fill(storage, 2)
    two = begin(storage)
    two.append(["two"])
    with pytest.raises(JournalFencedError, match=r"another driver has taken over .* python -m sdf.journal show"):
        one.append(["one"])
    assert read(storage) == [0, 1, "two"]


@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("meanwhile", range(1, 14))
def test_a_driver_that_was_overtaken_long_ago_is_told(tmp_path, before, meanwhile):
    """Also where its number was packed and removed since, so that it can create it again; nothing is changed."""
    storage = Disk(tmp_path)
    late = fill(storage, before)
    fill(storage, meanwhile)
    there = files(tmp_path)
    for _ in range(2):
        with pytest.raises(JournalFencedError):
            late.append(["late"])
    assert files(tmp_path) == there
    assert read(storage) == list(range(before + meanwhile))


def test_what_an_overtaken_driver_has_left_is_not_read(tmp_path):
    """It created a number that was packed, and died before it removed that again."""
    storage = Disk(tmp_path)
    fill(storage, 6)
    storage.create(entry(2), b"late")
    assert read(storage) == list(range(6))
    begin(storage).remove_unused([])
    assert files(tmp_path) == [entry(4), entry(5), pack(0)]


class DeathError(BaseException):
    """Ends a driver as a crash does."""


class Points(Disk):
    """A disk of which the n-th operation, if it is reached, is preceded by a call."""

    def __init__(self, root, at=None, then=None):
        super().__init__(root)
        self.at, self.then, self.passed = at, then, 0

    def point(self):
        self.passed += 1
        if self.passed == self.at:
            self.then()

    def create(self, name, data):
        self.point()
        super().create(name, data)

    def replace(self, name, data):
        self.point()
        super().replace(name, data)

    def remove(self, name):
        self.point()
        super().remove(name)

    def read(self, name):
        self.point()
        return super().read(name)

    def size(self, name):
        self.point()
        return super().size(name)

    def names(self, directory):
        self.point()
        return super().names(directory)


def die():
    raise DeathError


def test_a_driver_may_die_before_each_operation(tmp_path):
    """Read by the next one is what it had appended, and perhaps the entry that it was at; then it goes on."""
    for at in itertools.count(1):
        root = tmp_path / str(at)
        dying = Points(root, at, die)
        log = open_log(dying)
        appended = 0
        try:
            list(log.read())
            for _ in range(9):
                log.append([log.next_number])
                appended += 1
        except DeathError:
            pass
        records = read(Disk(root))
        assert records in (list(range(appended)), list(range(appended + 1)))
        for more in range(1, 12):
            fill(Disk(root), 1)
            assert read(Disk(root)) == list(range(len(records) + more))
        if dying.passed < at:
            break
    assert at > 30


def test_a_pack_that_a_crash_has_prevented_is_made_later(tmp_path):
    """The driver died between the last entry of a pack and the pack."""
    storage = Disk(tmp_path)
    log = fill(storage, 3)
    log._pack = lambda number: die()
    with pytest.raises(DeathError):
        fill(storage, 1, log)
    assert len(files(tmp_path)) == 4
    fill(storage, 5)
    assert files(tmp_path) == [entry(8), pack(0), pack(1)]
    assert read(storage) == list(range(9))


@pytest.mark.parametrize("meanwhile", [1, 2, 5, 9])
def test_a_driver_that_pauses_before_any_operation_is_overtaken(tmp_path, meanwhile):
    """What it had appended is there once, and perhaps the entry that it was at, if the other one has read that."""
    fenced = 0
    for at in itertools.count(1):
        root = tmp_path / str(at)
        others = []

        def overtake(root=root, others=others):
            others.extend(read(Disk(root)))
            other = begin(Disk(root))
            for number in range(meanwhile):
                other.append([f"other {number}"])

        pausing = Points(root, at, overtake)
        appended = []
        try:
            log = open_log(pausing)
            list(log.read())
            for number in range(9):
                log.append([number])
                appended.append(number)
        except JournalFencedError:
            fenced += 1
        records = read(Disk(root))
        mine = [record for record in records if isinstance(record, int)]
        assert mine in (appended, [*appended, len(appended)])
        if pausing.passed < at:
            break
        assert [record for record in records if record not in mine] == [f"other {n}" for n in range(meanwhile)]
        assert records[: len(others)] == others
    assert fenced > 20


def test_a_log_can_be_read_while_its_driver_writes_and_packs(tmp_path):
    """At whatever operation of the reader that happens: it reads a beginning of the log, and no damage."""
    for at in itertools.count(1):
        root = tmp_path / str(at)
        writer = fill(Disk(root), 7)
        reader = Points(root, at, lambda writer=writer: fill(None, 3, writer))
        records = read(reader)
        assert records == list(range(len(records)))
        assert len(records) >= 7
        if reader.passed < at:
            break
    assert at > 5


# Damage


def cut(content):
    return content[: len(content) // 2]


def edited(content):
    return content.replace(b"driver-", b"pirate-")


def other_json(content):
    return b"[1, 2]"


@pytest.mark.parametrize("damage", [cut, edited, other_json, lambda content: b""])
@pytest.mark.parametrize("number", [8, 9])
def test_a_damaged_entry_is_told(tmp_path, damage, number):
    """It names the file, or the one after it that does not follow; the last one may be any that follows."""
    storage = Disk(tmp_path)
    fill(storage, 11)
    path = tmp_path / entry(number)
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(JournalCorruptError, match=rf"0({number}|{number + 1}).json: .*restore the checkpoint"):
        read(storage)


def test_a_missing_entry_is_told(tmp_path):
    """And which one it is."""
    storage = Disk(tmp_path)
    fill(storage, 11)
    storage.remove(entry(9))
    with pytest.raises(JournalCorruptError, match=r"09.json: it is missing, but later ones are there"):
        read(storage)


def test_a_missing_pack_is_told(tmp_path):
    """And which one it is."""
    storage = Disk(tmp_path)
    fill(storage, 11)
    storage.remove(pack(0))
    with pytest.raises(JournalCorruptError, match=r"packs/0+: it is missing"):
        read(storage)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (cut, "it is not what sdf writes"),
        (lambda content: zlib.compress(edited(zlib.decompress(content))), "does not follow"),
        (
            lambda content: zlib.compress(b"\n".join(zlib.decompress(content).splitlines()[1:])),
            "it holds 3 entries instead of 4",
        ),
    ],
)
def test_a_damaged_pack_is_told(tmp_path, damage, message):
    """Its entries are checked as those that are not packed."""
    storage = Disk(tmp_path)
    fill(storage, 11)
    storage.replace(pack(0), damage(storage.read(pack(0))))
    with pytest.raises(JournalCorruptError, match=message):
        read(storage)


@pytest.mark.parametrize("field", ["v", "number", "before", "records", "time"])
def test_an_entry_that_lacks_something_is_told(tmp_path, field):
    """Though it is JSON."""
    storage = Disk(tmp_path)
    fill(storage, 1)
    data = json.loads(storage.read(entry(0)))
    del data[field]
    storage.replace(entry(0), json.dumps(data).encode())
    with pytest.raises(JournalCorruptError, match="it is not what sdf writes"):
        read(storage)


def test_another_version_is_no_damage(tmp_path):
    """The message says which sdf can read it."""
    storage = Disk(tmp_path)
    fill(storage, 1)
    storage.replace(entry(0), storage.read(entry(0)).replace(b'"v":1', b'"v":2'))
    with pytest.raises(JournalError, match=r"has version 2, this sdf knows 1. Use the sdf that wrote it.") as raised:
        read(storage)
    assert not isinstance(raised.value, JournalCorruptError)


def test_a_disk_that_fails_is_told_with_advice(tmp_path):
    """No entry counts that was not acknowledged, and the driver does not go on."""
    (tmp_path / "log").touch()
    with pytest.raises(JournalDiskError, match=r"cannot be used: .*make the same call again"):
        begin(Disk(tmp_path)).append([1])


# Blobs


def test_a_blob_comes_back_by_its_reference(tmp_path):
    """The same bytes are stored once; a crash may have cut them, and they are stored again."""
    storage = Disk(tmp_path)
    log = begin(storage)
    reference = log.put(b"elements")
    (name,) = files(tmp_path)
    assert log.put(b"elements") == reference
    (tmp_path / name).write_bytes(b"ele")
    assert log.put(b"elements") == reference
    assert begin(storage).get(reference) == b"elements"
    assert files(tmp_path) == [name]


def test_a_changed_or_missing_blob_is_told(tmp_path):
    """By the hash in its name."""
    storage = Disk(tmp_path)
    log = begin(storage)
    reference = log.put(b"elements")
    (name,) = files(tmp_path)
    (tmp_path / name).write_bytes(b"ELEMENTS")
    with pytest.raises(JournalCorruptError, match="does not match the hash"):
        log.get(reference)
    (tmp_path / name).unlink()
    with pytest.raises(JournalCorruptError, match="it is missing"):
        log.get(reference)


def test_what_no_record_refers_to_can_be_removed(tmp_path):
    """Blobs of a driver that died before it logged them, and half-written files; the log stays whole."""
    storage = Disk(tmp_path)
    log = fill(storage, 6)
    used, unused = log.put(b"used"), log.put(b"unused")
    for directory in ("log", "packs", "blobs"):
        (tmp_path / directory / "1.tmp-2").touch()
    assert len(log.remove_unused([used])) == 4
    assert files(tmp_path) == [f"blobs/{used['sha256']}", entry(4), entry(5), pack(0)]
    with pytest.raises(JournalCorruptError):
        log.get(unused)
    assert read(storage) == list(range(6))

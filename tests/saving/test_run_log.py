"""The log of a saved run: what a resume reads, who may write, and what any crash leaves of it."""

import itertools
import json
import re

import pytest
from support.memory import Memory
from support.sinking import DiedError

from sdf.errors import JournalCorruptError, JournalDiskError, JournalError, JournalFencedError
from sdf.saving import run_log
from sdf.saving.run_log import RunLog
from sdf.storage.disk import Disk

PACKED = 4


@pytest.fixture
def _packs_early(monkeypatch):
    """Four entries are a pack, so that small logs have several."""
    monkeypatch.setattr(run_log, "_PACKED", PACKED)


early = pytest.mark.usefixtures("_packs_early")


def opened(storage, driver="driver", clock=lambda: 7):
    """Return a log that was read, and its records."""
    log = RunLog(storage, driver=driver, clock=clock)
    return log, list(log.read())


def written(count, storage=None):
    """Return a storage with a log of so many entries, which hold their numbers."""
    storage = storage or Memory()
    log, _ = opened(storage)
    for number in range(count):
        log.append([["number", number]])
    return storage


def numbers(storage):
    return [number for _, number in opened(storage)[1]]


def test_what_was_appended_is_read_in_order():
    """Each entry's records, of all drivers."""
    storage = Memory()
    log, before = opened(storage, "first")
    assert before == []
    log.append([["a"], ["b", 1]])
    other, before = opened(storage, "second")
    assert before == [["a"], ["b", 1]]
    other.append([["c", None]])
    last, before = opened(storage)
    assert before == [["a"], ["b", 1], ["c", None]]
    assert last.next_number == 2


def test_an_entry_names_the_one_before_it_and_its_driver():
    """So that none can be left out, edited or swapped unseen."""
    storage = written(2)
    first, second = (storage.files[name] for name in storage.names("log"))
    assert json.loads(first)["before"] is None
    assert json.loads(second)["before"] == run_log.sha256(first)
    assert json.loads(second)["driver"] == "driver"


def test_time_does_not_go_back():
    """Though the clock may be set back between two drivers."""
    storage = Memory()
    opened(storage, clock=lambda: 100)[0].append([["a"]])
    log, _ = opened(storage, clock=lambda: 50)
    log.append([["b"]])
    assert (log.time, opened(storage)[0].time) == (100, 100)


def test_512_entries_are_one_file(tmp_path):
    """Which a resume reads instead; those after them are files of their own."""
    storage = written(515, Disk(tmp_path))
    assert storage.names("packs") == ["packs/00000000000000000000"]
    assert storage.names("log") == [f"log/{number:020d}.json" for number in (512, 513, 514)]
    assert numbers(storage) == list(range(515))


@early
@pytest.mark.parametrize("count", range(3 * PACKED + 2))
def test_a_log_of_any_length_is_read_and_continued(count):
    """Also one that ends with a pack."""
    storage = written(count)
    log, records = opened(storage)
    assert records == [["number", number] for number in range(count)]
    log.append([["number", count]])
    assert numbers(storage) == list(range(count + 1))
    assert len(storage.names("log")) == (count + 1) % PACKED


@early
@pytest.mark.parametrize("late", [1, 2, 9])
@pytest.mark.parametrize("count", [1, 6, 9])
def test_a_listing_that_lags_hides_no_entry(tmp_path, count, late):
    """As that of a mounted object store may; each entry is asked for by its name."""

    class Lagging(Disk):
        def names(self, directory):
            return super().names(directory)[:-late]

    written(count, Disk(tmp_path))
    assert numbers(Lagging(tmp_path)) == list(range(count))


# Fencing.


def test_of_two_drivers_that_begin_together_one_goes_on():
    """The other one finds its number taken."""
    storage = Memory()
    (one, _), (other, _) = opened(storage, "one"), opened(storage, "other")
    one.append([["one"]])
    with pytest.raises(
        JournalFencedError, match="another driver has taken over the saved run in memory: this one stops"
    ):
        other.append([["other"]])
    one.append([["one"]])
    assert opened(storage)[1] == [["one"], ["one"]]


@early
@pytest.mark.parametrize("since", range(1, 2 * PACKED + 2))
@pytest.mark.parametrize("at", range(2 * PACKED))
def test_a_driver_that_was_overtaken_writes_nothing_any_more(at, since):
    """However long ago: where its number is packed and removed by now, the pack tells it."""
    storage = written(at)
    late, _ = opened(storage, "late")
    following, _ = opened(storage, "following")
    for number in range(at, at + since):
        following.append([["number", number]])
    before = dict(storage.files)
    with pytest.raises(JournalFencedError):
        late.append([["late"]])
    assert storage.files == before
    assert numbers(storage) == list(range(at + since))


@early
def test_a_driver_that_was_overtaken_while_it_packed_stops():
    """Its successor packs the same entries, and removes them."""
    storage = written(PACKED - 1)
    overtakes = []

    def before(what, name):
        if what == "read" and name.startswith("log/") and overtakes:
            opened(Memory(storage.files))[0].append(overtakes.pop())

    late, _ = opened(Memory(storage.files, before))
    overtakes.append([["number", PACKED]])
    with pytest.raises(JournalFencedError):
        late.append([["number", PACKED - 1]])
    assert numbers(storage) == list(range(PACKED + 1))


# Damage.


def damaged(storage, name, change):
    storage.files[name] = change(storage.files[name])
    return storage


def edited(**fields):
    return lambda content: run_log.canonical({**json.loads(content), **fields})


FIRST, SECOND = "log/00000000000000000000.json", "log/00000000000000000001.json"
PACKS = "packs/00000000000000000000", "packs/00000000000000000001"


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        (SECOND, lambda content: b"", f"{SECOND}: it is not what sdf writes"),
        (SECOND, lambda content: content[:-9], f"{SECOND}: it is not what sdf writes"),
        (SECOND, lambda content: b"[1]", f"{SECOND}: it is not what sdf writes"),
        (SECOND, lambda content: b'{"v": 1}', f"{SECOND}: it is not what sdf writes"),
        (SECOND, lambda content: b"\xff" + content, f"{SECOND}: it is not what sdf writes"),
        (FIRST, edited(records=[["edited"]]), f"{SECOND}: entry 1 does not follow entry 0"),
        (SECOND, edited(number=5), f"{SECOND}: entry 5 does not follow entry 0"),
        (SECOND, edited(before="0"), f"{SECOND}: entry 1 does not follow entry 0"),
    ],
)
def test_a_damaged_entry_is_an_error_that_names_it(name, change, message):
    """It says that no crash does that, and what to do."""
    storage = damaged(written(3), name, change)
    with pytest.raises(JournalCorruptError, match=re.escape(message)) as error:
        opened(storage)
    assert "A crash cannot cause this; restore the checkpoint from a copy" in str(error.value)


@pytest.mark.parametrize("missing", range(3))
def test_a_missing_entry_is_an_error_that_names_it(missing):
    """Unless it is the last one, which nobody can miss."""
    storage = written(4)
    del storage.files[f"log/{missing:020d}.json"]
    with pytest.raises(JournalCorruptError, match=f"{missing:020d}.json: it is missing, but later ones are there"):
        opened(storage)


@early
@pytest.mark.parametrize(
    ("pack", "change", "message"),
    [
        (0, lambda content: b"", "packs/00000000000000000000: it is not what sdf writes"),
        (1, lambda content: content[:-5], "packs/00000000000000000001: it is not what sdf writes"),
        (
            1,
            lambda content: run_log.zlib.compress(run_log.zlib.decompress(content).rpartition(b"\n")[0]),
            "packs/00000000000000000001: it holds 3 entries instead of 4",
        ),
        (
            0,
            lambda content: run_log.zlib.compress(
                run_log.zlib.decompress(content).replace(b'"number",2', b'"number",9')
            ),
            "packs/00000000000000000000: entry 3 does not follow entry 2",
        ),
    ],
)
def test_a_damaged_pack_is_an_error_that_names_it(pack, change, message):
    """As an entry is."""
    storage = damaged(written(2 * PACKED), f"packs/{pack:020d}", change)
    with pytest.raises(JournalCorruptError, match=re.escape(message)):
        opened(storage)


@early
@pytest.mark.parametrize(
    ("more", "pack", "what"), [(0, PACKS[0], PACKS[0]), (0, PACKS[1], PACKS[1]), (1, PACKS[0], FIRST)]
)
def test_a_missing_pack_is_an_error(more, pack, what):
    """Also where nothing but packs is there: the log is not taken for an empty one, or for one that ends there."""
    storage = written(3 * PACKED + more)
    del storage.files[pack]
    with pytest.raises(JournalCorruptError, match=f"{what}: it is missing, but later ones are there"):
        opened(storage)


@pytest.mark.parametrize("fields", [{"v": 2}, {"v": 2, "before": None, "number": 9}])
def test_an_entry_of_another_version_is_no_damage(fields):
    """Whatever else that version has changed."""
    storage = damaged(written(1), FIRST, edited(**fields))
    with pytest.raises(
        JournalError,
        match=re.escape("has version 2, but this release of sdf reads version 1. Use the release that wrote it."),
    ) as it:
        opened(storage)
    assert not isinstance(it.value, JournalCorruptError)


def test_a_version_that_has_no_records_is_no_damage():
    """As far as it can be known."""
    storage = Memory({FIRST: b'{"v": 2}'})
    with pytest.raises(JournalError, match="has version 2"):
        opened(storage)


def test_an_error_of_the_storage_says_what_to_do():
    """What is committed stays so."""

    def full(what, name):
        if what == "create":
            raise OSError("no space left")

    log, _ = opened(Memory(before=full))
    with pytest.raises(JournalDiskError, match=r"cannot be used: no space left.*: see that it can be reached"):
        log.append([["a"]])


# Crashes, and readers beside a writer.


class Dying:
    """Dies before or after the operation of that number that changes something."""

    def __init__(self, at):
        self.left = at

    def __call__(self, what, name):
        if what in ("create", "replace", "remove"):
            self.left -= 1
            if self.left < 0:
                raise DiedError(f"{what} {name}")


@early
def test_a_driver_may_die_at_any_point_and_the_next_one_too():
    """What it has appended is there, and what it was about to append may be; no crash keeps a pack from being made."""
    for first in itertools.count():
        storage = Memory()
        acknowledged = 0
        try:
            log, _ = opened(Memory(storage.files, Dying(first)))
            for number in range(2 * PACKED + 1):
                log.append([["number", number]])
                acknowledged = number + 1
        except DiedError:
            pass
        else:
            break
        left = dict(storage.files)
        for second in itertools.count():
            storage.files.clear()
            storage.files.update(left)
            found = numbers(storage)
            assert found in (list(range(acknowledged)), list(range(acknowledged + 1)))
            try:
                log, _ = opened(Memory(storage.files, Dying(second)))
                for number in range(len(found), 2 * PACKED + 1):
                    log.append([["number", number]])
            except DiedError:
                continue
            assert numbers(storage) == list(range(2 * PACKED + 1))
            assert len(storage.names("packs")) == 2
            break
    assert first > 2 * PACKED + 1


@early
def test_entries_that_a_crash_has_left_beside_their_pack_are_removed():
    """By the command that cleans; until then they are passed over."""
    storage = written(PACKED)
    junk = {f"log/{number:020d}.json": b"whatever" for number in range(PACKED)}
    storage.files.update(junk)
    log, records = opened(storage)
    assert records == [["number", number] for number in range(PACKED)]
    assert log.remove_unused([]) == sorted(junk)


@early
@pytest.mark.parametrize("more", [1, PACKED, 2 * PACKED + 1])
@pytest.mark.parametrize("count", [0, 1, PACKED - 1, PACKED, PACKED + 2])
def test_a_reader_is_not_troubled_by_a_driver_at_work(count, more):
    """At any point that driver may append, pack and remove: the reader finds what was there when it began, or more."""
    for at in itertools.count():
        storage = written(count)
        writer, _ = opened(storage)
        seen = itertools.count()

        def before(what, name, at=at, seen=seen, writer=writer):
            if next(seen) == at:
                for number in range(count, count + more):
                    writer.append([["number", number]])

        found = numbers(Memory(storage.files, before))
        assert found == list(range(len(found)))
        assert len(found) >= count
        if next(seen) <= at:
            break


# Blobs.


def test_a_blob_is_stored_once_and_read_back():
    """Under its hash."""
    storage = Memory()
    log, _ = opened(storage)
    reference = log.put(b"elements")
    assert log.put(b"elements") == reference
    assert len(storage.names("blobs")) == 1
    assert log.get(reference) == b"elements"


def test_a_blob_that_was_cut_short_is_written_again():
    """As a storage may leave it that is no disk."""
    storage = Memory()
    log, _ = opened(storage)
    reference = log.put(b"elements")
    storage.files[storage.names("blobs")[0]] = b"elem"
    log.put(b"elements")
    assert log.get(reference) == b"elements"


@pytest.mark.parametrize(
    ("change", "message"), [(None, "it is missing"), (b"edited", "its content does not match the hash in its name")]
)
def test_a_damaged_blob_is_an_error(change, message):
    """It names the file, and says what to do about a saved run: there are no batches that come again."""
    storage = Memory()
    log, _ = opened(storage)
    reference = log.put(b"elements")
    (name,) = storage.names("blobs")
    storage.files[name] = change
    if change is None:
        del storage.files[name]
    with pytest.raises(JournalCorruptError, match=re.escape(f"memory/{name}: {message}") + ".*an empty target"):
        log.get(reference)


def test_what_no_record_names_is_removed():
    """And what was half written."""
    storage = Memory()
    log, _ = opened(storage)
    kept, dropped = log.put(b"kept"), log.put(b"dropped")
    storage.files["log/1.tmp-x"] = b""
    assert log.remove_unused([kept]) == [f"blobs/{dropped['sha256']}", "log/1.tmp-x"]
    assert storage.names("blobs") == [f"blobs/{kept['sha256']}"]

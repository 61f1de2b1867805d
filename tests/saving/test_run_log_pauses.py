"""A driver of a saved run that pauses before any operation on its log, while another one takes over and goes on."""

import itertools

import pytest

from sdf.errors import JournalFencedError
from sdf.saving import run_log
from sdf.saving.run_log import RunLog
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
    """So that few entries make several packs."""
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

"""ReadLmdb: the records of LMDB, against a plain cursor, split at every key."""

import os
import re
import shutil
import sys
from collections import Counter
from itertools import combinations

import pytest

from sdf import ByteKeyRange, DoFn, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, MissingExtraError, SourceError
from sdf.io.lmdb import ReadLmdb
from sdf.serialization.values import Parts
from sdf.testing import check_dofn

lmdb = pytest.importorskip("lmdb")

KEYS = (
    b"\x00\x01",
    b"a",
    b"a\x00",
    b"ab",
    b"abc",
    b"abd",
    b"b\xff",
    b"b\xff\xff",
    b"c",
    b"\xff",
    b"\xff\xff\xff",
    b"\xff" * 4,
)
PREFIX = pytest.mark.parametrize("prefix", [None, 1, 2, 3, 4, 511])
NAMES = ("plain", "doubles", "empty")
EVERY_CUT = sorted({b"\x00", *KEYS, *(key + b"\x00" for key in KEYS), *(key[:-1] + b"\x01" for key in KEYS), b"abca"})


class PartsFn(DoFn):
    """Reads as a ReadLmdb does, from parts that are cut beforehand."""

    def __init__(self, fn, cuts):
        self.fn = fn
        self.cuts = cuts

    def get_initial_restriction(self, element):
        return ByteKeyRange()

    def split_restriction(self, element, restriction):
        marks = [b"", *self.cuts, b""]
        return [ByteKeyRange(*marks[at : at + 2]) for at in range(len(marks) - 1)]

    def process(self, element, tracker):
        return self.fn.process(element, tracker)


def fill(path, **options):
    """Make an environment that holds each of the databases."""
    with lmdb.open(path, max_dbs=4, **options) as environment:
        for name in NAMES:
            database = environment.open_db(name.encode(), dupsort=name == "doubles")
            with environment.begin(database, write=True) as writing:
                for key in KEYS if name != "empty" else ():
                    for value in (b"1", b"2", b"3") if name == "doubles" else (b"of " + key,):
                        writing.put(key, value)
    return path


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return fill(str(tmp_path_factory.mktemp("lmdb") / "environment"))


def plainly(path, name):
    """Return what a cursor gives."""
    with lmdb.open(path, max_dbs=4, readonly=True) as environment:
        database = environment.open_db(name.encode(), create=False)
        with environment.begin(database) as reading:
            return list(reading.cursor())


@PREFIX
@pytest.mark.parametrize("name", NAMES)
def test_records_are_those_of_a_cursor(path, name, prefix):
    """In order, too, where nothing is split."""
    assert run_direct([(path, name)], ReadLmdb(block_prefix_bytes=prefix)) == plainly(path, name)


@PREFIX
@pytest.mark.parametrize("name", NAMES[:2])
def test_it_can_be_split_anywhere(path, name, prefix):
    """check_dofn splits it at every claim."""
    checked = check_dofn(ReadLmdb(block_prefix_bytes=prefix), (path, name))
    assert checked.records == len(plainly(path, name))
    assert checked.splits > 0


LESS = pytest.mark.slow("the same test with other prefixes")


@pytest.mark.parametrize("prefix", [None, 2, *(pytest.param(prefix, marks=LESS) for prefix in (1, 3, 4, 511))])
@pytest.mark.parametrize("name", NAMES[:2])
def test_every_cut_of_keys(path, name, prefix):
    """Two cuts anywhere, at keys, right after them, inside of prefixes: every record once."""
    expected = Counter(plainly(path, name))
    fn = ReadLmdb(block_prefix_bytes=prefix)
    wrong = [
        cuts
        for cuts in combinations(EVERY_CUT, 2)
        if Counter(run_direct([(path, name)], PartsFn(fn, cuts))) != expected
    ]
    assert wrong == []


@PREFIX
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", NAMES)
def test_checkpoints_change_nothing(path, name, seed, prefix):
    """Split after each claim, the parts run in any order."""
    found = run_direct([(path, name)], ReadLmdb(block_prefix_bytes=prefix), split_every=1, seed=seed)
    assert Counter(found) == Counter(plainly(path, name))


def test_all_values_of_a_key_are_one_block(path):
    """Three values each, one claim a key."""
    assert check_dofn(ReadLmdb(), (path, "doubles")).claims == len(KEYS)


def test_keys_that_share_a_prefix_are_one_block(path):
    """One claim for each first byte."""
    assert check_dofn(ReadLmdb(block_prefix_bytes=1), (path, "plain")).claims == len({key[:1] for key in KEYS})


def test_with_position(path):
    """The element, then the key."""
    found = run_direct([(path, "plain")], ReadLmdb(with_position=True))
    assert found[1] == (((path, "plain"), b"a"), b"of a")


def test_unnamed_database(tmp_path):
    """A path alone reads the database that has no name."""
    with lmdb.open(str(tmp_path / "one")) as environment, environment.begin(write=True) as writing:
        writing.put(b"k", b"v")
    assert run_direct([tmp_path / "one"], ReadLmdb()) == [(b"k", b"v")]


def test_environment_that_is_a_file(tmp_path):
    """LMDB can do without a directory."""
    path = fill(str(tmp_path / "file.mdb"), subdir=False)
    assert len(run_direct([(path, "plain")], ReadLmdb())) == len(KEYS)


def test_without_a_lock_file(path, tmp_path):
    """lock=False leaves no trace."""
    copy = shutil.copytree(path, tmp_path / "copy", ignore=shutil.ignore_patterns("lock.mdb"))
    assert len(run_direct([(copy, "plain")], ReadLmdb(lock=False))) == len(KEYS)
    assert os.listdir(copy) == ["data.mdb"]


def test_two_readers_share_an_environment(path):
    """Two DoFns of a process, each in the middle of a part; afterwards the environment can be opened again."""
    for _ in range(2):
        outputs = [ReadLmdb().process((path, name), Claims()) for name in NAMES[:2] for _ in range(2)]
        assert [next(output) for output in outputs] == [(KEYS[0], b"of " + KEYS[0])] * 2 + [(KEYS[0], b"1")] * 2
        for output in outputs:
            output.close()
        lmdb.open(path).close()


class Claims:
    """A tracker that lets everything be claimed."""

    def current_restriction(self):
        return ByteKeyRange()

    def try_claim(self, position):
        return True


def test_range_of_keys_is_pinned(path):
    """What there is when the run is planned; with prefixes the first block is whole."""
    assert ReadLmdb().get_initial_restriction((path, "plain")) == ByteKeyRange(KEYS[0], KEYS[-1] + b"\x00")
    assert ReadLmdb(block_prefix_bytes=1).get_initial_restriction((path, "plain")).start == b"\x00"
    assert ReadLmdb().get_initial_restriction((path, "empty")).is_empty()


def test_restriction_can_be_told_as_data(path):
    """A lane can split it."""
    restriction = ReadLmdb(block_prefix_bytes=1).get_initial_restriction((path, "plain"))
    assert Parts(restriction).read(Parts(restriction).describe(restriction)) == restriction


@pytest.mark.parametrize("flag", ["integerkey", "reverse_key"])
def test_order_that_is_not_of_bytes(tmp_path, flag):
    """Ranges of such keys would lose records."""
    path = str(tmp_path / "other")
    with lmdb.open(path, max_dbs=1) as environment:
        environment.open_db(b"other", **{flag: True})
    message = (
        f"ReadLmdb: ({path!r}, 'other') was made with {flag}, so its keys are not in the order of their bytes, and it "
        f"cannot be split by ranges of them. Read it with your own DoFn."
    )
    with pytest.raises(SourceError, match=re.escape(message)):
        run_direct([(path, "other")], ReadLmdb())


def test_missing_environment():
    """It says which."""
    with pytest.raises(SourceError, match="ReadLmdb: there is no environment '/no/such' on host '"):
        run_direct(["/no/such"], ReadLmdb())


def test_missing_database(path):
    """It says which, and where."""
    message = f"ReadLmdb: there is no database 'other' in {path!r}."
    with pytest.raises(SourceError, match=re.escape(message)):
        run_direct([(path, "other")], ReadLmdb())


@pytest.mark.parametrize("name", ["", "key"])
def test_name_that_is_none_of_a_database(tmp_path, name):
    """An ordinary key of the unnamed database is no name of another."""
    path = str(tmp_path / "new")
    with lmdb.open(path) as environment, environment.begin(write=True) as writing:
        writing.put(b"key", b"value")
    with pytest.raises(SourceError, match=re.escape(f"ReadLmdb: there is no database {name!r} in {path!r}.")):
        run_direct([(path, name)], ReadLmdb())


@pytest.mark.parametrize("name", [None, "b"])
def test_an_environment_that_is_cut_off_is_an_error(tmp_path, name):
    """To read a page that is missing would end the process."""
    path = str(tmp_path / "e")
    with lmdb.open(path, map_size=1 << 24, max_dbs=2) as environment:
        database = environment.open_db(name and name.encode())
        with environment.begin(database, write=True) as writing:
            for key in range(30):
                writing.put(b"%05d" % key, bytes(5000))
    size = os.path.getsize(f"{path}/data.mdb")
    assert len(run_direct([(path, name)], ReadLmdb())) == 30
    os.truncate(f"{path}/data.mdb", 40_000)
    with pytest.raises(SourceError, match=f"data.mdb' is cut off. It has 40000 bytes, and should have {size}"):
        run_direct([(path, name)], ReadLmdb())


def test_free_pages_at_the_end_may_be_missing(tmp_path):
    """Nobody reads them, and LMDB does not always write them."""
    path = str(tmp_path / "e")
    with lmdb.open(path, map_size=1 << 24) as environment:
        for value in (b"1", bytes(400_000), *(b"%d" % number for number in range(2, 9))):
            with environment.begin(write=True) as writing:
                writing.put(b"key", value)
    os.truncate(f"{path}/data.mdb", os.path.getsize(f"{path}/data.mdb") - 40_000)
    assert run_direct([path], ReadLmdb()) == [(b"key", b"8")]


def test_something_else_than_lmdb(tmp_path):
    """The words of the library, and which file."""
    (tmp_path / "text").write_text("text" * 5000)
    with pytest.raises(SourceError, match=re.escape(f"ReadLmdb cannot open '{tmp_path}/text' (") + ".*MDB_INVALID"):
        run_direct([str(tmp_path / "text")], ReadLmdb())


def test_environment_that_the_process_itself_holds_open(path):
    """LMDB would break its locks."""
    with lmdb.open(path), pytest.raises(SourceError, match=r"already open in this process.*does not hold open itself"):
        run_direct([(path, "plain")], ReadLmdb())


@pytest.mark.parametrize("element", [5, None, b"path", ("a", "b", "c"), ("a", 1)], ids=repr)
def test_wrong_element(element):
    """It says what an element is."""
    with pytest.raises(InvalidTypeError, match=re.escape("ReadLmdb reads a path, or (path, name) of a named database")):
        run_direct([element], ReadLmdb())


@pytest.mark.parametrize(
    ("value", "error"), [("2", InvalidTypeError), (True, InvalidTypeError), (0, InvalidValueError)]
)
def test_wrong_prefix(value, error):
    """Options are checked at once."""
    with pytest.raises(error, match="ReadLmdb block_prefix_bytes must be"):
        ReadLmdb(block_prefix_bytes=value)


def test_missing_extra(monkeypatch, path):
    """It says how to install it."""
    monkeypatch.setitem(sys.modules, "lmdb", None)
    with pytest.raises(
        MissingExtraError, match=re.escape("ReadLmdb needs lmdb") + ".*" + re.escape("pip install 'lmdb>=1.4'")
    ):
        run_direct([(path, "plain")], ReadLmdb())

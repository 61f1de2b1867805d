"""Pending work in a journal: values come back as they were, and what a newer sdf wrote is refused."""

import base64
import datetime
import json
import pickle
from fractions import Fraction
from pathlib import Path

import pytest

from sdf import UNBOUNDED, ByteKeyRange, OffsetRange
from sdf.beam.trackers import BeamRestriction
from sdf.io import BadRecord, FileBlock, FileInfo, KafkaRecord, TableQuery, TopicPartition
from sdf.io.files.file_fn import FileRange
from sdf.io.files.pinned import Watch
from sdf.io.follow.known_files import KnownFile
from sdf.io.follow.tail_parts import Piece, Tail
from sdf.io.follow.watch import Scan, Scans
from sdf.io.kafka.topic import KafkaRange, Offsets
from sdf.io.tables.keys import KeyRange
from sdf.io.text.text_fn import Cells
from sdf.journal.pending import Pending, from_data, to_data
from sdf.journal.remaining import Remaining
from sdf.serialization.values import ValuesError, describe


class Renamed:
    """Pickles its state under another name, which only a function that comes with it understands."""

    def __init__(self, x):
        self.x = x

    def __eq__(self, other):
        return vars(self) == vars(other)

    __hash__ = None

    def __reduce_ex__(self, protocol):
        return Renamed, (0,), {"y": self.x}, None, None, take_y


def take_y(made, state):
    made.x = state["y"]


@pytest.mark.parametrize(
    "value",
    [datetime.datetime(2026, 11, 1, 1, 30, fold=1), datetime.time(1, 30, fold=1), Renamed(7)],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_description_is_pickled(value):
    """The second of two equal hours, and a state that needs a function of its own."""
    with pytest.raises(ValuesError, match="has no description"):
        describe(value, lambda part, name: name)
    back = from_data(json.loads(json.dumps(to_data(value))))
    assert (back, getattr(back, "fold", 0)) == (pickle.loads(pickle.dumps(value)), getattr(value, "fold", 0))


def test_the_first_of_two_equal_hours_is_plain_data():
    """As any other time."""
    hour = datetime.datetime(2026, 11, 1, 1, 30)
    assert to_data(hour)[0] == "call"
    assert from_data(to_data(hour)) == hour


def test_a_large_value_takes_little_room():
    """All the files that a scan has seen, for example: they are much alike, and are written with each new one."""
    seen = tuple(KnownFile(FileInfo(f"/logs/{n}.log", n, 1.5 + n, str(n)), n, b"digest") for n in range(2000))
    written = to_data(Scans(2, UNBOUNDED, seen))
    assert len(json.dumps(written)) < 100 * len(seen)
    assert from_data(json.loads(json.dumps(written))) == Scans(2, UNBOUNDED, seen)


def values_of_version_2():
    """Return what was written into the checkpoint of version 2 beside this test, in order."""
    f = FileInfo("/logs/a.txt", 120, 1.5, "v1", "/real/a.txt", Watch("/logs", 2.0))
    tail = Tail(3, UNBOUNDED, 0, f, b"head", b"last", True, False, 1, 2.5, (f,))
    return [
        OffsetRange(0, 5),
        OffsetRange(3, UNBOUNDED),
        ByteKeyRange(b"a", b"b"),
        UNBOUNDED,
        FileBlock(f, 0, 10, "p"),
        FileRange(0, 10, f, "gzip", "note"),
        f,
        Watch("/logs", 1.0),
        KafkaRange(0, 9, (Offsets(0, 2, 9),)),
        Offsets(1, 2, 3),
        TopicPartition("t", 4),
        KafkaRecord("t", 1, 2, None, b"k", None, (("h", b"x"),)),
        KnownFile(f, 120, b"\x00d", 1),
        TableQuery("t", ("a", "b"), "a > 1", "s"),
        KeyRange(0, 5, 10, 20),
        tail,
        Piece(4, tail),
        BadRecord("/p", 3, b"data", "why"),
        Cells(0, 40, 20, 10),
        Scans(2, UNBOUNDED, (f,), None),
        Scan(1, (f,), ()),
        BeamRestriction((0, 3), Fraction(0), Fraction(1, 2)),
        frozenset({f}),
        {"parts": {OffsetRange(0, 2)}, "of": [tail]},
    ]


def test_a_checkpoint_of_before_the_modules_moved_is_read():
    """It names types by modules that are gone; in pickles too."""
    checkpoint = (Path(__file__).parent / "data" / "checkpoint_of_version_2.jsonl").read_bytes()
    assert b'"v":2' in checkpoint
    remaining, _ = Remaining.load(lambda reference: checkpoint, [{}], now=0)
    assert [one.part.element for one in remaining] == values_of_version_2()
    assert [one.part.restriction for one in remaining] == [OffsetRange(n, n + 1) for n in range(len(remaining))]


@pytest.mark.parametrize("value", values_of_version_2(), ids=lambda value: type(value).__name__)
def test_no_module_of_sdf_is_named_in_a_checkpoint(value):
    """Its types have tags, in pickles too, so that the next move breaks nothing."""
    remaining, files = Remaining(), []
    remaining.add([Pending(0, value, None)], 0)
    remaining.store(lambda data: files.append(data) or {}, [])
    (checkpoint,) = files
    described = json.loads(checkpoint.splitlines()[1])["element"]
    text = base64.b64decode(described[1]) if described[0] == "pickle" else json.dumps(described).encode()
    assert b"sdf." not in text
    assert Remaining.load(lambda reference: checkpoint, [{}], now=0)[0][0].part.element == value

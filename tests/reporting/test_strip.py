"""The strip: where in an element its time went by."""

import re

import pytest

from sdf.model.restrictions import ByteKeyRange, OffsetRange
from sdf.reporting.pieces import PieceRun
from sdf.reporting.strip import strip

ELEMENT = ("b", 1000)


def piece(restriction, seconds, opening=0.0):
    return PieceRun(0, 0, ELEMENT, restriction, "initial", None, 0, 0.0, seconds, 1.0, 1, opening)


REGION = [
    piece(OffsetRange(0, 600), 0.6),
    piece(OffsetRange(600, 620), 2.0),
    piece(OffsetRange(620, 640), 2.0),
    piece(OffsetRange(640, 1000), 0.36),
]


def test_seconds_are_spread_over_the_positions_of_each_piece():
    """In all as many as the pieces took."""
    found = strip(REGION, ())
    assert sum(found.columns) == pytest.approx(4.96)
    assert sum(found.columns[150:160]) == pytest.approx(4.0)
    assert found.columns[0] == pytest.approx(0.004)


def test_a_slow_region_is_told():
    """Where half of the time went by, and what a position costs there."""
    assert strip(REGION, ()).says() == (
        "at least half of its time was spent in 4% of it, from 600 to 640; "
        "its slowest part took 100 ms per position on average, 20.2 times the mean"
    )


def test_a_region_apart_from_the_dearest_is_told_by_the_most_of_it():
    """A slow block elsewhere does not stretch it over all that lies between."""
    pieces = [
        piece(OffsetRange(0, 100), 0.1),
        piece(OffsetRange(100, 104), 0.5),
        piece(OffsetRange(104, 600), 0.5),
        piece(OffsetRange(600, 640), 4.0),
        piece(OffsetRange(640, 1000), 0.36),
    ]
    assert (
        strip(pieces, ()).says().startswith("at least half of its time was spent in 4% of it, mostly from 600 to 640")
    )


def test_no_part_of_a_piece_is_told():
    """A slow block at 625 of the dearest piece: nobody knows where in that its time went by."""
    pieces = [piece(OffsetRange(0, 600), 0.6), piece(OffsetRange(600, 640), 3.0), piece(OffsetRange(640, 1000), 0.36)]
    assert "from 600 to 640" in strip(pieces, ((ELEMENT, "625", 2.9),)).says()


def test_even_work_has_no_region():
    """Whatever the sizes of its pieces."""
    pieces = [piece(OffsetRange(0, 900), 0.9), piece(OffsetRange(900, 1000), 0.1)]
    assert strip(pieces, ()).says() == "its slowest part took 1 ms per position on average, 1.0 times the mean"


def test_opening_is_no_cost_of_a_position():
    """It was spent before the first claim."""
    pieces = [piece(OffsetRange(0, 500), 5.5, opening=5.0), piece(OffsetRange(500, 1000), 0.5)]
    assert sum(strip(pieces, ()).columns) == pytest.approx(1.0)


def test_slow_blocks_of_the_element_are_marked():
    """Those of other elements are not, nor those whose position is none of it or cannot be read."""
    blocks = ((ELEMENT, "250", 0.5), (("c", 1000), "500", 0.5), (ELEMENT, "b'x'", 0.5), (ELEMENT, "<cut...", 0.5))
    assert strip(REGION, blocks).marks == ((0.25, "slow block: at least 0.50 s at 250"),)


def test_slow_block_is_drawn_where_it_is():
    """A mark with what it says."""
    svg = "".join(strip(REGION, ((ELEMENT, "250", 0.5),)).svg("c0"))
    assert '<path d="M245.0 2h10l-5 9z"><title>slow block: at least 0.50 s at 250</title>' in svg


def test_the_dearest_stretch_is_the_highest():
    """The rest is as much lower as it is cheaper; each says where it is."""
    svg = "".join(strip(REGION, ()).svg("c0"))
    heights = [float(height) for height in re.findall(r'height="([\d.]+)"><title>', svg)]
    assert heights == [0.6, 64.0, 0.6]
    assert "600 to 640: 4 s, 100 ms per position on average" in svg


def test_byte_keys_are_placed_behind_what_they_have_in_common():
    """Open ends are drawn beyond the first and the last known key."""
    pieces = [
        piece(ByteKeyRange(b"", b"user-a"), 1.0),
        piece(ByteKeyRange(b"user-a", b"user-b"), 1.0),
        piece(ByteKeyRange(b"user-b", b"user-c"), 7.0),
        piece(ByteKeyRange(b"user-c", b""), 1.0),
    ]
    found = strip(pieces, ((ELEMENT, "b'user-b'", 0.3),))
    ((share, _),) = found.marks
    assert sum(found.columns) == pytest.approx(10.0)
    assert found.columns[int(share * 250) + 1] == max(found.columns)
    assert found.axis.label(share) == "b'user-b'"
    assert found.says().endswith("per 0.4% of the keys on average, 2.3 times the mean")


class Days:
    """A restriction without numbers."""

    start, stop = "monday", "friday"


@pytest.mark.parametrize(
    "restrictions",
    [
        ["whole", "whole"],
        [Days(), Days()],
        [None, None],
        [OffsetRange(0, 10)],
        [OffsetRange(5, 5), OffsetRange(5, 5)],
        [OffsetRange(0, 10), ByteKeyRange(b"a", b"b")],
        [ByteKeyRange(b"", b"a"), ByteKeyRange(b"a", b"")],
        [OffsetRange(0, 10**300), OffsetRange(10**300, 10**301)],
    ],
    ids=["text", "days", "given away", "one piece", "empty", "both kinds", "one key", "too long"],
)
def test_what_cannot_be_placed_has_no_strip(restrictions):
    """A report is made all the same."""
    assert strip([piece(restriction, 1.0) for restriction in restrictions], ()) is None


@pytest.mark.parametrize("stop", [10**18, 10**150, 3])
def test_any_numbers_can_be_placed(stop):
    """Offsets have no bound."""
    pieces = [piece(OffsetRange(0, stop // 2), 1.0), piece(OffsetRange(stop // 2, stop), 3.0)]
    found = strip(pieces, ())
    assert "1.5 times the mean" in found.says() or stop == 3
    assert "".join(found.svg("c0")).count("<rect") >= 2


def test_many_pieces_make_a_small_strip():
    """It has so many columns, whatever is in it."""
    pieces = [piece(OffsetRange(10 * n, 10 * n + 10), 0.1 * (n % 7)) for n in range(20_000)]
    assert len("".join(strip(pieces, ()).svg("c0"))) < 60_000


@pytest.mark.parametrize(
    ("seconds", "says"),
    [(1e-6, "1 ns"), (9.7e-4, "970 ns"), (0.0123, "12.3 µs"), (0.9999, "1,000 µs"), (1.0, "1 ms"), (2e6, "2,000 s")],
)
def test_cost_of_a_position_has_a_unit_that_suits_it(seconds, says):
    """Digits that people read, whatever it is."""
    pieces = [piece(OffsetRange(0, 500), seconds / 2), piece(OffsetRange(500, 1000), seconds / 2)]
    assert f" {says} per position on average" in strip(pieces, ()).says()

"""Which records belong to which compressed block: every small text, in every division into blocks and parts."""

from itertools import combinations, pairwise, product

import pytest

from sdf import OffsetRangeTracker
from sdf.errors import ReadError
from sdf.io.text.block_text import read_blocks

STRIDE = 10  # bytes of the compressed file for each block


class Pieces:
    """Blocks that are in memory, and count how often each is read."""

    shift = 8
    is_start = True

    def __init__(self, pieces):
        self.pieces = pieces
        self.size = STRIDE * len(pieces)
        self.is_first = False
        self.reads = []

    def at_or_after(self, start, stop):
        self.place = -(-start // STRIDE)
        self.is_first = self.place == 0
        return STRIDE * self.place

    def read(self):
        self.place += 1
        self.reads.append(self.place - 1)
        return self.pieces[self.place - 1], STRIDE * self.place


def read(pieces, delimiter, start, stop, longest=100):
    """Return the yields of a part, and the blocks that it read."""
    blocks = Pieces(pieces)
    tracker = OffsetRangeTracker((start, stop))
    given = list(read_blocks(blocks, tracker, delimiter, longest, "x"))
    tracker.check_done()
    return given, blocks.reads


def records(text, delimiter):
    """Return each record with its delimiter, and its offset in the text."""
    found, start = [], 0
    while start < len(text):
        end = text.find(delimiter, start)
        end = len(text) if end < 0 else end + len(delimiter)
        found.append((start, text[start:end]))
        start = end
    return found


def expected(pieces, delimiter):
    """Return each record with its position, and the place of the block that it belongs to, by the rule itself."""
    text = b"".join(pieces)
    starts = [len(b"".join(pieces[:place])) for place in range(len(pieces) + 1)]
    holder = [place for place, piece in enumerate(pieces) for _ in piece]  # by byte
    result = []
    for start, record in records(text, delimiter):
        place = holder[start]
        owner = 0 if start == 0 else holder[start - len(delimiter)]
        position = 0 if start == 0 else (STRIDE * place << 8) + start - starts[place]
        result.append((owner, (position, record)))
    return result


def divisions(text, with_empty):
    """Return every division of a text into blocks, with some empty ones if asked."""
    for count in range(len(text)):
        for cuts in combinations(range(1, len(text)), count):
            ends = [0, *cuts, len(text)]
            pieces = [text[a:b] for a, b in pairwise(ends)]
            yield pieces
            if with_empty:
                for place in range(len(pieces) + 1):
                    yield [*pieces[:place], b"", *pieces[place:]]


def counted_on(given, delimiter):
    """Return the records of yields, each with the position that a reader of records makes up for it."""
    return [(offset + at, record) for offset, data in given for at, record in records(data, delimiter)]


@pytest.mark.parametrize(
    ("letters", "delimiter"), [(b"a\n\r", b"\n"), (b"a\n", b"\n"), (b"a<>", b"<>"), (b"a<>-", b"<->")]
)
def test_each_record_comes_with_the_block_that_holds_the_first_byte_of_the_delimiter_before_it(letters, delimiter):
    """Each block read as a part of its own gives exactly its records, each with its position."""
    longest = {3: 5, 2: 6, 4: 4}[len(letters)]
    for size in range(1, longest + 1):
        for text in map(bytes, product(letters, repeat=size)):
            for pieces in divisions(text, with_empty=size < longest):
                rule = expected(pieces, delimiter)
                for place in range(len(pieces)):
                    given, _ = read(pieces, delimiter, STRIDE * place, STRIDE * (place + 1))
                    mine = [record for owner, record in rule if owner == place]
                    assert counted_on(given, delimiter) == mine, (pieces, place)


@pytest.mark.parametrize("delimiter", [b"\n", b"<>"])
def test_parts_at_any_two_cuts_give_the_records_of_the_whole(delimiter):
    """Cuts fall at blocks or between; what lies between goes to the next block."""
    text = b"ab\n\nc<><>d\nefgh<i>\n<>".replace(b"\n", b"\n" if delimiter == b"\n" else b"<>")
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    size = STRIDE * len(pieces)
    whole = [record for _, record in expected(pieces, delimiter)]
    for cuts in combinations(range(0, size + 1, 5), 2):
        ends = [0, *cuts, size]
        given = [y for a, b in pairwise(ends) for y in read(pieces, delimiter, a, b)[0]]
        assert counted_on(given, delimiter) == whole, cuts


@pytest.mark.parametrize("start", [0, 10, 20])
def test_a_part_reads_each_block_once(start):
    """Also those that a record of it goes on through, which it claims later."""
    _, reads = read([b"a\nb", b"ccc", b"ccc", b"c\nd\n", b"e"], b"\n", start, 50)
    assert reads == list(range(start // STRIDE, 5))


def test_a_part_looks_no_further_than_its_last_record_ends():
    """The blocks after that one are nobody's business."""
    assert read([b"a\nb", b"c\nd", b"e\nf"], b"\n", 0, 10)[1] == [0, 1]


def test_a_part_without_a_delimiter_reads_its_own_blocks_only():
    """The record that goes through it belongs to a block before it, which reads on to its end."""
    assert read([b"a\nb", b"c", b"d", b"e", b"f\n"], b"\n", 10, 30) == ([], [1, 2])


def test_a_longer_record_than_allowed_is_refused():
    """The message says where one begins to count, since nobody knows how much text lies before that."""
    with pytest.raises(ReadError, match=r"^x, counted in the text from compressed byte 10 on: the record that"):
        read([b"a\n", b"\nb", b"cccc", b"dddd"], b"\n", 10, 20, longest=6)

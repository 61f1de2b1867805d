"""ReadXml: the elements are those of xml.etree, however the file is cut."""

import bz2
import contextlib
import gzip
import io
import itertools
import lzma
import random
import re
import tracemalloc
from xml.etree import ElementTree
from xml.parsers import expat

import cloudpickle
import pytest
import zstandard
from support.compressed_files import bgzf, read_cut, read_part, restriction_of

from sdf import TaggedOutput, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError
from sdf.io import BadRecord, FileBlock, FileBlocks, FileInfo, ReadXml
from sdf.io.text.text_fn import CELL_BYTES
from sdf.testing import check_dofn

LONGER = pytest.mark.slow("the same test with shorter files")
TEXT = """<?xml version="1.0" encoding="UTF-8"?>
<!-- all pages -->
<pages xmlns:dc="http://purl.org/dc">
  <page id="1" title='a > "b"/>'>one <b>b</b> &amp; \u00e9</page><page/>
  <page\tid = "2"><!-- </page> --><![CDATA[</page>]]><?x </page> ?>two</page
  ><pagesize>3</pagesize><page id="/"/>
  <page id="4"><page.x/><pages>x</pages></page><dc:page>four</dc:page>
</pages>
"""


class FromMemory(ReadXml):
    """Reads bytes that are at hand, for tests of thousands of files."""

    data = b""

    @contextlib.contextmanager
    def open(self, restriction):
        self.opened = io.BytesIO(self.data)
        self.reader = io.BufferedReader(self.opened)
        yield self.reader

    def read(self, *cuts):
        """Return the outputs of the blocks that lie between cuts, in order."""
        file = FileInfo("f", len(self.data))
        outputs = []
        for start, stop in itertools.pairwise((0, *cuts, file.size)):
            block = FileBlock(file, start, stop)
            tracker = self.create_tracker(block, self.get_initial_restriction(block))
            outputs += [out.value if isinstance(out, TaggedOutput) else out for out in self.process(block, tracker)]
        return outputs


def elements_of(text, tag):
    """Return the elements as the parser of the whole file gives them."""
    found = []
    for _, element in ElementTree.iterparse(io.BytesIO(text)):
        if element.tag == tag:
            element.tail = None
            found.append(ElementTree.tostring(element))
    return found


HIDING = ((b"<!--", b"-->"), (b"<![CDATA[", b"]]>"), (b"<?", b"?>"))


def begins(data, at):
    return data[at : at + 2] == b"<p" and data[at + 2 : at + 3] in (b">", b"/", b" ")


def by_the_rules(data):
    """Return the elements ``p`` of a text, each with its offset, character by character; None if one is hidden."""
    starts, at = [], 0
    while at < len(data):
        closing = next((closing for opening, closing in HIDING if data.startswith(opening, at)), None)
        if closing:
            begin, end = at, data.find(closing, at + 2)
            at = len(data) if end < 0 else end + len(closing)
            if any(begins(data, inside) for inside in range(begin, at)):
                return None
        else:
            if begins(data, at):
                starts.append(at)
            at += 1
    found = []
    for start, stop in itertools.pairwise([*starts, len(data)]):
        end = _end_by_the_rules(data, start, stop)
        found.append(("bad", start, data[start:stop]) if end is None else ("record", start, data[start:end]))
    return found


def _end_by_the_rules(data, start, stop):
    at = data.find(b">", start, stop) + 1
    if at == 0 or b"<" in data[start + 1 : at]:
        return None
    if data[at - 2 : at] == b"/>":
        return at
    while at < stop:
        if data.startswith(b"</p>", at, stop):
            return at + 4
        for opening, closing in HIDING:
            if data.startswith(opening, at, stop):
                at = data.find(closing, at + len(opening), stop)
                if at < 0:
                    return None
        at += 1
    return None


def told(outputs):
    return [
        ("bad", out.offset, out.data) if isinstance(out, BadRecord) else ("record", out[0][1], out[1])
        for out in outputs
    ]


@pytest.fixture
def write(tmp_path):
    def write(data, name="file.xml"):
        path = tmp_path / name
        path.write_bytes(data.encode() if isinstance(data, str) else data)
        return str(path)

    return write


@pytest.fixture(autouse=True)
def _index_dir(tmp_path, monkeypatch):
    """A temporary directory of the test's own."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))


# However it is cut


@pytest.mark.parametrize("length", [*range(4), pytest.param(4, marks=LONGER)])
def test_all_small_files_are_read_by_the_rules_at_every_cut(length):
    """All texts of tags, comments and CDATA sections, whole or not: same records, same flaws, same offsets."""
    fn = FromMemory("p", parse=bytes, with_position=True, on_error="tag")
    kinds = ("<p>", "</p>", "<p/>", "<ps>", "<!--", "-->", "<![CDATA[", "]]>", "<p a")
    draw = random.Random(length)
    texts = list(itertools.product(kinds, repeat=length))
    for text in texts if length < 4 else draw.sample(texts, 1500):
        fn.data = "".join(text).encode()
        expected = by_the_rules(fn.data)
        for cut in range(len(fn.data) + 1):
            if expected is None:
                with pytest.raises(ReadError, match="pass hidden_tags=True to ReadXml"):
                    fn.read(cut)
            else:
                assert told(fn.read(cut)) == expected, (fn.data, cut)


@pytest.mark.parametrize("hidden", [False, True])
@pytest.mark.parametrize(
    ("opening", "closing"),
    [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?x ", "?>"), ("<!DOCTYPE t [<!ENTITY x '", "'>]>")],
)
def test_hidden_start_tags_are_an_error_or_begin_no_record(write, opening, closing, hidden):
    """Wherever the file is cut, and whatever the markup that hides them holds else; as by xml.etree where asked for."""
    text = "<t><p>1</p>" + opening + "<p>0</p>" + closing + "<p>2" + ("" if "DOCTYPE" in opening else opening) + "</p>"
    text += ("" if "DOCTYPE" in opening else closing) + "</p><p>3</p></t>"
    if "DOCTYPE" in opening:
        text = text.replace("<t><p>1</p>", "").replace("<p>2", "<t><p>1</p><p>2")
    fn = FromMemory("p", hidden_tags=hidden, parse=lambda record: ElementTree.fromstring(record).text[:1])
    fn.data = text.encode()
    if hidden:
        path = write(fn.data)
        assert run_direct([path], ReadXml("p", hidden_tags=True, parse=fn.parse)) == ["1", "2", "3"]
        assert restriction_of(fn, path).note == "hidden_tags: read in one piece"
        packed = write(gzip.compress(fn.data), "f.gz")
        assert run_direct([packed], ReadXml("p", hidden_tags=True, parse=fn.parse)) == ["1", "2", "3"]
    else:
        path = write(bgzf([fn.data[at : at + 11] for at in range(0, len(fn.data), 11)]), "f.bgz")
        with pytest.raises(ReadError, match="this start tag lies in a comment"):
            run_direct([path], ReadXml("p"), split_every=1)
        for one, two in itertools.combinations_with_replacement(range(len(fn.data) + 1), 2):
            with pytest.raises(ReadError, match=r"start tag lies in a comment, .* pass hidden_tags=True to ReadXml"):
                fn.read(one, two)


def test_markup_that_does_not_end_is_an_error(write):
    """It would hide all records that follow."""
    with pytest.raises(ReadError, match=r"what begins at byte 7 does not end in '-->'. The file is damaged or cut off"):
        run_direct([write("<t><p/><!-- <p/></t>")], ReadXml("p", hidden_tags=True))


def test_hidden_tags_go_with_whole_files():
    """A block of a file does not show what hides it."""
    with pytest.raises(InvalidValueError, match="ReadXml block_size is of no use with hidden_tags"):
        ReadXml("p", hidden_tags=True, block_size=100)
    with pytest.raises(InvalidTypeError, match="ReadXml hidden_tags must be True or False"):
        ReadXml("p", hidden_tags=1)
    with pytest.raises(InvalidValueError, match="ReadXml with hidden_tags reads files from their start"):
        run_direct([FileBlock(FileInfo("f", 10), 0, 5)], ReadXml("p", hidden_tags=True))


@pytest.mark.parametrize("tag", ["page", "b", "pagesize"])
def test_every_cut_gives_the_elements_of_xml_etree(tag):
    """Also through tags, and through what looks like one."""
    fn = FromMemory(tag, parse=bytes)
    fn.data = TEXT.encode()
    whole = fn.read()
    assert [ElementTree.tostring(ElementTree.fromstring(record)) for record in whole] == elements_of(fn.data, tag)
    for one, two in itertools.combinations_with_replacement(range(0, len(fn.data) + 1, 3), 2):
        assert fn.read(one, two) == whole, (one, two)


@pytest.mark.parametrize("length", range(6))
def test_records_that_are_parsed_together_are_those_that_are_parsed_alone(length):
    """One parser reads many records if all are good: same values, same flaws."""
    together = FromMemory("p", with_position=True, on_error="tag")
    alone = FromMemory("p", with_position=True, on_error="tag", parse=ElementTree.fromstring)
    kinds = ("<p>", "</p>", "<p/>", "<c>", "</c>", "<!--", "-->", "&x;")
    texts = list(itertools.product(kinds, repeat=length))
    if length == 5:
        texts = [("<p>", "<!--", "<p>", "-->", "</p>"), *random.Random(length).sample(texts, 3000)]
    for text in texts:
        together.data = alone.data = "".join(text).encode()
        assert values_of(together) == values_of(alone), together.data


def values_of(fn):
    try:
        return [out if isinstance(out, BadRecord) else (out[0], ElementTree.tostring(out[1])) for out in fn.read()]
    except ReadError as error:
        return str(error)


def random_xml(draw):
    """Return a document of records of all kinds, and of what lies between them."""
    names = ("r", "rs", "r-x", "x")

    def inside(depth):
        kinds = ["text ", "&gt;", "<!-- </r> -->", "<![CDATA[</r> <x> ]]>", "<?r </r>?>", "\u00e9>"]
        if depth < 3:
            kinds += [element(draw.choice(names[1:]), depth + 1) for _ in range(3)]
        return "".join(draw.choices(kinds, k=draw.randrange(4)))

    def element(name, depth=0):
        attributes = "".join(draw.choices([" a='<'", ' b="/>"', "\nc='\">'"], k=1)) if draw.random() < 0.5 else ""
        attributes = attributes.replace("<", "&lt;")
        if draw.random() < 0.3:
            return f"<{name}{attributes}/>"
        return f"<{name}{attributes}>{inside(depth)}</{name}{draw.choice(['', ' '])}>"

    body = "".join(draw.choice([element("r"), element("r"), inside(0), "\n"]) for _ in range(12))
    return f"<root>{body}</root>".encode()


@pytest.mark.parametrize("seed", range(10))
def test_documents_are_read_as_by_xml_etree_at_every_cut(seed):
    """Documents of all kinds of records, and of much that is none."""
    draw = random.Random(seed)
    fn = FromMemory("r")
    for _ in range(4):
        fn.data = random_xml(draw)
        expected = elements_of(fn.data, "r")
        for cut in range(len(fn.data) + 1):
            assert list(map(ElementTree.tostring, fn.read(cut))) == expected, (fn.data, cut)


@pytest.mark.parametrize("options", [{}, *({"block_size": size} for size in (1, 2, 7, 50, 10_000))], ids=str)
def test_contract_holds(write, options):
    """check_dofn splits it everywhere; with a block size cells are as small as that."""
    checked = check_dofn(ReadXml("page", parse=bytes, with_position=True, **options), write(TEXT))
    assert checked.records == 5
    assert checked.complete


@pytest.mark.parametrize("seed", range(3))
def test_records_are_the_same_after_a_checkpoint_at_every_claim(write, seed):
    """Residuals start anywhere, and run in any order."""
    path = write(TEXT)
    found = run_direct([path], ReadXml("page", parse=bytes, block_size=5), split_every=1, seed=seed)
    assert sorted(found) == sorted(run_direct([path], ReadXml("page", parse=bytes)))


@pytest.mark.slow("test_records_are_the_same_after_a_checkpoint_at_every_claim")
def test_records_longer_than_cells_and_many_in_one_are_read(write):
    """As xml.etree reads them; reading goes on behind a cell until its last record ends."""
    draw = random.Random(1)
    rows = [
        f'<row id="{number}">{"x" * draw.choice([0, 9, 99, 9999, 3 * CELL_BYTES])}</row>\n' for number in range(300)
    ]
    path = write("<rows>" + "".join(rows) + "</rows>")
    ids = [element.get("id") for element in run_direct([path], ReadXml("row"))]
    assert ids == [str(number) for number in range(300)]
    blocks = run_direct([path], FileBlocks(99_999))
    parts = run_direct(blocks, ReadXml("row", parse=bytes))
    assert parts == [row.strip().encode() for row in rows]


def test_a_file_is_not_held_in_memory(write):
    """One cell and one record are."""
    path = write(b"<rows>" + (b"<row>" + b"x" * 300 + b"</row>\n") * 40_000 + b"x" * (12 << 20) + b"</rows>")
    fn = ReadXml("row", parse=len)
    part = restriction_of(fn, path)
    tracemalloc.start()
    try:
        assert sum(1 for _ in fn.process(path, fn.create_tracker(path, part))) == 40_000
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_a_part_reads_on_only_until_its_last_record_ends():
    """What comes behind it may be long."""
    fn = FromMemory("p", parse=bytes)
    fn.data = b"<p>" + b"a" * 200_000 + b"</p>" + b"x" * (10 << 20) + b"<p/>"
    block = FileBlock(FileInfo("f", len(fn.data)), 0, 10)
    assert len(list(fn.process(block, fn.create_tracker(block, fn.get_initial_restriction(block))))) == 1
    assert fn.opened.tell() < 1 << 20


# Compressed


def zstd_frames(pieces):
    return b"".join(map(zstandard.compress, pieces))


@pytest.mark.parametrize(
    ("name", "pack"),
    [
        ("f.bz2", lambda pieces: b"".join(map(bz2.compress, pieces))),
        ("f.bgz", bgzf),
        ("f.zst", zstd_frames),
        ("f.gz", lambda pieces: gzip.compress(b"".join(pieces))),
    ],
)
@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow("the same test with fewer cuts"))])
def test_compressed_files_are_read_at_every_cut(write, name, pack, step):
    """A record belongs to the block in which it starts; tags lie across blocks."""
    text = TEXT.encode()
    path = write(pack([text[at : at + 11] for at in range(0, len(text), 11)]), name)
    fn = ReadXml("page", parse=bytes, with_position=True, block_size=100)
    whole = restriction_of(fn, path)
    expected = read_part(fn, path, whole)
    plain = FromMemory("page", parse=bytes)
    plain.data = text
    assert [record for _, record in expected] == plain.read()
    offsets = [offset for (_, offset), _ in expected]
    assert offsets == sorted(set(offsets))
    for cut in range(0, whole.stop + 1, step if name != "f.bz2" else 7 * step):
        assert read_cut(fn, path, cut) == expected, cut


@pytest.mark.parametrize("repeated", [1, 3000])
def test_what_cannot_be_split_is_read_in_one_piece(write, repeated):
    """A zstd file of one frame, shorter and longer than a cell."""
    text = TEXT.encode() * repeated
    path = write(zstandard.compress(text), "f.zst")
    fn = ReadXml("page", parse=bytes)
    assert restriction_of(fn, path).codec == "zstd"
    assert len(run_direct([path], fn)) == 5 * repeated


# What a record is


def test_a_record_is_an_element_that_can_be_pickled(write):
    """Its children, attributes and text are there."""
    (page, *_) = cloudpickle.loads(cloudpickle.dumps(run_direct([write(TEXT)], ReadXml("page"))))
    assert (page.tag, page.attrib, page[0].text, page[0].tail) == (
        "page",
        {"id": "1", "title": 'a > "b"/>'},
        "b",
        " & \u00e9",
    )


def test_parse_makes_what_one_likes(write):
    """Of the bytes of a record."""
    path = write("<a><b>1</b><b x='2'/></a>")
    assert run_direct([path], ReadXml("b", parse=bytes)) == [b"<b>1</b>", b"<b x='2'/>"]
    assert run_direct([path], ReadXml("b", parse=len)) == [8, 10]


def test_position_is_where_the_start_tag_begins(write):
    """The byte, not the character."""
    path = write("\ufeff<a>\u00e9<b/>\n<b/></a>")
    found = run_direct([path], ReadXml("b", parse=bytes, with_position=True))
    assert found == [((path, 8), b"<b/>"), ((path, 13), b"<b/>")]


def test_block_id_is_that_of_the_block_where_a_record_starts(write):
    """As in other readers of text."""
    path = write("<a><b/>\n<b>long</b></a>")
    found = run_direct([path], ReadXml("b", parse=bytes, with_block_id=True, block_size=8))
    assert [(block.rpartition(":")[2], record) for block, record in found] == [
        ("0-8", b"<b/>"),
        ("8-16", b"<b>long</b>"),
    ]


@pytest.mark.parametrize("data", ["", "<a></a>", "text", "<b", "<bs/>", "</b>", "<a:b/>"])
def test_a_file_without_a_record_gives_nothing(write, data):
    """Empty, or with tags of other names."""
    assert run_direct([write(data)], ReadXml("b")) == []


# Namespaces


SPACES = """<feed xmlns="http://a" xmlns:dc="http://dc" xmlns:q="u'&quot;&amp;">
<e dc:x="1"><dc:f/><q:g/></e>
<dc:e xmlns:dc="own"><dc:f y="xmlns="/></dc:e><e xmlns = "mine" a=" xmlns:dc='x'"><dc:f/></e></feed>"""


@pytest.mark.parametrize("parse", [None, ElementTree.fromstring])
@pytest.mark.parametrize(("tag", "names"), [("e", ("{http://a}e", "{mine}e")), ("dc:e", ("{own}e",))])
def test_namespaces_are_those_of_the_whole_file_if_they_are_named(write, tag, names, parse):
    """Those that a record declares itself stay as they are. Bytes for another parser have them, too."""
    namespaces = {"": "http://a", "dc": "http://dc", "q": "u'\"&"}
    found = run_direct([write(SPACES)], ReadXml(tag, namespaces=namespaces, parse=parse))
    expected = [element for name in names for element in elements_of(SPACES.encode(), name)]
    assert list(map(ElementTree.tostring, found)) == expected
    assert len(expected) == len(names)


def test_names_are_plain_if_no_namespace_is_named(write):
    """The default one is declared far away, at the root of the file."""
    (element,) = run_direct([write("<feed xmlns='http://a'><e><f/></e></feed>")], ReadXml("e"))
    assert (element.tag, element[0].tag) == ("e", "f")


# Bad records


def fail(record):
    error = ValueError("no numbers here")
    error.code = expat.errors.codes[expat.errors.XML_ERROR_UNDEFINED_ENTITY]  # means something else in other libraries
    raise error


@pytest.mark.parametrize(
    ("options", "record", "message"),
    [
        ({}, b"<b><c></b>", "mismatched tag: line 1, column 8 (in b'<b><c></b>'). To go on"),
        (
            {},
            b"<b>\xff</b>",
            "not well-formed (invalid token): line 1, column 3 (in b'<b>\\xff</b>'). It is not UTF-8:",
        ),
        (
            {},
            b"<b><x:c/></b>",
            "unbound prefix: line 1, column 3 (in b'<b><x:c/></b>'). Prefixes that are declared around",
        ),
        ({}, b"<b>&x;</b>", "undefined entity: line 1, column 3 (in b'<b>&x;</b>'). The entities that a DOCTYPE"),
        (
            {},
            b"<b>\n",
            "this <b> does not end before the next one begins, or the file ends (in b'<b>\\n'). It is cut off,",
        ),
        (
            {},
            b"<b><!-- </b>",
            "this <b> does not end before the next one begins, or the file ends (in b'<b><!-- </b>')",
        ),
        ({}, b"<b a='>\n", "this <b> does not end before the next one begins, or the file ends (in "),
        ({"namespaces": {"y": "u"}}, b"<b>\n<c></b>", "mismatched tag: line 2 (in b'<b>\\n<c></b>'). To go on"),
        ({"parse": fail}, b"<b/>", "no numbers here (in b'<b/>'). To go on"),
        ({"parse": int}, b"<b/>", "invalid literal for int() with base 10: b'<b/>' (in b'<b/>'). To go on"),
    ],
)
def test_a_bad_record_is_an_error_with_its_place_and_what_to_do(write, options, record, message):
    """The parser's own words, and what they may mean here."""
    path = write(b"<a>     " + record)
    with pytest.raises(ReadError, match=re.escape(f"{path} at byte 8: {message}")):
        run_direct([path], ReadXml("b", **options))


def refuse(record):
    raise expat.ExpatError("as xmltodict does")


@pytest.mark.parametrize("parse", [refuse, ElementTree.fromstring])
def test_bad_records_may_be_tagged(write, parse):
    """With their bytes as they are in the file, up to their end, or where the next one begins."""
    path = write("<a><b><b/> <b>\n<b>x</b></a>")
    outputs = run_direct([path], ReadXml("b", parse=parse, on_error="tag"), tags=("bad",))
    bad = [(record.offset, record.data) for record in outputs["bad"]]
    assert len(outputs["main"]) + len(bad) == 4
    assert (3, b"<b>") in bad
    assert (11, b"<b>\n") in bad
    assert all(record.path == path for record in outputs["bad"])


def test_of_elements_that_hold_one_another_the_outer_ones_are_bad(write):
    """At every cut: a part cannot see what is around an element."""
    path = write("<a><b>1<b>2</b>3</b><b>4</b></a>")
    fn = ReadXml("b", parse=bytes, on_error="tag", block_size=4)
    outputs = run_direct([path], fn, tags=("bad",), split_every=1)
    assert sorted(outputs["main"]) == [b"<b>2</b>", b"<b>4</b>"]
    assert [record.data for record in outputs["bad"]] == [b"<b>1"]
    with pytest.raises(ReadError, match=r"at byte 3: this <b> does not end .* or it holds another element of its name"):
        run_direct([path], ReadXml("b"))


@pytest.mark.parametrize("size", [20, 200_000])
def test_a_longer_record_than_allowed_is_refused_at_every_cut(size):
    """Whether it ends or not, and whether others are around it."""
    for end in (b"</p>", b"", b"<p/>"):
        fn = FromMemory("p", parse=bytes, max_record_bytes=size, on_error="tag")
        record = b"<p>" + b"x" * (size - 3 - len(b"</p>" if end == b"</p>" else b"")) + (end if end == b"</p>" else b"")
        assert len(record) == size
        fn.data = b"<a><p/>" + record + (b"<p/>" if end != b"" else b"")
        assert len(fn.read()) == (3 if end else 2)
        fn.data = b"<a><p/>" + record.replace(b"x", b"xx", 1) + (b"<p/>" if end != b"" else b"")
        for cut in (0, 1, 7, 8, len(fn.data) - 1):
            with pytest.raises(ReadError, match=f"^f: the element that begins at byte 7 has more than {size} bytes"):
                fn.read(cut)


def test_a_part_does_not_look_far_for_an_end_that_is_not_there():
    """A start tag in a comment may have none."""
    fn = FromMemory("p", max_record_bytes=1000)
    fn.data = b"<p>" + b"x" * (10 << 20)
    with pytest.raises(ReadError, match="the element that begins at byte 0 has more than 1000 bytes"):
        fn.read()
    assert fn.opened.tell() < 1 << 20


@pytest.mark.parametrize(
    ("head", "flaw"),
    [
        (b"<?xml version='1.0' encoding='ISO-8859-1'?><a><b/></a>", "It is XML in ISO-8859-1: convert the file"),
        ('\ufeff<?xml version="1.0"\n encoding = "latin-1" ?><a><b/></a>'.encode(), "It is XML in latin-1: convert"),
        ("<a><b/></a>".encode("utf-16"), "It is text in UTF-16, which cannot be split: convert"),
        ("\n<a><b/></a>".encode("utf-16-le"), "It is text in UTF-16LE, which cannot"),
        ("<a><b/></a>".encode("utf-32"), "It is text in UTF-32, which cannot"),
        ("<a><b/></a>".encode("cp037"), "It begins with b'L"),
        (gzip.compress(b"<a><b/></a>"), "It is gzip: pass compression='gzip'."),
        (bz2.compress(b"<a><b/></a>"), "It is bzip2: pass compression='bzip2'."),
        (lzma.compress(b"<a><b/></a>"), "It is xz, which cannot be split"),
        (b"\n<!DOCTYPE html><body>503</body>", "It is an HTML page"),
        (b"<HTML><b/>", "It is an HTML page"),
    ],
    ids=["latin-1", "mark", "utf-16", "utf-16-le", "utf-32", "ebcdic", "gzip", "bzip2", "xz", "page", "HTML"],
)
@pytest.mark.parametrize("compressed", [False, True])
def test_bytes_that_are_not_xml_in_utf_8_are_an_error(write, head, flaw, compressed):
    """Whatever on_error says: the first part tells."""
    path = write(bz2.compress(head), "f.bz2") if compressed else write(head)
    with pytest.raises(ReadError, match=re.escape(path) + ".* cannot be read by ReadXml, which .*" + re.escape(flaw)):
        run_direct([path], ReadXml("b", on_error="tag"), tags=("bad",))


def test_a_start_tag_takes_memory_in_proportion_to_its_length(write):
    """30 MB of attributes took 2.7 GB: the pattern kept a way back for each character."""
    data = b"<t><row " + b"a='1' " * 200_000 + b"/></t>"
    tracemalloc.start()
    try:
        assert run_direct([write(data)], ReadXml("row", parse=len)) == [len(data) - 7]
        assert tracemalloc.get_traced_memory()[1] < 8 * len(data)
    finally:
        tracemalloc.stop()


def test_what_looks_like_a_declaration_in_the_middle_of_a_file_is_none():
    """It is text, also where a part begins with it."""
    fn = FromMemory("b", parse=bytes)
    fn.data = b"<a><b/><![CDATA[<?xml version='1.0' encoding='latin-1'?>]]><b/></a>"
    for cut in range(len(fn.data)):
        assert fn.read(cut) == [b"<b/>", b"<b/>"]


@pytest.mark.parametrize("encoding", ["UTF-8", "utf8", "US-ASCII"])
def test_utf8_may_be_declared(write, encoding):
    """In any spelling; ASCII is UTF-8."""
    path = write(f"<?xml version='1.0' encoding='{encoding}'?><a encoding='x'><b/></a>")
    assert len(run_direct([path], ReadXml("b"))) == 1


# Options


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"tag": b"b"}, InvalidTypeError, "ReadXml tag must be the name of an element, such as 'page' (got b'b')."),
        (
            {"tag": "<b>"},
            InvalidValueError,
            "ReadXml tag must be the name of an element as files have it, such as 'page'",
        ),
        ({"tag": "{http://a}b"}, InvalidValueError, "ReadXml tag must be the name of an element as files have it"),
        ({"tag": "a:b:c"}, InvalidValueError, "ReadXml tag must be the name of an element as files have it"),
        ({"tag": ""}, InvalidValueError, "ReadXml tag must be the name of an element as files have it"),
        ({"parse": 3}, InvalidTypeError, "ReadXml parse must be a function of a record's bytes, or None (got 3)."),
        ({"namespaces": "http://a"}, InvalidTypeError, "ReadXml namespaces must be a mapping of prefixes to URIs"),
        ({"namespaces": {"a": 1}}, InvalidTypeError, "ReadXml namespaces must be a mapping of prefixes to URIs"),
        (
            {"namespaces": {"a b": "u"}},
            InvalidValueError,
            "ReadXml namespaces must have prefixes, or '' for the default",
        ),
        ({"delimiter": b"\n"}, InvalidTypeError, "ReadXml has no option 'delimiter'"),
        ({"on_error": "skip"}, InvalidValueError, "ReadXml on_error must be 'raise' or 'tag' (got 'skip')."),
    ],
)
def test_wrong_options_are_refused(options, kind, message):
    """At once, with what is allowed."""
    with pytest.raises(kind, match=re.escape(message)):
        ReadXml(**{"tag": "b", **options})


def test_a_tag_may_have_any_letters(write):
    """Names of XML are not only ASCII."""
    path = write("<a><\u00e9-1.x>1</\u00e9-1.x><\u00e9/></a>")
    assert [element.text for element in run_direct([path], ReadXml("\u00e9-1.x"))] == ["1"]

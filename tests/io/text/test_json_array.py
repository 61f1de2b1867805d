"""ReadJson: the elements that json.loads gives, wherever the file is cut, and an error for what is no array."""

import json
import os
import re
from pathlib import Path

import attrs
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ReadError
from sdf.io import FileBlocks, ReadJson
from sdf.io.text import json_array
from sdf.testing import check_dofn

VALUES = [
    1, -2.5e10, True, None, "", "a,b", "[", "]}", '"', "\\", '\\"', '"},{"', "\u20ac\n", [], {}, [1, [2, "],["]],
    {"a": {"b,": "\\\\"}, "]": []}, "end",
]  # fmt: skip
TEXTS = [
    json.dumps(VALUES),
    json.dumps(VALUES, indent=2, ensure_ascii=False),
    json.dumps(VALUES, separators=(",", ":")),
    "\ufeff \r\n[\t1 ,\n2\r\n] \n",
    "[]",
    " [ ] ",
    "\n\t \r" * 5 + "[1]" + "\n\t \r" * 5,
    "[[]]",
    '["one, and only"]',
]


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "a.json")


@pytest.fixture(params=[(1, 1), (1, 2), (1, 7), (20, 3), (20, 30), (1, 1000)], ids=str)
def small(request, monkeypatch):
    """Make blocks of a few bytes, and look at a few at once, down to one."""
    block, piece = request.param
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", block)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", piece)


def write(path, text):
    Path(path).write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def values_of(text):
    return json.loads(text.removeprefix("\ufeff"))


def parts_of(fn, path, *edges):
    whole = fn.get_initial_restriction(path)
    for start, stop in zip((0, *edges), (*edges, whole.stop), strict=True):
        yield from fn.process(path, fn.create_tracker(path, attrs.evolve(whole, start=start, stop=stop)))


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_every_cut_gives_the_elements(path, small, text):
    """As json.loads does, in order, with strings that look like brackets, commas and ends of strings."""
    write(path, text)
    expected = values_of(text)
    assert run_direct([path], ReadJson()) == expected
    wrong = [cut for cut in range(os.path.getsize(path) + 1) if list(parts_of(ReadJson(), path, cut)) != expected]
    assert wrong == []


def test_much_may_stand_around_an_array(path):
    """As much whitespace as there is: nothing in JSON bounds it."""
    blank = " \n" * 300_000
    assert run_direct([write(path, f"\ufeff{blank}[1, 2]{blank}")], ReadJson()) == [1, 2]
    with pytest.raises(ReadError, match=re.escape("should be a JSON array, but begins with b'' instead of '['")):
        run_direct([write(path, blank)], ReadJson())


def test_there_is_a_block_for_each_element(path, monkeypatch):
    """If blocks may be that small: so the tests above cut something."""
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", 1)
    checked = check_dofn(ReadJson(), write(path, TEXTS[0]))
    assert (checked.complete, checked.claims >= len(VALUES), checked.splits > 0) == (True, True, True)


JSON = st.recursive(
    st.none() | st.integers() | st.text(alphabet='ab"\\[]{},: \n\u20ac'),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(alphabet='a"\\[]{},'), inner),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(values=st.lists(JSON), indent=st.sampled_from([None, 1]), block=st.integers(1, 50), piece=st.integers(1, 50))
def test_any_array(path, monkeypatch, values, indent, block, piece):
    """Whatever is in it, and however it is looked through."""
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", block)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", piece)
    assert run_direct([write(path, json.dumps(values, indent=indent))], ReadJson()) == values


@pytest.mark.parametrize("new", list('"\\[]{},:1 '))
def test_a_wrong_byte_never_gives_other_values(path, monkeypatch, new):
    """Anywhere: what json.loads takes for an array is read like it, everything else is an error."""
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", 2)
    whole = json.dumps(["a,b", "\\", '"],["', [1, {"x": "}"}], {"y": [2]}, 3])
    raised = 0
    for at in range(len(whole)):
        text = whole[:at] + new + whole[at + 1 :]
        try:
            expected = json.loads(text)
        except ValueError:
            expected = None
        write(path, text)
        if isinstance(expected, list):
            assert run_direct([path], ReadJson()) == expected
        else:
            raised += 1
            with pytest.raises(ReadError):
                run_direct([path], ReadJson())
    assert raised > 0


def test_a_file_that_is_cut_off_is_an_error(path, small):
    """At any byte; an empty file has no elements."""
    for size in range(1, len(TEXTS[0])):
        with pytest.raises(ReadError):
            run_direct([write(path, TEXTS[0][:size])], ReadJson())
    assert run_direct([write(path, "")], ReadJson()) == []


@pytest.mark.parametrize("text", ["[1,,2]", "[1,2,]", "[,1,2]", "[,]", "[1] [2]", "[1],[2]", "[1 2]", '["]'])
def test_what_is_no_array_is_an_error(path, small, text):
    """Also if the flaw lies between two blocks."""
    with pytest.raises(ReadError, match=rf"{path} at byte \d: .*\. The file is damaged, or no JSON array in UTF-8\."):
        run_direct([write(path, text)], ReadJson())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": [1]}', "should be a JSON array, but begins with b'{\"a\": [1]}' instead of '['. ReadJsonLines reads"),
        ("[1]\n2\n", "should be a JSON array, but ends with b'[1]\\n2' instead of ']'. The file is cut off,"),
        ("[1, 2, x]", "at byte 7: Expecting value. The file is damaged"),
        ("[1, \u20ac]", "at byte 4: Expecting value. The file is damaged"),
        ('["\u20ac", x]', "at byte 8: Expecting value. The file is damaged"),
        (b'["ab\xff"]', "at byte 4: 'utf-8' codec can't decode byte 0xff"),
        ("[[1]", "at byte 3: this bracket does not end the array. The file is damaged"),
        ("[" * 100_000 + "]" * 100_000, "maximum recursion depth exceeded"),
    ],
    ids=range(8),
)
def test_errors_say_what_is_wrong(path, text, message):
    """With file and byte."""
    with pytest.raises(ReadError, match=re.escape(message)):
        run_direct([write(path, text)], ReadJson())


def test_flaws_are_told_at_their_byte_in_later_blocks(path, monkeypatch):
    """Each block is parsed by itself."""
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", 1)
    with pytest.raises(ReadError, match="at byte 11: Expecting value"):
        run_direct([write(path, '["\u20ac", 2, x]')], ReadJson())


def test_blocks_grow_with_the_file(path, monkeypatch):
    """So that a restriction, which holds all places, stays small."""
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", 1)
    monkeypatch.setattr(json_array, "_MOST_BLOCKS", 10)
    write(path, json.dumps(list(range(1000))))
    assert 5 <= len(ReadJson().get_initial_restriction(path).edges) <= 11


def test_a_split_falls_between_elements(path, monkeypatch):
    """So both parts have something to read; if no block is left, there is none."""
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", 1)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", 1)
    fn = ReadJson()
    tracker = fn.create_tracker(path, fn.get_initial_restriction(write(path, "[10,20,30,40]")))
    assert tracker.try_claim(1)
    assert [part.start for part in tracker.try_split(0.5)] == [0, 7]
    assert [part.start for part in tracker.try_split(0.3)] == [0, 4]
    assert tracker.try_split(0.5) is None


def test_with_position(path, monkeypatch):
    """Path, and where the block begins."""
    monkeypatch.setattr(json_array, "_BLOCK_BYTES", 3)
    monkeypatch.setattr(json_array, "_PIECE_BYTES", 3)
    found = run_direct([write(path, "[1,2,3,4]")], ReadJson(with_position=True))
    assert found == [((path, 1), 1), ((path, 1), 2), ((path, 5), 3), ((path, 5), 4)]


def parse_doubled(text):
    return [2 * value for value in json.loads(text)]


def test_another_parser(path):
    """It gets an array."""
    assert run_direct([write(path, "[1, 2]")], ReadJson(loads=parse_doubled)) == [2, 4]


def test_the_report_says_how_long_the_look_took(path):
    """As a remark on the element."""
    fn = ReadJson()
    restriction = fn.get_initial_restriction(write(path, "[1]"))
    assert re.fullmatch(r"JSON array: looked through in \d+\.\d s", fn.remark(path, restriction))


def test_block_of_a_file(path):
    """Only the whole file says where elements begin."""
    blocks = run_direct([write(path, "[1]")], FileBlocks())
    with pytest.raises(
        InvalidValueError, match=r"ReadJson cannot read a block of a file \(got FileBlock.* Leave out F"
    ):
        run_direct(blocks, ReadJson())


def test_wrong_loads():
    """A name, say."""
    with pytest.raises(InvalidTypeError, match=re.escape("ReadJson loads must be a function such as json.loads (got")):
        ReadJson(loads="orjson")

"""ReadGroups: whole groups, parts of them, and pairs, at every cut of small files."""

import itertools
import pickle
import re
from collections import Counter

import pytest

from sdf import OffsetRange, run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError
from sdf.execution.invoker import Invoker
from sdf.grouping import sorted_pairs
from sdf.grouping.sorted_pairs import Group, Pairs, write_sorted
from sdf.io import ReadGroups
from sdf.testing import check_dofn

pytest.importorskip("pyarrow")


def groups_of(tmp_path, *files):
    """Write files of (key, value) in order; a row group holds two pairs."""
    return Pairs.of(
        [write_sorted(((key, pickle.dumps(value)) for key, value in file), str(tmp_path), {}, 2) for file in files], {}
    )


def numbered(text):
    return [(letter, number) for number, letter in enumerate(text)]


def listed(key, values):
    return sorted(values)


def by_key(pairs):
    found = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return sorted((key, sorted(values)) for key, values in found.items())


TEXTS = ["", "a", "aab", "aaaaaaa", "aabbbbbbcd", "abbbbcccccd"]


LONGEST = pytest.param(TEXTS[-1], marks=pytest.mark.slow("the same test with shorter texts"))


@pytest.mark.parametrize("text", [*TEXTS[:-1], LONGEST])
@pytest.mark.parametrize("kind", ["whole", "parts", "pairs"])
def test_every_cut_gives_the_groups(tmp_path, text, kind):
    """Wherever the row groups are cut into parts, and the pairs into files."""
    pairs = numbered(text)
    fn = {"whole": ReadGroups(listed), "parts": ReadGroups(listed, parts=True), "pairs": ReadGroups()}[kind]
    for cut in range(len(pairs) + 1):
        groups = groups_of(tmp_path, pairs[:cut], pairs[cut:])
        for first, second in itertools.combinations_with_replacement(range(groups.row_groups + 1), 2):
            given = []
            for start, stop in itertools.pairwise((0, first, second, groups.row_groups)):
                given += Invoker(fn, groups, OffsetRange(start, stop)).run()
            if kind == "whole":
                assert sorted(given) == by_key(pairs)
            elif kind == "parts":
                assert by_key((key, value) for key, values in given for value in values) == by_key(pairs)
            else:
                assert sorted(given) == sorted(pairs)


def flattened(records):
    """Return the values by key, of however many partial lists."""
    return by_key((key, value) for key, values in records for value in values)


@pytest.mark.parametrize(
    ("fn", "combine"),
    [(ReadGroups(listed), None), (ReadGroups(), None), (ReadGroups(listed, parts=True), flattened)],
    ids=["whole", "pairs", "parts"],
)
def test_the_contract_holds(tmp_path, fn, combine):
    """As for any DoFn: split at every claim, run in any order."""
    check_dofn(fn, groups_of(tmp_path, numbered("aabbbb"), numbered("bbcddd")), combine=combine)


@pytest.mark.parametrize("take", [0, 1, 3])
def test_a_function_may_leave_values(tmp_path, take):
    """The next group begins after them."""
    groups = groups_of(tmp_path, numbered("aabbbbbbb"), numbered("bcc"))
    some = ReadGroups(lambda key, values: len(list(itertools.islice(values, take))))
    assert sorted(run_direct([groups], some)) == [("a", min(2, take)), ("b", min(8, take)), ("c", min(2, take))]


def test_a_group_is_read_once_and_skipped(tmp_path, monkeypatch):
    """The row groups that one key fills are not read again by who has read past his part's end."""
    groups = groups_of(tmp_path, numbered("abbbbbbbbbbbbc"))
    reads, read = Counter(), sorted_pairs.Reader.read

    def counting(self, number):
        reads[number] += 1
        return read(self, number)

    monkeypatch.setattr(sorted_pairs.Reader, "read", counting)
    run_direct([groups], ReadGroups(listed))
    assert max(reads.values()) <= 2
    assert sum(reads.values()) == groups.row_groups + 1  # where the long group ends, others begin


@pytest.mark.parametrize("keys", [["a", "b"], [b"\0", b"\xff"], [-1, 2**63 - 1], [("a", 1), ("a", 2), ("b", 0)]])
def test_keys_come_back_as_they_were(tmp_path, keys):
    """Strings, bytes, integers, and tuples of them."""
    groups = groups_of(tmp_path, [(key, None) for key in keys])
    assert [key for key, _ in run_direct([groups], ReadGroups(listed_none))] == keys


def listed_none(key, values):
    return len(list(values))


@pytest.mark.parametrize("key", [None, 1.5, True, (), ("a", None), (("a",),), frozenset()])
def test_a_key_of_another_type_is_named(tmp_path, key):
    """Before anything is written of its row group."""
    with pytest.raises(InvalidTypeError, match="keys must be strings, bytes, integers"):
        groups_of(tmp_path, [(key, 1)])


def test_keys_that_do_not_fit_are_named(tmp_path):
    """They have no order, or do not fit."""
    with pytest.raises(InvalidTypeError, match="must all have the same type"):
        groups_of(tmp_path, [("a", 1), (1, 2)])
    for key in (2**63, -(2**63) - 1, ("a", 2**63)):
        with pytest.raises(InvalidValueError, match=re.escape(f"fit into 64 bits (got {key!r})")):
            groups_of(tmp_path, [(key, 1)])
    with pytest.raises(InvalidValueError, match=re.escape(r"encodable as UTF-8 (got '\ud800')")):
        groups_of(tmp_path, [("\ud800", 1)])


def test_the_report_names_the_keys_that_hold_up_a_run(tmp_path):
    """Those that fill several row groups, if they are read whole."""
    groups = groups_of(tmp_path, numbered("abbbbb"), numbered("bbcccc"))
    assert groups.hot == (Group("b", 4), Group("c", 2))
    said = ReadGroups(listed).remark(groups, None)
    assert "here of 'b' (4 row groups), 'c' (2 row groups); with parts=True they are split" in said
    assert ReadGroups(listed, parts=True).remark(groups, None) is None
    assert ReadGroups().remark(groups, None) is None


def test_files_that_are_gone_are_named(tmp_path):
    """With what to do."""
    groups = groups_of(tmp_path, numbered("ab"))
    for path in tmp_path.iterdir():
        path.unlink()
    with pytest.raises(SourceError, match="must be there until all who use the groups are done"):
        run_direct([groups], ReadGroups(listed))


def test_an_element_of_another_kind_is_named():
    """So is a function that cannot be called."""
    with pytest.raises(InvalidTypeError, match=r"reads what group_by_key\(\) returns"):
        run_direct(["path"], ReadGroups(listed))
    with pytest.raises(InvalidTypeError, match=r"callable as fn\(key, values\)"):
        ReadGroups(3)
    with pytest.raises(InvalidTypeError, match="parts must be True or False"):
        ReadGroups(listed, parts=1)


def generated(key, values):
    yield from values


@pytest.mark.parametrize("parts", [False, True])
@pytest.mark.parametrize("fn", [generated, lambda key, values: values, lambda key, values: map(str, values)])
def test_a_function_that_reads_its_values_later_is_refused(tmp_path, fn, parts):
    """They are gone then, and the group would be empty."""
    with pytest.raises(InvalidTypeError, match=r"ReadGroups fn must return one result for a key.*for key 'a'"):
        run_direct([groups_of(tmp_path, numbered("aab"))], ReadGroups(fn, parts=parts))

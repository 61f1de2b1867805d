"""ReadPages: every record once, whichever pages there are and however they are split; errors name element and page."""

import re
from collections import Counter
from itertools import pairwise

import attrs
import pytest

from sdf import run_direct
from sdf.errors import InvalidTypeError, InvalidValueError, ProcessError, SourceAwayError, SourceError
from sdf.io import ReadPages
from sdf.io.pages import PageRange
from sdf.testing import check_dofn

SOLD = [-7, -5, 0, 3, 4, 4, 4, 11, 12, 20, 21]  # hours of sales
HOURS = (-7, 22)


def letters(word, start, stop):
    return list(word[start:stop])


def sales(_, start, stop):
    """Give those in hours [start, stop)."""
    return (hour for hour in SOLD if start <= hour < stop)


def reads_numbers(page_size=3, **options):
    return ReadPages(letters, len, page_size=page_size, **options)


def reads_hours(page_size=4, hours=HOURS):
    return ReadPages(sales, lambda _: hours, page_size=page_size)


def in_parts(fn, element, cuts):
    """Give the outputs of the parts between cuts, in order."""
    whole = fn.get_initial_restriction(element)
    edges = [whole.start, *cuts, whole.stop]
    for start, stop in pairwise(edges):
        part = attrs.evolve(whole, start=start, stop=stop)
        yield from fn.process(element, fn.create_tracker(element, part))


@pytest.mark.parametrize("page_size", [1, 2, 3, 7, 8])
@pytest.mark.parametrize("size", range(9))
def test_numbered_records_are_the_same_however_they_are_cut(page_size, size):
    """Every pair of cuts."""
    letters = list("abcdefgh"[:size])
    for one in range(size + 1):
        for two in range(one, size + 1):
            assert list(in_parts(reads_numbers(page_size), letters, [one, two])) == letters


@pytest.mark.parametrize("page_size", [1, 4, 7, 28, 50])
@pytest.mark.parametrize("hours", [HOURS, (-5, 12), (4, 5), (1, 1)], ids=str)
def test_keys_are_the_same_however_they_are_cut(page_size, hours):
    """Also where the first page and the last are short, before 0, and where hours have no sale or many."""
    expected = list(sales(None, *hours))
    for one in range(hours[0], hours[1] + 1):
        for two in range(one, hours[1] + 1):
            assert list(in_parts(reads_hours(page_size, hours), "shop", [one, two])) == expected


@pytest.mark.parametrize(("fn", "element"), [(reads_numbers(), list("abcdefgh")), (reads_hours(), "shop")])
def test_it_can_be_split_anywhere(fn, element):
    """check_dofn splits it at every claim."""
    checked = check_dofn(fn, element)
    assert (checked.complete, checked.splits > 0) == (True, True)


def test_a_split_falls_on_a_page():
    """So both parts have something to read, and no page is cut."""
    tracker = reads_numbers(3).create_tracker(None, PageRange(0, 8, 0, 8, True))
    assert tracker.try_claim(0)
    primary, residual = tracker.try_split(0.5)
    assert (primary.stop, residual.start, residual.stop) == (6, 6, 8)
    assert tracker.try_split(0.9) is None


def test_a_page_is_one_call():
    """Pages begin at multiples of their size; only the first and the last may be short."""
    calls = []
    fn = ReadPages(lambda _, start, stop: calls.append((start, stop)) or [], lambda _: (5, 17), page_size=4)
    run_direct(["x"], fn)
    assert calls == [(5, 8), (8, 12), (12, 16), (16, 17)]


def test_a_page_is_the_same_whole_call_for_a_part_that_ends_inside_of_it():
    """A page belongs to the part that it begins in."""
    calls = []
    fn = ReadPages(lambda _, start, stop: calls.append((start, stop)) or [], lambda _: (5, 17), page_size=4)
    list(fn.process("x", fn.create_tracker("x", PageRange(6, 9, 5, 17, False))))
    assert calls == [(8, 12)]


def test_counting_is_done_once_for_an_element():
    """Its parts go by the range that was counted then."""
    counted = []
    fn = ReadPages(letters, lambda word: counted.append(word) or len(word), page_size=1)
    assert Counter(run_direct(["abc", "de"], fn, split_every=1)) == Counter("abcde")
    assert counted == ["abc", "de"]


def test_with_position():
    """The element, and where the page of the record begins."""
    found = run_direct(["abcd"], reads_numbers(3, with_position=True))
    assert found == [(("abcd", 0), "a"), (("abcd", 0), "b"), (("abcd", 0), "c"), (("abcd", 3), "d")]


def test_a_fetch_may_yield():
    """Records of a page that come one by one, too."""
    assert run_direct(["shop"], reads_hours()) == SOLD


@pytest.mark.parametrize("lazy", [False, True])
def test_a_fetch_that_raises_is_told_with_element_and_page(lazy):
    """Also if it raises in the middle of its records."""

    def fetch(_, start, stop):
        if start:
            raise TimeoutError("no answer in 30 s")
        return range(start, stop)

    def fetch_lazily(_, start, stop):
        yield from fetch(_, start, stop)

    fn = ReadPages(fetch_lazily if lazy else fetch, lambda _: 8, page_size=3)
    message = "ReadPages: fetch() of the page [3, 6) of element 'users' raised TimeoutError: no answer in 30 s"
    with pytest.raises(ProcessError, match=f"^{re.escape(message)}$"):
        run_direct(["users"], fn)


def test_an_error_of_sdf_keeps_its_class():
    """A stream waits for a source that is away."""

    def fetch(_, start, stop):
        raise SourceAwayError("no route to host")

    message = "ReadPages: fetch() of the page [0, 1) of element 'users': no route to host"
    with pytest.raises(SourceAwayError, match=f"^{re.escape(message)}$"):
        run_direct(["users"], ReadPages(fetch, lambda _: 1))


def test_a_count_that_raises_is_told_with_the_element():
    """And is named, as there is no page yet."""
    with pytest.raises(ProcessError, match=re.escape("ReadPages: count() of element 5 raised TypeError: object of")):
        run_direct([5], reads_numbers())


@pytest.mark.parametrize("limit", [2, 9], ids=["too few", "too many"])
def test_a_page_must_have_as_many_records_as_it_has_numbers(limit):
    """A server that has a smaller limit would lose records, one that takes no stop would double them."""
    fn = ReadPages(lambda word, start, stop: list(word[start : start + limit]), len, page_size=4)
    message = f"of the page [0, 4) of element 'abcdef': it gave {min(limit, 6)} records, but count() returned a number,"
    with pytest.raises(SourceError, match=re.escape(message)):
        run_direct(["abcdef"], fn)


@pytest.mark.parametrize("counted", [None, 2.5, True, "12", (1,), (1, 2, 3), (0, None)], ids=repr)
def test_a_count_of_the_wrong_type(counted):
    """It says what it may be."""
    message = f"it must return the number of records, or a pair of integers (start, stop) (got {counted!r})."
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        run_direct(["x"], ReadPages(sales, lambda _: counted))


@pytest.mark.parametrize("counted", [-1, (3, 2)], ids=repr)
def test_a_count_below_nothing(counted):
    """A range has a start that is no greater than its stop."""
    with pytest.raises(InvalidValueError, match=re.escape(f"pair start <= stop (got {counted!r}).")):
        run_direct(["x"], ReadPages(sales, lambda _: counted))


@pytest.mark.parametrize("page", [None, 5, "abc", b"abc", {"items": []}], ids=repr)
def test_a_page_that_is_no_list_of_records(page):
    """The answer of an API around the records would give its keys."""
    message = f"[0, 3) of element 'x': it must return an iterable of records, such as a list (got {page!r})."
    with pytest.raises(InvalidTypeError, match=re.escape(message)):
        run_direct(["x"], ReadPages(lambda *_: page, lambda _: 3))


@pytest.mark.parametrize(
    "options", [{"fetch": "url", "count": len}, {"fetch": letters, "count": 100}], ids=["fetch", "count"]
)
def test_something_else_than_functions(options):
    """Said where it is made."""
    with pytest.raises(InvalidTypeError, match=r"^ReadPages (fetch|count) must be a function \(got ('url'|100)\)\.$"):
        ReadPages(**options)


@pytest.mark.parametrize(("value", "error"), [("2", InvalidTypeError), (0, InvalidValueError)])
def test_wrong_page_size(value, error):
    """Options are checked at once."""
    with pytest.raises(error, match="ReadPages page_size must be"):
        reads_numbers(value)


def test_a_page_that_is_a_table_is_refused():
    """Its names would be taken for records."""
    pandas = pytest.importorskip("pandas")
    read = ReadPages(lambda element, start, stop: pandas.DataFrame({"id": [1], "v": [2]}), lambda element: (0, 4))
    with pytest.raises(InvalidTypeError, match="must return an iterable of records, such as a list"):
        run_direct(["users"], read)

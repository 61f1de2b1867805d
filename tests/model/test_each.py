"""Plain functions in a chain: alone a DoFn, after a DoFn a part of it, each with the side inputs that it takes."""

import pytest
from support.fns import CountFn

from sdf import run_direct
from sdf.errors import InvalidTypeError, ProcessError
from sdf.model.dofn import TaggedOutput
from sdf.model.each import as_dofn, check_functions, followed_by, side_inputs_of


def twice(element):
    return [element, element]


def above(element, *, least):
    if element[1] >= least:
        yield element


def nothing(element):
    return None


def test_a_function_alone_is_a_dofn_with_one_block_for_each_element():
    """It has the function's name; what gives None gives no outputs."""
    assert run_direct(["a", "b"], as_dofn(twice)) == ["a", "a", "b", "b"]
    assert run_direct(["a"], as_dofn(nothing)) == []
    assert type(as_dofn(twice)).__name__ == "twice"


@pytest.mark.parametrize("split_every", [None, 1])
def test_functions_after_a_dofn_get_its_outputs_in_turn(split_every):
    """Each is called with what the one before it gives, and with its own side inputs."""
    fn = followed_by(CountFn(), [twice, above])
    given = run_direct([("a", 3)], fn, side_inputs={"least": 1}, split_every=split_every)
    assert sorted(given) == [("a", 1)] * 2 + [("a", 2)] * 2
    assert type(fn).__name__ == "CountFn"


def test_a_function_that_gives_none_ends_the_chain():
    """So does None in the midst of it."""
    assert run_direct([("a", 3)], followed_by(CountFn(), [nothing, twice])) == []


def test_tagged_outputs_pass_functions_by():
    """They are given as they are."""

    def tags(element):
        return [TaggedOutput("odd", element), element] if element[1] % 2 else [element]

    given = run_direct([("a", 2)], followed_by(CountFn(), [tags, twice]), tags=("odd",))
    assert given == {"main": [("a", 0)] * 2 + [("a", 1)] * 2, "odd": [("a", 1)]}


def test_an_error_of_a_function_names_it_and_its_element():
    """Not the DoFn before it alone."""

    def fails(element):
        raise ValueError("no")

    with pytest.raises(ProcessError, match=r"fails\(\).*\('a', 0\)"):
        run_direct([("a", 1)], followed_by(CountFn(), [fails]))


@pytest.mark.parametrize(("side_inputs", "fits"), [({"least": 1}, True), ({}, False)])
def test_side_inputs_that_a_function_needs_are_missed_before_it_runs(side_inputs, fits):
    """Whether it follows a DoFn or is alone."""
    for fn in (as_dofn(above), followed_by(CountFn(), [twice, above])):
        if fits:
            check_functions(fn, side_inputs, "run_sdf()")
        else:
            with pytest.raises(InvalidTypeError, match=r"above\(\) cannot be called as above\(element\)"):
                check_functions(fn, side_inputs, "run_sdf()")


def test_each_takes_its_own_side_inputs():
    """By name, after the element; those that nobody takes are left out."""
    fn = followed_by(CountFn(), [twice, above])
    assert side_inputs_of(type(fn), {"least": 1, "element": 2, "other": 3}) == {"least": 1}
    assert side_inputs_of(type(as_dofn(above)), {"least": 1, "other": 3}) == {"least": 1}

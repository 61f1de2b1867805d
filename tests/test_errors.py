"""The exception tree, its messages, and blame()."""

import ast
import pickle
from pathlib import Path, PurePosixPath

import attrs
import cloudpickle
import pytest

import sdf
from sdf import errors
from sdf.errors import (
    ClaimError,
    ProcessError,
    ReadError,
    SdfError,
    SourceChangedError,
    SourceError,
    SplitError,
    blame,
    show,
    show_both,
)

BUILTINS = {
    "BadRecordError": ValueError,
    "CheckError": AssertionError,
    "ClaimError": ValueError,
    "ContractError": RuntimeError,
    "CoordinatorError": ConnectionError,
    "DeferError": RuntimeError,
    "InvalidTypeError": TypeError,
    "InvalidValueError": ValueError,
    "JournalCorruptError": ValueError,
    "JournalDiskError": OSError,
    "JournalError": RuntimeError,
    "JournalFencedError": RuntimeError,
    "JournalRuleError": ValueError,
    "LedgerError": RuntimeError,
    "MissingExtraError": ImportError,
    "OutputError": RuntimeError,
    "ProcessError": RuntimeError,
    "ReadError": ValueError,
    "ReplayError": RuntimeError,
    "SdfError": Exception,
    "SinkError": OSError,
    "SourceAwayError": OSError,
    "SourceChangedError": OSError,
    "SourceError": OSError,
    "SplitError": RuntimeError,
    "StageError": RuntimeError,
    "TilingError": RuntimeError,
    "TooManyFailuresError": RuntimeError,
    "UnboundedError": ValueError,
    "UnclaimedWorkError": RuntimeError,
    "UnpicklableError": TypeError,
    "WatermarkError": ValueError,
}
PARENTS = {
    "BadRecordError": "SdfError",
    "CheckError": "ContractError",
    "ClaimError": "ContractError",
    "ContractError": "SdfError",
    "CoordinatorError": "SdfError",
    "DeferError": "ContractError",
    "InvalidTypeError": "SdfError",
    "InvalidValueError": "SdfError",
    "JournalCorruptError": "JournalError",
    "JournalDiskError": "JournalError",
    "JournalError": "SdfError",
    "JournalFencedError": "JournalError",
    "JournalRuleError": "JournalError",
    "LedgerError": "SdfError",
    "MissingExtraError": "SdfError",
    "OutputError": "ContractError",
    "ProcessError": "SdfError",
    "ReadError": "SdfError",
    "ReplayError": "LedgerError",
    "SinkError": "SdfError",
    "SourceAwayError": "SourceError",
    "SourceChangedError": "SourceError",
    "SourceError": "SdfError",
    "SplitError": "ContractError",
    "StageError": "SdfError",
    "TilingError": "LedgerError",
    "TooManyFailuresError": "ProcessError",
    "UnboundedError": "InvalidValueError",
    "UnclaimedWorkError": "ContractError",
    "UnpicklableError": "SdfError",
    "WatermarkError": "ContractError",
}


class UsersError(SdfError):
    """A user's exception that happens to derive from ours."""


def blamed(error):
    with pytest.raises(SdfError) as caught, blame(lambda: "CountFn.process() on [0, 9) of element 'a'"):
        raise error
    return caught.value


def test_every_public_name_is_in_the_tree():
    """Every exported name has a row in the tables of this module."""
    assert sorted(errors.__all__) == sorted(BUILTINS)


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_class_is_the_built_in_that_a_caller_would_catch(name):
    """Each class is also the built-in exception that a caller would expect."""
    assert issubclass(getattr(errors, name), BUILTINS[name])


@pytest.mark.parametrize("name", sorted(PARENTS))
def test_parent_in_the_tree(name):
    """The tree is the one drawn at the top of errors.py."""
    assert getattr(errors, name).__bases__[0] is getattr(errors, PARENTS[name])


# What errors about the environment say that are no MissingExtraError.
ENVIRONMENT = [
    "a job failed on the workers",  # if they run another Python
    "the Python workers cannot import ",
    "the Python workers run Python ",
    " cannot reach {self._coordinator}",
    "LiveRunner cannot listen on ",
    "the staging directory {self.where!r} of this run is ",
    " files that this driver does not see",
    "ship() could not send ",
    "ship() has sent ",
]
RAISED = [
    ast.unparse(node)
    for path in Path(sdf.__file__).parent.rglob("*.py")
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id.endswith("Error")
]


@pytest.mark.parametrize("said", ["MissingExtraError(", *ENVIRONMENT])
def test_errors_about_the_environment_advise_to_ask_the_doctor(said):
    """Found in the source by their class, or by what they say."""
    about = [raised for raised in RAISED if said in raised]
    assert about
    assert [raised for raised in about if "RUN_DOCTOR" not in raised] == []


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_tree_in_the_docstring_names_the_class(name):
    """The drawing at the top of the module names every class."""
    assert name in errors.__doc__


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_class_docstring_is_one_sentence(name):
    """Each class says in one line when you get it."""
    docstring = getattr(errors, name).__doc__
    assert (docstring.count("\n"), docstring[-1]) == (0, ".")


@pytest.mark.parametrize("pickler", [pickle, cloudpickle], ids=["pickle", "cloudpickle"])
@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_error_survives_pickling(name, pickler):
    """An error keeps its class, its text and the mark of its context through pickling."""
    error = getattr(errors, name)("who broke which rule")
    error.has_context = True
    copy = pickle.loads(pickler.dumps(error))
    assert (type(copy), str(copy), copy.has_context) == (type(error), "who broke which rule", True)


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_blame_keeps_the_class_of_an_error_of_the_tree(name):
    """An error of the tree gets its context and keeps its class."""
    error = getattr(errors, name)("broken")
    explained = blamed(error)
    assert (type(explained), str(explained), explained.__cause__) == (
        type(error),
        "CountFn.process() on [0, 9) of element 'a': broken",
        error,
    )


def test_blame_turns_any_other_exception_into_a_process_error():
    """The user's own exception becomes the cause of a ProcessError that names class and text."""
    error = KeyError("price")
    explained = blamed(error)
    assert (type(explained), str(explained), explained.__cause__) == (
        ProcessError,
        "CountFn.process() on [0, 9) of element 'a' raised KeyError: 'price'",
        error,
    )


def test_blame_treats_a_users_subclass_of_sdf_error_as_the_users():
    """A user's subclass may have any constructor, so it is wrapped like every foreign exception."""
    assert type(blamed(UsersError("mine"))) is ProcessError


@attrs.frozen
class Pinned:
    """An element that has a path, and more."""

    path: str
    size: int


def text_about(error, *work):
    with pytest.raises(SdfError) as caught, blame(lambda: "Fn.process()", *work):
        raise error
    return str(caught.value)


def test_blame_names_restriction_and_element():
    """Where the error does not."""
    assert text_about(ReadError("broken"), "/a/b", (0, 9)) == "Fn.process() on (0, 9) of element '/a/b': broken"


@pytest.mark.parametrize("told", ["/a/b at byte 3: broken", "/a/b: broken", "'/a/b' is broken", "no '/a/b' is there"])
@pytest.mark.parametrize("kind", [ReadError, SourceError, SourceChangedError])
def test_a_path_that_a_read_error_names_is_told_once(kind, told):
    """An element that is no more than this path is left out."""
    assert text_about(kind(told), "/a/b", (0, 9)) == f"Fn.process() on (0, 9): {told}"


FILE = Pinned("/a/b", 5)


@pytest.mark.parametrize(
    ("element", "restriction", "context"),
    [
        (FILE, (0, 9), "Fn.process() on (0, 9) of element Pinned(path=..., size=5)"),
        (FILE, (FILE, 9), "Fn.process() on (Pinned(path=..., size=5), 9)"),
        (FILE, Pinned("/a/b", 6), "Fn.process() on Pinned(path=..., size=6) of element Pinned(path=..., size=5)"),
        (PurePosixPath("/a/b"), "/a/b@x", "Fn.process() on '...@x' of element PurePosixPath(...)"),
    ],
)
def test_what_is_known_of_an_element_beside_its_path_is_told_once(element, restriction, context):
    """By the restriction, if that has it."""
    assert text_about(ReadError("/a/b: broken"), element, restriction) == f"{context}: /a/b: broken"


@pytest.mark.parametrize(
    ("element", "told"),
    [("a", "a broken line"[2:]), ("it", "item 5 is broken"), ("/a/b", "/a/bc: broken"), ("", "broken")],
)
def test_a_path_that_only_looks_like_what_is_told_is_named(element, told):
    """It may be a part of a word, or of another path."""
    assert text_about(ReadError(told), element) == f"Fn.process() of element {element!r}: {told}"


def test_an_error_of_anything_else_names_the_element():
    """What a user's own code or a rule of the contract says of a text does not tell that it is the element."""
    assert text_about(KeyError("a"), "a") == "Fn.process() of element 'a' raised KeyError: 'a'"
    assert text_about(ClaimError("'a' is no position"), "a") == "Fn.process() of element 'a': 'a' is no position"


def test_an_element_whose_path_raises_is_named():
    """The error that is explained comes first."""

    class Odd:
        @property
        def path(self):
            raise OSError("no path")

        def __repr__(self):
            return "Odd"

    assert text_about(ReadError("broken"), Odd()) == "Fn.process() of element Odd: broken"


def test_blame_adds_context_once():
    """An error that already has its context passes two blames unchanged."""
    with pytest.raises(SplitError) as caught, blame(lambda: "outer"), blame(lambda: "inner"):
        raise SplitError("broken")
    assert str(caught.value) == "inner: broken"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, GeneratorExit])
def test_blame_lets_what_is_no_exception_pass(kind):
    """Interrupts, exits and closed generators are nobody's fault."""
    with pytest.raises(kind), blame(lambda: "never called" + 1):
        raise kind


def test_blame_asks_where_only_on_failure():
    """The description may be costly, so success does not ask for it."""
    asked = []
    with blame(lambda: asked.append("asked") or "here"):
        pass
    assert asked == []


def test_errors_of_the_contract_are_one_family():
    """Whoever catches ContractError catches a broken claim."""
    with pytest.raises(errors.ContractError):
        raise ClaimError("broken")


def test_show_gives_the_repr():
    """A short value is shown as its repr."""
    assert show("a\n") == "'a\\n'"


@pytest.mark.parametrize("length", [10, 197, 198, 199, 200, 201, 10_000])
def test_show_is_never_longer_than_its_limit(length):
    """A long repr is cut to the limit."""
    assert len(show("x" * length)) <= 200


def test_show_keeps_both_ends_of_a_long_repr():
    """A cut repr shows how it begins and how it ends."""
    shown = show(list(range(1000)))
    assert (shown[:8], shown[-5:]) == ("[0, 1, 2", " 999]")


def test_what_is_shown_stays_on_one_line_and_is_text():
    """Line ends, codes for terminals and halves of characters are written out."""

    class Odd:
        def __repr__(self):
            return "one\ntwo \x1b[31m \ud800 ü"

    assert show(Odd()) == r"one\ntwo \x1b[31m \ud800 ü"


OPTIONS = {f"option_{n:02}": "value" for n in range(20)}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (OPTIONS, {**OPTIONS, "option_12": "other"}),
        (OPTIONS, {**OPTIONS, "new": 1}),
        (list(range(500)), [*range(250), 7, *range(251, 500)]),
        ("a" * 1000 + "b" * 1000, "a" * 1000 + "c" * 1000),
        ("a" * 1000, "a" * 1001),
        ({"x": "a" * 900 + "b"}, {"x": "a" * 900 + "c"}),
        (1, "1"),
    ],
    ids=str,
)
def test_two_values_that_differ_are_shown_where_they_do(one, other):
    """Cut in the middle they may look the same."""
    texts = show_both(one, other)
    assert texts[0] != texts[1]
    assert max(map(len, texts)) <= 200
    assert "option_03" not in "".join(texts)

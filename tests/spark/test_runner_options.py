"""The options of the runners: numbers of any kind, and what is told of one that there is not."""

import inspect
import math
import pickle
import subprocess
import sys

import attrs
import pytest
from support.integers import KINDS, NUMBER_KINDS

from sdf import LiveRunner, StagedRunner
from sdf.errors import InvalidTypeError, InvalidValueError

SECONDS = [
    (StagedRunner, "budget_seconds"),
    (StagedRunner, "min_piece_seconds"),
    (LiveRunner, "min_piece_seconds"),
    (LiveRunner, "patience_seconds"),
]
COUNTS = [
    (StagedRunner, "tasks_per_slot"),
    (StagedRunner, "min_tasks"),
    (StagedRunner, "max_tasks"),
    (StagedRunner, "max_items_per_stage"),
    (LiveRunner, "lanes"),
]


@NUMBER_KINDS
@pytest.mark.parametrize(("runner", "option"), SECONDS)
def test_seconds_may_be_a_number_of_any_kind(runner, option, kind):
    """It is an int or a float from then on."""
    kept = getattr(runner(**{option: kind(7)}), option)
    assert (kept, type(kept) in (int, float)) == (7, True)


@KINDS
@pytest.mark.parametrize(("runner", "option"), COUNTS)
def test_a_count_may_be_an_integer_of_any_kind(runner, option, kind):
    """It is an int from then on."""
    kept = getattr(runner(**{option: kind(7)}), option)
    assert (kept, type(kept)) == (7, int)


@KINDS
def test_a_port_may_be_an_integer_of_any_kind(kind):
    """Alone, or the first and the last."""
    ports = (LiveRunner(port=kind(7000)).port, *LiveRunner(port=(kind(7000), kind(7050))).port)
    assert (ports, set(map(type, ports))) == ((7000, 7000, 7050), {int})


@pytest.mark.parametrize("value", [True, "7", math.nan, math.inf, 10**400, 0, -1])
@pytest.mark.parametrize(("runner", "option"), SECONDS)
def test_seconds_are_positive_and_finite(runner, option, value):
    """A bool and a text are no number."""
    with pytest.raises(InvalidValueError, match=f"{runner.__name__} {option} must be a positive number"):
        runner(**{option: value})


@pytest.mark.parametrize("value", [True, "7", 7.0, 0, -1])
@pytest.mark.parametrize(("runner", "option"), COUNTS)
def test_a_count_is_an_integer_from_1_on(runner, option, value):
    """A float is none, even a whole one."""
    with pytest.raises(InvalidValueError, match=f"{runner.__name__} {option} must be an integer >= 1"):
        runner(**{option: value})


STAGED = (
    "budget_seconds, slots, tasks_per_slot, min_tasks, max_tasks, max_items_per_stage, min_piece_seconds, storage_level"
)
LIVE = "lanes, host, port, min_piece_seconds, patience_seconds"


@pytest.mark.parametrize(
    ("runner", "option", "said"),
    [
        (StagedRunner, "lanes", f"(got lanes=3). LiveRunner has it. Its options are {STAGED}."),
        (LiveRunner, "budget_seconds", f"(got budget_seconds=3). StagedRunner has it. Its options are {LIVE}."),
        (StagedRunner, "max_task", f"(got max_task=3). Did you mean max_tasks=? Its options are {STAGED}."),
        (LiveRunner, "speling", f"(got speling=3). Its options are {LIVE}."),
    ],
)
def test_an_option_that_there_is_not_is_told(runner, option, said):
    """With the runner that has it, or the one that was meant, and with those that there are."""
    with pytest.raises(InvalidTypeError) as caught:
        runner(**{option: 3})
    assert str(caught.value) == f"{runner.__name__} has no option {option!r} {said}"


def test_an_option_needs_its_name():
    """A number alone may be anything."""
    with pytest.raises(InvalidTypeError) as caught:
        LiveRunner(3)
    assert str(caught.value) == f"LiveRunner takes no option without its name (got 3). Its options are {LIVE}."


@pytest.mark.parametrize("runner", [StagedRunner, LiveRunner])
def test_the_signature_names_the_options(runner):
    """For help(), editors and the documentation."""
    assert list(inspect.signature(runner).parameters) == [field.name for field in attrs.fields(runner)]


def test_a_runner_is_a_value():
    """It is copied with a change, and pickled."""
    runner = attrs.evolve(StagedRunner(max_tasks=3), min_tasks=2)
    assert pickle.loads(pickle.dumps(runner)) == runner == StagedRunner(min_tasks=2, max_tasks=3)


def test_a_runner_knows_the_other_though_only_one_was_asked_for():
    """Each is imported on first use."""
    code = "import sdf\ntry: sdf.StagedRunner(lanes=3)\nexcept TypeError as error: print(error)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "LiveRunner has it." in run.stdout

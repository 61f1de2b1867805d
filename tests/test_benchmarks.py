"""The benchmarks' harness: what runs in turn must agree, and results become a page."""

import json
import sys
from pathlib import Path

import pytest


@pytest.fixture
def modules(monkeypatch):
    """Import the harness and the page from where the benchmarks lie."""
    monkeypatch.syspath_prepend(str(Path(__file__).parent.parent / "benchmarks"))
    import harness
    import results

    return harness, results


def test_ways_that_give_different_results_are_refused(modules):
    """A way that is fast because it does less is no way to do the same."""
    harness, _ = modules
    with pytest.raises(SystemExit, match=r"different results.*'fast': 2"):
        harness.in_turn({"right": lambda: 1, "fast": lambda: 2}, 1)


def test_ways_run_in_turn_after_each_ran_once(modules):
    """A B, then A B for each round; what measured itself is believed."""
    harness, _ = modules
    ran = []

    def way(name, seconds):
        ran.append(name)
        return harness.Timed("same", seconds)

    taken = harness.in_turn({"a": lambda: way("a", len(ran)), "b": lambda: way("b", 7.0)}, 2)
    assert ran == ["a", "b"] * 3
    assert taken["a"].seconds == (2, 4)
    assert taken["b"].median == 7.0


def test_results_become_a_page(modules, monkeypatch, tmp_path, capsys):
    """Each claim is there with its figure, its limit and whether it holds; so are the rows."""
    harness, results = modules
    monkeypatch.setattr(sys, "argv", ["one.py", "--results", str(tmp_path)])
    bench = harness.Bench("How fast is it?\n\nMore.")
    bench.begin()
    table = bench.table("ways", {"": "{}", "s": "{:.1f}"})
    table.row("the | way", 1.25)
    bench.claim("speed", 0.95, at_least=0.9)
    bench.claim("memory", 250.0, at_most=200)
    bench.end()
    assert "DOES NOT HOLD  memory: 250, at most 200" in capsys.readouterr().out
    page = results.page({"one": json.loads((tmp_path / "one.json").read_text())})
    assert "| speed | 0.95 | at least 0.9 | yes | one |" in page
    assert "| memory | 250 | at most 200 | **no** | one |" in page
    assert "## one: How fast is it?" in page
    assert r"| the \| way | 1.2 |" in page


@pytest.fixture
def begun(modules, monkeypatch, tmp_path):
    """Return a function that begins a benchmark by its arguments, as one.py with an option --size of 5."""
    harness, _ = modules

    def begin(*arguments):
        monkeypatch.setattr(sys, "argv", ["one.py", *arguments, "--results", str(tmp_path)])
        bench = harness.Bench("How fast is it?")
        bench.option("--size", 5)
        bench.option("--ways", ["a", "b"], choices=["a", "b"])
        bench.begin()
        return bench

    return begin


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        ((), "one"),
        (("--size", "5"), "one"),
        (("--rounds", "7"), "one"),
        (("--size", "6"), "one-size-6"),
        (("--size", "6", "--ways", "b"), "one-size-6-ways-b"),
    ],
)
def test_results_of_another_question_do_not_take_the_place_of_these(begun, tmp_path, arguments, name):
    """What was asked otherwise than usual is in the name of the file; how often it was asked is not."""
    begun(*arguments).end()
    assert [path.name for path in tmp_path.iterdir()] == [f"{name}.json"]


def test_a_run_that_fails_leaves_no_results_of_an_earlier_one(begun, tmp_path):
    """Else the page would show them as those of now."""
    begun().end()
    begun()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("--rounds", "0"), ("--ways", "c"), ("--size", "many")])
def test_what_cannot_be_run_is_refused_before_anything_runs(begun, tmp_path, arguments):
    """As an error of the command line; results that are there stay."""
    begun().end()
    with pytest.raises(SystemExit):
        begun(*arguments)
    assert [path.name for path in tmp_path.iterdir()] == ["one.json"]

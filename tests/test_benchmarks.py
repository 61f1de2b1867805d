"""The benchmarks' harness and pages: what runs in turn must agree, and results become a page, charts and a table."""

import json
import re
import shutil
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parent.parent
STORED = ROOT / "benchmarks" / "results"


@pytest.fixture
def modules(monkeypatch):
    """Import the harness and the page from where the benchmarks lie."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
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


def test_results_become_a_table(modules, monkeypatch, tmp_path, capsys):
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
    page = results.detail({"one": json.loads((tmp_path / "one.json").read_text())})
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


@pytest.fixture
def stored():
    """Return the results that are in the repository, by name."""
    return {path.stem: json.loads(path.read_text()) for path in sorted(STORED.glob("*.json"))}


def test_the_pages_and_charts_in_the_repository_are_what_the_results_make(modules, stored):
    """Nobody wrote into them, and they are not older than the results: `python benchmarks/results.py` makes them."""
    _, results = modules
    made = results.made(stored)
    assert [name for name, text in made.items() if (ROOT / name).read_text() != text] == []
    drawn = {str(path.relative_to(ROOT)) for path in (ROOT / "docs" / "benchmarks").iterdir()}
    assert drawn == {name for name in made if name.endswith(".svg")}


def test_one_command_renews_page_charts_and_table(modules, monkeypatch, tmp_path):
    """The one that ends `make bench`; a chart of what is no longer measured goes."""
    _, results = modules
    shutil.copy(STORED / "connectors.json", tmp_path)
    old = tmp_path / "docs" / "benchmarks" / "old.svg"
    old.parent.mkdir(parents=True)
    old.write_text("<svg/>")
    monkeypatch.setattr(sys, "argv", ["results.py", str(tmp_path)])
    results.main()
    made = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.*")}
    charts = "docs/benchmarks/connectors.svg"
    assert made == {"connectors.json", "benchmarks/RESULTS.md", "docs/benchmarks.md", charts}
    assert "(benchmarks/connectors.svg)" in (tmp_path / "docs" / "benchmarks.md").read_text()


def test_make_bench_ends_with_that_command():
    """After all benchmarks, for the directory of their results."""
    assert "benchmarks/results.py $(1)" in (ROOT / "Makefile").read_text()


def test_all_questions_are_answered(modules, stored):
    """Each with one sentence and the commands that measure it again, in at most six charts."""
    _, results = modules
    shown = results.answers(stored)
    assert len(shown) == len(results.QUESTIONS) <= 6
    for answer in shown:
        assert answer.question.endswith("?")
        assert re.fullmatch(r"(?:[^.]|\.(?! ))+\.", answer.says)
        assert all(re.search(r"python benchmarks/\w+\.py", command) for command in answer.again)


def test_what_was_not_measured_is_left_out(modules, stored):
    """A benchmark that failed leaves no result; the other questions are answered all the same."""
    _, results = modules
    assert results.answers({}) == []
    some = {name: found for name, found in stored.items() if name not in ("peers", "claims")}
    assert [answer.name for answer in results.answers(some)] == ["ideal", "elements", "slots", "connectors"]


def test_small_runs_make_a_page_too(modules, stored):
    """So that `make bench-quick` shows that it works; their results are called quick."""
    _, results = modules
    quick = {f"{name}-quick": stored[name] for name in ("skew", "growth", "simulate", "claims", "throughput")}
    assert [answer.name for answer in results.answers(quick)] == ["ideal", "elements", "slots", "costs"]


def charts(results, stored):
    return {answer.name: ElementTree.fromstring(answer.chart) for answer in results.answers(stored)}


def texts(chart):
    return ["".join(each.itertext()) for each in chart.iter("{http://www.w3.org/2000/svg}text")]


def test_charts_are_whole_and_readable_in_light_and_dark(modules, stored):
    """XML that refers to nothing, on a background of its own, with colours for both; nothing stands outside."""
    _, results = modules
    for chart in charts(results, stored).values():
        tags = [each.tag.rpartition("}")[2] for each in chart.iter()]
        assert tags[:4] == ["svg", "title", "style", "rect"]
        assert "prefers-color-scheme: dark" in chart.find("{*}style").text
        assert not {"image", "script", "use"} & {*tags}
        _, _, width, height = map(float, chart.get("viewBox").split())
        for each in chart.iter("{http://www.w3.org/2000/svg}text"):
            share = {"start": 0, "middle": 0.5, "end": 1}[each.get("text-anchor")]
            length = 6.5 * len("".join(each.itertext()))
            left = float(each.get("x")) - share * length
            assert 0 <= left <= left + length <= width
            assert 0 < float(each.get("y")) < height


def test_the_chart_of_the_ideal_has_every_figure(modules, stored):
    """All kinds of work, both runners, and what one would do without them."""
    _, results = modules
    told = texts(charts(results, stored)["ideal"])
    for name, found in stored.items():
        if name.startswith("skew") and "-busy-" not in name:
            for work, _, *overs in found["tables"][0]["rows"]:
                assert work in told
                assert {f"{over:.2f}" for over in overs} <= {*told}


def test_runs_beside_busy_processes_are_no_part_of_the_ideal(modules, stored):
    """They answer another question."""
    _, results = modules
    busy = {"skew-seconds-9.0-busy-4": json.loads(json.dumps(stored["skew"]).replace("5 s of work", "9 s of work"))}
    (answer,) = results.answers({**busy, "skew": stored["skew"]})
    assert "at 5 s" in answer.says
    assert "9 s" not in answer.chart


def test_rows_where_a_peer_is_ahead_stay_in_sight(modules, stored):
    """Each is in the table beneath the chart, with its ratio and why; and every ratio is in the chart."""
    _, results = modules
    import questions

    answer = next(answer for answer in results.answers(stored) if answer.name == "peers")
    rows = [line.strip("| ").split(" | ") for line in answer.more.splitlines() if line.startswith("| ")][1:]
    listed = {way: why for _, ways, why in rows for way in ways.split("; ")}
    ahead = 0
    for table in stored["peers"]["tables"]:
        for way, _, _, ratio, _ in table["rows"]:
            if way != "ideal" and not way.startswith("sdf"):
                assert questions.number(ratio) in texts(ElementTree.fromstring(answer.chart))
                if ratio < 1:
                    ahead += 1
                    assert listed[f"{way} {questions.number(ratio)}"].endswith(".")
    assert f"in the other {ahead} it takes" in answer.says


def test_no_reason_is_made_up(modules):
    """Where it is not known why a peer is ahead, nothing is said."""
    import peerreasons

    assert peerreasons.reason_for("one giant element, 3 s of work per core", "joblib, cut by hand")
    assert peerreasons.reason_for("one giant element, 3 s of work per core", "Ray Data") == ""


def test_a_way_that_was_not_done_in_time_is_no_way_that_is_ahead(modules, stored):
    """Its figure says that it is more; one that failed has none."""
    _, results = modules
    found = json.loads(json.dumps(stored["peers"]))
    found["tables"][0]["rows"] = [
        ["sdf", 1.0, 1.0, 1.0, None],
        ["Beam", 300.0, 1.0, 300.0, "not done after 300 s"],
        ["Ray Data", None, None, None, "MemoryError"],
    ]
    found["tables"] = found["tables"][:1]
    (answer,) = results.answers({"peers": found})
    assert {"> 300", "none"} <= {*texts(ElementTree.fromstring(answer.chart))}
    assert "1 of 1 rows" in answer.says

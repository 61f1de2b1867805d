"""RunReport: numbers of a run."""

import json
import pickle

import attrs
import pytest
from support import pages

from sdf.reporting.run_facts import TaskRun
from sdf.reporting.run_report import RunReport


def report_of(*seconds, total=10.0, slots=2):
    tasks = tuple(TaskRun(0, number, "host", 0.0, one, 1, 0, 1000) for number, one in enumerate(seconds))
    return RunReport("CountFn", 3, 2, 5, ("a",), total, slots, tasks)


def test_records_are_those_of_all_tasks():
    """Added up."""
    assert report_of(1.0, 2.0).records == 2000


def test_busy_seconds_are_those_of_all_tasks():
    """Added up."""
    assert report_of(1.0, 2.0).busy_seconds == 3.0


@pytest.mark.parametrize(
    ("report", "efficiency"),
    [(report_of(5.0, 10.0), 0.75), (report_of(), 0.0), (report_of(99.0), 1.0), (report_of(total=0.0), 0.0)],
)
def test_efficiency_is_the_busy_share_of_all_slots(report, efficiency):
    """Between 0 and 1."""
    assert report.efficiency == efficiency


def test_text():
    """Two lines for people."""
    assert str(report_of(5.0, 10.0)) == (
        "CountFn: 2,000 records of 3 elements in 10.00 s, 75% of 2 slots busy\n"
        "2 tasks in 2 stages; 5 splits of 1 element"
    )


def test_text_counts_one_as_one():
    """1 element, 2 elements, 0 elements."""
    tasks = tuple(TaskRun(0, number, "host", 0.0, 1.0, 1, 0, records) for number, records in enumerate((1, 0, 0)))
    many, one = RunReport("CountFn", 2, 1, 1, ("a", "b"), 8.0, 1, tasks), report_of(1.0)
    assert str(many) == (
        "CountFn: 1 record of 2 elements in 8.00 s, 38% of 1 slot busy\n3 tasks in 1 stage; 1 split of 2 elements"
    )
    assert str(attrs.evolve(one, elements=1, stages=0, splits=0, split_elements=())) == (
        "CountFn: 1,000 records of 1 element in 10.00 s, 5% of 2 slots busy\n1 task in 0 stages; 0 splits of 0 elements"
    )


def test_json_has_what_the_text_concludes():
    """Beside all that it had before, under the same version."""
    data = json.loads(pages.report_of(10).to_json())
    assert data["version"] == 1
    assert data["straggler"] == {
        "element": "'file-0.txt'",
        "share": pytest.approx(0.8),
        "parts": 8,
        "only": False,
        "cause": "much work",
    }
    assert data["slow_hosts"] == []
    assert sorted(data["idle"]) == ["after", "before", "between"]
    assert data["pieces"][0]["opening_seconds"] == 0.0


def test_report_survives_pickling():
    """It is a value."""
    assert pickle.loads(pickle.dumps(report_of(1.0))) == report_of(1.0)


def test_text_with_notes():
    """Remarks follow, alike ones in one line, up to a few lines."""
    notes = (("a.gz", "read in one piece"), ("b.zst", "other"), ("c.gz", "read in one piece"))
    text = str(attrs.evolve(report_of(5.0), notes=notes))
    assert text.splitlines()[2:] == ["'a.gz' and 1 more: read in one piece", "'b.zst': other"]


def test_many_notes_are_cut_off():
    """A report is a screenful."""
    text = str(attrs.evolve(report_of(5.0), notes=tuple((name, f"note {name}") for name in range(100))))
    assert text.splitlines()[2:] == [*(f"{name}: note {name}" for name in range(5)), "... and 95 notes more"]


def test_a_page_can_be_written_whatever_is_in_it(tmp_path):
    """Half of a character, which no encoding has."""
    report = attrs.evolve(report_of(1.0), notes=(("a", "b \ud800"),))
    report.save(tmp_path / "run.html")
    assert "b ?" in (tmp_path / "run.html").read_text()


def test_a_run_on_a_cluster_that_moves_says_who_came_and_went_and_what_was_lost():
    """Each executor is in the JSON, with its second."""
    events = ((1.0, "3", "joined"), (2.0, "4", "joined"), (9.0, "3", "lost"))
    report = attrs.evolve(report_of(5.0, 10.0), runner="LiveRunner", retries=1, executors=events, lost_seconds=2.5)
    assert "executors: 2 joined, 1 lost\nlost with 1 lane before its commit: 2.5 s of work" in str(report)
    assert json.loads(report.to_json())["executors"] == [list(event) for event in events]

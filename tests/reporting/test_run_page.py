"""The pages of runs and streams: what is on them, that they stay small, and that browsers show them as they should."""

import functools
import re
import shutil
import subprocess
from html.parser import HTMLParser

import attrs
import pytest
from support.pages import history_of, report_of

from sdf.reporting.run_page import page
from sdf.reporting.stream_page import stream_page

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here; make setup installs it through apt")
VOID = {"meta", "link"}


class Checker(HTMLParser):
    """Raises unless each element is closed where it must be; notes what the page refers to."""

    def __init__(self, text):
        super().__init__()
        self.open, self.refers, self.names = [], [], []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.names.append(tag)
        self.refers += [value for name, value in attributes if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "tr" or self.open[-1] == "tr":
            assert self.open.pop() == tag


PAGES = {
    "no piece": lambda: page(attrs.evolve(report_of(8), pieces=(), slow_blocks=(), tasks=())),
    "ten pieces": lambda: page(report_of(10)),
    "50,000 pieces": lambda: page(report_of(50_000)),
    "20,000 small elements": lambda: page(report_of(20_000, elements=20_000)),
    "1,000 slots": lambda: page(report_of(20_000, slots=1000)),
    "a stream": lambda: stream_page(history_of(300)),
    "a long stream": lambda: stream_page(history_of(10_000)),
    "a stream without batches": lambda: stream_page([]),
}


@functools.cache
def page_of(name):
    return PAGES[name]()


@pytest.mark.parametrize("name", PAGES)
def test_page_is_whole_and_small_and_refers_to_nothing(name):
    """One file, no script, no network, under 5 MB; drawn as HTML that closes what it opens."""
    shown = page_of(name)
    checker = Checker(shown)
    assert "script" not in checker.names
    assert checker.refers == ["data:,"]
    assert "http" not in shown
    assert len(shown.encode()) < 5_000_000


@pytest.mark.parametrize(("slots_over_time", "says"), [((), "nothing of 3"), (((0.0, 2),), "no lane has ended yet")])
def test_a_run_of_which_no_lane_has_ended_has_a_page_that_says_what_the_text_does(slots_over_time, says):
    """Neither figures nor pictures: nothing is known that they could show."""
    report = attrs.evolve(report_of(8), pieces=(), slow_blocks=(), tasks=(), lanes=4, slots_over_time=slots_over_time)
    text = page(report)
    assert f"<p class=says>{says[0].upper()}{says[1:]}" in text
    assert says in str(report)
    assert "<svg" not in text
    assert "<div class=figures>" not in text
    assert re.findall("<h2>(.*?)</h2>", text) == ["Not split, and why", "Remarks"]


def test_a_page_of_some_lanes_compares_nothing():
    """What the others did is not known."""
    text = page(attrs.evolve(report_of(16), lanes=9))
    assert "Lanes that have ended: 8 of 9; the others are not in this report." in text
    assert "What each slot did" in text
    assert not re.search("without splitting|slots busy|Straggler|Where in an element", text)


def test_a_page_of_nothing_has_no_headings_over_nothing():
    """No element, so no piece."""
    report = attrs.evolve(report_of(8), pieces=(), slow_blocks=(), refusals=(), notes=(), elements=0)
    assert "<h2>" not in page(report)
    assert "<b>0</b><span>elements</span>" in page(report)


def test_straggler_has_one_colour_across_all_slots():
    """Its boxes are in every row; another element has another colour."""
    text = page(report_of(20)).split("Where in an element")[0]
    rows = {y for colour, y in re.findall(r'<rect class=(\w+) x="[\d.]+" y="([\d.]+)"', text) if colour == "c0"}
    assert len(rows) == 8
    assert re.search(r"<rect class=c1 ", text)


def test_same_work_without_splitting_is_below_it_on_the_same_scale():
    """All of the straggler on one slot, cut off where it goes on for long."""
    above, below = page(report_of(80)).split("Where in an element")
    ends = [
        float(x) + float(width) for x, width in re.findall(r'<rect class=c0 x="([\d.]+)"[^>]*?width="([\d.]+)"', above)
    ]
    assert max(ends) == pytest.approx(400.0, abs=1.0)
    below = below.split("The same work")[1]
    assert re.findall(r'<rect class=c0 [^>]*?width="([\d.]+)"', below) == ["1000.0"]
    assert "goes on until 38.22 s" in below


@pytest.mark.parametrize("slots", range(3, 40))
def test_where_a_timeline_goes_on_no_label_lies_below_that(slots):
    """Whatever the scale, a label ends before what is said at the right begins."""
    below = page(report_of(10 * slots, slots=slots)).split("The same work")[1].split("</svg>")[0]
    labels = [(float(x), label) for x, label in re.findall(r'<text x="([\d.]+)" y="[\d.]+">([^<]*)</text>', below)]
    assert "goes on until" in below
    assert max(x + 8 * len(label) for x, label in labels) < 1000 - 6 - 8 * len("goes on until 17.67 s")


def test_where_the_time_went_by_is_drawn_for_the_elements_that_took_longest():
    """At most three, in their colours, where positions can be placed."""
    report = report_of(60)
    pieces = tuple(attrs.evolve(piece, element_id=number % 6) for number, piece in enumerate(report.pieces))
    (strips,) = re.findall("Where in an element.*?<h2>", page(attrs.evolve(report, pieces=pieces)), re.DOTALL)
    assert re.findall("<p class=says><i class=(c.)>", strips) == ["c0", "c1", "c2"]
    assert strips.count("<svg") == 3


def test_nothing_is_drawn_where_no_position_can_be_placed():
    """Restrictions may be anything."""
    report = report_of(20)
    pieces = tuple(attrs.evolve(piece, restriction="a part") for piece in report.pieces)
    assert "Where in an element" not in page(attrs.evolve(report, pieces=pieces))


def test_slow_starts_are_listed():
    """Apart from slow blocks."""
    report = report_of(10)
    pieces = tuple(attrs.evolve(piece, opening_seconds=0.25) for piece in report.pieces)
    text = page(attrs.evolve(report, pieces=pieces))
    assert "<td class=n>0.25</td><td class=n>8</td><td class=n>2.00</td><td>&#x27;file-0.txt&#x27;</td>" in text


def test_what_stands_out_is_told():
    """The straggler, as the text has it."""
    assert "<p class=says>Straggler: &#x27;file-0.txt&#x27; took 80% of the time; it was split" in page(report_of(10))


def test_all_of_it_is_drawn_where_it_is_not_much_longer():
    """Twice as long: the upper one takes half of the width."""
    _, below = page(report_of(80, slots=2)).split("The same work")
    assert "goes on until" not in below
    assert re.findall(r'<rect class=c0 [^>]*?width="([\d.]+)"', below) == ["1000.0"]


def test_a_row_is_a_slot_though_its_workers_are_replaced():
    """Tasks one after the other, each in a process of its own, on two slots."""
    report = report_of(8)
    tasks = tuple(attrs.evolve(task, worker=f"host/{100 + number}") for number, task in enumerate(report.tasks))
    pieces = tuple(
        attrs.evolve(piece, began=1e9 + number // 2, task=number) for number, piece in enumerate(report.pieces)
    )
    text = page(attrs.evolve(report, tasks=tasks, pieces=pieces, slots=2))
    assert text.count('aria-label="timeline of 2 slots"') == 2


def test_what_is_drawn_together_is_as_pale_as_its_time_was_idle():
    """Pieces of a hundredth of the time between them do not look like work without a pause."""
    report = report_of(20_000, slots=256)
    pieces = tuple(attrs.evolve(piece, seconds=0.005) for piece in report.pieces)
    above = page(attrs.evolve(report, pieces=pieces)).split("The same work")[0]
    opacities = re.findall(r'<rect class=c0 [^>]*?opacity="([\d.]+)"', above)
    assert len(opacities) > 1000
    assert set(opacities) == {"0.15"}


def test_every_piece_can_be_told_where_there_are_few():
    """Element, restriction, seconds, records, and how it came about."""
    text = page(report_of(10))
    assert text.count("cut while it ran") >= 7
    assert "OffsetRange(start=20, stop=30)" in text or "OffsetRange(20, 30)" in text


def test_tree_of_splits_names_each_piece_once():
    """A piece stands under the one that it was cut off from."""
    tree = page(report_of(20)).split("<h2>Splits</h2>")[1]
    assert tree.count("<div class=node") == 18


def test_what_users_put_in_is_text_and_never_markup():
    """An element may be anything."""
    report = report_of(10)
    pieces = tuple(attrs.evolve(piece, element="<script>alert(1)</script>&") for piece in report.pieces)
    text = page(attrs.evolve(report, pieces=pieces, name="<b>", slow_blocks=(("<i>", "<u>", 1.0),)))
    assert "<script" not in text
    assert "<b>&" not in text
    assert "<i>" not in text
    assert "<u>" not in text


def test_slow_blocks_refusals_and_remarks_are_listed():
    """Each in a table."""
    text = page(report_of(10))
    assert "1.25" in text
    assert "too little was left" in text
    assert "gzip is read whole" in text


@needs_browser
@pytest.mark.parametrize(
    ("name", "scheme"),
    [
        ("ten pieces", "light"),
        ("ten pieces", "dark"),
        ("50,000 pieces", "dark"),
        pytest.param(
            "50,000 pieces", "light", marks=pytest.mark.slow("the same test with ten pieces, in both schemes")
        ),
        ("a stream", "light"),
        pytest.param("a stream", "dark", marks=pytest.mark.slow("the same test with ten pieces, in both schemes")),
    ],
)
def test_browser_shows_it_without_complaint(tmp_path, name, scheme):
    """Headless Chromium, offline: no message on the console, and a picture with something on it."""
    file, picture = tmp_path / "run.html", tmp_path / f"{name} {scheme}.png"
    file.write_text(page_of(name))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,1400", f"--screenshot={picture}"]
    command += [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
    ]
    done = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr
    assert picture.stat().st_size > 20_000

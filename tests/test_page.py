"""The pages of runs and streams: what is on them, that they stay small, and that browsers show them as they should."""

import re
import shutil
import subprocess
from html.parser import HTMLParser

import attrs
import pytest
from pages import history_of, report_of

from sdf.page import page
from sdf.streampage import stream_page

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
    "no piece": page(attrs.evolve(report_of(8), pieces=(), slow_blocks=(), tasks=())),
    "ten pieces": page(report_of(10)),
    "50,000 pieces": page(report_of(50_000)),
    "50,000 small elements": page(report_of(50_000, elements=50_000)),
    "1,000 slots": page(report_of(50_000, slots=1000)),
    "a stream": stream_page(history_of(300)),
    "a long stream": stream_page(history_of(10_000)),
    "a stream without batches": stream_page([]),
}


@pytest.mark.parametrize("name", PAGES)
def test_page_is_whole_and_small_and_refers_to_nothing(name):
    """One file, no script, no network, under 5 MB; drawn as HTML that closes what it opens."""
    checker = Checker(PAGES[name])
    assert "script" not in checker.names
    assert checker.refers == ["data:,"]
    assert "http" not in PAGES[name]
    assert len(PAGES[name].encode()) < 5_000_000


def test_straggler_has_one_colour_across_all_slots():
    """Its boxes are in every row; another element has another colour."""
    text = page(report_of(20)).split("The same work")[0]
    rows = {y for colour, y in re.findall(r'<rect class=(\w+) x="[\d.]+" y="([\d.]+)"', text) if colour == "c0"}
    assert len(rows) == 8
    assert re.search(r"<rect class=c1 ", text)


def test_same_work_without_splitting_is_below_it():
    """All of the straggler on one slot, as long as all its pieces; a mark says where the run ended."""
    text = page(report_of(80)).split("The same work")[1]
    widths = [float(width) for width in re.findall(r'<rect class=c0 [^>]*?width="([\d.]+)"', text)]
    assert widths == [1000.0]
    mark = float(re.search(r'<line class=mark x1="([\d.]+)"', text)[1])
    assert mark == pytest.approx(1000 * 5.0 / (0.49 * 78), abs=0.1)


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
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["ten pieces", "50,000 pieces", "a stream"])
def test_browser_shows_it_without_complaint(tmp_path, name, scheme):
    """Headless Chromium, offline: no message on the console, and a picture with something on it."""
    file, picture = tmp_path / "run.html", tmp_path / f"{name} {scheme}.png"
    file.write_text(PAGES[name])
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1200,1400", f"--screenshot={picture}"]
    command += [
        "--host-resolver-rules=MAP * ~NOTFOUND",
        f"--blink-settings=preferredColorScheme={int(scheme == 'light')}",
    ]
    done = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr
    assert picture.stat().st_size > 20_000

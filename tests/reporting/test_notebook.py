"""A report in a notebook: a fragment that stands among the notebook's own HTML and leaves that alone."""

import functools
import re
import shutil
import subprocess
from html.parser import HTMLParser

import attrs
import pytest
from support.pages import report_of

BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here; make setup installs it through apt")


class Reader(HTMLParser):
    """Notes the classes, the ids, and whether each element is closed where it must be."""

    def __init__(self, text):
        super().__init__()
        self.open, self.classes, self.ids, self.names = [], set(), set(), set()
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.names.add(tag)
        self.classes |= {name for key, value in attributes if key == "class" for name in value.split()}
        self.ids |= {value for key, value in attributes if key == "id"}
        self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


REPORTS = {
    "no piece": lambda: attrs.evolve(report_of(8), pieces=(), slow_blocks=(), tasks=(), notes=()),
    "ten pieces": lambda: report_of(10),
    "20,000 pieces": lambda: report_of(20_000, slots=256),
}
everywhere = pytest.mark.parametrize("name", REPORTS)


@functools.cache
def fragment(name):
    return REPORTS[name]()._repr_html_()


@everywhere
def test_names_belong_to_sdf_alone(name):
    """No id, and no class that the notebook or another library may have."""
    reader = Reader(fragment(name))
    assert [one for one in reader.classes if not one.startswith("sdf-")] == []
    assert reader.ids == set()


@everywhere
def test_styles_reach_nothing_else(name):
    """Each rule stands below the fragment's own class."""
    (style,) = re.findall("<style>(.*?)</style>", fragment(name))
    selectors = re.findall(r"([^{}]+)\{[^{}]*\}", style)
    assert len(selectors) > 10
    assert [one for one in selectors if not one.startswith(".sdf-run") or "," in one] == []


@everywhere
def test_nothing_is_run_or_loaded(name):
    """No script, no handler, no address."""
    reader = Reader(fragment(name))
    assert reader.names.isdisjoint({"script", "iframe", "link", "img", "html", "body"})
    assert "http" not in fragment(name)


def test_it_is_small():
    """It is stored in the notebook."""
    assert len(fragment("20,000 pieces")) < 100_000


def test_it_has_the_summary_the_timeline_and_the_strip():
    """What the text says, and two pictures."""
    report = report_of(20)
    shown = report._repr_html_()
    assert re.findall("<div class=sdf-says>(.*?)</div>", shown) == [
        line.replace("'", "&#x27;") for line in str(report).splitlines()[1:]
    ]
    assert shown.count("<svg") == 2


def test_of_some_lanes_it_shows_no_element_whole():
    """What the others did of it is not known: one picture, of the slots."""
    assert attrs.evolve(report_of(20), lanes=9)._repr_html_().count("<svg") == 1


def test_what_users_put_in_is_text_and_never_markup():
    """An element may be anything."""
    report = report_of(10)
    pieces = tuple(attrs.evolve(piece, element="<script>alert(1)</script>&") for piece in report.pieces)
    shown = attrs.evolve(report, pieces=pieces, name="<b>: <b>", slow_blocks=(("<u>", "<u>", 1.0),))._repr_html_()
    assert "<script" not in shown
    assert "<b>" not in shown
    assert "<u>" not in shown


NOTEBOOK = """<!doctype html><title>notebook</title><style>body {{ background: {back}; color: {text}; }}</style>
<div class="jp-RenderedHTMLCommon">{fragment}</div><p class="key">theirs <i>italic</i> <svg width="9" height="9"></svg>
"""


@needs_browser
@pytest.mark.parametrize(("back", "text"), [("#fff", "#000"), ("#111", "#eee")], ids=["light", "dark"])
def test_a_notebook_of_either_theme_shows_it_without_complaint(tmp_path, back, text):
    """Whatever the browser itself prefers: no message on the console, and a picture with something on it."""
    file, picture = tmp_path / "notebook.html", tmp_path / "notebook.png"
    file.write_text(NOTEBOOK.format(back=back, text=text, fragment=fragment("ten pieces")))
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--hide-scrollbars"]
    command += [f"--user-data-dir={tmp_path / 'profile'}", "--window-size=1000,600", f"--screenshot={picture}"]
    done = subprocess.run([*command, file.as_uri()], capture_output=True, text=True, timeout=900)
    assert done.returncode == 0
    assert "CONSOLE" not in done.stderr
    assert picture.stat().st_size > 15_000

"""Draws the pictures of README.md and of the docs from real runs: with and without splitting, and a report.

make pictures
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from charts import WIDTH, key, svg, text
from pyspark import SparkConf, SparkContext

from sdf import DoFn, LiveRunner, OffsetRange, run_sdf

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
SENSORS = [("kitchen", 200), ("cellar", 150), ("attic", 250), ("engine", 2600)]  # the last one is the straggler
SECONDS = 0.005  # for each reading
LEFT, RIGHT, ROW = 90, 60, 22
SAME_SECONDS = 0.02  # workers see the clock that much apart at most
LIGHT, DARK = 1, 0  # as Chromium numbers them


class ReadingsFn(DoFn):
    """Element: (name, count). Each reading takes a moment."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for number in tracker.claims():
            time.sleep(SECONDS)
            yield element[0], number


def readings(sensor):
    """The same without splitting; notes when it began and ended."""
    name, count = sensor
    began = time.time()
    for _ in range(count):
        time.sleep(SECONDS)
    yield name, began, time.time()


def rows(spans, began):
    """Return the spans of each slot, as (name, start, end) in seconds from the begin."""
    slots = []
    for name, start, end in sorted(spans, key=lambda span: span[1]):
        slot = next((one for one in slots if one[-1][2] <= start + SAME_SECONDS), None)
        if slot is None:
            slots.append(slot := [])
        slot.append((name, start, end))
    return [[(name, start - began, end - began) for name, start, end in slot] for slot in slots]


def splitting(without, split):
    """Draw what each slot did in both runs, on one scale."""
    longest = max(end for slots in (without, split) for slot in slots for _, _, end in slot)
    scale = (WIDTH - LEFT - RIGHT) / longest
    parts, top = [], 14
    for title, slots in (("flatMap", without), ("run_sdf", split)):
        last = max(end for slot in slots for _, _, end in slot)
        parts.append(text(16, top + 16, f"{title}: {last:.1f} s", "title"))
        top += 26
        for number, slot in enumerate(slots, start=1):
            parts.append(text(16, top + 15, f"slot {number}", "soft"))
            for name, start, end in slot:
                colour = "live" if name == "engine" else "plain"
                width = max(1.0, (end - start) * scale - 1)
                parts.append(
                    f'<rect class="{colour}" x="{LEFT + start * scale:.1f}" y="{top + 2}" width="{width:.1f}" '
                    f'height="16" rx="2"/>'
                )
            top += ROW
        top += 10
    parts += key({"the huge element": "live", "the others": "plain"})(top)[0]
    title = "The same job on four slots, with flatMap and with run_sdf"
    return svg(title, parts, top + 26)


def screenshot(page, picture, scheme, height):
    """Have a browser draw a page in light or dark colours."""
    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chromium-browser"))))
    options = [f"--blink-settings=preferredColorScheme={scheme}", f"--window-size=1200,{height}", "--hide-scrollbars"]
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", *options, f"--screenshot={picture}"]
    subprocess.run([*command, page.as_uri()], check=True, capture_output=True, timeout=120)


def front_page():
    """Build the docs, and draw their front page as people see it first."""
    built = ROOT / "build" / "docs"
    sphinx = [sys.executable, "-m", "sphinx", "-W", "-q", "-b", "html", str(ROOT / "docs"), str(built)]
    subprocess.run(sphinx, check=True, timeout=600)
    for name, scheme in (("light", LIGHT), ("dark", DARK)):
        screenshot(built / "index.html", ROOT / "build" / f"front-page-{name}.png", scheme, 1600)
    print(f"{ROOT / 'build'}: front-page-dark.png, front-page-light.png, to look at")


def main():
    conf = SparkConf().setMaster("local[4]").set("spark.ui.enabled", "false")
    with (
        SparkContext(conf=conf.set("spark.ui.showConsoleProgress", "false")) as sc,
        tempfile.TemporaryDirectory() as tmp,
    ):
        sc.setLogLevel("ERROR")
        sc.addPyFile(__file__)
        sc.parallelize(range(4), 4).map(lambda _: time.sleep(0.5)).count()  # starts Python in each slot
        spans = sc.parallelize(SENSORS, 4).flatMap(readings).collect()
        without = rows(spans, min(start for _, start, _ in spans))
        result = run_sdf(sc.parallelize(SENSORS), ReadingsFn(), runner=LiveRunner(), progress=False)
        result.count()
        report = result.report
        pieces = [(piece.element[0], piece.began, piece.began + piece.seconds) for piece in report.pieces]
        split = rows(pieces, min(start for _, start, _ in pieces))
        PICTURES.mkdir(exist_ok=True)
        (PICTURES / "splitting.svg").write_text(splitting(without, split))
        page = Path(tmp, "run.html")
        report.save(page)
        for name, scheme in (("light", LIGHT), ("dark", DARK)):
            screenshot(page, PICTURES / f"report-{name}.png", scheme, 1000)
    print(f"{PICTURES}: {', '.join(sorted(path.name for path in PICTURES.iterdir()))}")
    front_page()


if __name__ == "__main__":
    sys.exit(main())

"""Makes a page of charts, the charts, and RESULTS.md from the JSON files of the benchmarks.

The page answers a question at a time (`questions.py`); RESULTS.md has every claim first, then all tables. With another
DIRECTORY than the usual one it writes them there, under the paths that they have in the checkout.

    python benchmarks/results.py [DIRECTORY]
"""

import json
import sys
from pathlib import Path

from harness import RESULTS
from questions import QUESTIONS

ROOT = Path(__file__).parent.parent
DETAIL = "benchmarks/RESULTS.md"
PAGE = "docs/benchmarks.md"
CHARTS = "docs/benchmarks"


def line(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def holds(claim):
    return "yes" if claim["holds"] else "**no**"


def detail(results):
    """Return the page of all results by name."""
    text = [
        "# What was measured",
        "",
        "Made by `make bench`, `make bench-long` and `make bench-peers` of the JSON files in `results`, not written by",
        "hand. Ratios are of medians, within one run on one machine; where a run takes minutes, of one round.",
        "[Benchmarks](../docs/benchmarks.md) shows the essentials in charts.",
        "",
        "| claim | figure | limit | holds | from | at |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in results.items():
        text += [
            line([each["what"], f"{each['figure']:.3g}", each["limit"], holds(each), name, found["commit"]])
            for each in found["claims"]
        ]
    for name, found in results.items():
        text += ["", f"## {name}: {found['question']}", ""]
        text += [f"`{found['command']}` at {found['commit']}; {found['machine']}."]
        for table in found["tables"]:
            if table["rows"]:
                text += ["", table["title"] + ":", "", line(table["columns"]), line(["---"] * len(table["columns"]))]
                text += [line(cells) for cells in table["cells"]]
        if found["notes"]:
            text += ["", *found["notes"]]
    return "\n".join(text) + "\n"


def answers(results):
    """Return an answer to each question that was measured."""
    usual = {name.removesuffix("-quick"): found for name, found in results.items()}
    return [answer for question in QUESTIONS if (answer := question(usual)) is not None]


def page(results, shown):
    """Return the page of charts, for answers to questions."""
    text = ["# Benchmarks", "", introduction(results), "", summary(results)]
    for answer in shown:
        text += [
            "",
            f"## {answer.question}",
            "",
            answer.says,
            "",
            f"![{answer.question}](benchmarks/{answer.name}.svg)",
        ]
        text += ["", answer.more] if answer.more else []
        text += ["", "Measure it again:", "", "```", *answer.again, "```"]
    return "\n".join(text) + "\n"


def introduction(results):
    machines = sorted({found["machine"].partition(", Spark")[0] for found in results.values()})
    return (
        "Made by `make bench`, `make bench-long` and `make bench-peers`, not written by hand. Ratios are of times "
        f"within one run, on {' and '.join(machines)}. To measure one thing again, run `make setup`, its command with "
        "the Python in `.venv`, and `python benchmarks/results.py`; `make bench-peers` installs the peers. A commit "
        "with a + had changes that were not committed."
    )


def summary(results):
    """Return how many claims hold, and each that does not, but for those about peers: their rows are on the page."""
    claims = [(name, claim) for name, found in results.items() for claim in found["claims"]]
    broken = [(name, claim) for name, claim in claims if not claim["holds"]]
    own = [f"{each['what']} is {each['figure']:.3g}, {each['limit']}" for name, each in broken if name != "peers"]
    says = f"[All claims and all rows](../{DETAIL}) stand in one long table. "
    says += f"Of {len(claims)} claims, each with a limit, {len(claims) - len(broken)} hold."
    if len(broken) > len(own):
        says += f" That sdf is ahead does not hold in {len(broken) - len(own)} rows beside peers, which stand below."
    return says + (f" What else does not hold: {'; '.join(own)}." if own else "")


def made(results):
    """Return all files by their path in the checkout."""
    shown = answers(results)
    charts = {f"{CHARTS}/{answer.name}.svg": answer.chart for answer in shown}
    return {DETAIL: detail(results), PAGE: page(results, shown), **charts}


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    results = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    if not results:
        raise SystemExit(f"there are no results in {folder}: run make bench first")
    root = ROOT if folder.resolve() == RESULTS.resolve() else folder
    for old in (root / CHARTS).glob("*.svg"):  # of what is no longer measured
        old.unlink()
    for name, text in made(results).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    print(f"{root / PAGE}, {root / DETAIL}: {len(results)} results")


if __name__ == "__main__":
    main()

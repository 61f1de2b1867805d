"""Makes RESULTS.md of the JSON files that the benchmarks left: every claim first, then a section per question.

The page of a directory other than the usual one lies in that directory.

    python benchmarks/results.py [DIRECTORY]
"""

import json
import sys
from pathlib import Path

from harness import RESULTS

PAGE = Path(__file__).parent / "RESULTS.md"


def line(cells):
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def holds(claim):
    return "yes" if claim["holds"] else "**no**"


def page(results):
    """Return the page of results by name."""
    text = [
        "# What was measured",
        "",
        "Made by `make bench`, `make bench-long` and `make bench-peers` of the JSON files in `results`, not written by",
        "hand. Ratios are of medians, within one run on one machine; where a run takes minutes, of one round.",
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
        text += [f"\n![{title}]({name}.svg)" for title in found["pictures"]]
        if found["notes"]:
            text += ["", *found["notes"]]
    return "\n".join(text) + "\n"


def main():
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS
    results = {path.stem: json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))}
    if not results:
        raise SystemExit(f"there are no results in {folder}: run make bench first")
    path = PAGE if folder.resolve() == RESULTS.resolve() else folder / PAGE.name
    path.write_text(page(results))
    for name, found in results.items():
        for svg in found["pictures"].values():
            path.with_name(f"{name}.svg").write_text(svg)
    print(f"{path}: {len(results)} questions")


if __name__ == "__main__":
    main()

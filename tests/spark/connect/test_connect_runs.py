"""run_sdf and save_sdf over DataFrames: on a real Spark Connect server, and on classic Spark."""

import pyarrow.parquet
import pytest

from sdf import DoFn, OffsetRange, run_sdf, save_sdf
from sdf.sinks import ParquetFiles


class CountFn(DoFn):
    """Element: a name and a count."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        for number in tracker.claims():
            yield {"name": element[0], "number": number}


@pytest.fixture(params=["connect", "classic"])
def spark(request):
    """A session of Spark Connect, and one of classic Spark."""
    if request.param == "connect":
        return request.getfixturevalue("connect")
    from pyspark.sql import SparkSession

    return SparkSession(request.getfixturevalue("sc"))


COUNTS = [("a", 5), ("b", 0), ("c", 1000)]
NUMBERS = [(name, number) for name, count in COUNTS for number in range(count)]


def rows(frame):
    return sorted((row.name, row.number) for row in frame.collect())


def test_results_are_a_dataframe_of_the_schema(spark, tmp_path):
    """It has the report of the run, too."""
    frame = spark.createDataFrame(COUNTS, "name string, count long")
    result = run_sdf(frame, CountFn(), schema="name string, number int", staging=tmp_path)
    assert rows(result) == NUMBERS
    assert result.schema.simpleString() == "struct<name:string,number:int>"
    assert result.report.elements == 3


def test_saved_once(spark, tmp_path):
    frame = spark.createDataFrame(COUNTS, "name string, count long")
    summary = save_sdf(frame, CountFn(), ParquetFiles(tmp_path / "out"))
    table = pyarrow.parquet.read_table(tmp_path / "out")
    assert sorted(zip(*table.to_pydict().values(), strict=True)) == NUMBERS
    assert (summary.records, summary.resumed) == (1005, False)
    again = save_sdf(frame, CountFn(), ParquetFiles(tmp_path / "out"))
    assert (again.records, again.report) == (1005, None)

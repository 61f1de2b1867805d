"""How fast is SQL over one CSV through data_source, beside Spark's own reader of CSV?

Both get the same file, the same schema and the same queries: one that needs three of nineteen columns, and one that
needs all of them. Spark reads only the columns that a query needs; data_source gets them as the schema of the read. For
gzip, *first* makes the seek index as well, *later* finds it.

    python benchmarks/sql_csv.py --megabytes 200
"""

import gzip
import itertools
import shutil
import tempfile
from pathlib import Path

from harness import Bench, in_turn
from pyspark.sql import SparkSession

from sdf.io import ReadCsv
from sdf.spark.source import data_source

SLOTS = 2
SCHEMA = (
    "year int, month int, day int, dep_time int, sched_dep_time int, dep_delay int, arr_time int, sched_arr_time int, "
    "arr_delay int, carrier string, flight int, tailnum string, origin string, dest string, air_time int, "
    "distance int, hour int, minute int, time_hour timestamp"
)
KINDS = dict(column.split() for column in SCHEMA.split(", "))
CARRIERS, ORIGINS, DESTINATIONS = ["UA", "AA", "B6", "DL"], ["EWR", "JFK", "LGA"], ["IAH", "MIA", "ATL", "ORD", "SFO"]
QUERIES = {
    "3 columns": (
        ["origin", "dep_delay", "distance"],
        "SELECT origin, count(*), sum(dep_delay), max(distance) FROM flights WHERE dep_delay > 0 GROUP BY 1 ORDER BY 1",
    ),
    "19 columns": (list(KINDS), f"SELECT {', '.join(f'max({name})' for name in KINDS)} FROM flights"),
}


def write(path, size):
    """Write flights of a year, about ``size`` bytes, in the columns that many a tutorial has."""
    with open(path, "w") as file:
        file.write(",".join(KINDS) + "\n")
        for number in itertools.count():
            if number % 1000 == 0 and file.tell() >= size:
                return
            month, day, hour, minute = number // 7000 % 12 + 1, number % 28 + 1, number % 19 + 5, number % 60
            at, late = hour * 100 + minute, number * 7919 % 211 - 30
            when = [2013, month, day, at, at, late, at + 200, at + 190, late + 5]
            which = [CARRIERS[number % 4], number % 6000, f"N{number % 9999}UA", ORIGINS[number % 3]]
            where = [DESTINATIONS[number % 5], 100 + number % 300, 500 + number % 2500, hour, minute]
            row = [*when, *which, *where, f"2013-{month:02}-{day:02}T{hour:02}:00:00Z"]
            file.write(",".join(map(str, row)) + "\n")


def main():
    bench = Bench(__doc__)
    bench.option("--megabytes", 200, quick=2, help="of text in the file")
    given = bench.begin()
    formats = {"query": "{}", "Spark s": "{:.2f}", "data_source s": "{:.2f}", "times as fast": "{:.2f}"}
    table = bench.table(f"one CSV of {given.megabytes} MB, {SLOTS} slots", {"file": "{}", **formats})
    spark = SparkSession(bench.spark(SLOTS))
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = Path(folder, "flights.csv"), Path(folder, "flights.csv.gz")
        write(plain, given.megabytes * 1_000_000)
        with open(plain, "rb") as text, gzip.open(packed, "wb", 6) as file:
            shutil.copyfileobj(text, file)
        fresh = itertools.count()

        def through_sdf(path, query, index_dir):
            reader = ReadCsv(index_dir=index_dir or f"{folder}/index-{next(fresh)}")
            spark.dataSource.register(data_source(reader, SCHEMA))
            names, text = QUERIES[query]
            spark.read.format("sdf").schema(", ".join(f"{name} {KINDS[name]}" for name in names)).load(
                str(path)
            ).createOrReplaceTempView("flights")
            return spark.sql(text).collect()

        def through_spark(path, query):
            frame = spark.read.csv(str(path), schema=SCHEMA, header=True)
            frame.createOrReplaceTempView("flights")
            return spark.sql(QUERIES[query][1]).collect()

        kept = f"{folder}/index"
        files = {"plain": (plain, kept), "gzip, first": (packed, None), "gzip, later": (packed, kept)}
        for query, (file, (path, index_dir)) in itertools.product(QUERIES, files.items()):
            ways = {
                "Spark": lambda path=path, query=query: through_spark(path, query),
                "sdf": lambda path=path, query=query, kept=index_dir: through_sdf(path, query, kept),
            }
            taken = {name: times.median for name, times in in_turn(ways, given.rounds).items()}
            ratio = taken["Spark"] / taken["sdf"]
            table.row(file, query, taken["Spark"], taken["sdf"], ratio)
            bench.claim(f"times as fast as Spark, {file}, {query}", ratio, at_least=0.8 if file == "plain" else 1.4)
    bench.end()


if __name__ == "__main__":
    main()

"""Why a peer is ahead of sdf in some rows, as its program and `peers.py` show it; unknown reasons are left out."""

EACH = ("joblib", "multiprocessing.Pool")
START = "Its processes are up and wait for work; a run of sdf first starts two jobs of Spark."
LINES = (
    "It sums up in the loop that reads, and gives one number per piece; with sdf each line is a record that Spark's "
    "map() and sum() take."
)
OUTPUTS = "It counts what a plain loop gives; sdf claims each output, so that the work can be split anywhere."
SMALL = (
    "It hands out elements in batches, to processes that are up; sdf plans each on the driver, and proves that it was "
    "done once."
)
FILES = (
    "It sums up in the loop that reads; sdf starts one run that finds the files and one that reads them, and pins each "
    "file's size and time of change."
)
PARQUET = "It sums up in the loop that reads; sdf starts two jobs of Spark, and gives each row to its map() and sum()."
REASONS = [  # what is in the title of the job, how the name of the way begins, why
    ("lines of one file", EACH, LINES),
    ("outputs each", ("PySpark", "Dask bag", *EACH), OUTPUTS),
    ("one giant element", EACH, START),
    ("one element with", EACH, START),
    ("small elements", EACH, SMALL),
    ("files of", EACH, FILES),
    ("Avro", ("Dask bag",), f"Dask cuts the file into blocks as well. {START}"),
    ("Parquet", EACH, PARQUET),
]


def reason_for(title, way):
    """Return why a way is ahead of sdf in a job, or "" where that is not known."""
    for part, ways, reason in REASONS:
        if part in title and way.startswith(ways):
            return reason
    return ""

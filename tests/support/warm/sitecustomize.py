"""Makes Spark's Python workers cheap, in every Python process that Spark starts in the tests.

PySpark comes from its installed files. Spark puts pyspark.zip, py4j's zip and spark-core's jar first in the path of its
workers. Each worker would compile PySpark from the archive. Before each task, PySpark also clears Python's import
caches. Python 3.11 and earlier then read the lists of these archives again, which takes longer than most tasks in the
tests.

After each task, PySpark collects garbage. Here a worker looks only through the objects that are new since its last
collection.
"""

import gc
import os
import re
import sys

DAEMONS = {"pyspark.daemon", "support.warm.daemon", "support.warm.sql_daemon"}
ARCHIVES = re.compile(r"(pyspark|py4j-[\d.]+-src)\.zip|spark-core_[\d.]+-[^/]*\.jar")
sys.path[:] = [path for path in sys.path if not ARCHIVES.fullmatch(path.rpartition("/")[2])]
sys.path_importer_cache.clear()

collect = gc.collect


def collect_what_is_new(*generation):
    """Collect garbage, and freeze the objects that are left: later collections skip them."""
    found = collect(*generation)
    gc.freeze()
    return found


if DAEMONS & {*sys.orig_argv} and "PLAIN" not in os.environ:
    gc.collect = collect_what_is_new

"""PySpark from its installed files, for every Python process that Spark starts in the tests.

Spark puts pyspark.zip, py4j's zip and spark-core's jar first in the path of its workers. Each worker would compile
PySpark from the archive. Before each task, PySpark also clears Python's import caches. Python 3.11 and earlier then
read the lists of these archives again, which takes longer than most tasks in the tests.
"""

import re
import sys

ARCHIVES = re.compile(r"(pyspark|py4j-[\d.]+-src)\.zip|spark-core_[\d.]+-[^/]*\.jar")
sys.path[:] = [path for path in sys.path if not ARCHIVES.fullmatch(path.rpartition("/")[2])]
sys.path_importer_cache.clear()

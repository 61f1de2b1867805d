"""PySpark's daemon, from which its workers are forked, with what most tests' workers import.

PySpark's workers collect garbage after each task. They do not look through what is imported here.
"""

import gc

import pytest  # noqa: F401
from pyspark.daemon import manager

import sdf.spark.live.link
import sdf.spark.staged.task  # noqa: F401
from support import failing, fns, killing  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()

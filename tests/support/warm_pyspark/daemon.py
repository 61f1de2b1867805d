"""PySpark's daemon, from which its workers are forked, with what most tests' workers import.

PySpark's workers collect garbage after each task. They do not look through what is imported here.
"""

import gc

import pyspark.worker
import pytest
from pyspark.daemon import manager

import sdf.spark.run
from support import failing, fns, killing, saving

__all__ = ["failing", "fns", "killing", "manager", "pyspark", "pytest", "saving", "sdf"]

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()

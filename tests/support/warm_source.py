"""PySpark's daemon, from which the workers of data sources are forked, with what these import.

Spark starts a worker each time that it plans a source or a query, and each would import pandas and sdf anew.
"""

import gc

import pandas  # noqa: F401
import pyarrow.parquet  # noqa: F401
import pyspark.sql.connect.conversion
import pyspark.sql.pandas.types
import pyspark.sql.worker.create_data_source
import pyspark.sql.worker.plan_data_source_read  # noqa: F401
import pytest  # noqa: F401
from pyspark.daemon import manager

import sdf.sinks
import sdf.spark.source  # noqa: F401

WARM = {"spark_python_daemon_module": "support.warm_source"}  # a setting of a context

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()

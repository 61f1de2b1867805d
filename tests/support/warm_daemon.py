"""Spark's Python daemon, which imports what its workers need before it forks them: none of them imports it again."""

from contextlib import suppress

from pyspark import daemon

with suppress(ImportError):  # of what tests need that run in several tasks
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pyspark.sql.pandas.serializers  # noqa: F401
    import pytest  # noqa: F401

import sdf.sinks
import sdf.spark  # noqa: F401

if __name__ == "__main__":
    daemon.manager()

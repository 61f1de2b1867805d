"""The same daemon with what workers of data sources, sinks and DataFrames import, too: pandas takes half a second."""

from contextlib import suppress

from support.warm.daemon import run

with suppress(ImportError):  # workers without pandas are tested, too
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pyspark.sql.connect.conversion
    import pyspark.sql.pandas.serializers
    import pyspark.sql.pandas.types
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.plan_data_source_read  # noqa: F401

    import sdf.spark.connect.tasks
    import sdf.spark.source  # noqa: F401

if __name__ == "__main__":
    run()

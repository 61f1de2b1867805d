"""PySpark's daemon, from which its workers are forked, with what the workers of most tests import.

PySpark's workers collect garbage after each task. They do not look through what is imported here.
"""

import gc
from contextlib import suppress

from pyspark.daemon import manager

with suppress(ImportError):  # workers without sdf, or without pandas, are tested, too
    import pandas  # noqa: F401
    import pyarrow.parquet  # noqa: F401
    import pyspark.sql.connect.conversion
    import pyspark.sql.pandas.serializers
    import pyspark.sql.pandas.types
    import pyspark.sql.worker.create_data_source
    import pyspark.sql.worker.plan_data_source_read  # noqa: F401
    import pytest  # noqa: F401

    import sdf.io
    import sdf.sinks
    import sdf.spark.connect.tasks
    import sdf.spark.live.link
    import sdf.spark.run
    import sdf.spark.source
    import sdf.spark.staged.save_task
    import sdf.spark.staged.task  # noqa: F401
    from support import failing, fns, killing  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    manager()

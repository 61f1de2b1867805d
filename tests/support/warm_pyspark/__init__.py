"""Python workers that need not import what most tests use: they are forked from a daemon that has.

Without it each worker imports sdf, pytest and more for a quarter of a second, and looks through all that for garbage
after each task, as PySpark does.
"""

WARM = {"spark_python_daemon_module": "support.warm_pyspark.daemon"}  # a setting of a context

"""Python workers that need not import what most tests use: Spark forks them from a daemon that has.

Otherwise each worker imports sdf, pytest and more for a quarter of a second, those of data sources pandas, too. After
each task PySpark looks through all that for garbage.
"""

DAEMON = "support.warm.daemon"
WARM = {"spark_python_daemon_module": DAEMON}  # a setting of a context

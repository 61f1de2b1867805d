"""Python workers that need not import what most tests use: Spark forks them from a daemon that has.

Otherwise each worker imports sdf and more for a quarter of a second, those of data sources pandas, too.
"""

from pathlib import Path

DAEMON, SQL_DAEMON = "support.warm.daemon", "support.warm.sql_daemon"
# Settings of a context; None takes away a setting that the JVM kept of an earlier one.
WARM = {"spark_python_daemon_module": DAEMON, "spark_executorEnv_PLAIN": None}
WARM_SQL = {**WARM, "spark_python_daemon_module": SQL_DAEMON}
PLAIN = {"spark_python_daemon_module": None, "spark_executorEnv_PLAIN": "yes"}  # PySpark's own daemon
WARM_FOLDER = str(Path(__file__).parent)  # for a PYTHONPATH: sitecustomize.py is there

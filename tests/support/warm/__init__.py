"""Python workers that need not import what most tests use: Spark forks them from a daemon that has.

Otherwise each worker imports sdf, pytest and more for a quarter of a second, those of data sources pandas, too.
"""

from pathlib import Path

DAEMON = "support.warm.daemon"
WARM = {"spark_python_daemon_module": DAEMON}  # a setting of a context
PLAIN = {**dict.fromkeys(WARM), "spark_executorEnv_PLAIN": "yes"}  # PySpark's own daemon, which collects as ever
WARM_FOLDER = str(Path(__file__).parent)  # for a PYTHONPATH: sitecustomize.py is there

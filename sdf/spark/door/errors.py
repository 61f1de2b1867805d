"""Errors of Spark and of Py4J, its gateway to the JVM.

`GatewayError` and `JavaError` are Py4J's in all versions. With a SparkSession, PySpark raises `SparkError` in place of
`JavaError`, for what it knows.
"""

from __future__ import annotations

import re

from py4j.protocol import Py4JError as GatewayError
from py4j.protocol import Py4JJavaError as JavaError
from pyspark.errors import PySparkException as SparkError

__all__ = [
    "END_OF_TRACE",
    "EXECUTOR_LOST",
    "FAILURES",
    "GONE",
    "JOB_CANCELLED",
    "LOST_TASK",
    "OTHER_PYTHON",
    "UNREACHABLE",
    "GatewayError",
    "JavaError",
    "SparkError",
    "text_of",
]

FAILURES = (JavaError, SparkError)  # what a call to Spark raises when Spark fails
GONE = (GatewayError, OSError, AttributeError)  # what a call raises when the JVM or its context has gone meanwhile

# In Spark's messages, the same in all versions.
EXECUTOR_LOST = "ExecutorLostFailure"  # of a job that has failed of that
LOST_TASK = re.compile(rf"Task (\d+) in stage .*(?:{EXECUTOR_LOST}|Python worker exited unexpectedly)")
END_OF_TRACE = re.compile(r"\n(?: SQLSTATE: 38000|\tat org\.apache\.spark)")  # after the traceback of a worker
JOB_CANCELLED = "SPARK_JOB_CANCELLED"
OTHER_PYTHON = re.compile(r"PYTHON_VERSION_MISMATCH\].*?: (\d+\.\d+) than that in driver: (\d+\.\d+)", re.DOTALL)
UNREACHABLE = re.compile(r"<\w+ of RPC that terminated with:\s+status = StatusCode\.UNAVAILABLE")  # of gRPC, no user's


def text_of(error: BaseException) -> str:
    """Return what Spark says, without the stack of the JVM where Py4J has it apart."""
    if isinstance(error, JavaError):
        return str(error.java_exception.getMessage() or error)
    return str(error)

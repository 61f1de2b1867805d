"""Errors of Spark and of Py4J, its gateway to the JVM.

`GatewayError` and `JavaError` are Py4J's in all versions. With a SparkSession, PySpark raises `SparkError` in place of
`JavaError`, for what it knows.
"""

from __future__ import annotations

from py4j.protocol import Py4JError as GatewayError
from py4j.protocol import Py4JJavaError as JavaError
from pyspark.errors import PySparkException as SparkError

__all__ = ["FAILURES", "GONE", "GatewayError", "JavaError", "SparkError", "text_of"]

FAILURES = (JavaError, SparkError)  # what a call to Spark raises when Spark fails
GONE = (GatewayError, OSError, AttributeError)  # what a call raises when the JVM or its context has gone meanwhile


def text_of(error: BaseException) -> str:
    """Return what Spark says, without the stack of the JVM where Py4J has it apart."""
    if isinstance(error, JavaError):
        return str(error.java_exception.getMessage() or error)
    return str(error)

"""Spark Connect's client."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from pyspark.sql.types import StringType

__all__ = ["interrupt_as", "java_of_server", "texts_of_tasks", "user_of"]


def user_of(spark: Any) -> str:
    """Return the user of a session, "" for the default."""
    return spark.client._user_id or ""


def interrupt_as(spark: Any, session_id: str, user_id: str, tag: str) -> list[str]:
    """Interrupt the operations with a tag of another session on the same server; return their ids.

    Args:
        spark: a session on that server.
        session_id: the other session.
        user_id: its user, "" for the default.
        tag: the tag.
    """
    from pyspark.sql.connect.client import SparkConnectClient

    same_server = copy.copy(spark.client._builder)  # with its credentials
    params = "_params" if hasattr(same_server, "_params") else "params"  # before 4.0
    setattr(same_server, params, {**getattr(same_server, params), "session_id": session_id})
    client = SparkConnectClient(same_server, user_id=user_id or None)
    try:
        return list(client.interrupt_tag(tag) or [])
    finally:
        client.close()


def texts_of_tasks(spark: Any, tasks: int, function: Callable[..., str]) -> list[str]:
    """Return what a function gives in each task, without Arrow: whether workers have it may be what is to be seen."""
    from pyspark.sql.connect.functions import col, udf

    told: Any = udf(function, StringType(), useArrow=False)
    return [str(row[0]) for row in spark.range(0, tasks, 1, tasks).select(told(col("id"))).collect()]


def java_of_server(spark: Any) -> str:
    """Return the version of the server's Java."""
    return str(spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.version')").collect()[0][0])

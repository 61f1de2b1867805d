"""What PySpark keeps for a broadcast, in all versions: a file on the driver, and an object in the JVM."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from py4j.java_gateway import JavaClass
from pyspark import Broadcast, SparkContext

from sdf.spark.door.context import has_ended

__all__ = ["destroy", "file_of", "presence_in_jvm"]


def file_of(sent: Broadcast[Any]) -> str:
    """Return the path of a broadcast's file on the driver."""
    return sent._path


def presence_in_jvm(sc: SparkContext, sent: Broadcast[Any]) -> Callable[[], bool]:
    """Return a function that says whether anything in the JVM refers to a broadcast; it keeps no reference itself."""
    # by its name: the JVM would look for a class java, then java.lang and so on, through all of Spark's jars
    client = cast("Any", sc._gateway)._gateway_client
    queue = JavaClass("java.lang.ref.ReferenceQueue", client)()
    weak = JavaClass("java.lang.ref.WeakReference", client)(cast("Any", sent)._jbroadcast, queue)
    return lambda: not weak.isEnqueued()  # refersTo() is of Java 16, and Spark 3.5 takes Java 8


def destroy(sc: SparkContext, sent: Broadcast[Any]) -> None:
    """Free the blocks of a broadcast, without waiting; nothing if the context has ended, and the blocks with it.

    The id may then be that of a broadcast of the next context.
    """
    if not has_ended(sc):
        cast("Any", sent)._jbroadcast.destroy(False)

"""What PySpark keeps for a broadcast: a file in the driver's temporary directory, and an object in the JVM.

Java 16 has ``refersTo``, and Spark 4 needs Java 17.
"""

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
    reference = JavaClass("java.lang.ref.WeakReference", cast("Any", sc._gateway)._gateway_client)
    weak = reference(cast("Any", sent)._jbroadcast)
    return lambda: not weak.refersTo(None)


def destroy(sc: SparkContext, sent: Broadcast[Any]) -> None:
    """Free the blocks of a broadcast, without waiting; nothing if the context has ended, and the blocks with it.

    The id may then be that of a broadcast of the next context.
    """
    if not has_ended(sc):
        cast("Any", sent)._jbroadcast.destroy(False)

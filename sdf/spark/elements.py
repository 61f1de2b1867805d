"""Checks of a user's elements: they must be an RDD, and a big element is warned of in the log."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import attrs
from pyspark import RDD, SparkContext

from sdf.errors import InvalidTypeError, InvalidValueError, show
from sdf.model.dofn import DoFn
from sdf.spark import serde
from sdf.spark.door.context import is_stopped

__all__ = [
    "BIG_BYTES",
    "BigElement",
    "WarnsOnce",
    "big_element",
    "check_context",
    "check_rdd",
    "is_connect",
    "is_dataframe",
]

BIG_BYTES = 1 << 20
_TOGETHER = 100  # elements pickled together to measure them: one by one costs microseconds each

log = logging.getLogger("sdf.elements")


def is_dataframe(given: Any) -> bool:
    """Tell whether a value is a DataFrame of Spark; its class is not imported, which may need PyArrow and more."""
    return any(
        kind.__module__.startswith("pyspark.sql.") and kind.__name__ == "DataFrame" for kind in type(given).__mro__
    )


def is_connect(given: Any) -> bool:
    """Tell whether a value is of a class of Spark Connect; see `is_dataframe`."""
    return any(kind.__module__.startswith("pyspark.sql.connect.") for kind in type(given).__mro__)


def check_rdd(given: Any, who: str, otherwise: str = "") -> None:
    """Raise InvalidTypeError, or InvalidValueError, unless the elements are an RDD of a context that runs.

    Args:
        given: the elements.
        who: name of the caller, for the message.
        otherwise: an alternative to an RDD, for the message.
    """
    if isinstance(given, RDD):
        remedy = "Make the RDD again, from a SparkContext that runs"
        check_context(given.context, who, "an RDD of a SparkContext that runs", remedy)
        return
    if is_connect(given):
        raise InvalidTypeError(
            f"{who} needs an RDD, and Spark Connect has none (got a {type(given).__name__} of it). run_sdf() and "
            f"save_sdf() take the DataFrame; or use a classic session, made with SparkSession.builder.master(...) "
            f"rather than remote(...)."
        )
    if is_dataframe(given):
        raise InvalidTypeError(  # no show(): the repr of a DataFrame may run it
            f"{who} needs an RDD (got a DataFrame). Pass df.rdd, whose elements are Rows; where the DoFn expects "
            f"something else, such as a path, map them to it: df.rdd.map(lambda row: row.path)."
        )
    if isinstance(given, DoFn):
        raise InvalidTypeError(f"{who} takes the elements first, an RDD, and then the DoFn (got {show(given)}).")
    or_else = f", {otherwise}" if otherwise else ""
    raise InvalidTypeError(
        f"{who} needs an RDD of elements (got {show(given)}). Use sc.parallelize(elements){or_else}."
    )


def check_context(context: SparkContext, who: str, needs: str, remedy: str) -> None:
    """Raise InvalidValueError if a context was stopped.

    Args:
        context: the context.
        who: name of the caller, for the message.
        needs: what the caller needs, for the message.
        remedy: what to do, for the message.
    """
    if is_stopped(context):
        raise InvalidValueError(f"{who} needs {needs} (got one whose SparkContext was stopped). {remedy}.")


@attrs.frozen
class BigElement:
    """An element that is no small descriptor, as a worker reports it to the driver."""

    shown: str
    size_bytes: int


def big_element(elements: Sequence[Any]) -> BigElement | None:
    """Return the first element of more than `BIG_BYTES`, pickled; None if there is none."""
    for start in range(0, len(elements), _TOGETHER):
        some = elements[start : start + _TOGETHER]
        if len(serde.dumps(some, "elements")) > BIG_BYTES:
            for element in some:
                size_bytes = len(serde.dumps(element, "an element"))
                if size_bytes > BIG_BYTES:
                    return BigElement(show(element, 100), size_bytes)
    return None


class WarnsOnce:
    """Warns of the first big element of a run, in the driver's log, where users look.

    Args:
        who: the name of the DoFn.
    """

    def __init__(self, who: str) -> None:
        self._who = who
        self._warned = False

    def __call__(self, big: BigElement) -> None:
        if not self._warned:
            self._warned = True
            log.warning(
                "%s: element %s has %.1f MiB, pickled. An element is a small descriptor, such as a path or a range of "
                "keys: the driver holds it, and sends it along with every part of its work. Let it name where the data "
                "is, and read that in process(). (Logged once a run.)",
                self._who, big.shown, big.size_bytes / (1 << 20),
            )  # fmt: skip

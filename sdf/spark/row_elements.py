"""Elements from the rows of a DataFrame, of classic Spark or of Spark Connect.

On classic Spark they become an RDD, so that both runners and all else works as with RDDs. Spark Connect has no RDDs:
there the client collects the elements. They are small descriptors, which the driver holds anyway.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from operator import itemgetter
from typing import Any

from pyspark import RDD

from sdf.errors import InvalidTypeError, ProcessError, show
from sdf.spark import serde
from sdf.spark.elements import check_rdd, is_connect, is_dataframe

__all__ = ["ConnectElements", "as_elements", "collected"]


class ConnectElements:
    """The elements of a run on Spark Connect.

    Args:
        frame: the DataFrame.
        element: makes an element of a row.

    Attributes:
        spark: the session.
    """

    def __init__(self, frame: Any, element: Callable[[Any], Any]) -> None:
        self._frame = frame
        self._element = element
        self.spark = frame.sparkSession

    @functools.cached_property
    def _elements(self) -> list[Any]:
        return list(map(self._made, self._frame.collect()))

    def _made(self, row: Any) -> Any:
        try:
            return self._element(row)
        except Exception as error:
            raise ProcessError(f"element= raised {type(error).__name__} for {show(row)}: {error}") from error

    def collect(self) -> list[Any]:
        """Return the elements, in the order of the rows; the query runs once."""
        return self._elements


def as_elements(given: Any, element: Callable[[Any], Any] | None, who: str) -> RDD[Any] | ConnectElements:
    """Return the elements of a call.

    Args:
        given: an RDD or a DataFrame.
        element: for a DataFrame: makes an element of a row. None: the value of the only column, or the `Row`.
        who: name of the caller, for messages.

    Raises:
        InvalidTypeError: for anything else.
        UnpicklableError: if ``element`` cannot be sent to the workers of classic Spark.
    """
    if element is not None and not callable(element):
        raise InvalidTypeError(f"{who} element must be a function of a Row (got {show(element)}).")
    if not is_dataframe(given):
        check_rdd(given, who, "a DataFrame, or run_direct(elements, fn) without Spark")
        if element is not None:
            raise InvalidTypeError(f"{who} element= is for the rows of a DataFrame. Map an RDD yourself: rdd.map(...).")
        return given  # type: ignore[no-any-return]
    if given.isStreaming:
        raise InvalidTypeError(
            f"{who} needs a DataFrame that ends (got one with a streaming source). Use stream_sdf() over an RDD of "
            f"what is watched, or a data source of sdf (docs/dataframes.md)."
        )
    mapped = element or (itemgetter(0) if len(given.columns) == 1 else lambda row: row)
    if is_connect(given):
        return ConnectElements(given, mapped)
    serde.dumps(mapped, f"{who} element=")  # else Spark's own error says so, and that in the middle of the run
    return given.rdd.map(mapped)  # type: ignore[no-any-return]


def collected(value: Any) -> Any:
    """Return a side input: the list of what an RDD or a DataFrame holds, any other value as it is."""
    if is_dataframe(value):
        return as_elements(value, None, "a side input").collect()
    return value.collect() if isinstance(value, RDD) else value

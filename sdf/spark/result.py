"""Result: the records of one output of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark import RDD

from sdf.reporting.run_report import RunReport

__all__ = ["Result"]

T = TypeVar("T", covariant=True)


class Result(RDD[T]):
    """The records of one output of a run: an RDD like any other, with the report of the run."""

    _reported: Callable[[], RunReport]

    @property
    def report(self) -> RunReport:
        """What the run did; with `LiveRunner`, what it has done so far."""
        return self._reported()

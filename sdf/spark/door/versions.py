"""An error for what the installed Spark does not have."""

from __future__ import annotations

import re

import pyspark

from sdf.errors import MissingExtraError

__all__ = ["need_spark"]


def need_spark(least: str, what: str) -> None:
    """Raise MissingExtraError if Spark is older than a version such as "4.2"."""
    if _numbers(pyspark.__version__) < _numbers(least):
        raise MissingExtraError(
            f"{what} needs Spark {least} or later (got pyspark {pyspark.__version__}). All else of sdf works without: "
            f"run_sdf() over the DataFrame or RDD of the elements does the same work."
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))

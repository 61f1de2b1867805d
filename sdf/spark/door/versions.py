"""An error for what the installed Spark does not have."""

from __future__ import annotations

import re

import pyspark

from sdf.errors import MissingExtraError

__all__ = ["need_spark"]


def need_spark(least: str, what: str, instead: str) -> None:
    """Raise MissingExtraError if Spark is older than a version such as "4.2".

    Args:
        least: that version.
        what: what needs it, for the message.
        instead: a sentence that says what works without.
    """
    if _numbers(pyspark.__version__) < _numbers(least):
        raise MissingExtraError(f"{what} needs Spark {least} or later (got pyspark {pyspark.__version__}). {instead}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))

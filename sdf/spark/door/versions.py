"""Which version of Spark is installed, and an error for what it does not have."""

from __future__ import annotations

import re

import pyspark

from sdf.errors import MissingExtraError

__all__ = ["has_spark", "need_spark"]


def has_spark(least: str) -> bool:
    """Return whether the installed Spark is a version such as "4.2", or later."""
    return _numbers(pyspark.__version__) >= _numbers(least)


def need_spark(least: str, what: str, instead: str) -> None:
    """Raise MissingExtraError if Spark is older than a version such as "4.2".

    Args:
        least: that version.
        what: what needs it, for the message.
        instead: a sentence that says what works without.
    """
    if not has_spark(least):
        raise MissingExtraError(f"{what} needs Spark {least} or later (got pyspark {pyspark.__version__}). {instead}")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))

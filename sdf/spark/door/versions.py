"""Which version of Spark is installed, and an error for what it does not have."""

from __future__ import annotations

import re

import pyspark

from sdf.errors import RUN_DOCTOR, MissingExtraError

__all__ = ["DATA_SOURCES", "STREAM_SOURCES", "has_spark", "is_older", "need_spark"]

DATA_SOURCES, STREAM_SOURCES = "4.0", "4.2"  # the first versions with data sources in Python, and with streams of them


def has_spark(least: str) -> bool:
    """Return whether the installed Spark is a version such as "4.2", or later."""
    return not is_older(pyspark.__version__, least)


def need_spark(least: str, what: str, instead: str) -> None:
    """Raise MissingExtraError if Spark is older than a version such as "4.2".

    Args:
        least: that version.
        what: what needs it, for the message.
        instead: a sentence that says what works without.
    """
    if not has_spark(least):
        raise MissingExtraError(
            f"{what} needs Spark {least} or later (got pyspark {pyspark.__version__}). {instead} {RUN_DOCTOR}"
        )


def is_older(version: str, least: str) -> bool:
    """Tell whether a version of Spark is older than one such as "4.2"."""
    return _numbers(version) < _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version)[:2]))

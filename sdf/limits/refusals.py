"""Reads from the answer, or the error, of an HTTP client whether the server has refused the call, and for how long."""

from __future__ import annotations

import email.utils
import math
import time
from typing import Any

__all__ = ["retry_after_seconds"]

_NAMES = ("status_code", "status", "code")  # of the status
_TOO_MANY, _UNAVAILABLE = 429, 503
_DEFAULT_SECONDS = 1.0  # the server has not said how long to wait


def retry_after_seconds(answer: Any) -> float | None:
    """Return for how long the server wants no calls; None if it has not refused this one.

    It refuses by status 429, or by 503 with a Retry-After header, as in RFC 9110 and RFC 6585.

    Args:
        answer: a response, or the exception of one, of `requests`, `httpx`, `urllib` or `urllib3`.
    """
    response = getattr(answer, "response", None)  # of requests' and httpx's errors; one with an error's status is false
    answer = answer if response is None else response
    headers: Any = getattr(answer, "headers", None)
    if not hasattr(headers, "get"):
        return None
    status = next((value for value in (getattr(answer, name, None) for name in _NAMES) if type(value) is int), 0)
    if status not in (_TOO_MANY, _UNAVAILABLE):
        return None
    said = headers.get("Retry-After")
    if said is None:
        return _DEFAULT_SECONDS if status == _TOO_MANY else None
    return _seconds(str(said), headers.get("Date"))


def _seconds(text: str, sent: str | None) -> float:
    """Return the seconds of a Retry-After header: a number, or a date by the server's clock.

    Args:
        text: the header.
        sent: the server's time, from its Date header. None: the time of this host counts.
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            now = time.time() if sent is None else email.utils.parsedate_to_datetime(str(sent)).timestamp()
            seconds = email.utils.parsedate_to_datetime(text).timestamp() - now
        except ValueError:
            return _DEFAULT_SECONDS
    return max(0.0, seconds) if math.isfinite(seconds) else _DEFAULT_SECONDS

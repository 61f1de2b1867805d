"""Tells whether an error means that a source does not answer, as the clients of sources tell it.

No connection came about, or it broke, or time ran out. An answer that says no, such as one with status 404, is an
answer. A client's library need not be installed or imported, so its classes are known by name.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from sdf.errors import SourceError

__all__ = ["is_outage"]

_AWAY = (SourceError, ConnectionError, TimeoutError)
_ERRNOS = {errno.ENETDOWN, errno.ENETUNREACH, errno.EHOSTDOWN, errno.EHOSTUNREACH}  # no class of their own
_NAMES = {  # by library, with all classes below them
    "aiohttp": {"ClientConnectionError", "ClientPayloadError"},
    "asyncio": {"TimeoutError"},  # until Python 3.10 a class of its own, and so the next one
    "botocore": {"ConnectionError", "HTTPClientError", "IncompleteReadError"},
    "concurrent": {"TimeoutError"},
    "http": {"IncompleteRead"},
    "httpx": {"NetworkError", "ProxyError", "RemoteProtocolError", "TimeoutException"},
    "requests": {"ChunkedEncodingError", "ConnectionError", "Timeout"},
    "socket": {"gaierror"},
    "ssl": {"SSLError"},
    "urllib3": {"NewConnectionError", "ProtocolError", "ProxyError", "SSLError", "TimeoutError"},
}
_WITH_REASON = {"urllib": {"URLError"}, "urllib3": {"MaxRetryError"}}


def is_outage(error: BaseException) -> bool:
    """Tell whether an error, or one that it was raised ``from``, means that the source does not answer.

    What was merely being handled when it was raised (``__context__``) does not count: it may have been dealt with. Of a
    group of errors each must mean it.
    """
    return any(_is_away(each) for each in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it, the latest first."""
    seen: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        yield cause
        reason = _reason(cause)
        cause = cause.__cause__ if reason is None else reason


def _reason(error: BaseException) -> BaseException | None:
    """Return what urllib, or urllib3 after its last try, gives as the reason; None if that is text."""
    reason = getattr(error, "reason", None) if _is_named(error, _WITH_REASON) else None
    return reason if isinstance(reason, BaseException) else None


def _is_away(error: BaseException) -> bool:
    if isinstance(error, _AWAY) or _is_named(error, _NAMES):
        return True
    group = getattr(error, "exceptions", None)  # of an ExceptionGroup, or its backport
    if isinstance(group, tuple) and group:
        return all(isinstance(each, BaseException) and is_outage(each) for each in group)
    return isinstance(error, OSError) and error.errno in _ERRNOS


def _is_named(error: BaseException, names: dict[str, set[str]]) -> bool:
    """Tell whether an error is of a class, or of one below it, that is listed by its library and name."""
    return any(kind.__name__ in names.get(kind.__module__.partition(".")[0], ()) for kind in type(error).__mro__)

"""What a NameNode says, whichever client asks: its exceptions as OSErrors, and whether asking again may help.

A NameNode that restarts refuses every request for a while. So does a DataNode that is not back yet.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable
from typing import TypeVar

__all__ = ["AwayError", "error_of", "patiently"]

_KINDS = {
    "FileAlreadyExistsException": FileExistsError,
    "FileNotFoundException": FileNotFoundError,
    "ParentNotDirectoryException": NotADirectoryError,
    "AccessControlException": PermissionError,
}
_AWAY = (
    "BlockMissingException",
    "ConnectException",
    "ConnectTimeoutException",
    "EOFException",
    "NoRouteToHostException",
    "RetriableException",
    "SafeModeException",
    "SocketException",  # the connection was reset
    "SocketTimeoutException",
    "StandbyException",
)
# Of a NameNode that its DataNodes have not found again.
_NO_DATA_NODE = re.compile("could only be written to 0 of|Failed to find datanode|nodes contain this block")
_PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = (0.5, 5.0)  # doubled from the first to the second

T = TypeVar("T")


class AwayError(ConnectionError):
    """The NameNode, or its DataNodes, cannot answer now."""


def error_of(kind: str, message: str) -> OSError:
    """Return the OSError for an exception of Java's, given by the name of its class."""
    is_away = kind in _AWAY or _NO_DATA_NODE.search(message)
    return AwayError(message) if is_away else _KINDS.get(kind, OSError)(message)


def patiently(ask: Callable[[], T]) -> T:
    """Return an answer; ask again after an `AwayError`, for two minutes.

    Raises:
        OSError: as ``ask`` does.
    """
    ends = time.monotonic() + _PATIENCE_SECONDS
    pause_seconds, longest_seconds = _PAUSE_SECONDS
    while True:
        try:
            return ask()
        except AwayError:
            if time.monotonic() > ends:
                raise
        time.sleep(pause_seconds * random.uniform(0.5, 1.0))
        pause_seconds = min(2 * pause_seconds, longest_seconds)

"""Pickles values for the workers, and names the attribute of a DoFn that does not pickle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cloudpickle

from sdf.errors import SdfError, UnpicklableError, show

__all__ = ["TooLongError", "dumps", "loads"]

loads = cloudpickle.loads


class TooLongError(SdfError, ValueError):
    """A pickled value takes more bytes than a message may; nothing was sent."""


def dumps(value: Any, what: str, dump: Callable[[Any], bytes] = cloudpickle.dumps) -> bytes:
    """Return ``value`` pickled.

    Args:
        value: any value; if it does not pickle, its attributes are tried one by one.
        what: its name in the message, for example ``"CountFn"``.
        dump: the pickler.

    Raises:
        UnpicklableError: names the attribute that does not pickle, if there is one.
    """
    try:
        return dump(value)
    except SdfError:
        raise
    except Exception as error:
        culprit = _culprit(value, dump)
        raise UnpicklableError(
            f"{what} cannot be sent to the workers: {culprit}{type(error).__name__}: {error}. "
            f"Open connections, locks and clients in setup(), and keep SparkContext and RDDs out of a DoFn."
        ) from error


def _culprit(value: Any, dump: Callable[[Any], bytes]) -> str:
    for name, attribute in getattr(value, "__dict__", {}).items():
        try:
            dump(attribute)
        except Exception:  # any failure means that this attribute does not pickle
            return f"attribute {name!r} ({type(attribute).__name__}, {show(attribute, 80)}) does not pickle: "
    return ""

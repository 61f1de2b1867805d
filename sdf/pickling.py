"""Pickles what goes to the workers, and says which attribute of a DoFn does not pickle."""

from __future__ import annotations

from typing import Any

import cloudpickle

from sdf.errors import SdfError, UnpicklableError, show

__all__ = ["dumps", "loads"]

loads = cloudpickle.loads


def dumps(value: Any, what: str) -> bytes:
    """Return ``value`` pickled by cloudpickle.

    Args:
        value: anything; for an object with attributes the culprit is looked for in them.
        what: how the message calls it, for example ``"CountFn"``.

    Raises:
        UnpicklableError: naming the attribute that does not pickle, where it is one.
    """
    try:
        data: bytes = cloudpickle.dumps(value)
    except SdfError:
        raise
    except Exception as error:
        culprit = _culprit(value)
        raise UnpicklableError(
            f"{what} cannot be sent to the workers: {culprit}{type(error).__name__}: {error}. "
            f"Open connections, locks and clients in setup(), and keep SparkContext and RDDs out of a DoFn."
        ) from error
    return data


def _culprit(value: Any) -> str:
    for name, attribute in getattr(value, "__dict__", {}).items():
        try:
            cloudpickle.dumps(attribute)
        except Exception:  # any failure means: this one is it
            return f"attribute {name!r} ({type(attribute).__name__}, {show(attribute, 80)}) does not pickle: "
    return ""

"""Pickles with PySpark's own pickler whatever a run sends between driver and workers.

A class defined in ``__main__`` or in a notebook is pickled by value. Only the pickler that sent it recognises it when
it comes back, so with two of them (PySpark has a copy of cloudpickle) one class would become two, unequal ones.
"""

from __future__ import annotations

import pickle
from typing import Any

from pyspark import cloudpickle

from sdf import pickling

__all__ = ["dumps", "loads"]

loads = pickle.loads


def dumps(value: Any, what: str) -> bytes:
    """Return ``value`` pickled; raise UnpicklableError, which calls it ``what``, if that fails."""
    return pickling.dumps(value, what, cloudpickle.dumps)

"""What each of our tasks does first: two things that make the start of a Python task in Spark cheaper."""

from __future__ import annotations

from sdf.spark.acknowledge import acknowledge
from sdf.spark.garbage import freeze_once

__all__ = ["task_starts"]


def task_starts() -> None:
    """Call this in the worker as a task begins, before the task loads its DoFn."""
    acknowledge()
    freeze_once()

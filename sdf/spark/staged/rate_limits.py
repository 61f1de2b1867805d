"""Rate limits where no driver hands out start times: each task of a stage has a fixed share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark import SparkContext

from sdf.errors import InvalidValueError
from sdf.limits.rate_limit import limits_of, shared
from sdf.spark.jobs import slot_counter

__all__ = ["shared_by_tasks"]


def shared_by_tasks(
    side_inputs: Mapping[str, Any], max_tasks: int | None, sc: SparkContext, who: str, *, least: int = 1
) -> dict[str, Any]:
    """Return side inputs whose rate limits are for one of the tasks that run at once; Spark may run each task twice.

    Args:
        side_inputs: values by name.
        max_tasks: the most tasks at once; None for as many as there are slots, and at least ``least``.
        sc: where they run.
        who: what to call the caller in messages.

    Raises:
        InvalidValueError: if nothing says how many tasks there can be, or they are too many for a limit.
    """
    limits = limits_of(side_inputs)
    if not limits:
        return dict(side_inputs)
    if max_tasks is None and (sc.master or "").split("[")[0] != "local":
        raise InvalidValueError(
            f"{who} needs max_tasks for {limits[0]!r}: each task has an equal share of it, and on a cluster more "
            f"executors may come. Set max_tasks."
        )
    tasks = max_tasks or max(slot_counter(sc)(), least)
    copies = 2 if sc.getConf().get("spark.speculation", "false") == "true" else 1
    return shared(side_inputs, tasks * copies, who)

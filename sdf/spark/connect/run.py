"""A saved run of StagedRunner on Spark Connect."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, cast

import attrs
from pyspark import Broadcast

from sdf.errors import InvalidValueError
from sdf.limits.rate_limit import limits_of, shared
from sdf.reporting.run_report import RunReport
from sdf.saving.saving import Saving
from sdf.spark.call import Call
from sdf.spark.connect.jobs import ConnectJobs
from sdf.spark.connect.session import carried, interrupt
from sdf.spark.payload import Payload, pickled_payload
from sdf.spark.staged.runner import StagedRunner

__all__ = ["save_on_connect"]


def save_on_connect(runner: StagedRunner, call: Call, saving: Saving) -> RunReport:
    """Run all that is not committed yet, and write its records to the sinks; see `StagedRunner.save`."""
    spark = call.elements.spark
    for orphans in saving.history.operations:
        interrupt(spark, *orphans)
    tag = f"sdf-{uuid.uuid4().hex}"
    saving.note_operations(spark.session_id, spark.client._user_id or "", tag)
    sent = carried(spark, pickled_payload(call.fn, _shared(call.side_inputs, runner, spark)))
    payload = Payload(uuid.uuid4().hex, cast("Broadcast[bytes]", sent))
    jobs = ConnectJobs(spark, payload, call.name, saving.targets, tag, quarantine=call.quarantine)
    return runner.staged(jobs, attrs.evolve(call, elements=call.elements.collect()), saving).run_stages()


def _shared(side_inputs: Mapping[str, Any], runner: StagedRunner, spark: Any) -> dict[str, Any]:
    """Return side inputs whose rate limits are for one of the tasks that run at once; Spark may run each task twice."""
    limits = limits_of(side_inputs)
    if limits and runner.max_tasks is None:
        raise InvalidValueError(
            f"StagedRunner needs max_tasks for {limits[0]!r}: each task has an equal share of it, and Spark Connect "
            f"does not tell how many can run at once. slots= is no bound: a task may wait for a slot. Set max_tasks."
        )
    copies = 2 if limits and spark.conf.get("spark.speculation", "false") == "true" else 1
    return shared(side_inputs, (runner.max_tasks or 1) * copies, "StagedRunner")

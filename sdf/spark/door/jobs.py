"""Jobs by their tags, and the stages that wait. PySpark has job tags from 3.5."""

from __future__ import annotations

from pyspark import SparkContext

from sdf.spark.door.context import in_jvm

__all__ = ["is_waiting"]


def is_waiting(sc: SparkContext, tag: str) -> bool:
    """Return whether tasks of the running jobs with a tag wait for slots, and none of these jobs has a running task."""
    tracker = in_jvm(sc).statusTracker()
    jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForTag(tag)]
    active = set(tracker.getActiveStageIds())
    stages = [stage for job in jobs if not job.isEmpty() for stage in job.get().stageIds() if stage in active]
    found = [each.get() for each in map(tracker.getStageInfo, stages) if not each.isEmpty()]
    waits = any(each.numCompletedTasks() < each.numTasks() for each in found)
    return waits and not any(each.numActiveTasks() for each in found)

"""Executors: which ones come and go while a saved run has lanes, and which lanes should leave therefore.

Lanes leave for two reasons. Their executor is being decommissioned: Spark lets its tasks end, and the host goes away
soon. Or Spark has tried their task before on an executor that was lost: Spark counts some of these losses as failures
of the task, and a task that fails too often ends its job. When a lane leaves, its task has succeeded; another job takes
its place.

Spark does not tell Python about any of this, so its scheduler is asked.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable

from pyspark import SparkContext

from sdf.lanes.messages import Hello
from sdf.spark.door.executors import Scheduler

__all__ = ["Executors"]

_RECENT_SECONDS = 30.0  # Spark may take a while to notice a loss, and lets idle executors go after 60 s


class Executors:
    """See the module's docstring. On a local master there is nothing to see.

    Args:
        sc: where the run is.

    Attributes:
        events: what `RunFacts.executors` holds.
        changed_at: monotonic seconds when one came or went last; at first, now.
    """

    def __init__(self, sc: SparkContext) -> None:
        self.events: list[tuple[float, str, str]] = []
        self._scheduler = None if (sc.master or "").split("[")[0] == "local" else Scheduler(sc)
        self._began = self.changed_at = time.monotonic()
        self._known = self._scheduler.executors() if self._scheduler else set()
        self._decommissioned: set[str] = set()
        self._worked_at: dict[str, float] = {}  # when an attempt was seen on an executor last
        self._executor_of: dict[Hashable, str] = {}  # by name of the attempt
        self._ran_on: dict[tuple[int, int, int], str] = {}  # by stage, task and attempt

    def look(self, attempts: Iterable[tuple[Hashable, Hello]]) -> list[Hashable]:
        """Ask Spark for its executors.

        Args:
            attempts: the connected attempts, by name.

        Returns:
            The names of those that should leave; the same ones again as long as they are connected.
        """
        if self._scheduler is None:
            return []
        connected, now = dict(attempts), time.monotonic()
        self._place(connected, self._scheduler)
        self._worked_at.update(dict.fromkeys(self._executor_of.values(), now))
        before, self._known = self._known, self._scheduler.executors()
        for executor in sorted(self._known - before):
            self._note(executor, "joined")
        for executor in self._scheduler.decommissioned(sorted(self._known - self._decommissioned)):
            self._decommissioned.add(executor)
            self._note(executor, "decommissioned")
        for executor in sorted(before - self._known - self._decommissioned):
            worked = now - self._worked_at.get(executor, self._began) < _RECENT_SECONDS
            self._note(executor, "lost" if worked else "left")
        return [name for name, hello in connected.items() if self._should_leave(name, hello)]

    def _place(self, connected: dict[Hashable, Hello], scheduler: Scheduler) -> None:
        """Ask for the executors of the attempts that have connected since the last look."""
        self._executor_of = {name: where for name, where in self._executor_of.items() if name in connected}
        for name, hello in connected.items():
            if name not in self._executor_of:
                found = scheduler.executor_of(hello.task_id)
                if found is not None:
                    self._executor_of[name] = self._ran_on[hello.stage, hello.lane, hello.attempt] = found

    def _should_leave(self, name: Hashable, hello: Hello) -> bool:
        before = self._ran_on.get((hello.stage, hello.lane, hello.attempt - 1))
        return self._executor_of.get(name) in self._decommissioned or (before is not None and before not in self._known)

    def _note(self, executor: str, what: str) -> None:
        self.changed_at = time.monotonic()
        self.events.append((self.changed_at - self._began, executor, what))

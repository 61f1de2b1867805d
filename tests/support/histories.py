"""Drivers of a saved run without Spark: what they do to the ledger goes into a log in memory, in the words of History.

A message of a segment is the list of the parts that it holds. So the messages in a log, and the work items that it
leaves open, must together be each number of each element once.
"""

import itertools
import json
from collections import Counter

import attrs

from sdf.execution.expansion import expand
from sdf.execution.invoker import Residual
from sdf.saving.history import History
from sdf.saving.log_records import Segment, split_record
from sdf.scheduling.run_state import RunState


class MemoryLog:
    """The records of a log, as JSON text; see `sdf.saving.run_log.RunLog`."""

    root = "memory"

    def __init__(self, records=(), blobs=None):
        self.lines = list(records)
        self.blobs = {} if blobs is None else blobs

    def add(self, *records):
        self.lines += [json.dumps(record) for record in records]

    def read(self):
        return map(json.loads, self.lines)

    def put(self, data):
        self.blobs[len(self.blobs)] = data
        return {"blob": len(self.blobs) - 1}

    def get(self, reference):
        return self.blobs[reference["blob"]]

    def beginning(self, length):
        """Return what is left of the log if a crash has lost the end of it."""
        return MemoryLog(self.lines[:length], self.blobs)


@attrs.define
class Open:
    """A part that is not committed, with what a resume must know of it."""

    watermark: object = None
    due: int = 0


class Driver:
    """One driver: begins the run, or goes on from the log.

    Args:
        log: the log.
        fn: the DoFn.
        elements: the elements.
        make: makes a restriction of start and stop.
        bounds: returns start and stop of a restriction.

    Attributes:
        open: what must be left to run, by element, start and stop.
    """

    def __init__(self, log, fn, elements, make, bounds):
        self.log, self.make, self.bounds = log, make, bounds
        self.work = RunState(fn)
        self.history = History(log)
        self.now = 1000
        self.owners = itertools.count()
        self.items = {}  # the open work items, by element, start and stop
        if self.history.app is None:
            log.add(["begin", "app", {}], ["prepared"])
        else:
            log.add(["driver", "another"])
        if self.history.expanded is None:
            expanded = [expand(fn, element) for element in elements]
            log.add(*self.history.of_elements(expanded))
            todo = [(item, 0) for item in self.work.add(expanded)]
        else:
            todo = self.history.replay(self.work)
        self.open = {}
        for item, due in todo:
            self.open[self.key(item)] = Open(item.watermark, due)
            self.items[self.key(item)] = item.id
        self.work.ledger.on_split = lambda *split: log.add(split_record(*split, lambda: self.now))

    def key(self, item):
        return (item.element_id, *self.bounds(item.restriction))

    def split(self, key, at, *, owned=True, delay_seconds=0.0, watermark=None):
        """Cut an open part at a position; at its start all of it is in the residual, as after a deferral."""
        element, start, stop = key
        item_id, before = self.items.pop(key), self.open.pop(key)
        owner = next(self.owners) if owned else None
        if owned:
            self.work.ledger.assign(owner, [self.work.ledger.item(item_id)])
        primary = None if at == start else self.make(start, at)
        residual = Residual(self.make(at, stop), delay_seconds, watermark, deferred=delay_seconds > 0)
        (child,) = self.work.ledger.split(owner, item_id, primary, [residual])
        if primary is not None:
            if owned:
                self.work.ledger.release(owner, item_id)
            self.items[element, start, at], self.open[element, start, at] = item_id, before
        self.items[element, at, stop] = child.id
        due = self.now + round(delay_seconds * 1000) if delay_seconds else 0
        self.open[element, at, stop] = Open(watermark, due)

    def commit(self, *keys):
        """Commit a segment of open parts."""
        owner = next(self.owners)
        ids = [self.items.pop(key) for key in keys]
        self.work.ledger.assign(owner, [self.work.ledger.item(item_id) for item_id in ids])
        committed = self.work.ledger.commit_first(owner, len(ids), ids[-1], ("segment", owner))
        for key in keys:
            del self.open[key]
        records = sum(stop - start for _, start, stop in keys)
        self.log.add(self.history.of_segment(committed, Segment((list(keys), None), (records, 0), 0.5)))


def left_by(log, fn, bounds):
    """Return what a log leaves open, and its messages."""
    history = History(log)
    todo = history.replay(RunState(fn)) if history.expanded is not None else []
    found = {(item.element_id, *bounds(item.restriction)): Open(item.watermark, due) for item, due in todo}
    assert len(found) == len(todo)
    return found, history.messages(0)


def numbers(open_parts, messages):
    """Return how often each number of each element is in an open part or in a message."""
    parts = itertools.chain(open_parts, map(tuple, itertools.chain.from_iterable(messages)))
    return Counter((element, i) for element, start, stop in parts for i in range(start, stop))

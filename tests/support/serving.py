"""A run on a server of its own, and lanes that run it over real sockets, without Spark."""

import threading
import time
from collections import Counter
from contextlib import contextmanager

from sdf.execution.expansion import expand
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.lane import WAIT, Lane
from sdf.lanes.messages import Hello
from sdf.scheduling.factoring import deal
from sdf.scheduling.run_state import RunState
from sdf.scheduling.work_queue import WorkQueue
from sdf.spark.live.link import Link
from sdf.spark.live.server import Server

ELEMENTS = [("big", 60), ("a", 3)]


class Served:
    """A run and its server."""

    def __init__(self, run, server):
        self.address, self.coordinator, self.report = run.address, run.coordinator, run.report
        self.server = server


def open_run(server, fn, elements=ELEMENTS, lanes=2, *, alive=lambda: True, watch=None):
    """Let a server serve a run over some elements."""
    work = RunState(fn)
    backlog = WorkQueue(work.costs)
    for item in work.add([expand(fn, element) for element in elements]):
        backlog.push(item)
    shares = deal(backlog, work.costs, lanes, cut=work.cut)
    return server.open(
        lambda send: Coordinator(work, shares, send=send, min_piece_seconds=0.05, patience_seconds=5.0), alive, watch
    )


@contextmanager
def serving(fn, elements=ELEMENTS, lanes=2):
    """A run over some elements, on a server of its own."""
    server = Server("127.0.0.1", "127.0.0.1", [0])
    run = Served(open_run(server, fn, elements, lanes), server)
    try:
        yield run
    finally:
        server.close()
        assert not server._thread.is_alive()


def run_lane(address, number, fn, records):
    """Run one attempt at a lane, as a task does."""
    with Link(address, Hello(number, "test", 0.0)) as link:
        lane = Lane(fn, clock=time.monotonic, send=link.send)
        link.listen(lane)
        while True:
            with lane.changed:
                while (running := lane.advance()) is WAIT:
                    lane.changed.wait(0.1)
            if running is None:
                return
            records.extend(running.invoker.run())


def run_all(server, fn, lanes=2):
    """Run all lanes, each in a thread; return how often each record came."""
    records = [[] for _ in range(lanes)]
    threads = [
        threading.Thread(target=run_lane, args=(server.address, number, fn, records[number])) for number in range(lanes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return Counter(record for lane in records for record in lane)


def until(condition):
    """Wait until something is so that another thread does, and fail if that takes for ever."""
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it did not happen")

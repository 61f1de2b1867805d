"""WatchedSegment: a segment of a lane in a child process, which tells the parent what runs, and what has failed.

The sinks read the outputs of a segment. A block hangs only while `process` runs: the time of the sinks does not count.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from sdf.execution.measured_run import Running
from sdf.lanes.heartbeat import LOOK_SECONDS
from sdf.lanes.lane import Lane, driver_id
from sdf.quarantine.blocks import failure_of_part
from sdf.spark.child import Child

__all__ = ["WatchedSegment", "watched"]


class WatchedSegment:
    """See the module's docstring.

    Args:
        child: tells the parent.
        lane: the lane.
    """

    def __init__(self, child: Child, lane: Lane) -> None:
        self._child = child
        self._lane = lane
        self._in_process = False
        self._item_id: int | None = None
        self._claimed: Any = None
        self._raised = False
        self.ended = threading.Event()

    @contextmanager
    def runs(self, running: Running) -> Iterator[None]:
        """Tell which work item runs within the ``with`` block; note whether that raises."""
        self._item_id = driver_id(running.item)
        self._child.started(self._item_id)
        try:
            yield
        except GeneratorExit:  # the sink reads no more
            raise
        except BaseException:  # of any kind, such as the panic of a library in Rust
            self._raised, self._claimed = True, running.invoker.last_claimed
            raise

    def read(self, outputs: Iterable[Any]) -> Iterator[Any]:
        """Yield the outputs, and note whether `process` or their reader works."""
        iterator = iter(outputs)
        while True:
            self._in_process = True
            try:
                output = next(iterator)
            except StopIteration:
                return
            finally:
                self._in_process = False
            yield output

    def failed(self, error: BaseException) -> None:
        """Tell the parent if an error convicts a block."""
        failure = failure_of_part(self._item_id, self._claimed, error, raised=self._raised)
        if failure is not None:
            self._child.failed(failure)

    def look(self) -> None:
        """Tell the parent that the segment gets on, if it does."""
        progress = self._lane.progress() if self._in_process else None
        self._child.beat(time.monotonic() if progress is None else progress)


@contextmanager
def watched(child: Child, lane: Lane) -> Iterator[WatchedSegment]:
    """Watch a segment from a thread within the ``with`` block."""
    segment = WatchedSegment(child, lane)

    def look() -> None:
        while not segment.ended.wait(LOOK_SECONDS):
            segment.look()

    thread = threading.Thread(target=look, name="sdf-segment", daemon=True)
    thread.start()
    try:
        yield segment
    except KeyboardInterrupt:  # the user ends the run
        raise
    except BaseException as error:
        segment.failed(error)
        raise
    finally:
        segment.ended.set()
        thread.join()

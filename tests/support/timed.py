"""A DoFn each of whose outputs takes a second of a test's clock."""

from sdf.model.dofn import DoFn
from sdf.model.restrictions import OffsetRange


class TimedFn(DoFn):
    """Gives (element, offset); each output takes one second."""

    def __init__(self, clock=None):
        self.clock = clock
        self.calls = []

    def get_initial_restriction(self, element):
        return OffsetRange(0, 10)

    def start_bundle(self):
        self.calls.append("start")

    def finish_bundle(self):
        self.calls.append("finish")

    def process(self, element, tracker):
        for position in range(*tracker.current_restriction()):
            if not tracker.try_claim(position):
                return
            if self.clock is not None:
                self.clock.now += 1
            yield element, position

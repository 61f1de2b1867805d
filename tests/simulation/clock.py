"""One clock and one queue of events: time jumps from each event to the next."""

import heapq
import itertools
import math


class Clock:
    """Stands in for the module `time`, too.

    Args:
        most_events: with more it hangs.

    Attributes:
        now: the simulated seconds so far.
        events: how many events have happened.
    """

    def __init__(self, most_events=10**9):
        self._most_events = most_events
        self.now = 0.0
        self.events = 0
        self._events = []
        self._numbers = itertools.count()

    def monotonic(self):
        return self.now

    def time(self):
        return 1e9 + self.now

    def at(self, seconds, action, *args):
        """Call ``action`` in so many seconds; events of the same time come in the order of these calls."""
        heapq.heappush(self._events, (self.now + seconds, next(self._numbers), action, args))

    def run(self, ended, until=math.inf):
        """Let events happen until ``ended`` returns True, or until a time."""
        events = self._events
        while not ended():
            if not events or events[0][0] > until:
                assert until < math.inf, "it hangs: nothing will happen any more"
                self.now = max(self.now, until)
                return
            self.now, _, action, args = heapq.heappop(events)
            self.events += 1
            assert self.events < self._most_events, "it hangs"
            action(*args)

    def clear(self):
        """Forget all events."""
        self._events.clear()

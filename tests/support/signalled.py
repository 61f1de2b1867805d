"""A DoFn that sends signals, and notes what it claims, for runs whose processes are told to end."""

import json
import os
import threading
from collections import Counter

from sdf import DoFn, OffsetRange


class SignalledFn(DoFn):
    """Element: its name and a count. Sends a signal at some blocks, once each; notes what it claims.

    Args:
        path: where it notes that.
        to: returns the process to send the signal to.
        number: of the signal.
        at: the blocks.
    """

    def __init__(self, path, to, number, at):
        self.path, self.to, self.number, self.at = str(path), to, number, at

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def process(self, element, tracker):
        name, _ = element
        for i in range(*tracker.current_restriction()):
            if not tracker.try_claim(i):
                return
            with open(f"{self.path}/{os.getpid()}", "a") as file:  # a line at once, though the process may be killed
                file.write(json.dumps([name, i]) + "\n")
            if i in self.at and not os.path.exists(f"{self.path}/{name}-{i}.signalled"):
                open(f"{self.path}/{name}-{i}.signalled", "x").close()
                os.kill(self.to(), self.number)
            threading.Event().wait(0.005)
            yield name, i


def claims_noted(path):
    """Return how often each block was claimed."""
    notes = [note for note in path.iterdir() if not note.suffix]
    return Counter(tuple(json.loads(line)) for note in notes for line in note.read_text().splitlines())

"""DoFns that fail once, on purpose, in a process that may not survive that."""

import os
import signal

from support.fns import SlowCountFn
from support.killing import kill_jvm


def once(marker):
    """Return whether this is the first call with that marker, over all processes."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


class FailsAt(SlowCountFn):
    """Does something once, when it comes to a record of the big element."""

    def __init__(self, marker, at, what):
        super().__init__()
        self.marker, self.at, self.what = str(marker), at, what

    def process(self, element, tracker):
        for name, i in super().process(element, tracker):
            if name == "big" and i == self.at and once(self.marker):
                self.what()
            yield name, i


def kill_worker():
    os.kill(os.getpid(), signal.SIGKILL)


def kill_executor():
    """As if its machine were gone: a worker that outlives its executor may still end its lane, or commit."""
    kill_jvm()
    kill_worker()

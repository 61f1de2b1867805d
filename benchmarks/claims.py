"""What does a claim cost as process() makes it, and what does the invoker add per record? Beam beside it, if installed.

python benchmarks/claims.py
"""

import platform
import timeit

from sdf import DoFn, OffsetRange, OffsetRangeTracker
from sdf.invoker import Invoker

COUNT = 1_000_000
ROUNDS = 5


class CountFn(DoFn):
    def __init__(self, claim):
        self.claim = claim

    def get_initial_restriction(self, element):
        return OffsetRange(0, element)

    def process(self, element, tracker):
        if not self.claim:
            tracker.try_claim(element - 1)
        for i in range(*tracker.current_restriction()):
            if self.claim and not tracker.try_claim(i):
                return
            yield i


def through_view():
    """Claim through what process() gets."""

    class Claims(CountFn):
        def process(self, element, tracker):
            try_claim = tracker.try_claim
            for i in range(COUNT):
                try_claim(i)
            return ()

    for _ in Invoker(Claims(True), COUNT, OffsetRange(0, COUNT)).run():
        pass


def alone():
    try_claim = OffsetRangeTracker((0, COUNT)).try_claim
    for i in range(COUNT):
        try_claim(i)


def beam():
    from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
    from apache_beam.runners.sdf_utils import RestrictionTrackerView, ThreadsafeRestrictionTracker

    tracker = OffsetRestrictionTracker(OffsetRange(0, COUNT))
    try_claim = RestrictionTrackerView(ThreadsafeRestrictionTracker(tracker)).try_claim
    for i in range(COUNT):
        try_claim(i)


def loop():
    for _ in range(COUNT):
        pass


def invoked():
    for _ in Invoker(CountFn(False), COUNT, OffsetRange(0, COUNT)).run():
        pass


class Granted:
    """Stands in for a tracker, for the bare generator."""

    def try_claim(self, position):
        return True

    def current_restriction(self):
        return 0, COUNT


def bare():
    for _ in CountFn(False).process(COUNT, Granted()):
        pass


def main():
    measured = {"loop": loop, "alone": alone, "through the view": through_view, "bare": bare, "invoked": invoked}
    try:
        import apache_beam

        measured["Beam"] = beam
    except ImportError:
        apache_beam = None
    seconds = {name: [] for name in measured}
    for _ in range(ROUNDS):
        for name, run in measured.items():
            seconds[name].append(timeit.timeit(run, number=1))
    best = {name: min(taken) / COUNT * 1e9 for name, taken in seconds.items()}
    print(f"{platform.machine()}, Python {platform.python_version()}, best of {ROUNDS} in turn, nanoseconds")
    print(f"claim, tracker alone        {best['alone'] - best['loop']:6.0f}")
    print(f"claim, as process() calls   {best['through the view'] - best['loop']:6.0f}")
    if apache_beam is None:
        print("claim, Beam                 not installed: pip install apache-beam")
    else:
        print(f"claim, Beam {apache_beam.__version__:16}{best['Beam'] - best['loop']:6.0f}")
        ratio = (best["through the view"] - best["loop"]) / (best["Beam"] - best["loop"])
        print(f"ours over Beam's            {ratio:6.2f}")
    print(f"record, bare generator      {best['bare']:6.0f}")
    print(f"record, through the invoker {best['invoked']:6.0f}")


if __name__ == "__main__":
    main()

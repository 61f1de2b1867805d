"""A record that belongs to no claimed block raises on both runners, where it used to come twice without an error."""

import re
import time

import pytest
from support.fns import CountFn, UnplannedFn

from sdf import LiveRunner, StagedRunner, run_sdf

pytestmark = pytest.mark.spark

RUNNERS = pytest.mark.parametrize("runner", [StagedRunner(), LiveRunner()], ids=["staged", "live"])


class YieldsFirst(CountFn):
    """Yields a number, works, and claims it then."""

    def process(self, element, tracker):
        for i in range(*tracker.current_restriction()):
            yield element[0], i
            time.sleep(0.01)
            if not tracker.try_claim(i):
                return


class Buffers(UnplannedFn):
    """Collects ten numbers before it claims them, and yields what it holds after a refused claim too."""

    def process(self, element, tracker):
        start, stop = tracker.current_restriction()
        held = []
        for i in range(start, stop):
            held.append((element[0], i))
            time.sleep(self.seconds)
            if not tracker.try_claim(i):
                yield from held
                return
            if len(held) == 10:
                yield from held
                held = []
        yield from held


@RUNNERS
@pytest.mark.parametrize(
    ("fn", "message"),
    [
        (YieldsFirst(), "it gave 1 output before its first claim; claim a block first"),
        (Buffers(), r"it gave \d+ outputs? after a refused claim, of "),
    ],
    ids=lambda fn: type(fn).__name__ if isinstance(fn, CountFn) else "",
)
def test_a_record_outside_claims_raises(sc, runner, fn, message):
    """The error is an OutputError that names the DoFn, the restriction and the element."""
    where = rf"OutputError: {type(fn).__name__}\.process\(\) on OffsetRange\(start=\d+, stop=\d+\) of element "
    with pytest.raises(Exception, match=r"after a refused claim|before its first claim") as caught:
        run_sdf(sc.parallelize([("a", 200)]), fn, runner=runner).count()
    text = f"{type(caught.value).__name__}: {caught.value}"
    assert re.search(where, text), text
    assert re.search(message, text), text

"""How much of a server's rate limit does a run use, and how often is it refused?

The server allows 100 calls in any second. Calls take up to 10 ms, which differ, to reach it, and an answer takes 50 ms.
One of the elements has most of the work, so that it is split while it runs.
"""

import http.client

from harness import Bench
from limited_server import LimitedServer

from sdf import DoFn, LiveRunner, OffsetRange, RateLimit, StagedRunner, run_sdf

SLOTS = 8
PER_SECOND = 100
JITTER_SECONDS = 0.01
ANSWER_SECONDS = 0.05
GIANT = 0.8  # of all calls


class Answer:
    def __init__(self, status, headers):
        self.status, self.headers = status, headers


class CallFn(DoFn):
    """Element: port and number of calls."""

    def setup(self):
        self.connections = {}  # by port

    def get_initial_restriction(self, element):
        return OffsetRange(0, element[1])

    def get(self, port):
        connection = self.connections.setdefault(port, http.client.HTTPConnection("127.0.0.1", port))
        connection.request("GET", "/")
        response = connection.getresponse()
        response.read()
        return Answer(response.status, response.headers)

    def process(self, element, tracker, api):
        for number in tracker.claims():
            assert api.call(self.get, element[0]).status == 200
            yield number


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--calls", 3000, quick=200)
    given = bench.begin()
    sc = bench.spark(SLOTS)
    small = int(given.calls * (1 - GIANT)) // 40
    table = bench.table(
        f"{given.calls:,} calls, {GIANT:.0%} of them of one element, {SLOTS} slots, {PER_SECOND} a second allowed",
        {
            "way": "{}",
            "s": "{:.2f}",
            "calls a second": "{:.2f}",
            "of the limit": "{:.3f}",
            "refused": "{:.4f}",
            "splits": "{}",
        },
    )
    right, much = RateLimit("api", per_second=PER_SECOND), RateLimit("api", per_second=1.5 * PER_SECOND)
    ways = {
        "LiveRunner": (LiveRunner(), right),
        "StagedRunner(max_tasks=8)": (StagedRunner(max_tasks=SLOTS), right),
        "LiveRunner, told that 150 are allowed": (LiveRunner(), much),
    }
    used, refused = {}, {}
    with LimitedServer(PER_SECOND, JITTER_SECONDS, ANSWER_SECONDS) as server:
        elements = sc.parallelize([(server.port, given.calls - 40 * small), *[(server.port, small)] * 40])
        run_sdf(sc.parallelize([(server.port, 8)] * 8), CallFn(), side_inputs={"api": right}, progress=False).count()
        for _ in range(given.rounds):
            for name, (runner, limit) in ways.items():
                server.facts()
                result = run_sdf(elements, CallFn(), runner=runner, side_inputs={"api": limit}, progress=False)
                assert result.count() == given.calls
                facts = server.facts()
                seconds = facts["ended"] - facts["began"]
                rate = (facts["served"] - 1) / seconds
                used[name], refused[name] = rate / PER_SECOND, facts["refused"] / given.calls
                table.row(name, seconds, rate, used[name], refused[name], result.report.splits)
    bench.claim("rate limit: LiveRunner uses of it", used["LiveRunner"], at_least=0.97)
    bench.claim("rate limit: LiveRunner, share of calls refused", refused["LiveRunner"], at_most=0.01)
    bench.claim("rate limit: StagedRunner, share of calls refused", refused["StagedRunner(max_tasks=8)"], at_most=0.0)
    bench.end()


if __name__ == "__main__":
    main()

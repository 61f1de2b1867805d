"""How many lanes can one coordinator serve? A load generator: real sockets, no Spark, and lanes that only talk.

Each lane runs its work items in no time, and sends a few heartbeats for each. Half of the lanes start without work and
steal from the others. Messages are counted at the coordinator, both ways, from the first Ready to the last Sealed; at
the end the ledger proves that nothing was lost.

    python benchmarks/lanes.py [--lanes 200 1000 2000] [--items 40]
"""

import multiprocessing
import random
import resource
import selectors
import socket
import time

from harness import Bench, forget_peak, peak_megabytes, resident_megabytes

from sdf import DoFn, OffsetRange
from sdf.execution.expansion import expand
from sdf.lanes.coordinator import Coordinator
from sdf.lanes.messages import Assign, Declined, Heartbeat, Hello, Ready, Returned, Sealed, StealRequest, Verdict, write
from sdf.lanes.wire import channels, lane_proof, nonce
from sdf.scheduling.run_state import RunState
from sdf.spark import serde
from sdf.spark.live.server import Server

BEATS = 5


class OneFn(DoFn):
    def get_initial_restriction(self, element):
        return OffsetRange(0, 10)

    def process(self, element, tracker):
        raise NotImplementedError("nothing runs here")


class TalkingLane:
    """A lane that says that it works."""

    def __init__(self, address, number):
        self.number = number
        self.items, self.offered = [], []
        self.done = 0
        self.sealed = False
        self.beats = 0
        self.socket = socket.create_connection((address.host, address.port), 30)
        theirs, mine = self.socket.recv(32, socket.MSG_WAITALL), nonce()
        self.socket.sendall(address.run + mine + lane_proof(address.secret, theirs, mine))
        self.socket.recv(32, socket.MSG_WAITALL)
        self.from_lane, self.to_lane = channels(address.secret, theirs, mine)
        self.say(Hello(number, "talk/1", 0.0))

    def say(self, message):
        self.socket.sendall(self.from_lane.frame(write(message)))

    def ready(self):
        self.say(Ready(self.done, self.done, 10.0 * self.done, 0.1 * self.done))

    def hear(self):
        for payload in self.to_lane.feed(self.socket.recv(1 << 16)):
            message = serde.loads(payload)
            if isinstance(message, Assign):
                self.items += message.items
            elif isinstance(message, StealRequest) and len(self.items) > 1:
                self.offered, self.items = self.items[1:], self.items[:1]
                self.say(Returned(tuple(item.id for item in self.offered)))
            elif isinstance(message, StealRequest):
                self.say(Declined("nothing ran"))
            elif isinstance(message, Verdict):
                self.items += [] if message.accepted else self.offered
                self.offered = []
            elif isinstance(message, Sealed):
                self.sealed = True

    def work(self):
        """Say one thing; return whether there is more to say."""
        if not self.items or self.offered:
            return False
        if self.beats < BEATS:
            self.beats += 1
            self.say(Heartbeat(self.items[0].id, True, 2.0 * self.beats, 0.02 * self.beats, 0.1, len(self.items) - 1))
            return True
        self.beats = 0
        self.done += 1
        del self.items[0]
        if not self.items:
            self.ready()
        return bool(self.items)


def generate(address, numbers, connected, go):
    """Be some of the lanes."""
    lanes = [TalkingLane(address, number) for number in numbers]
    connected.release()
    go.wait()
    selector = selectors.DefaultSelector()
    for lane in lanes:
        selector.register(lane.socket, selectors.EVENT_READ, lane)
        lane.ready()
    busy = set()
    left = len(lanes)
    while left:
        for key, _ in selector.select(0 if busy else 1.0):
            lane = key.data
            lane.hear()
            if lane.sealed:
                selector.unregister(lane.socket)
                lane.socket.close()
                left -= 1
                busy.discard(lane)
            else:
                busy.add(lane)
        for lane in random.sample(list(busy), min(len(busy), 64)):
            if not lane.work():
                busy.discard(lane)


class Counted(Coordinator):
    """Counts the messages, both ways."""

    def __init__(self, work, shares, *, send, **options):
        self.messages = 0
        super().__init__(work, shares, send=self._counting(send), **options)

    def _counting(self, send):
        def counting(name, message):
            self.messages += 1
            send(name, message)

        return counting

    def received(self, name, message, now):
        self.messages += 1
        return super().received(name, message, now)


def serve(lanes, items_per_lane):
    """Serve so many lanes; return what a row of the table says."""
    fn = OneFn()
    work = RunState(fn)
    expanded = expand(fn, 0)
    items = list(work.add(expanded for _ in range(lanes * items_per_lane)))
    half = lanes // 2
    shares = [[] for _ in range(half)]
    shares += [items[number :: lanes - half] for number in range(lanes - half)]
    with_work = resident_megabytes()
    forget_peak()
    opened = []

    def coordinator(send):
        opened.append(Counted(work, shares, send=send, min_piece_seconds=0.05, patience_seconds=30.0))
        return opened[0]

    server = Server("127.0.0.1", "127.0.0.1", [0])
    run = server.open(coordinator, lambda: True)
    context = multiprocessing.get_context("fork")
    connected, go = context.Semaphore(0), context.Event()
    began = time.perf_counter()
    generator = context.Process(target=generate, args=(run.address, range(lanes), connected, go))
    generator.start()
    while not connected.acquire(timeout=0.5):
        if not generator.is_alive():
            raise SystemExit("the load generator has failed")
    connecting = time.perf_counter() - began
    began, cpu = time.perf_counter(), time.process_time()
    go.set()
    generator.join()
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    report = run.report()
    server.close()
    work.ledger.prove()
    assert len(report.tasks) == lanes
    assert report.records == len(items)
    messages = opened[0].messages
    return lanes, len(items), connecting, messages, seconds, messages / seconds, messages / cpu, with_work


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--lanes", [200, 1000, 2000], quick=[50])
    bench.option("--items", 40, quick=20, help="work items per lane")
    given = bench.begin()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 4 * max(given.lanes) > hard:
        bench.refuse(f"--lanes: this machine allows {hard:,} open files, which is enough for {hard // 4:,} lanes")
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * max(given.lanes))), hard))
    table = bench.table(
        "messages, and the memory of the coordinator's process: with the work, and at most with the lanes",
        {
            "lanes": "{:,}",
            "work items": "{:,}",
            "connecting s": "{:.2f}",
            "messages": "{:,}",
            "s": "{:.1f}",
            "a second": "{:,.0f}",
            "a CPU second": "{:,.0f}",
            "MB": "{:.0f}",
            "MB at most": "{:.0f}",
        },
    )
    for lanes in given.lanes:
        for _ in range(given.rounds):
            table.row(*serve(lanes, given.items), peak_megabytes())
    bench.note("All work items were proven to be done once.")
    bench.end()


if __name__ == "__main__":
    main()

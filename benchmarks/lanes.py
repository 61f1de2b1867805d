"""How many lanes can one coordinator serve? A load generator: real sockets, no Spark, and lanes that only talk.

Each lane runs its work items in no time: for each it says a few times how far it is; half of the lanes start with
nothing and take over from the others. Messages are counted at the coordinator, both ways, from the first Ready to the
last Sealed; at the end the ledger proves that nothing was lost.

    python benchmarks/lanes.py [--lanes 2000] [--items 100]
"""

import argparse
import multiprocessing
import os
import platform
import random
import resource
import selectors
import socket
import time

from sdf import DoFn, OffsetRange
from sdf.expansion import expand
from sdf.spark import serde
from sdf.spark.coordinator import Coordinator
from sdf.spark.messages import Ask, Assign, Back, Beat, Declined, Hello, Ready, Sealed, Verdict, write
from sdf.spark.server import Server
from sdf.spark.wire import channels, lane_proof, nonce
from sdf.work import Work

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
            elif isinstance(message, Ask) and len(self.items) > 1:
                self.offered, self.items = self.items[1:], self.items[:1]
                self.say(Back(tuple(item.id for item in self.offered)))
            elif isinstance(message, Ask):
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
            self.say(Beat(self.items[0].id, True, 2.0 * self.beats, 0.02 * self.beats, 0.1, len(self.items) - 1))
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


def memory_mib():
    """Return the resident memory of this process."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--lanes", type=int, default=2000)
    options.add_argument("--items", type=int, default=100, help="work items per lane")
    options = options.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4 * options.lanes)), hard))
    fn = OneFn()
    work = Work(fn)
    expanded = expand(fn, 0)
    items = list(work.add(expanded for _ in range(options.lanes * options.items)))
    half = options.lanes // 2
    shares = [[] for _ in range(half)]
    shares += [items[number :: options.lanes - half] for number in range(options.lanes - half)]
    counts = {"received": 0, "sent": 0}
    received = Coordinator.received

    def counted(self, name, message, now):
        counts["received"] += 1
        return received(self, name, message, now)

    Coordinator.received = counted

    def coordinator(send):
        def counted_send(name, message):
            counts["sent"] += 1
            send(name, message)

        return Coordinator(work, shares, send=counted_send, min_piece_seconds=0.05, patience_seconds=30.0)

    before = memory_mib()
    server = Server("127.0.0.1", "127.0.0.1", [0])
    run = server.open(coordinator, lambda: True)
    context = multiprocessing.get_context("fork")
    connected, go = context.Semaphore(0), context.Event()
    began = time.perf_counter()
    generator = context.Process(target=generate, args=(run.address, range(options.lanes), connected, go))
    generator.start()
    connected.acquire()
    took = time.perf_counter() - began
    with_lanes = memory_mib()
    began, cpu = time.perf_counter(), time.process_time()
    go.set()
    peak = with_lanes
    while generator.is_alive():
        generator.join(0.2)
        peak = max(peak, memory_mib())
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    report = run.report()
    server.close()
    work.ledger.prove()
    assert len(report.tasks) == options.lanes
    assert report.records == len(items)
    total = counts["received"] + counts["sent"]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    print(
        f"{options.lanes} lanes connected at once in {took:.1f} s; {len(items)} work items, all proven to be done once"
    )
    print(f"{total:,} messages in {seconds:.1f} s: {total / seconds:,.0f} a second ({total / cpu:,.0f} a CPU second)")
    print(
        f"memory of the coordinator's process: {before:.0f} MiB with the work, {with_lanes:.0f} MiB with the lanes, "
        f"{peak:.0f} MiB at most"
    )


if __name__ == "__main__":
    main()

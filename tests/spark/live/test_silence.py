"""A lane that waits gives up a driver whose host is away, not one that is busy. Real sockets, no Spark."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.serving import run_all, serving, until

from sdf import DoFn, OffsetRange
from sdf.lanes import coordinator as coordinator_module
from sdf.spark.live import silence as silence_module
from sdf.spark.live.silence import Silence, acknowledged_seconds, probe

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells when a peer acknowledged")


def listens(seconds, acknowledged, monkeypatch, *, turn=0.5, waits=True):
    """Return after how many seconds of silence a lane gives up, and the error; None if it does not."""
    monkeypatch.setattr(silence_module, "acknowledged_seconds", lambda connection: acknowledged)
    silence, now = Silence(0.0), 0.0
    while now < seconds:
        now += turn
        try:
            silence.look(None, now, waits=waits)
        except TimeoutError as error:
            return now, str(error)
    return None


@pytest.mark.parametrize(
    ("acknowledged", "waits", "turn", "given_up"),
    [
        (121.0, True, 0.5, (120.5, "neither it nor its host has answered for 120 s")),
        (None, True, 0.5, (120.5, "neither it nor its host has answered for 120 s")),
        (119.0, True, 0.5, (1200.5, "its host answers, but it has said nothing for 1200 s")),
        (121.0, False, 0.5, None),
        (0.0, False, 0.5, None),
        (121.0, True, 100.0, None),
    ],
    ids=["host away", "host unknown", "driver busy", "lane runs", "lane runs, driver busy", "lane was stopped"],
)
def test_what_a_lane_knows_decides_when_it_gives_up(acknowledged, waits, turn, given_up, monkeypatch):
    """The host's answers, whether the lane waits, and whether it could have heard anything."""
    assert listens(2000.0, acknowledged, monkeypatch, turn=turn, waits=waits) == given_up


def test_a_word_of_the_driver_begins_the_count_anew(monkeypatch):
    """However little it says."""
    monkeypatch.setattr(silence_module, "acknowledged_seconds", lambda connection: 1e9)
    silence = Silence(0.0)
    for second in range(1, 1000):
        silence.look(None, float(second), waits=True)
        if second % 100 == 0:
            silence.heard()


PEER = """
import socket, sys, time
connection = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
while connection.recv(100):
    pass
"""


@pytest.fixture
def quick_probes(monkeypatch):
    """One a second, the shortest that the kernel knows."""
    monkeypatch.setattr(silence_module, "_PROBE_SECONDS", 1)


def test_the_kernel_of_a_stopped_process_answers(quick_probes):
    """It is alive: SIGSTOP is the busiest that a machine can be."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        peer = subprocess.Popen([sys.executable, "-c", PEER, str(listener.getsockname()[1])])
        connection, _ = listener.accept()
        with connection:
            probe(connection)
            os.kill(peer.pid, signal.SIGSTOP)
            stopped = time.monotonic()
            until(lambda: time.monotonic() > stopped + 3 and acknowledged_seconds(connection) < 2)
            peer.kill()
            peer.wait()


AWAY = """
import socket, subprocess, sys, time
from sdf.spark.live import silence
silence._PROBE_SECONDS = 1
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
with socket.create_server(("127.0.0.1", 0)) as listener:
    peer = socket.create_connection(listener.getsockname())
    connection, _ = listener.accept()
    silence.probe(connection)
    time.sleep(1.5)
    before = silence.acknowledged_seconds(connection)
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    began = time.monotonic()
    while silence.acknowledged_seconds(connection) < 4 and time.monotonic() < began + 60:
        time.sleep(0.1)
    print(before < 1.5, silence.acknowledged_seconds(connection) >= 4)
"""


def alone(program):
    """Run a program in a network of its own, and return the words that it prints."""
    root = Path(__file__).parents[3]
    network = ["unshare", "--net", *([] if os.getuid() == 0 else ["--map-root-user"])]
    try:
        subprocess.run([*network, "ip", "link"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no network can be made here")
    command = [*network, sys.executable, "-c", program]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.split()


def test_the_kernel_of_a_host_that_is_away_does_not_answer():
    """The same connection, in a network of its own that is switched off."""
    assert alone(AWAY) == ["True", "True"]


LANE_AWAY = """
import subprocess, sys, time
sys.path.append("tests")
from sdf.spark.live import silence
silence._PROBE_SECONDS, silence.SILENCE_SECONDS = 1, 3
from sdf.lanes.messages import Hello
from sdf.spark.live.link import Link
from support.fns import CountFn
from support.serving import serving
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
with serving(CountFn()) as run:
    link = Link(run.address, Hello(0, "away", 0.0))
    while not run.coordinator.attempts():
        time.sleep(0.01)
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    began = time.monotonic()
    while run.coordinator.attempts() and time.monotonic() < began + 60:
        time.sleep(0.1)
    print(len(run.coordinator.attempts()))
"""


def test_a_lane_whose_host_is_away_is_lost():
    """Its host closes no connection; the coordinator need not wait for hours."""
    assert alone(LANE_AWAY) == ["0"]


class OneBlockFn(DoFn):
    """Element: how many seconds its only block takes."""

    def get_initial_restriction(self, element):
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for _ in tracker.claims():
            time.sleep(element)
            yield element


# Waits: the kernel probes once a second at most.
def test_a_lane_waits_for_a_driver_that_says_nothing_while_its_host_answers(quick_probes, monkeypatch):
    """As one that is busy; the lane has nothing to run as long as the other lane's block takes."""
    monkeypatch.setattr(silence_module, "SILENCE_SECONDS", 2.5)
    monkeypatch.setattr(coordinator_module, "WAIT_EVERY_SECONDS", 1e9)
    with serving(OneBlockFn(), [4.0]) as server:
        assert run_all(server, OneBlockFn()) == {4.0: 1}

"""A directory is watched and its files are followed while they grow and are rotated, by a program that is killed."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support import watching
from support.chains import watermarks_only

from sdf.journal.chain import verify
from sdf.storage.disk import Disk


class Writer(threading.Thread):
    """Writes lines to some files, each in two pieces, makes new files, and rotates them, until it is told to stop.

    Attributes:
        quiet: while it is set, nothing is written.
    """

    def __init__(self, folder, seed):
        super().__init__(daemon=True)
        self.folder, self.chance = folder, random.Random(seed)
        self.written, self.rotated, self.enough = [], 0, threading.Event()
        self.quiet = threading.Event()

    def line(self, name):
        self.written.append(f"{name} line {len(self.written)} {'x' * self.chance.randrange(60)}")
        return f"{self.written[-1]}\n".encode()

    def run(self):
        while not self.enough.is_set():
            name = f"{self.chance.randrange(2 + len(self.written) // 500)}.log"
            path = self.folder / name
            if path.exists() and self.chance.random() < 0.01:
                self.rotated += 1
                os.rename(path, self.folder / f"{name}.{self.rotated}")
            if not path.exists():  # what is renamed while it has only been seen empty would be given twice
                hidden = self.folder / f".{name}"
                hidden.write_bytes(self.line(name))
                os.rename(hidden, path)
            with open(path, "ab", buffering=0) as file:
                for _ in range(self.chance.randrange(1, 30)):
                    data = self.line(name)
                    cut = self.chance.randrange(len(data))
                    file.write(data[:cut])
                    file.write(data[cut:])
            self.enough.wait(self.chance.random() * 0.02)
            while self.quiet.is_set() and not self.enough.wait(0.02):
                pass


def start(logs, state):
    program = [sys.executable, watching.__file__, str(logs), str(state)]
    return subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def committed(state):
    """Return the blocks of the journal."""
    return [json.loads(path.read_text()) for path in sorted((state / "journal" / "blocks").glob("*.json"))]


def wait_until(there):
    deadline = time.monotonic() + 900
    while not there() and time.monotonic() < deadline:
        time.sleep(0.05)


def run_and_kill(writer, state, seconds, *, quiet):
    """Run the program, and kill it some seconds after a commit; if it is quiet, after one of the watermark alone.

    Returns:
        Whether it ran until then.
    """
    before = len(committed(state))
    program = start(writer.folder, state)
    wait_until(lambda: len(committed(state)) > before)
    if quiet:
        writer.quiet.set()
        moved = len(watermarks_only(committed(state)))
        wait_until(lambda: len(watermarks_only(committed(state))) > moved)
    time.sleep(seconds)
    ran = program.poll() is None
    os.killpg(program.pid, signal.SIGKILL)
    program.wait()
    writer.quiet.clear()
    return ran


def live_and_die(sc, folder, seed, kills):
    """Run the program and kill it so many times, then to its end. At every second kill only the watermark moves.

    Returns:
        How many kills hit it while it ran, how many files were rotated, how many lines and blocks there are, and in how
        many of the blocks only the watermark has moved.
    """
    logs, state = folder / "logs", folder / "state"
    logs.mkdir(parents=True)
    writer = Writer(logs, seed)
    writer.start()
    chance, hits = random.Random(f"kill {seed}"), 0
    for number in range(kills):
        hits += run_and_kill(writer, state, chance.random() * 1.5, quiet=bool((seed + number) % 2))
    writer.enough.set()
    writer.join()
    watching.watch(sc, logs, state, idle=True)
    assert sorted(watching.lines(state / "out")) == sorted(writer.written)
    assert sorted(watching.lines(state / "marked")) == sorted(f"{line}!" for line in writer.written)
    blocks = [block.data for block in verify(Disk(state / "journal"))]
    assert blocks[-1]["output"]["stop"] == len(writer.written)
    return hits, writer.rotated, len(writer.written), len(blocks), len(watermarks_only(blocks))


@pytest.mark.soak
def test_no_line_is_lost_or_doubled_whenever_it_is_killed(sc, tmp_path):
    """Seeded, at moments of any kind; every fifth run is killed twice."""
    runs = 50
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda seed: live_and_die(sc, tmp_path / str(seed), seed, 1 + seed % 5 // 4), range(runs)))
    hits, rotated, lines, blocks, moves = (sum(column) for column in zip(*done, strict=True))
    print(f"\n{runs} runs, {hits} kills, {rotated} rotated files, {lines} lines, {blocks} blocks")
    print(f"in {moves} of the blocks only the watermark has moved")
    assert min(hits, rotated, moves) >= runs


@pytest.mark.slow("test_stream_crashes.py::test_a_stream_survives_deaths_one_after_the_other")
def test_a_run_that_is_killed_once(sc, tmp_path):
    """The short form of it."""
    hits, _, lines, _, moves = live_and_die(sc, tmp_path, 1, 1)
    assert (hits, Path(tmp_path, "state").is_dir()) == (1, True)
    assert moves > 0
    assert lines > 100

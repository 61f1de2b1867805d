"""A directory is watched and its files are followed while they grow and are rotated, by a program that is killed."""

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

from sdf.journal.chain import verify
from sdf.storage.disk import Disk


class Writer(threading.Thread):
    """Writes lines to some files, each in two pieces, makes new files, and rotates them, until it is told to stop."""

    def __init__(self, folder, seed):
        super().__init__(daemon=True)
        self.folder, self.chance = folder, random.Random(seed)
        self.written, self.rotated, self.enough = [], 0, threading.Event()

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


def start(logs, state):
    program = [sys.executable, watching.__file__, str(logs), str(state)]
    return subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)


def live_and_die(sc, folder, seed, kills):
    """Run the program and kill it so many times, then to its end.

    Returns:
        How many kills hit it while it ran, how many files were rotated, and how many lines and blocks there are.
    """
    logs, state = folder / "logs", folder / "state"
    logs.mkdir(parents=True)
    writer = Writer(logs, seed)
    writer.start()
    chance, hits = random.Random(f"kill {seed}"), 0
    for _ in range(kills):
        program = start(logs, state)
        committed = len(list((state / "journal" / "blocks").glob("*.json")))
        deadline = time.monotonic() + 900
        while len(list((state / "journal" / "blocks").glob("*.json"))) <= committed and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(chance.random() * 1.5)
        hits += program.poll() is None
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
    writer.enough.set()
    writer.join()
    watching.watch(sc, logs, state, stop_when_idle=True)
    assert sorted(watching.lines(state / "out")) == sorted(writer.written)
    blocks = list(verify(Disk(state / "journal")))
    assert blocks[-1].data["output"]["stop"] == len(writer.written)
    return hits, writer.rotated, len(writer.written), len(blocks)


@pytest.mark.soak
def test_no_line_is_lost_or_doubled_whenever_it_is_killed(sc, tmp_path):
    """Seeded, at moments of any kind; every fifth run is killed twice."""
    runs = 50
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda seed: live_and_die(sc, tmp_path / str(seed), seed, 1 + seed % 5 // 4), range(runs)))
    hits, rotated, lines, blocks = (sum(column) for column in zip(*done, strict=True))
    print(f"\n{runs} runs, {hits} kills, {rotated} rotated files, {lines} lines, {blocks} blocks")
    assert min(hits, rotated) >= runs


def test_a_run_that_is_killed_once(sc, tmp_path):
    """The short form of it."""
    hits, _, lines, _ = live_and_die(sc, tmp_path, 1, 1)
    assert (hits, Path(tmp_path, "state").is_dir()) == (1, True)
    assert lines > 100

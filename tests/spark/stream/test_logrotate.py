"""Logs that the real logrotate rotates, in each of its modes, are followed by a stream that is killed."""

import gzip
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from itertools import chain

import pytest
from support import watching

MODES = {  # what logrotate is told, and which names are watched: copies are left out
    "create": ("create", None),
    "compress": ("create\n compress", None),
    "delaycompress": ("create\n compress\n delaycompress", None),
    "copytruncate": ("copytruncate", r"app\.log"),
    "copytruncate compress": ("copytruncate\n compress", r"app\.log"),
}
ROTATIONS = 5
CONFIG = """{log} {{
 rotate 1000
 {mode}
 sharedscripts
 postrotate
  touch {asked}; while [ -e {asked} ]; do sleep 0.01; done
 endscript
}}
"""

pytestmark = pytest.mark.skipif(not shutil.which("logrotate"), reason="logrotate is not installed")


class Writer(threading.Thread):
    """Writes whole lines to a log that it keeps open; it opens it again when it is asked to, as after a signal."""

    def __init__(self, log, asked, seed):
        super().__init__(daemon=True)
        self.log, self.asked, self.chance = log, asked, random.Random(seed)
        self.written, self.enough = [], threading.Event()

    def run(self):
        while not self.enough.is_set():
            with open(self.log, "ab", buffering=0) as file:
                self._write(file)

    def _write(self, file):
        while not self.enough.is_set():
            if os.path.exists(self.asked):
                file.close()
                os.remove(self.asked)  # logrotate goes on
                return
            for _ in range(self.chance.randrange(1, 20)):
                self.written.append(f"{len(self.written):06d} {'x' * self.chance.randrange(60)}")
                file.write(f"{self.written[-1]}\n".encode())
            self.enough.wait(self.chance.random() * 0.02)


class Life:
    """A directory in which a log is written, rotated, and followed.

    Attributes:
        hits: how many kills hit the stream while it ran.
        rotated: for each rotation, the numbers of the lines that were written while it ran.
    """

    def __init__(self, sc, folder, mode, seed):
        self.sc, self.state, self.logs = sc, folder / "state", folder / "logs"
        self.logs.mkdir(parents=True)
        self.chance, self.hits, self.rotated = random.Random(f"{mode} {seed}"), 0, []
        told, self.regex = MODES[mode]
        self.copies = "copytruncate" in mode
        log, asked, self.config = self.logs / "app.log", folder / "asked", folder / "logrotate.conf"
        self.config.write_text(CONFIG.format(log=log, mode=told, asked=asked))
        self.writer = Writer(log, asked, seed)
        self.writer.start()

    def rotate(self):
        first = max(0, len(self.writer.written) - 1)  # the last one may be on its way into the file
        command = ["logrotate", "--force", "--state", f"{self.config}.state", str(self.config)]
        subprocess.run(command, check=True, capture_output=True)
        self.rotated.append(range(first, len(self.writer.written)))

    def has_given(self, count):
        """Tell whether the stream has given a line after the first ``count`` ones."""
        out = self.state / "out"
        lines = watching.lines(out) if out.is_dir() else []
        return any(int(line.split()[0]) >= count for line in lines)

    def await_given(self, count):
        deadline = time.monotonic() + 900
        while not self.has_given(count):
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def rotations(self, count):
        """Rotate, but no file twice between two looks if it is copied: then the second copy is of another content."""
        for _ in range(count):
            written = len(self.writer.written)
            self.rotate()
            if self.copies:
                self.await_given(written + 200)
            else:
                time.sleep(self.chance.random())

    def live(self):
        """Run the stream in this process, beside rotations."""
        stop = threading.Event()
        run = threading.Thread(
            target=watching.watch, args=(self.sc, self.logs, self.state, self.regex), kwargs={"stop": stop}
        )
        run.start()
        self.await_given(0)
        self.rotations(ROTATIONS)
        stop.set()
        run.join()

    def die(self):
        """Run the stream as a program, beside rotations, kill it, and go on rotating."""
        command = [sys.executable, watching.__file__, str(self.logs), str(self.state), *[self.regex][: self.copies]]
        program = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        self.await_given(0)
        self.rotations(ROTATIONS - 2)
        rotates_once = threading.Thread(target=self.rotate)  # a second copy before the next look is of another content
        kill_finds_copy = self.copies and self.chance.random() < 0.5
        if kill_finds_copy:
            rotates_once.start()
        time.sleep(self.chance.random())
        self.hits += program.poll() is None
        os.killpg(program.pid, signal.SIGKILL)
        program.wait()
        if self.copies:
            if not kill_finds_copy:
                rotates_once.start()
            rotates_once.join()
            return
        for _ in range(2):
            self.rotate()
            time.sleep(self.chance.random())

    def end(self):
        """Stop writing, run the stream to its end, and check that it gave each line once.

        A line may be missing only if copytruncate cut it off: it was written while a rotation ran, and is neither in
        the log nor in a copy. A copy may end within a line.

        Returns:
            How many lines the stream gave, and how many are missing.
        """
        self.writer.enough.set()
        self.writer.join()
        watching.watch(self.sc, self.logs, self.state, self.regex, idle=True)
        there = set()
        for path in self.logs.iterdir():
            data = path.read_bytes()
            there |= set((gzip.decompress(data) if path.suffix == ".gz" else data).decode().splitlines())
        lines, written = watching.lines(self.state / "out"), set(self.writer.written)
        given = set(lines)
        assert len(lines) == len(given), "lines are doubled"
        assert not given - written - there, "lines were never written"
        missing = written - given
        assert not missing & there, "lines are missing that are there"
        cut_off = {f"{number:06d}" for number in chain.from_iterable(self.rotated)} if self.copies else set()
        assert {line.split()[0] for line in missing} <= cut_off, "lines are missing that were not cut off"
        return len(given), len(missing)


@pytest.mark.parametrize("mode", ["compress", "copytruncate"])
def test_rotation_loses_no_line(sc, tmp_path, mode):
    """The short form of it."""
    life = Life(sc, tmp_path, mode, 0)
    life.live()
    life.end()


@pytest.mark.soak
@pytest.mark.parametrize("mode", MODES)
def test_rotation_loses_no_line_whenever_it_is_killed(sc, tmp_path, mode):
    """Twelve runs of each mode, half of them killed: no line is lost or doubled but those that copytruncate loses."""
    runs, hits, given, lost = 12, 0, 0, 0
    for seed in range(runs):
        life = Life(sc, tmp_path / str(seed), mode, seed)
        (life.die if seed % 2 else life.live)()
        lines, missing = life.end()
        hits, given, lost = hits + life.hits, given + lines, lost + missing
    print(f"\n{mode}: {runs} runs, {hits} kills, {given} lines; copytruncate has lost {lost}")
    assert hits == runs // 2

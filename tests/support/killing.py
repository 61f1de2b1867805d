"""Kills programs, JVMs or both, Python workers and executors; loses stored blocks."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

_MOST_LIVES = 12


def kill_my_executor(marker):
    """Kill the JVM that this Python worker belongs to, unless ``marker`` says that it was done already."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    kill_jvm()


def kill_jvm(above=None):
    """Kill the JVM that this Python worker belongs to, or the worker ``above`` this process."""
    os.kill(my_jvm(above), signal.SIGKILL)


def my_jvm(above=None):
    """Return the process id of the JVM that this Python worker belongs to, or the worker ``above`` this process."""
    return parent_of(os.getppid() if above is None else parent_of(above))


def parent_of(pid):
    """Return the process id of a parent."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(next(line.split()[1] for line in status.splitlines() if line.startswith("PPid:")))


def java_of(pid):
    """Return the process ids of the JVMs below a process."""
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False).stdout.split()
    return [int(child) for child in found if "java" in Path(f"/proc/{child}/comm").read_text()]


def kill_once(arguments, log, begun, seconds, choose):
    """Run a Python program; some seconds after it has begun, kill its Python, its JVM or both.

    Returns:
        Whom that killed; None if the program ended well before.
    """
    with open(log, "ab") as file:
        child = subprocess.Popen([sys.executable, *arguments], stdout=file, stderr=file)
        started = time.monotonic()
        while child.poll() is None and not begun() and time.monotonic() - started < 60:
            time.sleep(0.01)
        try:
            child.wait(seconds)
        except subprocess.TimeoutExpired:
            victim = choose.choice(["Python", "JVM", "both"])
            victims = {"Python": [child.pid], "JVM": java_of(child.pid), "both": [*java_of(child.pid), child.pid]}
            for pid in victims[victim]:
                os.kill(pid, signal.SIGKILL)
            if child.wait(120) != 0:
                return victim  # else the program had just ended
        assert child.returncode == 0, log.read_text()[-3000:]
        return None


def run_to_the_end(home, program, arguments, choose):
    """Run a program, and kill it again and again, until it comes to its end; return whom that killed."""
    killed, log = Counter(), home / "log"
    for life in range(_MOST_LIVES):
        before = log.read_text().count("begins") if log.exists() else 0

        def begun(before=before):
            return log.read_text().count("begins") > before

        victim = kill_once([program, str(home), *arguments], log, begun, choose.uniform(1, 4 * 1.3**life), choose)
        if victim is None:
            return killed
        killed[victim] += 1
    raise AssertionError(f"not done after {_MOST_LIVES} lives: {log.read_text()[-2000:]}")


def descendants(pids):
    """Return the command line of each process below some processes, by process id; nothing else is ever killed."""
    parents, commands = {}, {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                stat = Path(entry.path, "stat").read_text()
                commands[int(entry.name)] = Path(entry.path, "cmdline").read_text()
                parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
            except OSError:
                continue  # it has ended
    below = set(pids)
    for _ in range(6):
        below |= {child for child, parent in parents.items() if parent in below}
    return {child: commands[child] for child in below - set(pids)}


def end(pids):
    """Kill processes; some may have ended."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Restarts(threading.Thread):
    """Kills a daemon again and again, and starts it a moment later, until `end`.

    Args:
        daemons: has `kill` and `start`, with the name of a daemon, and `wait`.
        seed: of what is left to chance.
        names: of the daemons, of which each time one is chosen.
        up_seconds, down_seconds: the least and the most time until it is killed again, and until it is started.
        has_begun: tells whether that which it disturbs has begun.

    Attributes:
        kills: how often it did.
    """

    def __init__(self, daemons, seed, names, *, up_seconds, down_seconds, has_begun):
        super().__init__(daemon=True)
        self._daemons, self._choose, self._names = daemons, random.Random(seed), names
        self._up, self._down, self._has_begun = up_seconds, down_seconds, has_begun
        self._ended, self.kills = threading.Event(), 0

    def run(self):
        while not self._ended.wait(0.05):
            if self._has_begun():
                name = self._choose.choice(self._names)
                self._daemons.kill(name)
                self.kills += 1
                self._ended.wait(self._choose.uniform(*self._down))
                self._daemons.start(name)
                self._daemons.wait()  # or it would never be there, on a busy machine
                self._ended.wait(self._choose.uniform(*self._up))

    def end(self):
        self._ended.set()
        self.join()


class Killer(threading.Thread):
    """Kills a Python worker or an executor below some processes now and then, until it is told to stop."""

    def __init__(self, pids, seed):
        super().__init__(daemon=True)
        self.random = random.Random(seed)
        self.pids = pids
        self.ended = threading.Event()
        self.killed = Counter()

    def run(self):
        while not self.ended.wait(self.random.uniform(0.1, 1.5)):
            kind = self.random.choices(["pyspark.daemon", "CoarseGrainedExecutorBackend"], [3, 1])[0]
            if self.killed.total() < 4 and self.killed["CoarseGrainedExecutorBackend"] < 2:
                self.kill(kind)

    def kill(self, kind):
        found = [pid for pid, command in descendants(self.pids).items() if kind in command]
        if found:
            os.kill(self.random.choice(found), signal.SIGKILL)
            self.killed[kind] += 1


def lose_blocks(sc):
    """Remove every stored block everywhere, as if the executors were gone; return how many there were.

    Spark stores a block again when something computes it.
    """
    lost = sum(info.numCachedPartitions() for info in sc._jsc.sc().getRDDStorageInfo())
    for rdd in dict(sc._jsc.getPersistentRDDs()).values():
        level = rdd.getStorageLevel()
        rdd.unpersist(True)
        rdd.persist(level)
    return lost


def is_there(pid):
    """Return whether a process runs."""
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False

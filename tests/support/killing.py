"""Kills programs, JVMs or both."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


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

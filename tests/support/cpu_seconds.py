"""`pytest --cpu-seconds 20`: print the tests that take the most CPU, with the processes that they start.

The wall time of a test says little on a busy machine. Its CPU seconds decide which tier it belongs to.
What a process has used is lost if its parent is killed, so a test that kills processes takes more than it says.
"""

import os
from collections import Counter
from pathlib import Path

import pytest

PROPERTY = "cpu seconds"
TICKS = os.sysconf("SC_CLK_TCK")


def processes():
    """Return the parent and the CPU seconds of each process, those of its ended children included."""
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        found[int(stat.parent.name)] = int(fields[1]), sum(map(int, fields[11:15])) / TICKS
    return found


def seconds_so_far():
    """Return the CPU seconds of this process and of all that descend from it."""
    found = processes()
    children = {}
    for pid, (parent, _) in found.items():
        children.setdefault(parent, []).append(pid)
    seconds, todo = 0.0, [os.getpid()]
    while todo:
        pid = todo.pop()
        seconds += found[pid][1] if pid in found else 0.0
        todo += children.get(pid, ())
    return seconds


class CpuSeconds:
    """Notes the CPU seconds of each test with its fixtures, in the workers of xdist too, and prints the dearest."""

    def __init__(self, most):
        self.most = most
        self.tests = Counter()

    def pytest_runtest_logstart(self):
        self.before = seconds_so_far()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call):
        report = yield
        if call.when == "teardown":
            report.user_properties.append((PROPERTY, seconds_so_far() - self.before))
        return report

    def pytest_runtest_logreport(self, report):
        if report.when == "teardown":
            self.tests[report.nodeid] = dict(report.user_properties)[PROPERTY]

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section(f"CPU seconds: {self.tests.total():.0f} in all, the dearest {self.most} of them")
        for name, seconds in self.tests.most_common(self.most):
            terminalreporter.write_line(f"{seconds:8.2f} {name}")

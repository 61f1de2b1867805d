"""A standalone cluster on hosts of its own: network namespaces, joined by a bridge in that of the master."""

import os
import shutil
import subprocess

import pytest
from standalone import Standalone  # of the benchmarks


def ip(*arguments):
    """Run ip, or skip the test that needs it."""
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs network namespaces; ip {' '.join(arguments)}: {done.stderr.strip()}")


class Hosts(Standalone):
    """See `Standalone`. The driver belongs on the master's host. The disk is the same on all hosts."""

    network = "10.77.0"
    settings = (*Standalone.settings, "spark.worker.timeout=20")  # seconds until it gives a silent worker up

    def __init__(self, folder, paths=()):
        if os.geteuid() or shutil.which("ip") is None:
            pytest.skip("needs root and ip, for hosts in network namespaces")
        self._made = []
        try:
            self._make(f"{self.network}.1")
            super().__init__(folder, paths)
        except BaseException:
            self._remove()
            raise

    def _make(self, host):
        name, number = self._name(host), host.rpartition(".")[2]
        ip("netns", "add", name)
        self._made.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        if len(self._made) == 1:
            ip("-n", name, "link", "add", "eth0", "type", "bridge")
        else:
            to = ["netns", self._made[0], "type", "veth", "peer", "name", "eth0", "netns", name]
            ip("link", "add", f"port{number}", *to)
            ip("-n", self._made[0], "link", "set", f"port{number}", "master", "eth0", "up")
        ip("-n", name, "addr", "add", f"{host}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")

    def _name(self, host):
        return f"sdf-{os.getpid()}-{host}"

    def _remove(self):
        for name in reversed(self._made):
            subprocess.run(["ip", "netns", "del", name], check=True)

    def on(self, host):
        return ["ip", "netns", "exec", self._name(host)]

    def _launch(self, name, host, *arguments):
        if self._name(host) not in self._made:
            self._make(host)
        return super()._launch(name, host, *arguments)

    def connect(self, host, how):
        """Pull the plug of a host ("down"), or put it in again ("up")."""
        ip("-n", self._made[0], "link", "set", f"port{host.rpartition('.')[2]}", how)

    def lose(self, host):
        """End a host as a power cut does: its peers hear nothing, not even that its connections end."""
        self.connect(host, "down")
        self.kill(host)

    def __exit__(self, kind, error, traceback):
        super().__exit__(kind, error, traceback)
        self._remove()

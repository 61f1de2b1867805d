"""Kafka brokers, librdkafka's own for tests, in a process that can be stopped for a while: python brokers.py"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path


class Brokers:
    """Brokers as long as `end` is not called.

    Attributes:
        servers: for ``bootstrap.servers``.
    """

    def __init__(self):
        self._process = subprocess.Popen([sys.executable, __file__], stdout=subprocess.PIPE, text=True)
        self.servers = self._process.stdout.readline().strip()

    def go(self):
        """Answer nothing from now on."""
        os.kill(self._process.pid, signal.SIGSTOP)
        tasks = Path(f"/proc/{self._process.pid}/task")
        while any((task / "stat").read_text().rpartition(")")[2].split()[0] != "T" for task in tasks.iterdir()):
            time.sleep(0.01)  # a busy system stops its threads one after the other

    def come(self):
        """Answer again."""
        os.kill(self._process.pid, signal.SIGCONT)

    def end(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


if __name__ == "__main__":
    import confluent_kafka

    cluster = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    print(",".join(f"{one.host}:{one.port}" for one in cluster.list_topics(timeout=30).brokers.values()), flush=True)
    while True:
        time.sleep(3600)

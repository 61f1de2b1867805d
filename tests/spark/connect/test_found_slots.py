"""How many slots a Spark Connect server has: what its settings tell, and what tasks show that ran there."""

import heapq

import pytest

from sdf.spark.connect.slots import FoundSlots, configured_slots


class Cluster:
    """Runs tasks in simulated time, first come, first served; each starts 0.3 s after it has found a slot.

    The client keeps as many tasks at it as it believes that there are slots.
    """

    def __init__(self):
        self.now = 0.0
        self.found = FoundSlots(lambda: self.now)
        self.slots = 0
        self.waiting = []  # times of submission
        self.running = []  # a heap: end, submission, seconds

    def run(self, slots, until, seconds):
        self.slots = slots
        while self.now < until:
            while len(self.waiting) + len(self.running) < self.found.count():
                self.waiting.append(self.now)
            while self.waiting and len(self.running) < self.slots:
                heapq.heappush(self.running, (self.now + 0.3 + seconds, self.waiting.pop(0), seconds))
            self.now, submitted, took = heapq.heappop(self.running)
            self.found.ended(submitted, took)
        return self.found.count()


@pytest.mark.parametrize("slots", [1, 2, 3, 4, 5, 8, 16, 100])
@pytest.mark.parametrize("seconds", [1.5, 10.0])
def test_it_is_found_within_a_few_rounds_of_tasks(slots, seconds):
    """Within a half: some tasks more than slots are kept, else nobody would notice that slots were added."""
    assert slots <= Cluster().run(slots, 15 * (seconds + 0.3), seconds) <= 1.5 * slots + 1


def test_it_follows_a_cluster_that_grows_and_shrinks():
    cluster = Cluster()
    assert 8 <= cluster.run(8, 100, 2.0) <= 13
    assert 32 <= cluster.run(32, 200, 2.0) <= 49
    assert 4 <= cluster.run(4, 400, 2.0) <= 7


class Settings:
    """A session with some settings of Spark."""

    def __init__(self, **settings):
        self.conf = self
        self.settings = {f"spark.{name.replace('_', '.')}": value for name, value in settings.items()}

    def get(self, name, default):
        return self.settings.get(name, default)


@pytest.mark.parametrize(
    ("settings", "slots"),
    [
        ({"master": "local[4]"}, 4),
        ({"master": "local"}, 1),
        ({"master": "local[4,2]"}, 4),
        ({"master": "local[4]", "task_cpus": "2"}, 2),
        ({"master": "local[*]"}, None),
        ({"master": "local-cluster[2,3,1024]"}, 6),
        ({"master": "spark://host:7077", "default_parallelism": "40"}, 40),
        ({"master": "yarn", "executor_instances": "10", "executor_cores": "4"}, 40),
        ({"master": "yarn", "executor_instances": "10", "executor_cores": "5", "task_cpus": "2"}, 20),
        ({"executor_instances": "2", "executor_cores": "4", "dynamicAllocation_enabled": "true"}, None),
        ({}, None),
    ],
)
def test_settings_that_tell(settings, slots):
    assert configured_slots(Settings(**settings)) == slots


def test_a_server_tells_its_settings(connect):
    assert configured_slots(connect) == 4

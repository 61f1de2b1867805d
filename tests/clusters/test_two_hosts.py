"""Runs on a standalone cluster whose hosts are joined by a network that is cut, and that lose one of their number.

Each row is there once, whatever happens.
"""

import time

import pytest
from support.applications import FILES, HERE, Application, spark_submit
from support.hosts import Hosts

pytestmark = pytest.mark.clusters
RUNNERS = ("StagedRunner", "LiveRunner")
COUNTS = (6000, 150, 40, 5, 5)
CUT_SECONDS = 5  # less than any timeout


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """A master without workers."""
    with Hosts(tmp_path_factory.mktemp("hosts"), [HERE]) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def application(hosts, tmp_path_factory):
    """On the master's host; it gives an executor up that says nothing for 20 s, and a lane of one."""
    settings = {
        "spark.master": hosts.master,
        "spark.driver.host": f"{hosts.network}.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.executor.heartbeatInterval": "2s",
        "spark.network.timeout": "20s",
        "spark.network.timeoutInterval": "2s",
        "spark.task.maxFailures": "8",
        "spark.submit.pyFiles": ",".join(FILES),
    }
    command = ["nice", "-n", "5", *hosts.on(f"{hosts.network}.1"), *spark_submit(**settings)]
    own = {"SPARK_LOCAL_IP": f"{hosts.network}.1", "SILENCE_SECONDS": "20"}
    with Application(tmp_path_factory.mktemp("application") / "home", command, own) as application:
        yield application


@pytest.fixture
def two(hosts, application):
    """The application, once two hosts have an executor of it each."""
    while len(hosts.present()) < 2:
        hosts.add()
    application.wait(lambda: len(application.executors()) == 2, "two executors")
    return application


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_network_is_cut_for_a_while(hosts, two, runner):
    """For some seconds, so that connections live on: that of each host once."""
    run = two.begin("collect", COUNTS, runner=runner)
    run.at_work(2)
    for host in hosts.present():
        hosts.connect(host, "down")
        time.sleep(CUT_SECONDS)
        hosts.connect(host, "up")
    run.go()
    run.check(faults=2)


@pytest.mark.parametrize("runner", RUNNERS)
def test_an_executor_that_was_given_up_comes_back(hosts, two, runner):
    """Cut off, it writes on, while the driver has its work done elsewhere; then it is there again."""
    run = two.begin("save", COUNTS, runner=runner)
    run.at_work(2)
    before, host = two.executors(), hosts.present()[0]
    hosts.connect(host, "down")
    run.wait(lambda: before - two.executors(), "an executor given up")
    hosts.connect(host, "up")
    run.wait(lambda: len(two.executors()) == 2, "another executor there")
    run.go()
    run.check(faults=1)


@pytest.mark.parametrize(("way", "runner"), [*zip(["collect"] * 2, RUNNERS, strict=True), ("save", "LiveRunner")])
def test_a_host_is_lost(hosts, two, way, runner):
    """For good; its peers hear nothing."""
    run = two.begin(way, COUNTS, runner=runner)
    run.at_work(2)
    before = two.executors()
    hosts.lose(hosts.present()[0])
    run.wait(lambda: before - two.executors(), "an executor given up")
    run.go()
    run.check(faults=1)

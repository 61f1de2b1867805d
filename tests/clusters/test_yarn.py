"""Runs on YARN, by spark-submit in both modes: executors, drivers and nodes are lost, or taken away, in the middle.

Each row is there once, whatever happens. The order of the tests leaves each application the room that it needs.
"""

import os
import signal
from pathlib import Path

import pytest
from support.applications import FILES, Application, spark_submit
from support.environments import packed
from support.killing import is_there
from support.yarn import HOSTS

pytestmark = pytest.mark.clusters
RUNNERS = ("StagedRunner", "LiveRunner")
FLAGS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # less CPU time
COUNTS = (6000, 150, 40, 5, 5)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A folder with sdf and what it needs, and an archive of it."""
    folder = tmp_path_factory.mktemp("packed") / "environment"
    return folder, packed(folder, "sdf", "attr", "attrs", "cloudpickle")


@pytest.fixture(scope="module")
def submit(yarn, environment, tmp_path_factory):
    """Return a function that submits an application."""
    jars = Path(__import__("pyspark").__file__).parent / "jars"

    def submit(mode="client", archive=environment[1], **settings):
        settings = {
            "spark.submit.deployMode": mode,
            "spark.yarn.jars": f"local:{jars}/*",
            "spark.archives": f"{archive}#environment",
            "spark.submit.pyFiles": ",".join(FILES),
            "spark.pyspark.python": "environment/bin/python",
            "spark.driver.memory": "512m",
            "spark.driver.memoryOverhead": "256m",
            "spark.yarn.am.memoryOverhead": "256m",
            "spark.executor.memory": "512m",
            "spark.executor.memoryOverhead": "640m",
            "spark.executor.instances": "2",
            "spark.executor.maxNumFailures": "100",
            "spark.yarn.submit.waitAppCompletion": "true",
            **{f"spark.{which}.extraJavaOptions": FLAGS for which in ("driver", "executor", "yarn.am")},
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        if mode == "client":
            settings["spark.pyspark.driver.python"] = f"{environment[0]}/bin/python"
        own = {"HADOOP_CONF_DIR": str(yarn.conf), "SPARK_LOCAL_IP": HOSTS[0]}
        own |= dict.fromkeys(("PYTHONPATH", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON"))  # Spark would hand them on
        command = ["nice", "-n", "5", *spark_submit(**{"spark.master": "yarn", **settings})]
        return Application(tmp_path_factory.mktemp("application") / "home", command, own)

    return submit


def test_a_second_driver_resumes_what_the_first_one_saved(submit, hadoop):
    """In cluster mode YARN makes a second attempt when the first application master is killed. The log is on HDFS."""
    with submit("cluster") as application:
        for runner in RUNNERS:
            run = application.begin("collect", COUNTS, runner=runner)
            run.go()
            run.check()
        run = application.begin("save", COUNTS, runner="LiveRunner", checkpoint=f"{hadoop.url}{application.home}")
        run.at_work(2, claims=20)
        application.kill_driver()
        application.wait(lambda: len(application.drivers()) == 2, "a second attempt")
        run.go()
        assert run.check(faults=1)["resumed"]
        assert all("/container_" in driver["sdf"] for driver in application.drivers())


def test_executors_come_and_go(submit, yarn):
    """With dynamic allocation and shuffle tracking. Two go, with stored blocks: a second action reruns these."""
    settings = {"enabled": "true", "shuffleTracking_enabled": "true", "minExecutors": "1", "maxExecutors": "3"}
    settings |= {"schedulerBacklogTimeout": "1s", "executorIdleTimeout": "3s", "cachedExecutorIdleTimeout": "3s"}
    settings = {f"spark_dynamicAllocation_{name}": value for name, value in settings.items()}
    with submit(spark_executor_instances="1", **settings) as application:
        run = application.begin("collect", COUNTS, runner="StagedRunner", again=True, tasks_per_slot=2)
        run.at_work(3)
        run.go()
        run.wait((run.folder / "once").exists, "a first result")
        run.wait(lambda: yarn.containers("default") == 2, "idle executors gone")
        before = len(run.claims())
        run.go("again")
        result = run.check(faults=2)
        assert (result["again"]["lost"], result["again"]["doubled"]) == (0, 0)
        assert len(run.claims()) > before
        run = application.begin("save", COUNTS, runner="LiveRunner")
        run.at_work(3)
        run.go()
        assert run.check(faults=2)["executors"]["joined"] >= 2


@pytest.fixture(scope="module")
def client(submit):
    """An application in client mode; its nodes may go."""
    with submit(spark_executor_instances="3", spark_decommission_enabled="true") as application:
        yield application


@pytest.fixture(scope="module")
def urgent(submit, tmp_path_factory):
    """Another one, in the queue that takes its half back. Its workers have no sdf."""
    bare = packed(tmp_path_factory.mktemp("bare") / "environment")
    with submit(archive=bare, spark_yarn_queue="urgent", spark_submit_pyFiles="") as application:
        yield application


def test_workers_have_sdf_of_the_archive(client):
    """As the driver has it of the folder, that of the archive."""
    (worker,) = client.begin("where").result()["workers"]
    assert "/container_" in worker
    assert "/environment/" in worker


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("way", ["collect", "save"])
def test_an_executor_is_killed(client, way, runner):
    run = client.begin(way, COUNTS, runner=runner)
    jvm, _ = run.at_work(2)[-1]
    os.kill(jvm, signal.SIGKILL)
    run.go()
    run.check(faults=1)


def test_a_node_is_decommissioned(client, yarn):
    """Gracefully: its lanes leave, nothing is lost, and nothing is claimed twice."""
    run = client.begin("save", COUNTS, runner="LiveRunner")
    run.at_work(3)
    yarn.decommission(HOSTS[1])
    try:
        run.wait(lambda: yarn.metric("NumDecommissioningNMs") == 1, "a node about to go")
        there = [jvm for jvm, folder in run.executors() if f"node-{HOSTS[1]}" in folder]
        run.wait(lambda: not any(map(is_there, there)), "its executors gone")
        run.go()
        result = run.check(faults=len(there))
    finally:
        yarn.decommission()
    assert result["executors"]["decommissioned"] == len(there) > 0
    assert result["retries"] == 0
    assert len(run.claims()) == sum(COUNTS)


def test_another_queue_takes_executors_back(client, yarn, request):
    """In the middle of a saved run; what they had not committed is done again."""
    before = yarn.preempted("default")
    run = client.begin("save", COUNTS, runner="LiveRunner")
    run.at_work(3)
    request.getfixturevalue("urgent")
    run.wait(lambda: yarn.preempted("default") > before, "preemption")
    run.go()
    run.check(faults=yarn.preempted("default") - before)


@pytest.mark.parametrize("runner", RUNNERS)
def test_workers_that_lack_sdf_are_sent_it(urgent, runner):
    """Their Python has no library at all. Spark's own comes with YARN's container."""
    shipped = urgent.begin("ship").result()
    assert shipped["sent"] == (["sdf", "attrs", "cloudpickle", "killing"] if runner == RUNNERS[0] else [])
    run = urgent.begin("collect", COUNTS, runner=runner)
    run.go()
    run.check()

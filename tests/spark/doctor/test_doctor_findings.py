"""The doctor's judgement: facts as they are where all is well, each misconfiguration planted in them. No Spark."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from sdf.spark.doctor.facts import Facts, Worker
from sdf.spark.doctor.findings import COSTS, NO, OK, SETTINGS, STOPS, UNKNOWN, capabilities, findings
from sdf.spark.shipping.libraries import Library

HERE = {
    name: Library(name, name, version, fingerprint, {"a.py": None}, "")
    for name, version, fingerprint in [
        ("sdf", "0.1.0", "ours"),
        ("attrs", "26.1.0", ""),
        ("cloudpickle", "3.1.3", "theirs"),
        ("pyarrow", "26.0.1", ""),
        ("fastavro", "1.13.1", ""),
        ("lmdb", "", ""),
    ]
}
FOUND = {
    name: {"origin": f"/{name}", "version": library.version, "fingerprint": library.fingerprint, "error": ""}
    for name, library in HERE.items()
    if library.version
}
WORKER = Worker(
    host="host-a",
    python="3.11.7",
    executable="/env/bin/python",
    spark="4.3.0",
    found=FOUND,
    port="",
    place="",
    arrow="",
)
GOOD = Facts(
    connect=False,
    spark="4.3.0",
    java="17.0.15",
    client="4.3.0",
    python="3.11.7",
    here=HERE,
    settings={**dict.fromkeys(SETTINGS, ""), "master": "spark://host:7077"},
    slots=8,
    workers=(WORKER, attrs.evolve(WORKER, host="host-b")),
    failure="",
    clocks={"host-a": (-0.1, 0.1), "host-b": (-0.2, 0.05)},
    address="driver:40000",
    listening="",
    path="/shared/out",
    place="",
    arrow="",
)
NO_OTHER = "the Python workers run Python 3.10, but this client runs Python 3.11. Give the workers Python 3.11."
Plant = Callable[[Facts], Facts]


def on_host_b(**changes: Any) -> Plant:
    """Plant what one of two hosts has."""
    return lambda facts: attrs.evolve(facts, workers=(WORKER, attrs.evolve(facts.workers[1], **changes)))


def library(name: str, **changes: str) -> Plant:
    """Plant another library on one of two hosts, or none."""
    return on_host_b(
        found={
            **{n: f for n, f in FOUND.items() if n != name},
            **({name: {**FOUND[name], **changes}} if changes else {}),
        }
    )


def setting(**changes: str) -> Plant:
    return lambda facts: attrs.evolve(
        facts,
        settings={**facts.settings, **{name.replace("_", "."): value for name, value in changes.items()}},
    )


def fact(**changes: Any) -> Plant:
    return lambda facts: attrs.evolve(facts, **changes)


def judged(facts: Facts) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the findings by what was looked at, and the marks of the capabilities."""
    found = findings(facts)
    assert len({one.what for one in found}) == len(found)
    return {one.what: one for one in found}, {one.what: one.mark for one in capabilities(facts, found)}


def test_where_all_is_well_nothing_is_amiss():
    """And all works."""
    found, works = judged(GOOD)
    assert {one.mark for one in found.values()} == {OK}
    assert set(works.values()) == {OK}


@attrs.frozen(kw_only=True)
class Case:
    """A misconfiguration: what plants it, the line that shows it, how bad that is, and what does not work then."""

    plant: Plant
    what: str
    mark: str = COSTS
    told: str
    mend: str = ""
    stops: str | None = None


LIVE = "LiveRunner"
RDD, FRAMES, SOURCE = "run_sdf on RDDs", "run_sdf on DataFrames", "data_source, data_sink"
OLD_SPARK = {"spark": "3.5.9", "client": "3.5.9", "workers": (attrs.evolve(WORKER, spark="3.5.9"),)}
GROWS = {"dynamicAllocation_enabled": "true", "dynamicAllocation_maxExecutors": "5", "executor_cores": "4"}
PLANTED = {
    "a worker without sdf": Case(
        plant=library("sdf"), what="sdf", mark=STOPS, told="on host-b: nothing", mend="PYSPARK_PYTHON", stops=LIVE
    ),
    "a worker with an older sdf": Case(
        plant=library("sdf", fingerprint="older"), what="sdf", mark=STOPS, told="the source differs", stops="save_sdf"
    ),
    "another minor version of Python on the workers": Case(
        plant=fact(failure=NO_OTHER, workers=(), clocks={}),
        what="workers", mark=STOPS, told="run Python 3.10", mend="Python 3.11", stops="stream_sdf",
    ),
    "an old cloudpickle on a worker": Case(
        plant=library("cloudpickle", version="2.1.0", fingerprint="old"),
        what="cloudpickle", mark=STOPS, told="on host-b: 2.1.0; sdf needs cloudpickle>=2.2", mend="ship(", stops=RDD,
    ),
    "an old attrs on a worker": Case(
        plant=library("attrs", version="21.4.0"),
        what="attrs", mark=STOPS, told="on host-b: 21.4.0; sdf needs attrs>=22.2", mend="it sends attrs", stops=RDD,
    ),
    "a worker with the pyspark of another Spark": Case(
        plant=on_host_b(spark="4.1.1"), what="Spark", mark=STOPS, told="on host-b: 4.1.1", mend="SPARK_HOME", stops=RDD
    ),
    "a driver that a worker does not reach": Case(
        plant=on_host_b(port="TimeoutError: timed out"),
        what="driver's port", mark=STOPS, told="driver:40000: on host-b: Time", mend="LiveRunner(host=", stops=LIVE,
    ),
    "a driver that cannot listen": Case(
        plant=fact(listening="no such address", address=""),
        what="driver's port", mark=STOPS, told="no such address", mend="StagedRunner", stops=LIVE,
    ),
    "a target that the workers do not share": Case(
        plant=on_host_b(place="another place than the driver's"),
        what="path", mark=STOPS, told="on host-b: another place", mend="all executors share", stops="save_sdf",
    ),
    "a target that the driver cannot write to": Case(
        plant=fact(place="PermissionError: denied"),
        what="path", mark=STOPS, told="the driver cannot write to /shared/out", mend="create", stops="group_by_key",
    ),
    "no executor": Case(
        plant=fact(failure="no executor has come within 25 s", workers=(), clocks={}),
        what="workers", mark=STOPS, told="no executor", mend="logs say why", stops=RDD,
    ),
    "no PyArrow on a worker": Case(
        plant=library("pyarrow"), what="pyarrow", told="on host-b: nothing", mend="pyarrow>=15", stops=FRAMES
    ),
    "a PyArrow that Spark does not take": Case(
        plant=on_host_b(arrow="PyArrow >= 18.0.0 must be installed"), what="pyarrow", told=">= 18.0.0", stops=SOURCE
    ),
    "a Spark before data sources": Case(plant=fact(**OLD_SPARK), what="Spark", mark=OK, told="3.5.9", stops=SOURCE),
    "an extra that a worker lacks": Case(
        plant=library("fastavro"), what="extras", told="fastavro 1.13.1 (on host-b: nothing)", mend="fastavro>=1.9"
    ),
    "one slot": Case(plant=fact(slots=1), what="slots", told="nothing runs side by side", mend="local[4]"),
    "dynamic allocation": Case(
        plant=setting(**GROWS), what="dynamic allocation", told="up to 5 executors", mend="lanes= of LiveRunner (20)"
    ),
    "tasks that are not tried again": Case(
        plant=setting(task_maxFailures="1"), what="retries", told="none", mend="spark.task.maxFailures=4"
    ),
    "workers that are not reused": Case(
        plant=setting(python_worker_reuse="false"), what="worker reuse", told="off", mend="worker.reuse=true"
    ),
    "connections that must be encrypted": Case(
        plant=setting(network_crypto_enabled="true"), what="encryption", told="not encrypted", mend="StagedRunner"
    ),
    "a clock that is ahead": Case(
        plant=fact(clocks={"host-a": (-0.1, 0.1), "host-b": (120.2, 120.9)}),
        what="clocks", told="that of host-b is 120 s ahead", mend="NTP",
    ),
    "a clock that is behind": Case(
        plant=fact(clocks={"host-b": (-61.0, -60.0)}), what="clocks", told="that of host-b is 60 s behind", mend="NTP"
    ),
}  # fmt: skip


@pytest.mark.parametrize("planted", PLANTED)
def test_a_planted_misconfiguration_is_found(planted):
    """In its own line, with the way to mend it; no other line is amiss, and what needs it does not work."""
    case = PLANTED[planted]
    found, works = judged(case.plant(GOOD))
    assert found[case.what].mark == case.mark
    assert case.told in found[case.what].told
    assert case.mend in found[case.what].mend
    assert {one.what for one in found.values() if one.mark in (STOPS, COSTS)} <= {case.what}
    assert works[case.stops] == NO if case.stops else set(works.values()) == {OK}


def test_one_slot_of_several_cores_names_the_setting():
    """spark.task.cpus."""
    found, _ = judged(setting(task_cpus="4")(fact(slots=1)(GOOD)))
    assert "spark.task.cpus=1 for 4" in found["slots"].mend


def test_another_cloudpickle_that_is_new_enough_only_costs():
    """Pickles may name what the other version does not have, but most do not."""
    found, works = judged(library("cloudpickle", version="3.0.0", fingerprint="other")(GOOD))
    assert found["cloudpickle"].mark == COSTS
    assert set(works.values()) == {OK}


def test_ship_would_send_what_a_worker_lacks():
    """With what cannot be sent, and why."""
    stuck = {**HERE, "cloudpickle": attrs.evolve(HERE["cloudpickle"], hindrance="it has compiled parts")}
    found, _ = judged(attrs.evolve(on_host_b(found={})(GOOD), here=stuck))
    assert (
        found["ship(spark)"].told
        == "would send sdf 0.1.0, attrs 26.1.0; cannot send cloudpickle: it has compiled parts"
    )


def test_workers_without_sdf_leave_questions_open():
    """They are marked as such, and so is what depends on the answers."""
    unasked = {"port": None, "place": None, "arrow": None, "unasked": "sdf cannot be imported there"}
    found, works = judged(attrs.evolve(GOOD, workers=(attrs.evolve(WORKER, **unasked),)))
    assert [found[what].mark for what in ("driver's port", "path")] == [UNKNOWN, UNKNOWN]
    assert "sdf cannot be imported there" in found["path"].told
    assert [works[what] for what in ("LiveRunner", "save_sdf", "stream_sdf")] == [UNKNOWN, UNKNOWN, OK]


def test_without_a_path_it_says_what_needs_one():
    """The line is left out."""
    facts = attrs.evolve(GOOD, path=None, workers=(attrs.evolve(WORKER, place=None),))
    found = findings(facts)
    assert "path" not in {one.what for one in found}
    told = {one.what: one.told for one in capabilities(facts, found)}
    assert told["save_sdf"] == told["group_by_key"] == "with a path that driver and workers share"


def test_spark_connect_has_no_rdds_and_no_port():
    """What works there says what to use in place of the rest."""
    worker = attrs.evolve(WORKER, port=None)
    facts = attrs.evolve(GOOD, connect=True, address="", slots=None, client="4.2.1", workers=(worker,))
    found, works = judged(facts)
    assert {what for what, mark in works.items() if mark == NO} == {
        "run_sdf on RDDs",
        "LiveRunner",
        "stream_sdf",
        "group_by_key",
    }
    assert "driver's port" not in found
    assert (found["slots"].mark, found["Spark"].mark) == (UNKNOWN, COSTS)


@pytest.mark.parametrize(
    ("master", "told"),
    [
        ("local", "none"),
        ("local[*]", "none"),
        ("local[4]", "none"),
        ("local[4,3]", "a task is tried 3 times"),
        ("local-cluster[2,1,1024]", "a task is tried 4 times"),
    ],
)
def test_a_local_master_says_itself_how_often_it_tries(master, told):
    """A notebook's local[*] tries once, which is no misconfiguration."""
    found, _ = judged(setting(master=master)(GOOD))
    assert found["retries"].mark == OK
    assert found["retries"].told.startswith(told)


def test_on_spark_connect_ship_sends_what_it_can():
    """The rest is installed where the workers run."""
    stuck = {**HERE, "pyarrow": attrs.evolve(HERE["pyarrow"], hindrance="it has compiled parts")}
    found, works = judged(attrs.evolve(on_host_b(found={})(GOOD), here=stuck, connect=True))
    assert "it sends attrs" in found["attrs"].mend
    assert (found["pyarrow"].mark, "%pip install 'pyarrow>=15'" in found["pyarrow"].mend) == (STOPS, True)
    assert works["save_sdf"] == NO


def test_many_hosts_are_counted():
    """Three of them are named."""
    workers = tuple(attrs.evolve(WORKER, host=f"host-{number}", port="refused") for number in range(9))
    found, _ = judged(attrs.evolve(GOOD, workers=workers))
    assert "on host-0, host-1, host-2 and 6 more: refused" in found["driver's port"].told


def test_staging_by_webhdfs_does_not_do():
    """As a target of save_sdf it does, also on Spark Connect."""
    for connect in (False, True):
        _, works = judged(attrs.evolve(GOOD, path="webhdfs://node:9870/x", connect=connect))
        assert (works["run_sdf on DataFrames"], works["save_sdf"]) == (NO, OK)

"""Findings: what the facts mean, and how to mend it. A pure function of `Facts`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

import attrs

from sdf.spark.doctor.facts import Facts
from sdf.spark.door.versions import DATA_SOURCES, STREAM_SOURCES, is_older
from sdf.spark.shipping.libraries import CORE, Library, is_allowed, requirement_of
from sdf.spark.shipping.ship import install_there

__all__ = ["COSTS", "NO", "OK", "SETTINGS", "STOPS", "UNKNOWN", "Finding", "capabilities", "findings"]

OK, STOPS, COSTS, UNKNOWN, NO = "ok", "!!", "!", "?", "no"
SETTINGS = (  # without "spark."
    *("master", "task.cpus", "task.maxFailures", "executor.cores", "speculation", "dynamicAllocation.enabled"),
    *("dynamicAllocation.maxExecutors", "python.worker.reuse"),
    *("network.crypto.enabled", "ssl.enabled", "io.encryption.enabled"),
)
_PORT, _PLACE, _WORKERS, _ARROW = "driver's port", "path", "workers", "pyarrow"  # that capabilities depend on
_CLOCK_SECONDS = 5.0


@attrs.frozen
class Finding:
    """One line of what `sdf.doctor` says.

    Attributes:
        mark: "ok" it fits, "!!" it stops runs, "!" runs work but lose by it, "?" it could not be asked; of a
            capability "ok", "no" or "?".
        what: what was looked at.
        told: what was found.
        mend: how to mend it; "" if nothing is amiss.
    """

    mark: str
    what: str
    told: str
    mend: str = ""


def findings(facts: Facts) -> tuple[Finding, ...]:
    """Judge facts, one finding for each."""
    looks = (_spark, _workers, _libraries, _ship, _slots, _settings, _port, _place, _clocks)
    return tuple(finding for look in looks for finding in look(facts))


def _spark(facts: Facts) -> Iterator[Finding]:
    minor = facts.spark.split(".")[:2]
    there = f"{facts.spark}, {facts.settings['master'] or 'unknown master'}, Java {facts.java}"
    if others := _on((one.host, one.spark) for one in facts.workers if one.spark.split(".")[:2] != minor):
        mend = f"Give the workers pyspark {facts.spark}: SPARK_HOME of their hosts, or the environment sent to them."
        yield Finding(STOPS, "Spark", f"{there}; but the workers have pyspark {others}", mend)
    elif facts.client.split(".")[:2] != minor:
        mend = f"Install the server's version: pip install 'pyspark[connect]=={facts.spark}'."
        yield Finding(COSTS, "Spark", f"{there}; this client has pyspark {facts.client}", mend)
    else:
        yield Finding(OK, "Spark", there)


def _workers(facts: Facts) -> Iterator[Finding]:
    if facts.failure:
        told, _, mend = facts.failure.partition(". ")
        waits = "Spark's UI and logs say why. If executors start late, or hosts are busy, call doctor(spark) again."
        yield Finding(STOPS, _WORKERS, told, mend or waits)
    else:
        hosts, tasks = len({one.host for one in facts.workers}), len(facts.workers)
        pythons = ", ".join(sorted({one.python for one in facts.workers}))
        told = f"{tasks} task{'s' * (tasks > 1)} on {hosts} host{'s' * (hosts > 1)}, Python {pythons}"
        yield Finding(OK, _WORKERS, told + f"; {facts.python} here" * (pythons != facts.python))


def _libraries(facts: Facts) -> Iterator[Finding]:
    lacked, told = list[Library](), list[str]()
    for name, here in facts.here.items() if facts.workers else ():
        core, arrow = name in CORE, name == _ARROW
        found = [(one.host, one.found.get(name), (one.arrow or "") * arrow) for one in facts.workers]
        amiss = [(host, why or (there["version"] or "another" if there else "nothing")) for host, there, why in found
                 if why or not here.is_met_by(there)]  # fmt: skip
        amiss += [("this client", facts.arrow)] * (arrow and facts.arrow != "")
        if not (core or arrow):
            if here.version:  # else it is an extra that this client does not use
                told.append(f"{name} {here.version}{f' ({_on(amiss)})' * bool(amiss)}")
                lacked += [here] * bool(amiss)
        elif amiss:
            fits = core and name != "sdf" and all(there and is_allowed(name, there["version"]) for _, there, _ in found)
            why = "the source differs" if fits or name == "sdf" else f"sdf needs {requirement_of(name)}"
            stops = (core and not fits) or (arrow and facts.connect)
            line = f"{here.version or 'a checkout'} here, {_on(amiss)}; {why}{' for DataFrames' * arrow}"
            yield Finding(STOPS if stops else COSTS, name, line, _giving(facts, [here]))
        else:
            yield Finding(OK, name, here.version or "that of this checkout")
    if told:
        yield Finding(COSTS if lacked else OK, "extras", ", ".join(told), _giving(facts, lacked) if lacked else "")


def _giving(facts: Facts, lacked: Sequence[Library]) -> str:
    """Return how workers get what they lack."""
    names, sent = [one.name for one in lacked], ", ".join(one.name for one in lacked if not one.hindrance)
    ships = f"Call sdf.spark.ship(spark{'' if names[0] in CORE else ', ...'}) first in a new session: it sends {sent}."
    if facts.connect:
        stuck = [one.name for one in lacked if one.hindrance]
        return " ".join([ships] * bool(sent) + [install_there(*stuck)] * bool(stuck))
    python = f"Workers run {_on((one.host, one.executable) for one in facts.workers)}: before the driver starts, set"
    python += f" PYSPARK_PYTHON to a Python that has {', '.join(map(requirement_of, names))} (docs/clusters.md)."
    return f"{python}{f' Or else: {ships}' * bool(sent)}"


def _ship(facts: Facts) -> Iterator[Finding]:
    libraries = [facts.here[name] for name in (*CORE, *((_ARROW,) if facts.connect else ()))]
    lacking = [one for one in libraries if not all(one.is_met_by(each.found.get(one.name)) for each in facts.workers)]
    sent = ", ".join(f"{one.name} {one.version}".rstrip() for one in lacking if not one.hindrance)
    stuck = "".join(f"; cannot send {one.name}: {one.hindrance}" for one in lacking if one.hindrance)
    if facts.workers:
        yield Finding(OK, "ship(spark)", f"would send {sent or 'nothing'}{stuck}")


def _slots(facts: Facts) -> Iterator[Finding]:
    cpus = facts.settings["task.cpus"] or "1"
    if facts.slots is None:
        yield Finding(UNKNOWN, "slots", "the server does not tell; StagedRunner finds out while it runs")
    elif facts.slots == 1:
        mend = f"Take more cores or executors, such as local[4]{f', or spark.task.cpus=1 for {cpus}' * (cpus != '1')}."
        yield Finding(COSTS, "slots", "1: nothing runs side by side, so splitting gains nothing", mend)
    else:
        yield Finding(OK, "slots", f"{facts.slots}{f' of {cpus} cores' * (cpus != '1')}")


def _settings(facts: Facts) -> Iterator[Finding]:
    setting = facts.settings.__getitem__
    local = re.fullmatch(r"local(?:\[[^,]*(?:,\s*(\d+))?\])?", setting("master"))
    tries = setting("task.maxFailures") or "4" if local is None else local[1] or "1"
    if local is None and tries == "1":
        told = "none: one lost worker or executor ends the run"
        yield Finding(COSTS, "retries", told, "Set spark.task.maxFailures=4, or leave it out.")
    else:
        told = f"a task is tried {tries} times" if tries != "1" else "none; local[4,4] would try a task four times"
        yield Finding(OK, "retries", told)
    if local is None and setting("dynamicAllocation.enabled") == "true":
        most, cores = setting("dynamicAllocation.maxExecutors"), int(setting("executor.cores") or 1)
        lanes = (
            int(most) * max(1, cores // int(setting("task.cpus") or 1)) if most else "the most slots that you expect"
        )
        told = f"up to {most or 'any number of'} executors; run_sdf with LiveRunner counts slots only once"
        mend = f"Set lanes= of LiveRunner ({lanes}), or tasks_per_slot=2 of StagedRunner, which has Spark see a queue."
        yield Finding(COSTS, "dynamic allocation", told, mend)
    if setting("python.worker.reuse") == "false":
        told = "off: each task starts a Python, imports its modules and calls setup()"
        yield Finding(COSTS, "worker reuse", told, "Set spark.python.worker.reuse=true, or leave it out.")
    if setting("speculation") == "true":
        yield Finding(OK, "speculation", "on: one of two attempts counts, but side effects of process() happen twice")
    on = [f"spark.{name}" for name in ("network.crypto.enabled", "ssl.enabled") if setting(name) == "true"]
    stored = "; files on local disks are encrypted" * (setting("io.encryption.enabled") == "true")
    if on and not facts.connect:
        told = f"{' and '.join(on)}; LiveRunner's own connections are authenticated, not encrypted{stored}"
        yield Finding(COSTS, "encryption", told, "Use StagedRunner, which opens no port, where all must be encrypted.")
    else:
        yield Finding(OK, "encryption", f"connections of Spark: {'on' if on else 'off'}{stored}")


def _port(facts: Facts) -> Iterator[Finding]:
    mend = (
        "Name an address and a port that the executors may reach, and ask again with doctor(spark, runner="
        "LiveRunner(host=..., port=...)). Or use StagedRunner, which needs none."
    )
    if facts.listening:
        yield Finding(STOPS, _PORT, facts.listening, mend)
    elif blocked := _on((one.host, one.port) for one in facts.workers if one.port):
        yield Finding(STOPS, _PORT, f"lanes cannot reach {facts.address}: {blocked}", mend)
    elif any(one.port == "" for one in facts.workers):
        yield Finding(OK, _PORT, f"lanes reach {facts.address}, both ways")
    elif not facts.connect:
        yield Finding(UNKNOWN, _PORT, _why_unasked(facts))


def _place(facts: Facts) -> Iterator[Finding]:
    if facts.place:
        mend = "Give a place where the driver may create files: on a disk that is there, or on an object store."
        yield Finding(STOPS, _PLACE, f"the driver cannot write to {facts.path}: {facts.place}", mend)
    elif amiss := _on((one.host, one.place) for one in facts.workers if one.place):
        mend = (
            "As a target, or path= of group_by_key, give one that the driver and all executors share and may write: a "
            "network disk, or a URL such as s3://bucket/name. As checkpoint= it will do: only the driver needs that."
        )
        yield Finding(STOPS, _PLACE, f"the driver can write to {facts.path}, but the workers cannot: {amiss}", mend)
    elif any(one.place == "" for one in facts.workers):
        yield Finding(OK, _PLACE, f"driver and workers can write to {facts.path}, the same place for both")
    elif facts.path is not None:
        yield Finding(UNKNOWN, _PLACE, f"the driver can write to {facts.path}; {_why_unasked(facts)}")


def _why_unasked(facts: Facts) -> str:
    return f"the workers could not be asked: {next((one.unasked for one in facts.workers), 'none has answered')}"


def _clocks(facts: Facts) -> Iterator[Finding]:
    apart = max(((max(least, -most), least > 0, host) for host, (least, most) in facts.clocks.items()), default=None)
    if apart is not None and apart[0] >= _CLOCK_SECONDS:
        told = f"that of {apart[2]} is {apart[0]:,.0f} s {'ahead' if apart[1] else 'behind'}"
        mend = "Let NTP set all clocks: times in reports and of files are off, and S3 refuses a clock off by 15 min."
        yield Finding(COSTS, "clocks", told, mend)
    elif apart is not None:
        bound = max(max(-least, most) for least, most in facts.clocks.values())
        yield Finding(OK, "clocks", f"apart by less than {bound:.1f} s")


def capabilities(facts: Facts, found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Say of each capability whether it works here, given the findings."""
    marks = {one.what: one.mark for one in found}
    frames = f"see {_ARROW}" if marks.get(_ARROW, OK) != OK else ""

    def row(
        what: str, *needs: str, rdd: str = "", frame: bool = False, staged: bool = False, least: str = ""
    ) -> Finding:
        blocking = [name for name in ("Spark", _WORKERS, *CORE, *needs) if marks.get(name) == STOPS]
        if facts.connect and rdd:
            return Finding(NO, what, f"Spark Connect has no RDDs; use {rdd}")
        if staged and str(facts.path).startswith("webhdfs:"):
            return Finding(NO, what, "Spark's own client cannot read staging by WebHDFS")
        if is_older(facts.client, least or "0"):
            return Finding(NO, what, f"needs Spark {least} or later")
        if blocking or (frame and frames):
            return Finding(NO, what, f"see {', '.join(blocking)}" if blocking else frames)
        if unasked := [name for name in needs if marks.get(name) == UNKNOWN]:
            return Finding(UNKNOWN, what, f"see {', '.join(unasked)}")
        return Finding(OK, what, "with a path that driver and workers share" * (_PLACE in needs and not facts.path))

    return (
        row("run_sdf on RDDs", rdd="a DataFrame"),
        row("LiveRunner", _PORT, rdd="StagedRunner"),
        row("save_sdf", _PLACE, frame=facts.connect),
        row("stream_sdf", rdd="spark.readStream over a data_source"),
        row("group_by_key", _PLACE, rdd="Spark's own groupBy"),
        row("run_sdf on DataFrames", _PLACE, frame=True, staged=True),
        row("data_source, data_sink", frame=True, least=DATA_SOURCES),
        row("readStream of a source", frame=True, least=STREAM_SOURCES),
    )


def _on(found: Iterable[tuple[str, str]]) -> str:
    """Return each thing that was found with the hosts that have it, "" if nothing was."""
    hosts: dict[str, dict[str, None]] = {}  # a set that keeps its order
    for host, what in found:
        hosts.setdefault(what, {})[host] = None
    some = ((what, [*names][:3], len(names) - 3) for what, names in hosts.items())
    return "; ".join(f"on {', '.join(names)}{f' and {more} more' * (more > 0)}: {what}" for what, names, more in some)

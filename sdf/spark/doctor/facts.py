"""Facts: what the driver and the workers found, as frozen values without any judgement."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from sdf.spark.shipping.libraries import Library

__all__ = ["Facts", "Worker"]


@attrs.frozen(kw_only=True)
class Worker:
    """What one task found.

    Attributes:
        host: the name of its host.
        python, executable: the version and the path of Python.
        spark: the version of pyspark.
        found: by name, what `workers.look` says of each library that is there.
        unasked: why it was asked no more; "" if it was.
        port, place, arrow: why it cannot reach the driver's port, cannot write to its place, and has no PyArrow that
            Spark takes; "" if it can or has, None if it was not asked.
    """

    host: str
    python: str
    spark: str
    executable: str
    found: Mapping[str, Mapping[str, str]]
    unasked: str = ""
    port: str | None = None
    place: str | None = None
    arrow: str | None = None


@attrs.frozen(kw_only=True)
class Facts:
    """What was found out.

    Attributes:
        connect: whether the session is one of Spark Connect.
        spark, java: the versions of Spark and Java, on the driver or the server; or why the server does not tell.
        client, python: the versions of pyspark and Python in this process.
        here: its libraries, by the name that is imported.
        settings: settings of Spark by name, without "spark."; "" for a setting that is missing.
        slots: how many tasks run at once; None if that is not known.
        workers: what each task found.
        failure: why no task found anything; "" if they did.
        clocks: by host, by how many seconds its clock is ahead of the one here, at least and at most.
        address: host and port where lanes connect; "" if there are none.
        path: the place that was asked for, None if none was.
        listening, place, arrow: why the driver cannot listen there, cannot write to the place, and has no PyArrow that
            Spark takes; "" if it can or has.
    """

    connect: bool
    spark: str
    java: str
    client: str
    python: str
    here: Mapping[str, Library] = attrs.field(repr=False)
    settings: Mapping[str, str]
    slots: int | None
    workers: tuple[Worker, ...]
    failure: str
    clocks: Mapping[str, tuple[float, float]]
    address: str
    listening: str
    path: str | None
    place: str
    arrow: str

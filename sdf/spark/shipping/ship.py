"""ship: gives the Python workers of a session sdf, and what its connectors need, where nothing can be installed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from sdf.errors import RUN_DOCTOR, InvalidTypeError, InvalidValueError, MissingExtraError, StageError, show
from sdf.spark.shipping import sessions
from sdf.spark.shipping.libraries import CORE, Library, is_archive, libraries, packed, requirement_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.session import SparkSession as ConnectSession

__all__ = ["Shipped", "install_there", "ship"]


@attrs.frozen
class Shipped:
    """What `ship` has done.

    Attributes:
        sent: by the name that is imported, the version that was sent; "" where it has none.
        there: the same for what the workers had already.
        archive: name of the archive that was sent; "" if nothing was.
        size_bytes: size of that archive.
        python: version of the workers' Python.
    """

    sent: Mapping[str, str]
    there: Mapping[str, str]
    archive: str
    size_bytes: int
    python: str

    def __str__(self) -> str:
        sent = f"sent {_listed(self.sent)} ({self.size_bytes:,} bytes)" if self.sent else "sent nothing"
        return f"{sent}; there already: {_listed(self.there)}; the workers run Python {self.python}"


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}".rstrip() for name, version in versions.items()) or "nothing"


def ship(spark: SparkSession | ConnectSession, *names: str) -> Shipped:
    """Send the Python workers of a session what they lack of sdf, of what it needs, and of what you name.

    Call it first in a session; a second call sends nothing. It runs one small job to see what the workers have, and, if
    it sends something, another one that imports it there. What is sent holds for this session alone on Spark Connect,
    and for the whole application on classic Spark. A data source must be registered, and an RDD made, after it.

    Args:
        spark: the session, of Spark Connect or classic.
        names: what the workers must be able to import besides: libraries of connectors and sinks, such as ``"fsspec"``
            or ``"fastavro"``, and modules or packages of your own. What is pure Python and installed here is sent.
            What has compiled parts must be there. A library of any version that sdf allows counts as there; sdf,
            cloudpickle and your own modules must be the same as here.

    Returns:
        What was sent, and what was there.

    Raises:
        InvalidTypeError, InvalidValueError: for wrong arguments, before any job runs.
        MissingExtraError: if the workers lack a library that cannot be sent: all of them, and how to install them.
            Nothing is sent then. Also if what was sent needs a library that they lack.
        StageError: if the workers run another minor version of Python, have been sent other content under the same
            name, or do not see what is sent.
    """
    connect = sessions.is_connect(spark)
    _check_names(names)
    here = libraries([*CORE, *(("pyarrow",) if connect else ()), *names])  # DataFrames reach Python through Arrow
    wanted = {name: library.distribution for name, library in here.items()}
    seen = sessions.look(spark, wanted)
    found = seen["found"]
    lacking = {name: library for name, library in here.items() if not library.is_met_by(found.get(name))}
    there = {name: found[name]["version"] for name in here if name not in lacking}
    if not lacking:
        return Shipped({}, there, "", 0, seen["python"])
    _check_sendable(lacking, found)
    archive, content = packed(lacking.values())
    sessions.send(spark, archive, content)
    _check_arrived(lacking, archive, sessions.look(spark, {name: wanted[name] for name in lacking}, load=True)["found"])
    sent = {name: library.version for name, library in lacking.items()}
    return Shipped(sent, there, archive, len(content), seen["python"])


def _check_names(names: tuple[Any, ...]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise InvalidTypeError(f"ship() takes names of modules, such as 'fsspec' (got {show(name)}).")
        if not name.isidentifier() or name in sys.stdlib_module_names:
            raise InvalidValueError(
                f"ship() takes names as they are imported, of a library or a module of your own that is not part of "
                f"Python and lies in no package, such as 'fsspec' (got {show(name)})."
            )


def _check_sendable(lacking: Mapping[str, Library], found: Mapping[str, Mapping[str, str]]) -> None:
    """Refuse to send what cannot be imported from an archive, or what workers may have imported in another version."""
    stuck = {name: library for name, library in lacking.items() if library.hindrance}
    if stuck:
        told = "; ".join(
            f"{requirement_of(name)}{_instead(found.get(name))} cannot be sent there: {library.hindrance}"
            for name, library in stuck.items()
        )
        raise MissingExtraError(
            f"the Python workers lack what ship() should give them. {told}. {install_there(*stuck)} {RUN_DOCTOR}"
        )
    changed = [name for name in lacking if name in found and is_archive(found[name]["origin"])]
    if changed:
        raise StageError(
            f"ship() has sent {', '.join(changed)} to this session before, with other content. Python workers keep "
            f"what they have imported, so some would go on with the old one. Start a new session, or, on classic "
            f"Spark, a new application, and call ship() first. {RUN_DOCTOR}"
        )


def _instead(found: Mapping[str, str] | None) -> str:
    return "" if found is None else f" (they have {found['version'] or 'another one'})"


def _check_arrived(lacking: Mapping[str, Library], archive: str, found: Mapping[str, Mapping[str, str]]) -> None:
    """See that the workers import what was sent, and not something else of that name."""
    for name in lacking:
        got = found.get(name)
        if got is not None and got["error"]:
            raise MissingExtraError(
                f"ship() has sent {name}, but the Python workers cannot import it: {got['error']}. If it lacks a "
                f"library in pure Python, name that too: ship(spark, {name!r}, ...). Otherwise: {install_there(name)} "
                f"{RUN_DOCTOR}"
            )
        if got is None or archive not in got["origin"]:
            what = "do not see it" if got is None else f"import {show(got['origin'])} instead"
            raise StageError(
                f"ship() has sent {name} in {archive}, but the Python workers {what}. Either they had imported it "
                f"before ship() was called: call it first in a new session. Or this platform hands no Python files to "
                f"them, as was seen on Databricks serverless: install it where they run, there with %pip install in "
                f"the notebook (docs/connect.md). {RUN_DOCTOR}"
            )


def install_there(*names: str) -> str:
    """Return how to install libraries where the workers run, for use in a message."""
    wanted = " ".join("the-wheel-of-sdf.whl" if name == "sdf" else f"'{requirement_of(name)}'" for name in names)
    return (
        f"Install it where the workers run. On Databricks: %pip install {wanted} in the notebook, or in the notebook's "
        f"environment, or as a library of the cluster. On executors of your own: pip install {wanted} with their "
        f"Python, or send them an environment (docs/connect.md)."
    )

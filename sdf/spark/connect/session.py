"""What runs on Spark Connect ask of a session beyond DataFrames: to send bytes to the workers, and to end orphans.

A client that dies leaves its operations running. Nobody but a client of the same session can interrupt them, so a saved
run logs its session, and the driver that resumes it makes a client of that session and interrupts what is left.
"""

from __future__ import annotations

import hashlib
import logging
import tempfile
from pathlib import Path
from typing import Any

import attrs
from pyspark import SparkFiles

from sdf.spark.door.connect import interrupt_as
from sdf.spark.payload import Carried

__all__ = ["SentFile", "carried", "interrupt"]

_IN_THE_PLAN_BYTES = 1 << 20  # a plan with a closure of 60 MB has killed a server, and each job sends its plan

log = logging.getLogger("sdf.connect")


@attrs.frozen
class SentFile:
    """Bytes that the server has been sent as a file, with the interface of a broadcast."""

    name: str

    @property
    def value(self) -> bytes:
        """The bytes; called on workers."""
        return Path(SparkFiles.get(self.name)).read_bytes()


def carried(spark: Any, data: bytes) -> Carried | SentFile:
    """Return what brings some bytes to the workers of a session: the server gets many bytes once, as a file."""
    if len(data) <= _IN_THE_PLAN_BYTES:
        return Carried(data)
    name = f"sdf-{hashlib.sha256(data).hexdigest()}"  # a name belongs to one content for all of a session
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(data)
        spark.addArtifacts(str(path), file=True)
    return SentFile(name)


def interrupt(spark: Any, session_id: str, user_id: str, tag: str) -> None:
    """Interrupt operations of an earlier client, which may be dead, on the same server.

    They can do no harm, since the log names nothing that they write; they only keep slots busy. So a server that
    refuses this stops nobody.

    Args:
        spark: a session on the server.
        session_id: the session of that client.
        user_id: the user whose session that is, "" for the default.
        tag: the tag of the operations.
    """
    if session_id == spark.session_id:
        _told(spark.interruptTag(tag))
        return
    try:
        _told(interrupt_as(spark, session_id, user_id, tag))
    except Exception as error:  # of any kind: see above
        log.warning("could not interrupt what an earlier driver left running on the server: %s", error)


def _told(interrupted: list[str]) -> None:
    if interrupted:
        log.info("interrupted %d tasks that an earlier driver left running on the server", len(interrupted))

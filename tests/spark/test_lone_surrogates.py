"""Errors whose text UTF-8 cannot hold, as of a path in Latin-1, on each way out of a worker: they are escaped there.

PySpark cannot send such an error, or what caused it, and the job would hang for ever.
"""

import contextlib
import os
import traceback
import types

import pytest
from pyspark.sql.types import StructType

from sdf import DoFn, OffsetRange, run_direct
from sdf.errors import ProcessError, ReadError, StageError
from sdf.quarantine.failures import RAISED, Failure
from sdf.sinks import Token
from sdf.spark import serde
from sdf.spark.connect.tasks import _telling
from sdf.spark.live.link import LaneTask
from sdf.spark.payload import Marked, telling
from sdf.spark.source.batch_reader import BatchReader
from sdf.spark.source.chain import Chain, Settings
from sdf.spark.source.data_sink import SinkWriter
from sdf.spark.source.texts import Texts
from sdf.spark.staged.task import replayed

BAD = os.fsdecode(b"/logs/b\xe4d.json")


class Parse(DoFn):
    """Raises where it is told to: in planning, or in its work."""

    def __init__(self, where):
        self.where = where

    def get_initial_restriction(self, element):
        if self.where == "planning":
            raise ValueError(f"{element} has no .meta")
        return OffsetRange(0, 1)

    def process(self, element, tracker):
        for _ in tracker.claims():
            raise ValueError(f"{element} has no .meta")
            yield


def process_error():
    with pytest.raises(ProcessError) as caught:
        run_direct([BAD], Parse("process"))
    return caught.value


def raising(error):
    """Give a generator that raises an error."""
    raise error
    yield


def planned():
    settings = Settings((), serde.dumps([BAD], "the elements"), 2, None, Texts())
    return BatchReader(Chain.of([Parse("planning")]), StructType().add("v", "string"), settings).partitions()


def read():
    settings = Settings((), serde.dumps([BAD], "the elements"), 2, None, Texts())
    reader = BatchReader(Chain.of([Parse("process")]), StructType().add("v", "string"), settings)
    return [list(reader.read(partition)) for partition in reader.partitions()]


def streamed():
    from sdf.spark.source.stream_reader import StreamReader

    settings = Settings((), serde.dumps([BAD], "the elements"), 2, None, Texts())
    return StreamReader(Chain.of([Parse("planning")]), StructType().add("v", "string"), settings).initialOffset()


def written():
    batches = iter([types.SimpleNamespace(num_rows=1)])
    sink = types.SimpleNamespace(takes_batches=True, write=lambda records, place: list(raising(ReadError(BAD))))
    return SinkWriter(sink, Token("app", 0)).write(batches)


def connected():
    with _telling():
        raise process_error()


def told():
    with telling():
        raise OSError(BAD)


def payload():
    return types.SimpleNamespace(load=lambda: next(raising(process_error())))


WAYS = {
    "a stage": lambda: list(Marked("run", lambda number, records: raising(process_error()))(0, [])),
    "a sink of a stream": lambda: list(Marked("run", lambda number, records: raising(OSError(BAD)))(0, [])),
    "a lane": lambda: list(LaneTask(payload(), None, 0, ())._records(0, {})),
    "a replay": lambda: list(replayed(payload(), [])),
    "a plan of a data source": planned,
    "a read of a data source": read,
    "a stream of a data source": streamed,
    "a write to a data sink": written,
    "Spark Connect": connected,
    "an error that is none of sdf": told,
}


@pytest.mark.parametrize("way", WAYS)
def test_an_error_leaves_a_worker_in_characters_that_utf_8_has(way):
    """Its own text, that of its cause, and all that a traceback shows."""
    with pytest.raises((ProcessError, ReadError, StageError)) as caught:
        WAYS[way]()
    text = "".join(traceback.format_exception(caught.value))
    with contextlib.suppress(UnicodeDecodeError):
        assert text.encode("utf-8").decode()
    assert "b\\udce4d.json" in text.replace("\\\\", "\\")


def test_an_error_without_such_characters_stays_as_it_is():
    """With its cause, whatever else its characters are."""
    error = ProcessError("ä 中")
    with pytest.raises(ProcessError) as caught, telling():
        raise error from ValueError("ü")
    assert caught.value is error
    assert isinstance(error.__cause__, ValueError)


def test_what_is_told_of_a_block_that_failed_fits_into_any_file():
    """A sink of failed blocks may be a table of UTF-8 texts."""
    assert Failure(1, RAISED, f"{BAD} has no .meta").error == "/logs/b\\udce4d.json has no .meta"

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
from sdf.errors import MissingExtraError, ProcessError, ReadError, StageError
from sdf.quarantine.failures import RAISED, Failure
from sdf.sinks import Token
from sdf.spark import serde
from sdf.spark.connect.tasks import _telling
from sdf.spark.live.link import LaneTask
from sdf.spark.payload import Marked, telling
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


def of_source(name):
    """Import a module of data sources; not every Spark has them all."""
    return pytest.importorskip(f"sdf.spark.source.{name}", exc_type=MissingExtraError)


def reader(kind, where):
    """Return a reader of a data source whose DoFn raises somewhere."""
    chain, texts = of_source("chain"), of_source("texts").Texts()
    settings = chain.Settings((), serde.dumps([BAD], "the elements"), 2, None, texts)
    return kind(chain.Chain.of([Parse(where)]), StructType().add("v", "string"), settings)


def planned():
    return reader(of_source("batch_reader").BatchReader, "planning").partitions()


def read():
    batches = reader(of_source("batch_reader").BatchReader, "process")
    return [list(batches.read(partition)) for partition in batches.partitions()]


def streamed():
    return reader(of_source("stream_reader").StreamReader, "planning").initialOffset()


def written():
    batches = iter([types.SimpleNamespace(num_rows=1)])
    sink = types.SimpleNamespace(takes_batches=True, write=lambda records, place: list(raising(ReadError(BAD))))
    return of_source("data_sink").SinkWriter(sink, Token("app", 0)).write(batches)


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

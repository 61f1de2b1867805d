"""BatchSink: writes the batches of a stream into a sink, each once, whatever crashes.

The workers write the records of a batch. What they have written is pinned in the journal before the sink commits. So a
driver that resumes commits exactly that, under the same token: the journal's name, and the number of the batch.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import Any

from pyspark import RDD

from sdf.errors import BadRecordError
from sdf.journal.journal import Journal
from sdf.sinks.sink import Place, Sink, SinkRun, Token
from sdf.spark.jobs import explain
from sdf.spark.payload import marked

__all__ = ["BatchSink"]

_WRITTEN = "written"


class BatchSink:
    """See the module's docstring.

    Args:
        sink: the sink; it appends.
        journal: the journal of the stream.
    """

    def __init__(self, sink: Sink, journal: Journal) -> None:
        self._sink = sink
        self._journal = journal
        self._app = f"sdf-{journal.name()}"

    def give(self, batch: int, records: RDD[Any]) -> None:
        """Write the records of a batch and commit them, unless that was done before."""
        token = Token(self._app, batch)
        messages = self._journal.ahead(_WRITTEN)
        self._sink.prepare(SinkRun(token, "main", resumed=True, committing=messages is not None))
        if messages is None:
            messages = self._journal.write_ahead(_WRITTEN, self._written(records, token))
        self._sink.commit(messages, token)
        self._sink.clean(token)

    def _written(self, records: RDD[Any], token: Token) -> list[Any]:
        """Have the workers write; return their messages."""
        try:
            written = records.mapPartitions(_Write(self._sink, token)).collect()
        except Exception as error:
            explained = explain(error, f"batch {token.version}: write", token.app)
            if explained is error:
                raise
            raise explained from explained.__cause__
        return [message for message in written if message is not None]


class _Write:
    """Writes the records of a partition, and gives the message; a function for ``mapPartitions``."""

    def __init__(self, sink: Sink, token: Token) -> None:
        self._sink = sink
        self._token = token

    def __call__(self, records: Iterable[Any]) -> Iterator[Any]:
        return marked(self._token.app, self._write(records))

    def _write(self, records: Iterable[Any]) -> Iterator[Any]:
        try:
            yield self._sink.write(iter(records), Place(self._token, "main", uuid.uuid4().hex))
        except BadRecordError as error:
            raise BadRecordError(f"batch {self._token.version} has a bad record: {error}") from error

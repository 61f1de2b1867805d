"""BatchSink: writes the batches of a stream into a sink, each once, whatever crashes.

The workers write the records of a batch. What they have written is pinned in the journal before the sink commits. So a
driver that resumes commits exactly that, under the same token: the number of the batch, the names of the journal and of
the driver that pinned the batch, and the tag, if there is one. In a journal that was restored from a copy a number
comes again, but no driver.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any
from urllib.parse import quote

from pyspark import RDD

from sdf.errors import BadRecordError
from sdf.journal.journal import Journal
from sdf.sinks.sink import Place, Sink, SinkRun, Token
from sdf.spark.payload import Marked

__all__ = ["BatchSink"]

_WRITTEN = "written"


class BatchSink:
    """See the module's docstring.

    Args:
        output: the name of the output that the sink gets: "main", or a tag.
        sink: the sink; it appends.
        journal: the journal of the stream.
        run_id: id of the stream's run.
    """

    def __init__(self, output: str, sink: Sink, journal: Journal, run_id: str) -> None:
        self.output = output
        self._sink = sink
        self._journal = journal
        self._name = journal.name()
        self._run_id = run_id
        self._tag = "" if output == "main" else f"-{quote(output, safe='')}"

    @property
    def has_written(self) -> bool:
        """Whether the records of the next batch are written, and may be committed."""
        return self._journal.ahead(f"{_WRITTEN}{self._tag}") is not None

    def write(self, batch: int, by: str, records: RDD[Any]) -> list[Any]:
        """Write the records of a batch, which the driver ``by`` has pinned, unless that was done; return messages."""
        token = self._token(batch, by)
        messages: list[Any] | None = self._journal.ahead(f"{_WRITTEN}{self._tag}")
        if messages is not None:
            self._sink.check_commit(token)
        self._sink.prepare(SinkRun(token, self.output, resumed=True))
        if messages is not None:
            return messages
        write = Marked(self._run_id, partial(_write, self._sink, self.output, token))
        written = records.mapPartitionsWithIndex(write).collect()
        return [message for message in written if message is not None]

    def keep(self, messages: list[Any]) -> list[Any]:
        """Keep the messages in the journal, unless that was done; return those that count. These will be committed."""
        kept: list[Any] = self._journal.write_ahead(f"{_WRITTEN}{self._tag}", messages)
        return kept

    def commit(self, batch: int, by: str, messages: list[Any]) -> None:
        """Commit what was written, unless that was done."""
        token = self._token(batch, by)
        self._sink.commit(messages, token)
        self._sink.clean(token)

    def _token(self, batch: int, by: str) -> Token:
        return Token(f"sdf-{self._name}-{by}{self._tag}", batch)


def _write(sink: Sink, output: str, token: Token, partition: int, records: Iterable[Any]) -> Iterator[Any]:
    """Write the records of a partition, and give the message; for ``mapPartitionsWithIndex``."""
    try:
        yield sink.write(iter(records), Place(token, output, uuid.uuid4().hex))
    except BadRecordError as error:
        raise BadRecordError(
            f"batch {token.version} has a bad record: {error} No sink has any record of the batch: change the table, "
            f"or the function so that it does not give such a record, and start the stream again."
        ) from error

"""Sink: where a saved run puts its records, and how they become visible all at once, exactly once.

Workers write, the driver commits. A worker writes the records of one *segment*, some seconds of work of one attempt,
into a place of its own, and returns a *message* that names what it wrote. What no committed message names does not
count: an attempt may be lost, repeated or late. The driver keeps the messages in its log, and commits their list at the
end. It may die at any moment and commit the same list again, under the same *token*: that must change nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs

__all__ = ["Place", "Sink", "SinkRun", "Token"]


@attrs.frozen
class Token:
    """Names a commit: a sink that has committed a token never commits it again.

    Attributes:
        app: the saved run, or the stream; unique, made anew with each checkpoint.
        version: counts the commits of ``app``, from 0: the batches of a stream; of a saved run, 0 is the run itself,
            and what follows are retries of what it has set aside.
    """

    app: str
    version: int

    def __str__(self) -> str:
        return f"{self.app}-{self.version}"


@attrs.frozen
class SinkRun:
    """The run that a sink is prepared for.

    Attributes:
        token: the token of the commit.
        tag: the output that the sink gets, "main" or a tag.
        resumed: whether an earlier driver may have prepared the sink for this token, written to it, and even committed.
    """

    token: Token
    tag: str
    resumed: bool


@attrs.frozen
class Place:
    """Where the records of one segment go.

    Attributes:
        token: the token of the commit.
        tag: the output that the sink gets.
        name: unique: no other segment, attempt or run has it; letters, digits and ``-``.
        reject: for a sink with ``on_error="tag"``: puts a record that it cannot write into the output "bad"; None if
            the run has no such output.
    """

    token: Token
    tag: str
    name: str
    reject: Callable[[Any], None] | None = None


class Sink(ABC):
    """Where the records of one output go. An instance is a value: it is pickled and sent to the workers.

    A message is None, or JSON data: a dict may hold the numbers ``files`` and ``bytes``, which the summary adds up.

    Attributes:
        appends: whether the sink adds to what is there, so that several commits can follow each other.
        takes_batches: whether a record may be a `pyarrow.RecordBatch`, whose rows are written.
    """

    appends: bool = False
    takes_batches: bool = False

    @property
    def rejects(self) -> bool:
        """Whether the sink puts records that it cannot write into the output "bad", which the run must have."""
        return False

    @property
    def takes_retries(self) -> bool:
        """Whether `retry_failed` may add records later, in a commit whose token has a higher version."""
        return self.appends

    @abstractmethod
    def identity(self) -> Any:
        """Return what tells this sink from others, as JSON data without secrets: a resumed run must have the same."""

    def for_schema(self, schema: Any) -> Sink:
        """Return the sink for records of a `pyarrow.Schema`, if it would else find out their types from the first ones.

        Raises:
            InvalidValueError: if it cannot store a type.
            SinkError: if the target cannot be looked at.
        """
        return self

    def beside(self) -> str | None:
        """Return the path or URL of the default checkpoint; None if there is none, as for a sink that appends."""
        return None

    @abstractmethod
    def prepare(self, run: SinkRun) -> None:
        """Prepare for a run, on the driver, before any work. Accept the traces of the same token.

        Raises:
            SinkError: if the run cannot end well: the target is not empty, or cannot be written.
        """

    def check_commit(self, token: Token) -> None:
        """Called on the driver before it goes on where an earlier one may have committed ``token``, wholly or in part.

        Raises:
            SinkError: if the sink can neither tell whether that was so, nor repeat the commit harmlessly.
        """

    @abstractmethod
    def write(self, records: Iterator[Any], place: Place) -> Any:
        """Write the records of one segment, on a worker; return its message once they are durable.

        Take nothing from ``records`` before it is sure that the driver will find what is written.

        Returns:
            The message; None if there were no records.

        Raises:
            BadRecordError: for a record that cannot be written.
            SinkError: if the target cannot be written.
        """

    @abstractmethod
    def commit(self, messages: Sequence[Any], token: Token) -> None:
        """Make visible what these messages name, and nothing else, on the driver. Idempotent by ``token``.

        Raises:
            SinkError: if that is not possible; the run can be resumed, and then calls this again.
        """

    @abstractmethod
    def abort(self, messages: Sequence[Any], token: Token) -> None:
        """Remove all that was written under a token that was never committed."""

    def check_result(self, token: Token) -> None:
        """Called when a run that is done is called again; raise SinkError if its result is not there any more."""

    def clean(self, token: Token) -> None:
        """Remove what is left in staging after the commit, such as what lost attempts wrote."""

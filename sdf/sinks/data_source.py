"""DataSourceSink: a writer of Spark's Python data sources as a sink.

Such a writer commits once, and cannot tell whether it has: if a driver dies while it commits, the next one must ask.
"""

from __future__ import annotations

import base64
import itertools
import pickle
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import attrs
import cloudpickle

from sdf.errors import InvalidTypeError, SinkError, show
from sdf.sinks.sink import Place, Sink, SinkRun, Token

__all__ = ["DataSourceSink"]

_METHODS = ("write", "commit", "abort")


def _is_writer(value: Any) -> bool:
    return not isinstance(value, type) and all(callable(getattr(value, name, None)) for name in _METHODS)


def _writer(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if not _is_writer(value) and (isinstance(value, type) or not callable(value)):
        raise InvalidTypeError(
            f"DataSourceSink writer must be a DataSourceWriter, such as MySource(options).writer(schema, False), or a "
            f"function that makes one of a token (got {show(value)})."
        )


def _committed(instance: Any, attribute: attrs.Attribute[Any], value: Any) -> None:
    if value is not None and not callable(value):
        raise InvalidTypeError(f"DataSourceSink committed must be a function of a token (got {show(value)}).")


@attrs.frozen
class DataSourceSink(Sink):
    """Gives records to a `pyspark.sql.datasource.DataSourceWriter`, as Spark does: one ``write`` for each segment.

    Records reach ``write`` as `process` yields them: yield what the writer takes, such as rows, or record batches for a
    `DataSourceArrowWriter`. Which target the writer writes to is its own affair: a resumed run notices only a writer of
    another class.

    Args:
        writer: the writer; or a function that makes one of the `Token` of the commit, for a writer that stores it.
        committed: says whether the writer has committed a token: ``committed(token) -> bool``. None: if a driver dies
            while the writer commits, the next call raises a `SinkError` that asks you.

    Raises:
        InvalidTypeError: if ``writer`` is no writer, or ``committed`` no function.
        SinkError: when it runs, if an earlier driver may have committed, and nobody can tell.
    """

    appends = True

    writer: Any = attrs.field(validator=_writer)
    committed: Callable[[Token], bool] | None = attrs.field(default=None, kw_only=True, validator=_committed)

    @property
    def takes_retries(self) -> bool:
        """Never: a writer may overwrite what it committed before."""
        return False

    def identity(self) -> Any:
        kind = type(self.writer) if _is_writer(self.writer) else self.writer
        name = getattr(kind, "__qualname__", type(kind).__qualname__)
        return {"sink": "DataSourceSink", "writer": f"{kind.__module__}.{name}"}

    def prepare(self, run: SinkRun) -> None:
        """A writer has no such call."""

    def check_commit(self, token: Token) -> None:
        if self.committed is None:
            name = type(self._made(token)).__name__
            raise SinkError(
                f"DataSourceSink cannot tell whether {name} has committed {token}: an earlier driver died or "
                f"failed while it did. Nothing was changed. Look whether the target has the records, and make the same "
                f"call with DataSourceSink(..., committed=lambda token: True) if so, with False if not. A function "
                f"that asks the target answers for every crash."
            )

    def write(self, records: Iterator[Any], place: Place) -> Any:
        first = list(itertools.islice(records, 1))
        if not first:
            return None
        message = self._made(place.token).write(itertools.chain(first, records))
        return {"pickle": base64.b64encode(cloudpickle.dumps(message)).decode()}

    def commit(self, messages: Sequence[Any], token: Token) -> None:
        if not self._is_committed(token):
            self._made(token).commit(_unpickled(messages))

    def abort(self, messages: Sequence[Any], token: Token) -> None:
        if self._is_committed(token):
            raise SinkError(f"DataSourceSink does not remove what was committed: {token} was. Remove it yourself.")
        self._made(token).abort(_unpickled(messages))

    def _is_committed(self, token: Token) -> bool:
        return self.committed is not None and bool(self.committed(token))

    def _made(self, token: Token) -> Any:
        """Return the writer."""
        made = self.writer if _is_writer(self.writer) else self.writer(token)
        if not _is_writer(made):
            raise InvalidTypeError(
                f"DataSourceSink writer must make a DataSourceWriter of a token (it made {show(made)})."
            )
        return made


def _unpickled(messages: Sequence[Any]) -> list[Any]:
    return [pickle.loads(base64.b64decode(message["pickle"])) for message in messages if message is not None]

"""What Python workers run on Spark Connect: functions for ``mapInArrow`` over one row, whose results are rows of bytes.

The row that comes in says nothing. What is to be done comes with the function.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs

from sdf.errors import SdfError
from sdf.spark import serde
from sdf.spark.connect.session import SentFile
from sdf.spark.expansion_job import Expand
from sdf.spark.payload import Carried, Payload, described
from sdf.spark.staged.task import StageTask

__all__ = ["RESULT", "ExpandTask", "SegmentTask", "unescaped"]

RESULT = "result binary"


@attrs.frozen(eq=False)
class ExpandTask:
    """Expands some elements, pickled as a list."""

    payload: Payload
    elements: Carried | SentFile

    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        """Yield one row for every 10,000 elements."""
        deque(rows, maxlen=0)  # read to the end
        with _telling():
            elements = serde.loads(self.elements.value)
            for one in Expand(self.payload, kept=True)(elements):
                yield _row(one if isinstance(one, bytes) else serde.dumps(one, "a table of elements"))


@attrs.frozen(eq=False)
class SegmentTask:
    """Runs one task of a stage of a saved run; its one row is the pickled receipt.

    Attributes:
        save: runs the tasks of the stage.
        task: number of the task.
        bundle: the work items and the budget in seconds, pickled.
    """

    save: StageTask
    task: int
    bundle: Carried | SentFile

    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        deque(rows, maxlen=0)  # read to the end
        with _telling():
            (receipt,) = self.save(self.task, [serde.loads(self.bundle.value)])
        yield _row(serde.dumps(receipt, "a receipt"))


@contextmanager
def _telling() -> Iterator[None]:
    """Make the text of an sdf error one that reaches the client.

    The traceback of the user's code goes into the message, since Spark SQL drops the causes of errors. All is escaped
    to ASCII: the server sends the first 2,048 characters in a header, where each other character takes up to 12 bytes,
    and a client drops the connection if headers have more than 16 kB.
    """
    try:
        yield
    except SdfError as error:
        escaped = described(error).replace("\\", r"\\").encode("ascii", "backslashreplace").decode()
        raise type(error)(escaped) from None  # Spark could not send a cause with lone surrogates


def unescaped(text: str) -> str:
    """Return the text of an sdf error as it was before a task escaped it; called on the driver."""
    return text.encode("ascii").decode("unicode_escape")


def _row(data: bytes) -> Any:
    import pyarrow  # type: ignore[import-untyped]

    return pyarrow.RecordBatch.from_pydict({"result": [data]}, schema=pyarrow.schema([("result", pyarrow.binary())]))

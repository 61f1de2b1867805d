"""Outlets: where a stream's batches go, its sinks and the user's function; and what a batch looks like there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import attrs
from pyspark import RDD, SparkContext

from sdf.model.forks import alone
from sdf.spark.jobs import explaining
from sdf.spark.stream.batch import Batch, Life
from sdf.spark.stream.batch_sink import BatchSink
from sdf.spark.stream.pins import Pin
from sdf.spark.stream.steps import Step

__all__ = ["Outlets"]


@attrs.frozen(eq=False)
class Outlets:
    """See the module's docstring.

    Args:
        sc: the context.
        steps: the steps of the chain.
        sinks: get the outputs that they are named for; may be empty.
        foreach_batch: called with each batch, after the sinks; or None.
        outputs: the names of the outputs, the main one first.
        name: of the stream, for messages.
        run_id: id of the stream's run.
    """

    _sc: SparkContext
    _steps: Sequence[Step]
    _sinks: Sequence[BatchSink]
    _foreach_batch: Callable[[Batch], Any] | None
    _outputs: tuple[str, ...]
    _name: str
    _run_id: str

    def is_out(self) -> bool:
        """Tell whether anyone outside may have records of the next batch, if it was begun."""
        return self._foreach_batch is not None or any(sink.has_written for sink in self._sinks)

    def outputs(self, pins: Sequence[Pin], life: Life) -> dict[str, RDD[Any]]:
        """Return the outputs of a batch; ``pins``: what its steps read, with the numbers of records there are now."""
        return {name: self._output(tag, pins, life) for tag, name in enumerate(self._outputs)}

    def give(self, batch: Batch, by: str, *, for_each: bool) -> None:
        """Give a batch to the sinks; what a Spark job of one raises becomes an error of sdf that names the batch.

        Args:
            batch: the batch.
            by: the driver that pinned it.
            for_each: whether the user's function gets it, too.
        """
        with explaining(f"batch {batch.id} of {self._name}, in the sink", self._run_id):
            # A record that one sink refuses may be left out then: so no sink commits before all have written.
            written = [sink.write(batch.id, by, batch.outputs[sink.output]) for sink in self._sinks]
            kept = [sink.keep(messages) for sink, messages in zip(self._sinks, written, strict=True)]
            for sink, messages in zip(self._sinks, kept, strict=True):
                sink.commit(batch.id, by, messages)
            if for_each:
                self._give_function(batch)

    def tell(self, number: int, key: str, watermark: Any) -> None:
        """Tell the user's function of a watermark that has moved, by a batch without records."""
        if self._foreach_batch is not None:
            outputs: dict[str, RDD[Any]] = {name: self._sc.parallelize([], 1) for name in self._outputs}
            self._give_function(Batch(number, outputs["main"], watermark, key, outputs))

    def _give_function(self, batch: Batch) -> None:
        if self._foreach_batch is not None:
            with alone("foreach_batch()"):  # else a forked process would be a second driver
                self._foreach_batch(batch)

    def _output(self, tag: int, pins: Sequence[Pin], life: Life) -> RDD[Any]:
        """Return an output of a batch: the main one of the last step, or those of all steps with a tag."""
        steps = list(zip(self._steps, pins, strict=True))
        found = [step.records(pin, life, tag) for step, pin in steps[0 if tag else -1 :] if pin.records(tag)]
        if not found:
            return self._sc.parallelize([], 1)
        return found[0] if len(found) == 1 else self._sc.union(found)

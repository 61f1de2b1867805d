"""Given: what a stream's steps get besides elements: tags, side inputs. A pinned batch must be given what it had."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs
from pyspark import RDD

from sdf.errors import InvalidTypeError, JournalError, show
from sdf.journal.chain import canonical, sha256
from sdf.journal.pending import steady
from sdf.limits.rate_limit import RateLimit
from sdf.model.dofn import DoFn, check_fn
from sdf.model.each import check_functions, side_inputs_of

__all__ = ["Given", "given_to"]


@attrs.frozen
class Given:
    """What the steps of a stream get.

    Attributes:
        tags: the declared tags, in order.
        side_inputs: for each step its side inputs, by name.
        hashes: a hash of each side input that records may depend on, the same in each process (`steady`).
    """

    tags: tuple[str, ...]
    side_inputs: tuple[Mapping[str, Any], ...]
    hashes: Mapping[str, str]

    def facts(self, step: int) -> dict[str, Any]:
        """Return as JSON data what a step's records may depend on: tags, and a hash of each side input it takes."""
        return {"tags": list(self.tags), "side_inputs": self._hashes_of(step)}

    def admit(self, step: int, pin: dict[str, Any], batch: int) -> dict[str, Any]:
        """Return a pinned step as JSON data, with its records counted by the tags of now.

        Until the last step is pinned, nobody outside has had a record of the batch: then what the pinned steps do not
        use may change, else an error in a later step could not be mended by other tags or side inputs.

        Raises:
            JournalError: if the step was given something else, naming what differs.
        """
        was, now = pin["given"]["side_inputs"], self._hashes_of(step)
        other = sorted(name for name in was.keys() | now.keys() if was.get(name) != now.get(name))
        flaws = [f"other values of the side inputs {show(other)}"] if other else []
        tags = tuple(pin["given"]["tags"])
        counted = [dict(zip(tags, counts[1:], strict=True)) for counts in pin["counts"]]
        is_last = step + 1 == len(self.side_inputs)
        gone = any(count for counts in counted for tag, count in counts.items() if tag not in self.tags)
        if gone or (is_last and tags != self.tags):
            flaws.append(f"tags={show(tags)}, not {show(self.tags)}")
        if flaws:
            given = "the sink may have it" if is_last else "later steps have used it"
            raise JournalError(
                f"batch {batch} was read with {' and '.join(flaws)}, and {given}. Restart with the "
                f"earlier values and until=Until(max_batches=1); then change them."
            )
        both = zip(pin["counts"], counted, strict=True)
        return {**pin, "counts": [[main, *(by_tag.get(tag, 0) for tag in self.tags)] for (main, *_), by_tag in both]}

    def _hashes_of(self, step: int) -> dict[str, str]:
        return {name: self.hashes[name] for name in self.side_inputs[step] if name in self.hashes}


def given_to(fns: Sequence[DoFn], side_inputs: Mapping[str, Any] | None, tags: tuple[str, ...], who: str) -> Given:
    """Return what each DoFn of a chain gets: the side inputs whose names its `process`, or function, takes.

    An RDD is collected.

    Raises:
        InvalidTypeError: if a side input has a name that none of them takes, or a DoFn wants one that is not there.
    """
    if side_inputs is not None and not isinstance(side_inputs, Mapping):
        raise InvalidTypeError(f"{who} side_inputs must map names to values (got {show(side_inputs)}).")
    values = {name: value.collect() if isinstance(value, RDD) else value for name, value in (side_inputs or {}).items()}
    shares = tuple(side_inputs_of(type(fn), values) for fn in fns)
    unused = [name for name in values if not any(name in share for share in shares)]
    if unused:
        raise InvalidTypeError(
            f"{who} side_inputs has {show(unused)}, which no process() and no function of the chain takes by name."
        )
    for fn, share in zip(fns, shares, strict=True):
        check_fn(fn, share, who)
        check_functions(fn, share, who)
    hashes = {
        name: sha256(canonical(steady(value)))[:16]
        for name, value in values.items()
        if not isinstance(value, RateLimit)
    }
    return Given(tags, shares, hashes)

"""``python -m sdf.journal show|verify|clean CHECKPOINT`` for streams: what is done, and what is left."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from sdf.errors import JournalCorruptError, JournalError, show
from sdf.journal.chain import Block, blobs_of, find_head, read_ahead, read_blob, verify
from sdf.journal.fenced_files import remove_unused
from sdf.journal.pending import from_data
from sdf.journal.remaining import Remaining
from sdf.storage.places import Storage

__all__ = ["check_resume", "clean", "run"]

_MOST_SHOWN = 1000


def check_resume(storage: Storage) -> None:
    """Check the files that a driver would read to resume.

    Raises:
        JournalCorruptError: naming a file that is missing or damaged.
    """
    head = find_head(storage)
    if head is None:
        return
    try:
        for blob in blobs_of(head.data.get("checkpoint")):
            read_blob(storage, blob)
        for name in storage.names("ahead"):
            if name > f"ahead/{head.seq + 1:020d}":
                with suppress(FileNotFoundError):  # a running stream has removed it since
                    read_ahead(storage, name)
    except JournalCorruptError:
        now = find_head(storage)
        if now is None or now.seq == head.seq:
            raise
        check_resume(storage)  # a running stream has gone on, and does not need that file any more


def clean(storage: Storage) -> list[str]:
    """Remove the files that crashes have left and no resume needs, and return their names.

    No driver may run on the journal meanwhile: a file that it has just written may look like one that a crash left.
    """
    head = find_head(storage)
    if head is None:
        return []
    used = [blob for key in ("checkpoint", "prev_checkpoint") for blob in blobs_of(head.data.get(key))]
    return remove_unused(storage, used, "ahead", f"ahead/{head.seq + 1:020d}", ("blocks", ""))


def run(what: str, storage: Storage) -> int:
    """Print what a stream has done, check all of it, or remove what crashes have left in it; return the exit code.

    Raises:
        JournalError: if the journal is damaged.
        OSError: if a store refuses, or is out of reach.
    """
    blocks = 0
    for block in verify(storage):
        blocks += 1
        if what == "show":
            print(_line(block))
    if what == "show":
        for line in _remaining(storage):
            print(line)
    check_resume(storage)
    if what == "clean":
        print(f"removed {len(clean(storage))} files that crashes had left")
    print(f"{blocks} blocks, the chain is whole" if blocks else "there is no journal here")
    return 0 if blocks else 1


def _remaining(storage: Storage) -> Iterator[str]:
    """Yield a line for each of the first parts of the remaining work: where each file or partition stands."""
    head = find_head(storage)
    blobs = None if head is None else blobs_of(head.data.get("checkpoint"))
    if head is None or not blobs:
        return
    names = [one["id"] for one in head.data["inputs"]]
    try:
        remaining, _ = Remaining.load(lambda blob: read_blob(storage, blob), blobs, head.data["time"])
    except JournalError as error:
        yield f"the remaining work cannot be shown: {error}"
        return
    for work in islice(remaining, _MOST_SHOWN):
        yield f"left: {names[work.part.step]}  {show(work.part.element)}  {show(work.part.restriction)}"
    if len(remaining) > _MOST_SHOWN:
        yield f"left: {len(remaining) - _MOST_SHOWN} more parts"


def _line(block: Block) -> str:
    data = block.data
    if data["kind"] == "seed":
        return f"0  {data['time']}  seed  {json.dumps(data['config'], sort_keys=True)}"
    inputs = "  ".join(f"{one['id']} [{one['start']}, {one['stop']})" for one in data["inputs"])
    output = f"output [{data['output']['start']}, {data['output']['stop']})"
    lost = "".join(f"\n    lost: {text}" for text in data.get("lost", ()))
    for one in data.get("failed", ()):
        part, element = (show(from_data(one[name])) for name in ("restriction", "element"))
        lost += f"\n    failed: {part} of element {element}, {one['attempts']} attempts: {one['error']}"
    late = f"  {data['late']} late" if "late" in data else ""
    more = f"watermark {data['watermark']}  {data['status']}{lost}"
    return f"{block.seq}  {data['time']}  {inputs}  {output}{late}  {more}"

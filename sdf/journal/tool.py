"""The journal on the command line: ``python -m sdf.journal show|verify|clean DIR``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress

from sdf.errors import JournalCorruptError, JournalError
from sdf.journal.chain import Block, blob_name, find_head, read_ahead, read_blob, verify
from sdf.storage.disk import Disk, is_directory

__all__ = ["check_resume", "clean", "main"]


def check_resume(disk: Disk) -> None:
    """Check the files that a driver would read to resume.

    Raises:
        JournalCorruptError: naming a file that is missing or damaged.
    """
    head = find_head(disk)
    if head is None:
        return
    try:
        if head.data.get("checkpoint") is not None:
            read_blob(disk, head.data["checkpoint"])
        for name in disk.names("ahead"):
            if name > f"ahead/{head.seq + 1:020d}" and not name.endswith(".void.json"):
                with suppress(FileNotFoundError):  # a running stream has removed it since
                    read_ahead(disk, name)
    except JournalCorruptError:
        now = find_head(disk)
        if now is None or now.seq == head.seq:
            raise
        check_resume(disk)  # a running stream has gone on, and does not need that file any more


def clean(disk: Disk) -> list[str]:
    """Remove the files that crashes have left and no resume needs, and return their names.

    No driver may run on the journal meanwhile: a file that it has just written may look like one that a crash left.
    """
    head = find_head(disk)
    if head is None:
        return []
    keep = {blob_name(head.data[key]) for key in ("checkpoint", "prev_checkpoint") if head.data.get(key)}
    unused = [name for name in disk.names("blobs") if name not in keep]
    unused += [name for name in disk.names("ahead") if name < f"ahead/{head.seq + 1:020d}"]
    unused += [name for directory in ("blobs", "ahead", "blocks", "") for name in disk.half_written(directory)]
    for name in unused:
        disk.remove(name)
    return unused


def main(
    arguments: Sequence[str],
    program: str = "python -m sdf.journal",
    *,
    saved: Callable[[str, Disk], int | None] = lambda what, disk: None,
) -> int:
    """Print what a stream or a saved run has done, check all of it, or remove what crashes have left in it.

    python -m sdf.journal show|verify|clean DIR; clean only while no stream runs on it.
    """
    options = argparse.ArgumentParser(prog=program, description=main.__doc__)
    options.add_argument("what", choices=["show", "verify", "clean"])
    options.add_argument("directory", help="the checkpoint directory of a stream or a saved run")
    given = options.parse_args(arguments)
    if not is_directory(given.directory):
        options.error(f"there is no directory {given.directory!r}")
    disk, blocks = Disk(given.directory), 0
    code = saved(given.what, disk)
    if code is not None:
        return code
    try:
        for block in verify(disk):
            blocks += 1
            if given.what == "show":
                print(_line(block))
        check_resume(disk)
        if given.what == "clean":
            print(f"removed {len(clean(disk))} files that crashes had left")
    except JournalError as error:
        print(error, file=sys.stderr)
        return 1
    print(f"{blocks} blocks, the chain is whole" if blocks else "there is no journal here")
    return 0 if blocks else 1


def _line(block: Block) -> str:
    data = block.data
    if data["kind"] == "seed":
        return f"0  {data['time']}  seed  {json.dumps(data['config'], sort_keys=True)}"
    inputs = "  ".join(f"{one['id']} [{one['start']}, {one['stop']})" for one in data["inputs"])
    output = f"output [{data['output']['start']}, {data['output']['stop']})"
    return f"{block.seq}  {data['time']}  {inputs}  {output}  watermark {data['watermark']}  {data['status']}"

"""The command that looks after a checkpoint, of a stream or of a saved run."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from sdf.errors import JournalError, SdfError
from sdf.journal import tool as streams
from sdf.saving import tool as saved_runs
from sdf.storage.places import storage_at

__all__ = ["main"]


def main(arguments: Sequence[str], program: str = "python -m sdf.journal") -> int:
    """Print what a stream or a saved run has done, check all of it, or remove what crashes have left in it.

    python -m sdf.journal show|verify|clean CHECKPOINT; clean only while no stream runs on it.
    """
    options = argparse.ArgumentParser(prog=program, description=main.__doc__)
    options.add_argument("what", choices=["show", "verify", "clean"])
    options.add_argument(
        "checkpoint", help="of a stream or a saved run: a directory, or a URL such as s3://bucket/state"
    )
    given = options.parse_args(arguments)
    try:
        storage = storage_at(given.checkpoint, "the checkpoint")
    except SdfError as error:
        options.error(str(error))
    try:
        code = saved_runs.run(given.what, storage)
        return streams.run(given.what, storage) if code is None else code
    except (JournalError, OSError) as error:
        print(error, file=sys.stderr)
        return 1

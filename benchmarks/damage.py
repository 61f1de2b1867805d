"""How many bytes of a file can be damaged so that no reader notices, by format?

Each file has the same 24 records. At each byte in turn one bit is flipped, or everything from there on is missing, or
is zeros. Damage is not noticed where there is no error, but records are missing or are others. A file that is cut where
a part of it ends is whole, in most formats: they do not say how many parts there are. A process that damage ends counts
as an error, which a run would show.

    python benchmarks/damage.py [--only gzip tar]
"""

import os
import sys
import tempfile
from pathlib import Path

from harness import HERE, Bench

sys.path.insert(0, str(HERE.parent / "tests"))

from support.damaged_files import DAMAGE, FORMATS, LINES

NOTICED, HARMLESS, MISSING, OTHERS, ENDED = "nhmoe"


def outcome(fmt, path, damage, at):
    path.write_bytes(fmt.damaged(damage, at))
    found, failed = fmt.read(str(path))
    if failed:
        return NOTICED
    return HARMLESS if found == LINES else MISSING if found == LINES[: len(found)] else OTHERS


def outcomes(fmt, folder, damage):
    """Return a letter for each byte; a process of its own goes on where damage has ended one."""
    path, letters = folder / fmt.name, folder / "letters"
    letters.write_text("")
    while len(known := letters.read_text()) < len(fmt.data):
        child = os.fork()
        if not child:
            with open(letters, "a", buffering=1) as file:
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                for at in range(len(known), len(fmt.data)):
                    file.write(outcome(fmt, path, damage, at))
                    file.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            with open(letters, "a") as file:
                file.write(ENDED)
    return known


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--only", list(FORMATS), choices=list(FORMATS))
    given = bench.begin()
    formats = {"": "{}", "bytes": "{:,}"}
    formats |= {f"{damage}: {what}": "{:,}" for damage in DAMAGE for what in ("missing", "others")}
    shown = bench.table("bytes whose damage gives no error, but records that are missing, or others", formats)
    wrong = ended = 0
    for name in given.only:
        fmt, row = FORMATS[name], []
        with tempfile.TemporaryDirectory() as folder:
            for damage in DAMAGE:
                found = outcomes(fmt, Path(folder), damage)
                row += [found.count(MISSING), found.count(OTHERS)]
                places = fmt.checked if damage == "flipped" else range(len(found) if len(fmt.checked) else 0)
                wrong += sum(found[at] == OTHERS for at in places)
                ended += found.count(ENDED)
        shown.row(name, len(fmt.data), *row)
    bench.note(f"Damage has ended {ended} processes.")
    bench.claim("other records where a checksum or a length shows damage", wrong, at_most=0)
    bench.end()


if __name__ == "__main__":
    main()

"""Spares Python's garbage collector what a Python worker holds for good, which saves about 20 ms of CPU in each task.

PySpark collects garbage in full after each task. The modules of PySpark and sdf alone are so many objects that this
takes 20 ms, while nothing else of the task's start takes more than 5. `gc.freeze` moves all objects that exist out of
the collector's sight. It is called once in each process, as its first task of sdf begins: the modules are loaded, and
nothing of a DoFn exists yet. A job of 8 empty tasks on two cores takes 120 ms, and 210 ms without this.

What was frozen and falls out of use later is freed as ever, unless it is part of a reference cycle.
"""

from __future__ import annotations

import gc

__all__ = ["freeze_once"]

_frozen = False  # gc.get_freeze_count() would tell, too, but it takes 2 ms: it counts all that is frozen


def freeze_once() -> None:
    """Freeze the objects of this process, unless that was done before."""
    global _frozen
    if not _frozen:
        _frozen = True
        gc.freeze()

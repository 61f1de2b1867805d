"""PySpark's daemon, from which its workers are forked, with what the workers of most tests with RDDs import.

PySpark's workers collect garbage after each task. They do not look through what is imported here.
"""

import gc
from contextlib import suppress

from pyspark.daemon import manager

with suppress(ImportError):  # workers without sdf are tested, too
    import sdf.io
    import sdf.sinks
    import sdf.spark.live.link
    import sdf.spark.run
    import sdf.spark.staged.task  # noqa: F401
    from support import failing, fns, killing  # noqa: F401


def run():
    gc.collect()
    gc.freeze()
    manager()


if __name__ == "__main__":
    run()

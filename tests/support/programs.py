"""Programs that start Spark, one after the other in one process: the JVM of the first one serves the others."""

ONE_AFTER_THE_OTHER = """
import os, runpy, sys
for sys.argv in [[file] for file in sys.argv[1:]]:
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
    print(chr(12), end="")
"""


def in_one_process(run, files):
    """Return what each program prints.

    Args:
        run: runs Python with some arguments; returns what it prints.
        files: the programs, for which `runpy` stands in as if Python were started with each.
    """
    return run("-c", ONE_AFTER_THE_OTHER, *map(str, files)).split(chr(12))[:-1]

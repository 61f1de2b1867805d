"""Programs that start Spark, one after the other in one process: the JVM of the first one serves the others."""

import json

ONE_AFTER_THE_OTHER = """
import json, os, runpy, sys
for sys.argv in json.loads(sys.argv[1]):
    sys.path[0] = os.path.dirname(os.path.abspath(sys.argv[0]))
    runpy.run_path(sys.argv[0], run_name="__main__")
    print(chr(12), end="")
"""


def in_one_process(run, programs):
    """Return what each program prints.

    Args:
        run: runs Python with some arguments; returns what it prints.
        programs: the file of each and its arguments; `runpy` stands in for a Python that is started with each.
    """
    given = json.dumps([list(map(str, program)) for program in programs])
    return run("-c", ONE_AFTER_THE_OTHER, given).split(chr(12))[:-1]

"""Calls at once, each in a process of its own: forked from one that has imported all, so that they meet.

As a program: python at_once.py, with modules and calls pickled on standard input. Its own process never runs a call, so
it has no threads that a fork would lose.
"""

import importlib
import os
import pickle
import subprocess
import sys
import traceback


def at_once(*calls, importing=()):
    """Call functions, each given with its arguments; return what they return.

    Args:
        calls: a function and its arguments, each.
        importing: the modules that the calls need and that do not come with what is pickled.
    """
    command = [sys.executable, __file__]
    done = subprocess.run(
        command, input=pickle.dumps((importing, calls)), stdout=subprocess.PIPE, check=True, timeout=300
    )
    return pickle.loads(done.stdout)


def forked(call, gate, ready):
    """Start a process that makes a call once the gate is closed; return its id, and where its result comes from."""
    result, its_result = os.pipe()
    pid = os.fork()
    if pid:
        os.close(its_result)
        return pid, result
    status = 1
    try:
        os.close(gate[1])
        os.write(ready, b".")
        os.read(gate[0], 1)
        function, *args = call
        os.write(its_result, pickle.dumps(function(*args)))
        status = 0
    except BaseException:
        traceback.print_exc()
    os._exit(status)


if __name__ == "__main__":
    modules, calls = pickle.load(sys.stdin.buffer)
    for module in modules:
        importlib.import_module(module)
    gate, (arrived, ready) = os.pipe(), os.pipe()
    running = [forked(call, gate, ready) for call in calls]
    waiting = 0
    while waiting < len(calls):
        waiting += len(os.read(arrived, len(calls)))
    os.close(gate[1])
    statuses = [os.waitpid(pid, 0)[1] for pid, _ in running]
    if any(statuses):
        sys.exit(1)
    sys.stdout.buffer.write(pickle.dumps([pickle.loads(os.read(result, 1 << 16)) for _, result in running]))

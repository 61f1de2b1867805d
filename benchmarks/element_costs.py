"""Where does each microsecond of a small element go, alone and in bulk?

CPU of each step, in this process, without Spark: expanding, the way to the driver and into its ledger, the way back,
and running. "alone" is what each element cost before there were tables, and still costs if it must be alone. Spark's
own share is in `growth.py`, which has the whole.

    python benchmarks/element_costs.py
"""

import time
from functools import partial

from growth import OneFn
from harness import Bench

from sdf.execution.bulk.making import expand_in_bulk
from sdf.execution.executor import Executor
from sdf.execution.expansion import expand
from sdf.scheduling.run_state import RunState, enter
from sdf.scheduling.work_queue import WorkQueue
from sdf.spark import serde

TOGETHER = 1000  # elements alone that are pickled together, as in a Spark job
ASSIGNED = 16  # work items in a message, or in the task of a stage
MOST_US = 3.0  # of all steps in bulk; growth.py: 4 us with what Spark takes
MOST_TUPLE_US = 5.0  # each restriction must be made from its tuple


class TupleFn(OneFn):
    """The same with a plain tuple for each restriction."""

    def get_initial_restriction(self, element):
        return 0, 1


class Granted:
    """Stands in for a tracker."""

    def try_claim(self, position):
        return True


class Steps:
    """Takes the CPU time of steps.

    Args:
        elements: how many.
    """

    def __init__(self, elements):
        self.elements = elements
        self.us = {}

    def take(self, what, step):
        began = time.process_time()
        result = step()
        self.us[what] = (time.process_time() - began) / self.elements * 1e6
        return result


def chunks(items, most):
    return [items[at : at + most] for at in range(0, len(items), most)]


def there_and_back(items, most):
    """Pickle and unpickle so many at a time."""
    return [one for some in chunks(items, most) for one in serde.loads(serde.dumps(some, "some"))]


def run_all(fn, items):
    executor = Executor(fn, side_inputs=None, clock=time.monotonic)
    records = 0
    for item in items:
        with executor.start(item).outputs() as outputs:
            for _ in outputs:
                records += 1
        executor.end()
    return records


def bare(fn, elements):
    for element in elements:
        for _ in fn.process(element, Granted()):
            pass


def measured(fn, elements, expanded, together):
    """Return the microseconds of each step, for elements that ``expanded`` expands."""
    steps = Steps(len(elements))
    steps.take("get_initial_restriction(), the user's", lambda: [fn.get_initial_restriction(one) for one in elements])
    made = steps.take("expand, with the user's", lambda: list(expanded(elements)))
    made = steps.take("to the driver", lambda: there_and_back(made, together))
    work = RunState(fn)
    backlog = WorkQueue(work.costs)
    steps.take("into the ledger", lambda: enter(work, backlog, made))
    items = steps.take("out of the queue", lambda: [backlog.pop() for _ in range(len(backlog))])
    sent = steps.take("to a worker", lambda: there_and_back(items, min(together, ASSIGNED)))
    steps.take("process(), the user's", lambda: bare(fn, elements))
    records = steps.take("run, with the user's", lambda: run_all(fn, sent))
    assert records == len(elements), "not each record once"
    return steps.us


def main():
    bench = Bench(__doc__, rounds=1)
    bench.option("--elements", 200_000, quick=5000)
    given = bench.begin()
    elements = list(range(given.elements))
    fn = OneFn()
    alone = measured(fn, elements, lambda some: (expand(fn, one) for one in some), TOGETHER)
    bulk, tuples = (
        measured(fn, elements, lambda some, fn=fn: expand_in_bulk(fn, some, partial(serde.dumps, what="some")), 1)
        for fn in (OneFn(), TupleFn())
    )
    table = bench.table(
        f"{given.elements:,} elements that do next to nothing; microseconds of CPU each",
        {"step": "{}", "alone": "{:.2f}", "in bulk": "{:.2f}", "in bulk, tuples": "{:.2f}"},
    )
    for what, us in alone.items():
        table.row(what, us, bulk[what], tuples[what])
    all_alone, in_bulk, of_tuples = (
        sum(us for what, us in steps.items() if not what.endswith(", the user's")) for steps in (alone, bulk, tuples)
    )
    table.row("all", all_alone, in_bulk, of_tuples)
    bench.claim("us of CPU of an element in bulk, without Spark", in_bulk, at_most=MOST_US)
    bench.claim("us of CPU of an element with a tuple, in bulk, without Spark", of_tuples, at_most=MOST_TUPLE_US)
    bench.end()


if __name__ == "__main__":
    main()

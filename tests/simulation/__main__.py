"""Runs seeds: one, with its history, perhaps shrunk; or many in several processes.

PYTHONPATH=tests .venv/bin/python -m simulation --seed 123 [--plan JSON] [--history] [--shrink]
PYTHONPATH=tests .venv/bin/python -m simulation --seeds 10000 --processes 2
"""

import argparse
import sys
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor

from simulation import plan as plans
from simulation.world import World, failure_of

CHUNK = 100


def counted(seeds):
    """Run seeds; return the counts of all, the seeds that failed, and the seconds of CPU."""
    began, counts, failed = time.process_time(), Counter(), []
    for seed in seeds:
        world = World(plans.draw(seed))
        try:
            world.run()
        except Exception as error:
            failed.append((seed, f"{type(error).__name__}: {error}"))
        counts.update(world.counts)
    return counts, failed, time.process_time() - began


def run_many(first, number, processes):
    """Run seeds in several processes; print what has happened."""
    began, counts, failed, cpu = time.monotonic(), Counter(), [], 0.0
    chunks = [range(at, min(at + CHUNK, first + number)) for at in range(first, first + number, CHUNK)]
    with ProcessPoolExecutor(processes) as pool:
        for some, wrong, seconds in pool.map(counted, chunks):
            counts += some
            failed += wrong
            cpu += seconds
    for what, times in sorted(counts.items(), key=lambda each: -each[1]):
        print(f"{times:>10,}  {what}")
    seconds = time.monotonic() - began
    print(f"{number} seeds in {seconds:.0f} s, {number / seconds:.0f} a second, {1000 * cpu / number:.1f} ms each")
    for seed, error in failed:
        print(f"{error}\n  {plans.draw(seed).command()}")
    print(f"{len(failed)} wrong")
    return bool(failed)


def run_one(plan, *, history, shrink):
    """Run a plan; print how it ends."""
    if shrink:
        plan = plans.shrink(plan, failure_of)
    world = World(plan)
    print(plan)
    try:
        world.run()
    except Exception:
        traceback.print_exc()
        print(plan.command())
        return True
    finally:
        for event in world.history if history else ():
            print(*event)
    print(dict(world.counts))
    if shrink:
        print("this plan does not fail: there is nothing to shrink")
    return False


def main():
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--plan", default="")
    parser.add_argument("--history", action="store_true")
    parser.add_argument("--shrink", action="store_true")
    given = parser.parse_args()
    if given.seeds and (given.plan or given.history or given.shrink):
        parser.error("--plan, --history and --shrink are for one seed; leave out --seeds")
    if given.seeds:
        return run_many(given.seed, given.seeds, given.processes)
    return run_one(plans.read(given.seed, given.plan), history=given.history, shrink=given.shrink)


if __name__ == "__main__":
    sys.exit(main())

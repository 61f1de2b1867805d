"""Two drivers, each a process of its own, that create the same files at the same moment.

As a program it is one of them: python racing.py PLACE RACES [S3A], with the settings of an S3 server as JSON.
"""

import json
import subprocess
import sys
from collections import Counter

RACES = 100


def race(place, *settings):
    """Let two drivers race; return how often each has won. In each race one wins, and the other is refused."""
    command = [sys.executable, __file__, place, str(RACES), *map(json.dumps, settings)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    racers = [subprocess.Popen(command, **pipes) for _ in range(2)]
    for racer in racers:
        while "ready" not in racer.stdout.readline():
            assert racer.poll() is None
    wins = Counter()
    for number in range(RACES):
        for racer in racers[:: 1 if number % 2 else -1]:  # the one that hears of it first has an advantage
            racer.stdin.write("\n")
            racer.stdin.flush()
        said = tuple(racer.stdout.readline().strip() for racer in racers)
        assert sorted(said) == ["lost", "won"]
        wins[said.index("won")] += 1
    assert [racer.wait(60) for racer in racers] == [0, 0]
    return [wins[0], wins[1]]


def main(place, races, *settings):
    from sdf.storage.places import storage_at

    beyond = None
    if place.startswith(("hdfs:", "s3a:")):
        from pyspark import SparkConf, SparkContext

        from sdf.spark.door.hadoop import hadoop_files as beyond
        from support.hadoop import add_s3a

        sc = SparkContext(conf=SparkConf().setMaster("local[1]").set("spark.ui.enabled", "false"))
        for given in settings:
            add_s3a(sc, json.loads(given))
    storage = storage_at(place, "a race", beyond=beyond)
    storage.create(storage.writer, b"")  # whatever is done once is done
    print("ready", flush=True)
    for number in range(int(races)):
        sys.stdin.readline()
        try:
            storage.create(f"{number}", storage.writer.encode())
            print("won", flush=True)
        except FileExistsError:
            print("lost", flush=True)


if __name__ == "__main__":
    sys.path[0] = sys.path[0].removesuffix("/support")
    main(*sys.argv[1:])

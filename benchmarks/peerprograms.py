"""The programs that `peers.py` measures sdf against, each as the documentation of its library suggests.

They are sorted by row, then by library. This file runs in the Python that has the libraries, warms up on small
arguments, and prints one JSON line: the seconds that the work took, and its result. Without arguments it prints which
libraries are installed.

    python peerprograms.py dask lines_dask '["small.txt"]' '["big.txt"]'
"""

import glob
import hashlib
import itertools
import json
import os
import sys
import tempfile
import time
from contextlib import contextmanager

CORES = 2
PIECES = 32 * CORES  # of what is cut by hand
NAMES = {
    "beam": "Beam",
    "beam2": "Beam, 2 processes",
    "dask": "Dask bag",
    "ray": "Ray Data",
    "joblib": "joblib",
    "pool": "multiprocessing.Pool",
}
STYLE = {"beam2": "beam", "joblib": "each", "pool": "each"}  # whose programs these run


# What starts a library. It gives what the programs below call.


@contextmanager
def start_beam(**options):
    """Give a function that runs a pipeline and returns the sum of what it makes.

    Beam's local runner has no cluster that outlives a pipeline: what it starts is part of its seconds.
    """
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions

    def total(transform):
        with tempfile.TemporaryDirectory() as folder:
            with beam.Pipeline("DirectRunner", options=PipelineOptions(**options)) as pipeline:
                found = pipeline | transform | beam.CombineGlobally(sum)
                found | beam.io.WriteToText(f"{folder}/found", shard_name_template="")
            with open(f"{folder}/found") as file:
                return int(file.read())

    yield total


def start_beam2():
    return start_beam(direct_running_mode="multi_processing", direct_num_workers=CORES)


@contextmanager
def start_dask():
    import dask.bag
    from dask.distributed import Client, LocalCluster

    with LocalCluster(n_workers=CORES, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster):
        yield dask.bag


@contextmanager
def start_ray():
    import logging

    import ray.data

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(num_cpus=CORES, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    ray.data.DataContext.get_current().enable_progress_bars = False
    yield ray.data
    ray.shutdown()


@contextmanager
def start_joblib():
    from joblib import Parallel, delayed

    with Parallel(n_jobs=CORES, return_as="generator_unordered") as parallel:
        yield lambda function, parts: parallel(delayed(function)(part) for part in parts)


@contextmanager
def start_pool():
    from multiprocessing import Pool

    with Pool(CORES) as pool:
        yield lambda function, parts: pool.imap_unordered(function, parts, max(1, len(parts) // (4 * PIECES)))


# Lines of one big file, their lengths summed.


def lines_beam(total, path):
    import apache_beam as beam

    return total(beam.io.ReadFromText(path) | beam.Map(len))


def lines_dask(bag, path):
    return bag.read_text(path, blocksize="16MiB").map(lambda line: len(line) - 1).sum().compute()


def lines_ray(data, path):
    lengths = data.read_text(path).map_batches(lambda batch: {"n": [sum(map(len, batch["text"]))]}, batch_size=None)
    return total_of_ray(lengths, "n")


def lines_ray_by_hand(data, path):
    items = data.from_items(byte_ranges(path), override_num_blocks=PIECES)
    return total_of_ray(items.map(lambda row: {"n": length_of_range(row["item"])}), "n")


def total_of_ray(dataset, column):
    """Return a sum, added up here: Dataset.sum() shuffles, which takes longer."""
    return sum(int(batch[column].sum()) for batch in dataset.iter_batches(batch_size=None))


def lines_each_by_hand(each, path):
    return sum(each(length_of_range, byte_ranges(path)))


def byte_ranges(path):
    return [[path, *part] for part in ranges(os.path.getsize(path), PIECES)]


def length_of_range(part):
    """Return the length of the lines that start in a range of bytes."""
    path, start, stop = part
    length = 0
    with open(path, "rb") as file:
        if start:
            file.seek(start - 1)
            file.readline()
        at = file.tell()
        for line in file:
            if at >= stop:
                break
            at += len(line)
            length += len(line.decode()) - 1
    return length


# Few elements, each with many outputs, which are counted. Elements are [name, first, last].


def count_beam(total, elements, pieces):
    import apache_beam as beam

    outputs_of = counted_by_beam(lambda name, i: (name, i))
    return total(beam.Create(cut(elements, pieces)) | beam.Reshuffle() | outputs_of | count_of_beam())


def count_dask(bag, elements, pieces):
    parts = cut(elements, pieces)
    return bag.from_sequence(parts, npartitions=len(parts)).map(outputs).flatten().count().compute()


def count_ray(data, elements, pieces):
    parts = [dict(zip(("name", "first", "last"), part, strict=True)) for part in cut(elements, pieces)]

    def batches(batch):  # a generator, as Ray asks for where an element has many outputs
        for part in zip(batch["name"], batch["first"], batch["last"], strict=True):
            rows = outputs(part)
            while some := list(itertools.islice(rows, 10_000)):
                names, numbers = zip(*some, strict=True)
                yield {"name": list(names), "i": list(numbers)}

    return data.from_items(parts, override_num_blocks=len(parts)).map_batches(batches).count()


def count_each(each, elements, pieces):
    return sum(each(number_of_outputs, cut(elements, pieces)))


def cut(elements, pieces):
    return [[name, *part] for name, first, last in elements for part in ranges(last, pieces, first)]


def outputs(part):
    name, first, last = part
    for i in range(first, last):
        yield name, i


def number_of_outputs(part):
    return sum(1 for _ in outputs(part))


def counted_by_beam(output):
    """A splittable DoFn; elements are [what, first, last]."""
    import apache_beam as beam
    from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
    from apache_beam.transforms.core import RestrictionProvider

    class Provider(RestrictionProvider):
        def initial_restriction(self, element):
            return OffsetRange(element[1], element[2])

        def create_tracker(self, restriction):
            return OffsetRestrictionTracker(restriction)

        def restriction_size(self, element, restriction):
            return restriction.size()

    class CountFn(beam.DoFn):
        def process(self, element, tracker=beam.DoFn.RestrictionParam(Provider())):  # noqa: B008
            restriction = tracker.current_restriction()
            for i in range(restriction.start, restriction.stop):
                if not tracker.try_claim(i):
                    return
                yield output(element[0], i)

    return beam.ParDo(CountFn())


def count_of_beam():
    import apache_beam as beam

    return beam.combiners.Count.Globally()


# Blocks of work that cost unequally. Work is a dict: blocks, seconds of a block, hot blocks and their seconds.


def skew_beam(total, work, pieces):
    import apache_beam as beam

    parts = [[work, *part] for part in ranges(work["blocks"], pieces)]
    return total(beam.Create(parts) | beam.Reshuffle() | counted_by_beam(spend) | count_of_beam())


def skew_dask(bag, work, pieces):
    parts = bag.from_sequence(ranges(work["blocks"], pieces), npartitions=min(pieces, 100))  # 100: Dask's own
    return parts.map(spend_all, work).flatten().count().compute()


def skew_ray(data, work, pieces):
    items = data.from_items(ranges(work["blocks"], pieces), override_num_blocks=min(pieces, 200))  # 200: Ray's own
    return items.flat_map(lambda row: [{"block": block} for block in spend_all(row["item"], work)]).count()


def skew_each(each, work, pieces):
    return sum(each(Spending(work), ranges(work["blocks"], pieces)))


class Spending:
    def __init__(self, work):
        self.work = work

    def __call__(self, part):
        return sum(1 for _ in spend_all(part, self.work))


def spend_all(part, work):
    return (spend(work, block) for block in range(*part))


def spend(work, block):
    """Compute until this thread has had so much of a core, whatever the speed of the machine is just now."""
    first, last = work["hot"]
    ends = time.thread_time() + (work["hot_seconds"] if first <= block < last else work["seconds"])
    while time.thread_time() < ends:
        hashlib.pbkdf2_hmac("sha256", b"block", b"salt", 20)
    return block


# Many files of lines, their lengths summed.


def files_beam(total, folder):
    import apache_beam as beam

    return total(beam.io.ReadFromText(f"{folder}/*.txt") | beam.Map(len))


def files_dask(bag, folder):
    return bag.read_text(f"{folder}/*.txt").map(lambda line: len(line) - 1).sum().compute()


def files_dask_by_hand(bag, folder):
    paths = sorted(glob.glob(f"{folder}/*.txt"))
    texts = bag.read_text(paths, files_per_partition=max(1, len(paths) // PIECES))
    return texts.map(lambda line: len(line) - 1).sum().compute()


def files_ray(data, folder):
    return lines_ray(data, folder)


def files_each(each, folder):
    return sum(each(length_of_file, glob.glob(f"{folder}/*.txt")))


def length_of_file(path):
    with open(path) as file:
        return sum(len(line) - 1 for line in file)


# One Avro file, its records counted.


def avro_beam(total, path):
    import apache_beam as beam

    return total(beam.io.ReadFromAvro(path) | count_of_beam())


def avro_dask(bag, path):
    return bag.read_avro(path, blocksize=1 << 22).count().compute()


def avro_ray(data, path):
    return data.read_avro(path).materialize().count()


def avro_each(each, path):
    return sum(each(records_of_avro, [path]))


def records_of_avro(path):
    import fastavro

    with open(path, "rb") as file:
        return sum(1 for _ in fastavro.reader(file))


# One gzip file of JSON lines, a field of which is summed.


def gzip_beam(total, path):
    import apache_beam as beam

    return total(beam.io.ReadFromText(path) | beam.Map(json.loads) | beam.Map(lambda row: row["id"]))


def gzip_dask(bag, path):
    return bag.read_text(path).map(json.loads).pluck("id").sum().compute()


def gzip_ray(data, path):
    return total_of_ray(data.read_json(path, lines=True), "id")


def gzip_each(each, path):
    return sum(each(sum_of_json, [path]))


def sum_of_json(path):
    import gzip

    with gzip.open(path, "rt") as file:
        return sum(json.loads(line)["id"] for line in file)


# One Parquet file, its rows as dicts, a field of which is summed.


def parquet_beam(total, path):
    import apache_beam as beam

    return total(beam.io.ReadFromParquet(path) | beam.Map(lambda row: row["id"]))


def parquet_dask(bag, path):
    import dask.dataframe

    frame = dask.dataframe.read_parquet(path, split_row_groups=True)
    return frame.to_bag(format="dict").pluck("id").sum().compute()


def parquet_ray(data, path):
    return total_of_ray(data.read_parquet(path).map(lambda row: {"id": row["id"]}), "id")


def parquet_each_by_hand(each, path):
    return sum(each(sum_of_row_group, row_groups(path)))


def row_groups(path):
    import pyarrow.parquet as pq

    return [[path, number] for number in range(pq.ParquetFile(path).num_row_groups)]


def sum_of_row_group(part):
    import pyarrow.parquet as pq

    path, number = part
    return sum(row["id"] for row in pq.ParquetFile(path).read_row_group(number).to_pylist())


def ranges(stop, pieces, start=0):
    """Cut a range into even ones."""
    bounds = [start + (stop - start) * number // pieces for number in range(pieces + 1)]
    return [list(pair) for pair in itertools.pairwise(bounds)]


def versions():
    """Return the version of each library that is here, or why it is not."""
    import importlib.metadata

    packages = {"beam": "apache-beam", "dask": "dask", "ray": "ray", "joblib": "joblib"}
    modules = {"beam": "apache_beam", "dask": "dask.distributed", "ray": "ray.data", "joblib": "joblib"}
    found = {}
    for peer, package in packages.items():
        try:
            importlib.import_module(modules[peer])
            found[peer] = f"{package} {importlib.metadata.version(package)}"
        except ImportError as error:
            print(f"{peer}: {error}", file=sys.stderr)
    if "beam" in found:
        found["beam"] += f", whose DirectRunner is {runner_of_beam()} here"
        found["beam2"] = found["beam"]
    found["pool"] = f"Python {sys.version.split()[0]}"
    return found


def runner_of_beam():
    """Return what the DirectRunner hands a pipeline to."""
    import apache_beam as beam

    with beam.Pipeline("DirectRunner") as pipeline:
        _ = pipeline | beam.Create([1])
    return type(pipeline.result).__module__.split(".")[-2]


def run(peer, program, small, arguments):
    """Return the seconds that a program took, those of the small one once it is warm, and its result."""
    with globals()[f"start_{peer}"]() as library:
        began, seconds = time.perf_counter(), []
        for given in (small, small, arguments):
            result = globals()[program](library, *given)
            ended = time.perf_counter()
            seconds.append(ended - began)
            began = ended
        return {"small_seconds": seconds[1], "seconds": seconds[2], "result": int(result)}


def main():
    if len(sys.argv) == 1:
        print(json.dumps(versions()))
        return
    peer, program, small, arguments = sys.argv[1:]
    try:
        told = run(peer, program, json.loads(small), json.loads(arguments))
    except Exception as error:
        told = {"failed": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"}
        raise
    finally:
        print("\n" + json.dumps(told), flush=True)


if __name__ == "__main__":
    main()

"""The files that all programs of `peers.py` read: rows like those of a log, in three formats."""

import gzip
import json
import random


def rows(count):
    """Give the same rows in every run."""
    chance = random.Random(5)
    for number in range(count):
        yield {
            "id": number,
            "user": f"user{number * 7919 % 100_003}",
            "score": number * 0.5,
            "text": f"{chance.getrandbits(400):x}",  # packs to half its size
        }


def write_avro(path, count):
    import fastavro

    fields = [("id", "long"), ("user", "string"), ("score", "double"), ("text", "string")]
    schema = {"type": "record", "name": "Row", "fields": [{"name": name, "type": kind} for name, kind in fields]}
    with open(path, "wb") as file:
        fastavro.writer(file, schema, rows(count), codec="deflate", sync_interval=64_000)


def write_gzip(path, count):
    with gzip.open(path, "wt", compresslevel=1) as file:
        file.writelines(json.dumps(row) + "\n" for row in rows(count))


def write_parquet(path, count):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(list(rows(count))), path, row_group_size=max(1, count // 16))

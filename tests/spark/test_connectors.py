"""Every connector gives the same records in this process, by stages and in lanes."""

import bz2
import gzip
import json
import sqlite3
import tarfile
from collections import Counter

import pytest
from support.compressed_files import bgzf

from sdf import LiveRunner, StagedRunner, run_direct, run_sdf
from sdf.io import (
    FileBlocks,
    ListObjects,
    MatchFiles,
    ReadAvro,
    ReadCsv,
    ReadJson,
    ReadJsonLines,
    ReadKafka,
    ReadLines,
    ReadLmdb,
    ReadPages,
    ReadParquet,
    ReadRecords,
    ReadSlices,
    ReadTable,
    ReadTar,
    ReadWarc,
    ReadXml,
)

COUNT = 1200
ROWS = [{"id": number, "name": f"name {number % 70}", "score": number / 2} for number in range(COUNT)]
TEXT = "".join(json.dumps(row) + "\n" for row in ROWS).encode()


def write(path, data):
    path.write_bytes(data)
    return [str(path)]


def lines(folder):
    return ReadLines(block_size=4000), write(folder / "a.txt", TEXT)


def blocks(folder):
    return FileBlocks(4000), write(folder / "a.txt", TEXT)


def match(folder):
    for number in range(30):
        write(folder / f"{number}.txt", b"")
    return MatchFiles(), [str(folder)]


def objects(folder):
    import fsspec

    fs = fsspec.filesystem("s3", skip_instance_cache=True)
    fs.call_s3("create_bucket", Bucket="many")
    for number in range(40):
        fs.call_s3("put_object", Bucket="many", Key=f"in/{number % 7}/{number}")
    return ListObjects(page_size=5), ["s3://many/in"]


def json_lines(folder):
    return ReadJsonLines(block_size=4000), write(folder / "a.jsonl", TEXT)


def json_array(folder):
    return ReadJson(block_size=4000), write(folder / "a.json", json.dumps(ROWS * 5).encode())


def csv(folder):
    text = "id,name\n" + "".join(f"{row['id']},{row['name']}\n" for row in ROWS)
    return ReadCsv(block_size=4000), write(folder / "a.csv", text.encode())


def slices(folder):
    return ReadSlices(7, block_size=400), write(folder / "a.bin", TEXT)


def fixed_records(folder):
    return ReadRecords(9), write(folder / "a.bin", TEXT)


def avro(folder):
    import fastavro

    fields = [{"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "score", "type": "double"}]
    with open(folder / "a.avro", "wb") as file:
        fastavro.writer(file, {"type": "record", "name": "Row", "fields": fields}, ROWS, sync_interval=1000)
    return ReadAvro(), [str(folder / "a.avro")]


def parquet(folder):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(ROWS), folder / "a.parquet", row_group_size=100)
    return ReadParquet(), [str(folder / "a.parquet")]


def bzip2(folder):
    pieces = [TEXT[start : start + 4000] for start in range(0, len(TEXT), 4000)]
    return ReadLines(), write(folder / "a.bz2", b"".join(map(bz2.compress, pieces)))


def blocked_gzip(folder):
    return ReadLines(), write(folder / "a.gz", bgzf([TEXT[at : at + 4000] for at in range(0, len(TEXT), 4000)]))


def plain_gzip(folder):
    return ReadLines(index_dir=str(folder / "index"), block_size=4000), write(folder / "a.gz", gzip.compress(TEXT))


def zstd(folder):
    import zstandard

    return ReadLines(), write(folder / "a.zst", zstandard.compress(TEXT))


def xml(folder):
    text = b"".join(b"<row><name>%b</name></row>\n" % row["name"].encode() for row in ROWS)
    return ReadXml("row", parse=bytes, block_size=400), write(folder / "a.xml", b"<rows>" + text + b"</rows>")


def zstd_of_many_frames(folder):
    import zstandard

    pieces = [TEXT[start : start + 4000] for start in range(0, len(TEXT), 4000)]
    return ReadLines(), write(folder / "a.zst", b"".join(map(zstandard.compress, pieces)))


def table(folder):
    with sqlite3.connect(folder / "a.db") as connection:
        connection.execute("CREATE TABLE rows (id INTEGER PRIMARY KEY, name TEXT, score REAL)")
        connection.executemany("INSERT INTO rows VALUES (:id, :name, :score)", ROWS)
    connection.close()
    return ReadTable(f"sqlite:///{folder / 'a.db'}", key="id", chunk_rows=100), ["rows"]


def lmdb(folder):
    import lmdb

    with lmdb.open(str(folder / "env"), map_size=1 << 24) as environment, environment.begin(write=True) as transaction:
        for row in ROWS:
            transaction.put(b"%06d" % row["id"], row["name"].encode())
    return ReadLmdb(block_prefix_bytes=4), [str(folder / "env")]


BROKERS = []


def kafka(folder):
    import confluent_kafka

    cluster = confluent_kafka.Producer({"test.mock.num.brokers": 1, "log_level": 0})
    BROKERS.append(cluster)  # the brokers live as long as it does
    (broker,) = cluster.list_topics(timeout=10).brokers.values()
    for row in ROWS:
        cluster.produce("rows", row["name"].encode(), key=b"%d" % row["id"])
    assert cluster.flush(10) == 0
    return ReadKafka({"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}), ["rows"]


def warc(folder):
    records = (b"WARC/1.0\r\nContent-Length: %d\r\n\r\n%b\r\n\r\n" % (len(one), one) for one in TEXT.splitlines())
    return ReadWarc(block_size=4000), write(folder / "a.warc.gz", b"".join(map(gzip.compress, records)))


def tar(folder):
    write(folder / "a.jsonl", TEXT)
    with tarfile.open(folder / "a.tar", "w") as archive:
        for number in range(100):
            archive.add(folder / "a.jsonl", str(number))
    return ReadTar(block_size=1 << 18), [str(folder / "a.tar")]


def pages(folder):
    return ReadPages(lambda rows, start, stop: rows[start:stop], len, page_size=100), [ROWS]


CONNECTORS = [lines, objects, json_array, avro, parquet, plain_gzip, table, lmdb, kafka, tar, pages]
LIKE_THEM = [  # they read as one of the connectors above does; tests/io/ has what is their own
    blocks, match, json_lines, csv, slices, fixed_records, bzip2, blocked_gzip, zstd, zstd_of_many_frames, xml, warc
]  # fmt: skip


@pytest.mark.parametrize(
    "make",
    [*CONNECTORS, *(pytest.param(one, marks=pytest.mark.slow("the same test with lines")) for one in LIKE_THEM)],
    ids=lambda make: make.__name__,
)
def test_every_way_of_running_gives_the_same_records(s3_server, sc, tmp_path, make):
    """As a multiset; a second action of the lanes too."""
    fn, elements = make(tmp_path)
    expected = Counter(map(repr, run_direct(elements, fn)))
    assert expected.total() > 10
    rdd = sc.parallelize(elements, 1)
    staged = run_sdf(rdd, fn, runner=StagedRunner(budget_seconds=0.05, min_piece_seconds=0.01))
    assert Counter(staged.map(repr).collect()) == expected
    staged.unpersist()
    live = run_sdf(rdd, fn, runner=LiveRunner(lanes=3))
    assert Counter(live.map(repr).collect()) == expected
    assert Counter(live.map(repr).collect()) == expected


def test_the_report_says_what_cannot_be_split_and_what_an_index_cost(sc, tmp_path):
    """Both are remarks of the connector on an element."""
    fn, elements = plain_gzip(tmp_path)
    zstd(tmp_path)
    read = run_sdf(sc.parallelize([*elements, str(tmp_path / "a.zst")]), fn, runner=LiveRunner())
    read.count()
    (made, whole) = (note for _, note in read.report.notes)
    assert made.startswith("gzip: seek index made in ")
    assert whole.startswith("zstd: read in one piece")
    again = run_sdf(sc.parallelize(elements), fn, runner=LiveRunner())
    again.count()
    assert again.report.notes[0][1].startswith("gzip: seek index found")

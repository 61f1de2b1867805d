"""Files that are damaged at any byte: whoever reads a format with checksums gives the records before, and an error."""

import bz2
import gzip
import io
import random

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from support.compressed_files import bgzf

from sdf.errors import SdfError
from sdf.io import ReadAvro, ReadLines, ReadParquet, ReadWarc

LINES = [b"%d %s" % (number, random.Random(number).randbytes(9).hex().encode()) for number in range(24)]
PIECES = [b"".join(line + b"\n" for line in LINES[at : at + 6]) for at in range(0, len(LINES), 6)]
EVERY_BYTE = pytest.mark.slow("the same test at every seventh byte")


def avro():
    file = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "bytes"}]}
    fastavro.writer(file, schema, [{"s": line} for line in LINES], codec="snappy", sync_interval=200)
    return file.getvalue()


def parquet():
    file = io.BytesIO()
    table = pa.table({"s": pa.array(LINES, pa.binary())})
    pq.write_table(table, file, row_group_size=6, write_page_checksum=True, use_dictionary=False, compression="none")
    return file.getvalue()


def warc(line):
    return gzip.compress(b"WARC/1.0\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (len(line), line), mtime=0)


def after_header(data):
    """Return the bytes of an Avro file whose damage shows: a schema says what the fields are called."""
    return range(next(fastavro.block_reader(io.BytesIO(data))).offset, len(data))


def in_pages(data):
    """Return the bytes of a Parquet file that pages hold; its metadata have no checksum."""
    columns = (pq.ParquetFile(io.BytesIO(data)).metadata.row_group(group).column(0) for group in range(4))
    return [at for one in columns for at in range(one.data_page_offset + 40, one.data_page_offset + 150)]


ZSTD = zstandard.ZstdCompressor(write_checksum=True)
FORMATS = {  # name of the file, its bytes, the bytes whose damage has to show, how it is read, a record's bytes
    "gzip": ("f.gz", gzip.compress(b"".join(PIECES), mtime=0), None, ReadLines(encoding=None), bytes),
    "BGZF": ("f.bgz", bgzf(PIECES), None, ReadLines(encoding=None), bytes),
    "bzip2": ("f.bz2", b"".join(map(bz2.compress, PIECES)), None, ReadLines(encoding=None), bytes),
    "zstd": ("f.zst", b"".join(map(ZSTD.compress, PIECES)), None, ReadLines(encoding=None), bytes),
    "Avro": ("f.avro", avro(), after_header, ReadAvro(), lambda record: record["s"]),
    "Parquet": ("f.parquet", parquet(), in_pages, ReadParquet(), lambda record: record["s"]),
    "WARC": ("f.warc.gz", b"".join(map(warc, LINES)), None, ReadWarc(), lambda record: record.content),
}


def read(path, fn, as_bytes):
    """Return the records up to an error, or to the end, and whether there was an error."""
    found = []
    try:
        part = fn.get_initial_restriction(path)
        found.extend(map(as_bytes, fn.process(path, fn.create_tracker(path, part))))
    except SdfError:
        return found, True
    return found, False


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=EVERY_BYTE)])
@pytest.mark.parametrize("damage", ["flipped", "cut", "zeros"])
@pytest.mark.parametrize("name", FORMATS)
def test_damage_at_any_byte_gives_no_wrong_record(tmp_path, name, damage, step):
    """One bit is flipped, the rest is missing, or is zeros: the records are the first ones, and all or an error.

    A file may be cut off, or zeros may follow it, where one of its parts ends: nothing in it says how many there are.
    """
    ending, data, places, fn, as_bytes = FORMATS[name]
    path = tmp_path / ending
    wrong, noticed = [], 0
    for at in list(places(data) if places and damage == "flipped" else range(len(data)))[::step]:
        kept = data[:at]
        if damage == "flipped":
            kept += bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]
        elif damage == "zeros":
            kept += bytes(len(data) - at)
        path.write_bytes(kept)
        found, failed = read(str(path), fn, as_bytes)
        noticed += failed
        if found != LINES[: len(found)] or not (failed or found == LINES or damage != "flipped"):
            wrong.append((at, found))
    assert wrong == []
    assert noticed > 10

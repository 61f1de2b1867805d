"""Small files of the same 24 records in each format, and how they are read when they are damaged."""

import bz2
import gzip
import io
import random
import tarfile

import attrs
import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from sdf.errors import SdfError
from sdf.io import ReadAvro, ReadLines, ReadParquet, ReadTar, ReadWarc
from support.compressed_files import bgzf

LINES = [b"%d %s" % (number, random.Random(number).randbytes(9).hex().encode()) for number in range(24)]
PIECES = [b"".join(line + b"\n" for line in LINES[at : at + 6]) for at in range(0, len(LINES), 6)]
DAMAGE = ("flipped", "cut", "zeros")


@attrs.frozen
class Format:
    """A file of one format.

    Attributes:
        name: of the file.
        data: its bytes.
        fn: the DoFn that reads it.
        as_bytes: gives a record's bytes.
        checked: the places in ``data`` where a checksum, or a length, shows every damage.
    """

    name: str
    data: bytes
    fn: object = ReadLines(encoding=None)
    as_bytes: object = bytes
    checked: range | list[int] = range(0)

    def damaged(self, damage, at):
        """Return the bytes with one bit flipped at a place, or with everything from there on missing, or zeros."""
        kept = self.data[:at]
        if damage == "flipped":
            return kept + bytes([self.data[at] ^ 1 << at % 8]) + self.data[at + 1 :]
        return kept + bytes(len(self.data) - at) * (damage == "zeros")

    def read(self, path):
        """Return the records up to an error, or to the end, and whether there was an error."""
        found = []
        try:
            part = self.fn.get_initial_restriction(path)
            found.extend(map(self.as_bytes, self.fn.process(path, self.fn.create_tracker(path, part))))
        except (SdfError, KeyError):  # KeyError: the file has a field of another name
            return found, True
        return found, False


def whole(name, data, *reading):
    """Return a format whose every byte is checked."""
    return attrs.evolve(Format(name, data, *reading), checked=range(len(data)))


def avro(codec):
    file = io.BytesIO()
    schema = {"type": "record", "name": "R", "fields": [{"name": "s", "type": "bytes"}]}
    fastavro.writer(file, schema, [{"s": line} for line in LINES], codec=codec, sync_interval=200)
    header = next(fastavro.block_reader(io.BytesIO(file.getvalue()))).offset  # its schema says what fields are called
    checked = range(header, len(file.getvalue())) if codec == "snappy" else range(0)
    return Format("f.avro", file.getvalue(), ReadAvro(), lambda record: record["s"], checked)


def parquet(**options):
    file = io.BytesIO()
    table = pa.table({"s": pa.array(LINES, pa.binary())})
    pq.write_table(table, file, row_group_size=6, use_dictionary=False, **options)
    columns = [pq.ParquetFile(file).metadata.row_group(group).column(0) for group in range(4)]
    pages = [at for one in columns for at in range(one.data_page_offset + 40, one.data_page_offset + 150)]
    checked = pages if "write_page_checksum" in options else []  # the metadata have no checksum
    return Format("f.parquet", file.getvalue(), ReadParquet(), lambda record: record["s"], checked)


def tar():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for number, line in enumerate(LINES):
            member = tarfile.TarInfo(f"{number:02d}")
            member.size = len(line)
            archive.addfile(member, io.BytesIO(line))
    return Format("f.tar", file.getvalue(), ReadTar(), lambda record: record[1])


def warc(line):
    return gzip.compress(b"WARC/1.0\r\nContent-Length: %d\r\n\r\n%s\r\n\r\n" % (len(line), line), mtime=0)


def zstd(**options):
    return b"".join(map(zstandard.ZstdCompressor(**options).compress, PIECES))


FORMATS = {
    "gzip": whole("f.gz", gzip.compress(b"".join(PIECES), mtime=0)),
    "BGZF": whole("f.bgz", bgzf(PIECES)),
    "bzip2": whole("f.bz2", b"".join(map(bz2.compress, PIECES))),
    "zstd with checksums": whole("f.zst", zstd(write_checksum=True)),
    "WARC in gzip": whole("f.warc.gz", b"".join(map(warc, LINES)), ReadWarc(), lambda record: record.content),
    "Avro with Snappy": avro("snappy"),
    "Parquet with checksums": parquet(write_page_checksum=True, compression="none"),
    "zstd without": Format("f.zst", zstd()),
    "Avro with deflate": avro("deflate"),
    "Parquet without": parquet(),
    "tar": tar(),
    "text": Format("f.txt", b"".join(PIECES)),
}

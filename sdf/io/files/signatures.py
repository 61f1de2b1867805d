"""What a file is, as its first bytes tell, and the call that reads it: for messages about files that are not text."""

from __future__ import annotations

__all__ = ["signature", "unmarked_wide"]

_UNPACKED = "It is {0}: pass compression={0!r}."
_SIGNATURES = (
    (b"\x1f\x8b", _UNPACKED.format("gzip")),
    (b"BZh", _UNPACKED.format("bzip2")),
    (b"\x28\xb5\x2f\xfd", _UNPACKED.format("zstd")),
    (b"\xfd7zXZ\0", "It is xz, which cannot be split: write it again, as with xz -dc FILE | zstd."),
    (b"PK\x03\x04", "It is a zip archive: name the file inside, as in 'zip://NAME::PATH'."),
    (b"PAR1", "It is Parquet: read it with ReadParquet."),
    (b"Obj\x01", "It is Avro: read it with ReadAvro."),
    (b"SQLite format 3\0", "It is a SQLite database: read its tables with ReadTable."),
)
_WIDE = "It is text in {}, which cannot be split: convert the file, as with iconv -f {} -t UTF-8."
_MARKS = ((b"\xff\xfe\0\0", "UTF-32"), (b"\0\0\xfe\xff", "UTF-32"), (b"\xff\xfe", "UTF-16"), (b"\xfe\xff", "UTF-16"))
_LOOKED_AT = 8  # bytes, two characters of UTF-32


def signature(head: bytes) -> str:
    """Return what a file is that begins with these bytes, and how to read it, as a sentence; "" if that is unknown."""
    name = next((name for mark, name in _MARKS if head.startswith(mark)), "") or unmarked_wide(head)
    if name:
        return _WIDE.format(name, name)
    return next((sentence for mark, sentence in _SIGNATURES if head.startswith(mark)), "")


def unmarked_wide(head: bytes) -> str:
    """Return the encoding of a file that begins with ASCII characters of two or four bytes each; else ""."""
    for name in ("UTF-16LE", "UTF-16BE", "UTF-32LE", "UTF-32BE"):
        text = head[:_LOOKED_AT].decode(name, "ignore")
        if len(text) > 1 and text.isascii() and "\0" not in text:
            return name
    return ""

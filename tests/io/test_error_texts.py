"""What errors of reading say: the path once, whatever names the file, and all else that is known of it."""

import os
import re

import attrs
import pytest

from sdf import run_direct
from sdf.errors import ReadError, SourceError
from sdf.io import (
    FileBlocks,
    MatchFiles,
    ReadAvro,
    ReadCsv,
    ReadJsonLines,
    ReadLines,
    ReadParquet,
    ReadRecords,
    ReadTar,
    ReadWarc,
    ReadXml,
)

FLAWS = [
    (ReadJsonLines(), b"1\n{\n", "f"),
    (ReadLines(), b"a\n\xff\n", "f"),
    (ReadLines(max_record_bytes=2), b"a\nbcd\n", "f"),
    (ReadCsv(), b"a,b\n1\n", "f"),
    (ReadCsv(), b'a,b\n1,"\n', "f"),
    (ReadRecords(4, partial="error"), b"abcdef", "f"),
    (ReadXml("a"), b"<a><b></a>", "f"),
    (ReadXml("a"), b"<a><b/>", "f"),
    (ReadAvro(), b"no Avro", "f"),
    (ReadParquet(), b"no Parquet", "f"),
    (ReadTar(), b"no tar", "f"),
    (ReadWarc(), b"no WARC", "f"),
    (ReadWarc(compression="gzip"), b"no WARC", "f"),
    (ReadLines(), b"no bzip2", "f.bz2"),
    (ReadLines(), b"\x1f\x8bno gzip", "f.gz"),
]


def elements_of(path, kind):
    if kind == "path":
        return [path]
    files = run_direct([path], MatchFiles())
    return files if kind == "FileInfo" else run_direct(files, FileBlocks(1 << 20))


def text_of(fn, elements):
    with pytest.raises((ReadError, SourceError)) as caught:
        run_direct(elements, fn)
    return str(caught.value)


@pytest.mark.parametrize("kind", ["path", "FileInfo", "FileBlock"])
@pytest.mark.parametrize(("fn", "data", "name"), FLAWS, ids=lambda value: type(value).__name__)
def test_an_error_of_a_reader_names_the_path_once(tmp_path, fn, data, name, kind):
    """Whatever the element is; what was pinned of the file stays in it."""
    path = str(tmp_path / name)
    (tmp_path / name).write_bytes(data)
    if kind == "FileBlock" and name == "f.gz":
        pytest.skip("a gzip file is read whole")
    text = text_of(fn, elements_of(path, kind))
    assert text.count(path) == 1
    assert f"{type(fn).__name__}.process() on FileRange(start=0, stop=" in text
    assert f"size={len(data)}, mtime={os.stat(path).st_mtime}" in text


@pytest.mark.parametrize("fn", [ReadLines(), MatchFiles()], ids=lambda fn: type(fn).__name__)
def test_an_error_of_a_file_that_is_not_there_names_the_path_once(tmp_path, fn):
    """Of a reader, and of what lists files."""
    path = str(tmp_path / "absent")
    assert text_of(fn, [path]).count(path) == 1


@pytest.mark.parametrize("change", [os.unlink, lambda path: os.truncate(path, 1)], ids=["gone", "shrunk"])
def test_an_error_of_a_file_that_has_changed_names_the_path_once(tmp_path, change):
    """With what is known of it."""
    path = str(tmp_path / "file")
    (tmp_path / "file").write_text("a\nb\n")
    files = run_direct([path], MatchFiles())
    change(path)
    text = text_of(ReadLines(), files)
    assert (text.count(path), text.count("size=4")) == (1, 1)


def test_an_error_of_the_system_names_the_path_once(tmp_path, monkeypatch):
    """Which has it in its own text."""
    path = str(tmp_path / "file")

    def refuse(path, inner):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr("sdf.io.files.pinned._regular", refuse)
    text = text_of(ReadLines(), [path])
    assert (text.count(path), "PermissionError: [Errno 13] Permission denied: ..." in text) == (1, True)


def test_a_block_is_told_from_others_of_its_file(tmp_path):
    """By where it starts and stops, and by the block before it."""
    path = str(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"1\n2\n3\n{\n")
    blocks = run_direct([path], FileBlocks(4))
    text = text_of(ReadJsonLines(), blocks[1:2])
    assert text.count(path) == 1
    assert re.search(r"of element FileBlock\(.*start=4, stop=8, previous='\.\.\.@\w+:0-4'\): ", text)


def test_a_file_shows_what_is_known_of_it():
    """Not what nobody asked for."""
    (file,) = run_direct([__file__], MatchFiles())
    assert repr(file) == f"FileInfo(path={__file__!r}, size={file.size}, mtime={file.mtime}, version={file.version!r})"
    assert repr(attrs.evolve(file, mtime=None, version=None)) == f"FileInfo(path={__file__!r}, size={file.size})"

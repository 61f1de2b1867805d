"""A listed file keeps host, user and port of the URL that it was listed for, for all protocols of fsspec."""

import fsspec
import pytest

from sdf.io.files.match import _outer

FILES = [
    ("hdfs://other:8020/logs/2026", "/logs/2026/a b.txt", "hdfs://other:8020/logs/2026/a b.txt"),
    ("hdfs://other/logs/*.txt", "/logs/a.txt", "hdfs://other/logs/a.txt"),
    ("hdfs:///logs", "/logs/a.txt", "hdfs:///logs/a.txt"),
    ("hdfs://other", "/a.txt", "hdfs://other/a.txt"),
    ("webhdfs://me@host:9870/logs/", "/logs/a.txt", "webhdfs://me@host:9870/logs/a.txt"),
    ("ftp://me:secret@host:21/logs", "/logs/a.txt", "ftp://me:secret@host:21/logs/a.txt"),
    ("sftp://me@host:22/logs", "/logs/a.txt", "sftp://me@host:22/logs/a.txt"),
    ("smb://host/share/logs", "/share/logs/a.txt", "smb://host/share/logs/a.txt"),
    ("abfss://box@account.dfs.core.windows.net/logs", "box/logs/a.txt", "abfss://box@account.dfs.core.windows.net/logs/a.txt"),
    ("abfss://box@account.dfs.core.windows.net", "box/a.txt", "abfss://box@account.dfs.core.windows.net/a.txt"),
    ("abfs://box/logs", "box/logs/a.txt", "abfs://box/logs/a.txt"),
    ("github://org:repo@main/logs", "logs/a.txt", "github://org:repo@main/logs/a.txt"),
    ("s3://bucket/logs", "bucket/logs/a.txt", "s3://bucket/logs/a.txt"),
    ("s3a://bucket/logs", "bucket/logs/a.txt", "s3://bucket/logs/a.txt"),
    ("gs://bucket/logs", "bucket/logs/a.txt", "gs://bucket/logs/a.txt"),
    ("http://host:8000/logs/", "http://host:8000/logs/a.txt", "http://host:8000/logs/a.txt"),
    ("memory://logs", "/logs/a.txt", "memory:///logs/a.txt"),
    ("file:///logs", "/logs/a.txt", "file:///logs/a.txt"),
    ("zip://*.txt::hdfs://other/logs.zip", "a.txt", "zip://a.txt::hdfs://other/logs.zip"),
    ("simplecache::hdfs://other/logs", "/logs/a.txt", "simplecache::hdfs://other/logs/a.txt"),
]  # fmt: skip


@pytest.mark.parametrize(("listed", "name", "url"), FILES, ids=[url for _, _, url in FILES])
def test_a_file_has_the_host_that_was_listed(listed, name, url):
    """And the same name inside the file system again, so it is opened there."""
    head = listed.split("::")[-1 if listed.startswith("simplecache") else 0]
    try:
        kind = fsspec.get_filesystem_class(head.partition("://")[0])
    except (ImportError, ValueError) as error:
        pytest.skip(str(error))
    fs = object.__new__(kind)  # no server is asked
    assert _outer(fs, listed, name) == url
    again = url.split("::")[-1 if listed.startswith("simplecache") else 0]
    assert kind._strip_protocol(again) == name
    assert kind._get_kwargs_from_urls(again) == kind._get_kwargs_from_urls(head)

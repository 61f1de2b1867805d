"""Targets on HDFS, without one: what is refused before any work, and a worker's own disk that is full."""

import tempfile

import pytest
from support.sinking import TOKEN
from support.small_disk import fill, small_disk

from sdf.errors import InvalidValueError
from sdf.sinks import DeltaTable, TextFiles
from sdf.sinks.iceberg import _path_of

pytest.importorskip("requests")
__all__ = ["small_disk"]


@pytest.mark.parametrize("url", ["webhdfs://node:9870/out", "hdfs://node:8020/out", "viewfs://all/out"])
@pytest.mark.parametrize("place", [DeltaTable, _path_of])
def test_a_table_on_hdfs_is_refused(place, url):
    """With the way out: its library would look for it elsewhere."""
    pytest.importorskip("deltalake")
    with pytest.raises(InvalidValueError, match=r"a table on HDFS cannot be written .*save ParquetFiles to webhdfs://"):
        place(url)


def test_a_full_disk_of_a_worker_is_named(small_disk, monkeypatch):
    """Not HDFS, which has room."""
    monkeypatch.setattr(tempfile, "tempdir", str(small_disk))
    stage = TextFiles("webhdfs://node:9870/out").stage(TOKEN)
    fill(small_disk, 4096)
    with (
        pytest.raises(OSError, match=rf"No space left on device in {small_disk} of host .*, where a file waits until"),
        stage.open("one") as file,
    ):
        file.write(b"x" * (1 << 20))

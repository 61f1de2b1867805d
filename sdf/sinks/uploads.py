"""Upload: an object that is being written; it is there, whole, when `finish` has returned, and otherwise not at all."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import Any

from sdf.storage.objects import asking

__all__ = ["Upload"]

_PART_BYTES = 16 << 20  # S3 takes at most 10,000 parts of at least 5 MiB; this much is held in memory


class Upload(io.RawIOBase):
    """A file object to write an object with; fsspec's own would complete it when it is closed by an exception.

    Args:
        fs: a file system of fsspec.
        key: the path of the object in it.
    """

    def __init__(self, fs: Any, key: str) -> None:
        self._key = key
        with asking(key):
            self._file = fs.open(key, "wb", block_size=_PART_BYTES, autocommit=False)

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with asking(self._key):
            return int(self._file.write(data))

    def tell(self) -> int:
        return int(self._file.tell())

    def finish(self) -> None:
        """Complete the object."""
        with asking(self._key):
            self._file.close()
            self._file.commit()

    def discard(self) -> None:
        """Throw away what was written."""
        with suppress(Exception):  # it sends the last part; the parts are dropped next
            self._file.close()
        with suppress(Exception):  # another error is being raised; what is left is removed with the staging directory
            self._file.discard()

"""KeptFile: the file that a reader had open last, for the next part if that is of the same file."""

from __future__ import annotations

import io
from typing import Any

from sdf.io.files.pinned import FileInfo

__all__ = ["KeptFile"]


class KeptFile:
    """Keeps one open file while nobody reads it. A copy, in another process say, keeps none."""

    def __init__(self) -> None:
        self._kept: list[tuple[FileInfo, io.BufferedReader]] = []

    def __reduce__(self) -> Any:
        return KeptFile, ()

    def take(self, file: FileInfo) -> io.BufferedReader | None:
        """Return the file that is kept, at its start, if it is this one; else close it and return None."""
        while self._kept:
            kept, opened = self._kept.pop()
            if kept == file:
                opened.seek(0)
                return opened
            opened.close()
        return None

    def keep(self, file: FileInfo, opened: io.BufferedReader) -> None:
        """Keep an open file in place of the one before it."""
        self.close()
        self._kept.append((file, opened))

    def close(self) -> None:
        """Close the file that is kept."""
        while self._kept:
            self._kept.pop()[1].close()

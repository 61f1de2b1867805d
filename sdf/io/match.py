"""MatchFiles: the files that a path, a directory or a pattern names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from sdf import DoFn, OffsetRange
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError, show
from sdf.io.extras import need
from sdf.io.files import FileInfo, as_file_info

__all__ = ["MatchFiles"]


class MatchFiles(DoFn):
    """Lists files. Element: a path, a directory or a pattern such as ``s3://logs/2026-*/**.gz``. Gives `FileInfo`.

    The files of an element come in the order of their paths. Like Hadoop's, it leaves out files whose name begins with
    ``_`` or ``.``, such as ``_SUCCESS``, and those in directories named so.

    Args:
        recursive: also list what is in directories below a directory.
        regex: only files whose name, without its directory, matches all of this regular expression.
        hidden: do not leave out what begins with ``_`` or ``.``.
        missing_ok: give nothing where nothing is found, instead of an error.
        storage_options: arguments for the file system, as fsspec takes them.

    Raises:
        SourceError: when it runs, if an element names nothing and ``missing_ok`` is not set.

    Source: the directory scanner of Apache Apex Malhar's file splitter; the pattern syntax is fsspec's.
    """

    def __init__(
        self,
        *,
        recursive: bool = True,
        regex: str | None = None,
        hidden: bool = False,
        missing_ok: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            self.regex = None if regex is None else re.compile(regex)
        except (re.error, TypeError) as error:
            raise InvalidValueError(
                f"MatchFiles regex must be a regular expression (got {show(regex)}): {error}."
            ) from error
        self.recursive = recursive
        self.hidden = hidden
        self.missing_ok = missing_ok
        self.storage_options = dict(storage_options or {})

    def get_initial_restriction(self, element: Any) -> OffsetRange:
        if not isinstance(element, (str, os.PathLike)):
            raise InvalidTypeError(f"MatchFiles lists a path, a directory or a pattern (got {show(element)}).")
        return OffsetRange(0, 1)  # a listing is made in one piece

    def process(self, element: Any, tracker: Any) -> Iterator[FileInfo]:
        if tracker.try_claim(0):
            yield from self.list(os.fspath(element))

    def list(self, path: str) -> list[FileInfo]:
        """Return the files that a path, a directory or a pattern names, sorted by path."""
        fs, inner = need("fsspec.core", "files", "MatchFiles").url_to_fs(path, **self.storage_options)
        root = inner
        if any(sign in inner for sign in "*?["):
            found = fs.glob(inner, detail=True)
            root = fs._parent(inner[: min(inner.find(sign) for sign in "*?[" if sign in inner)] + "x")
        elif fs.isdir(inner):
            found = fs.find(inner, maxdepth=None if self.recursive else 1, detail=True)
        else:
            found = {inner: fs.info(inner)} if fs.exists(inner) else {}
            root = fs._parent(inner)
        if not found and not self.missing_ok and not fs.isdir(inner):
            raise SourceError(f"MatchFiles: {path!r} names no file. Pass missing_ok=True if that may be.")
        return [
            as_file_info(self._outer(fs, path, name), info)
            for name, info in sorted(found.items())
            if info["type"] == "file" and self._wanted(name, root)
        ]

    def _wanted(self, name: str, root: str) -> bool:
        """Tell whether a file is to be read, by its path below the element's."""
        parts = name.removeprefix(root).strip("/").split("/")
        if not self.hidden and any(part.startswith(("_", ".")) for part in parts):
            return False
        return self.regex is None or self.regex.fullmatch(parts[-1]) is not None

    @staticmethod
    def _outer(fs: Any, path: str, name: str) -> str:
        """Return a name of the file system as a path with the protocol that the element has."""
        return fs.unstrip_protocol(name) if "://" in path or "::" in path else name

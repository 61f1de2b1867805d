"""MatchFiles: the files that a path, a directory or a pattern names."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from sdf import OffsetRange
from sdf.errors import InvalidTypeError, InvalidValueError, SourceError, show
from sdf.extras import need
from sdf.io.connector import Connector
from sdf.io.files.file_systems import file_system, is_chain, on_host, reaching
from sdf.io.files.pinned import FileInfo, as_file_info
from sdf.io.options import as_options

__all__ = ["MatchFiles", "pattern_root"]

_NO_FILE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)  # errors that mean that no such file exists
_STORES = frozenset({"s3", "gs", "abfs"})


class MatchFiles(Connector):
    """Lists files. Element: a path, a directory or a pattern such as ``s3://logs/2026-*/*.gz``. Gives `FileInfo`.

    The files of an element are sorted by path. As in Hadoop, files whose name begins with ``_`` or ``.``, such as
    ``_SUCCESS``, and files in directories named so, are left out, unless the element itself names them, as
    ``logs/_tmp`` and ``logs/_*.txt`` do. A name that exists is never taken for a pattern, whatever characters it has. A
    pattern matches files; ``**`` stands for any number of directories. Files in a directory that a pattern matches are
    not listed. Links to files are followed, links to directories below the element are not. A path that ends in ``/``
    is a directory, which matters for ``https://``.

    Args:
        recursive: also list files in directories below a directory.
        regex: only files whose whole name, without its directory, matches this regular expression.
        hidden: do not leave out names that begin with ``_`` or ``.``.
        missing_ok: yield nothing if nothing is found; False: raise an error.
        storage_options: arguments for the file system, as fsspec takes them.

    Raises:
        InvalidTypeError, InvalidValueError: for an option, or an element, of the wrong type or value.
        SourceError: when it runs, if an element names nothing and ``missing_ok`` is not set, or cannot be listed.

    Source: the directory scanner of Apache Apex Malhar's file splitter; the pattern syntax is fsspec's.
    """

    _takes = "a path, a directory or a pattern"

    def __init__(
        self,
        *,
        recursive: bool = True,
        regex: str | None = None,
        hidden: bool = False,
        missing_ok: bool = False,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        who = type(self).__name__
        if regex is not None and not isinstance(regex, str):
            raise InvalidTypeError(f"{who} regex must be a regular expression, as a string (got {show(regex)}).")
        try:
            self.regex = None if regex is None else re.compile(regex)
        except re.error as error:
            raise InvalidValueError(
                f"{who} regex must be a regular expression (got {show(regex)}): {error}."
            ) from error
        self.recursive = recursive
        self.hidden = hidden
        self.missing_ok = missing_ok
        self.storage_options = as_options(storage_options, who)

    def get_initial_restriction(self, element: Any) -> OffsetRange:
        if not isinstance(element, (str, os.PathLike)):
            raise InvalidTypeError(f"{type(self).__name__} lists {self._takes} (got {show(element)}).")
        return OffsetRange(0, 1)  # a listing is made in one piece

    def process(self, element: Any, tracker: Any) -> Iterator[FileInfo]:
        if tracker.try_claim(0):
            yield from self.list(os.fspath(element))

    def list(self, path: str) -> list[FileInfo]:
        """Return the files that a path, a directory or a pattern names, sorted by path."""
        fs, inner = file_system(path, self.storage_options, "MatchFiles")
        info, root, pattern = _look(fs, inner), inner, ""
        if _is_store(fs) and "//" in inner[: inner.find("/") + 2] and (info is None or info["type"] == "directory"):
            raise SourceError(
                f"MatchFiles: {path!r} names keys that begin with '/'. The clients of object stores list none of them. "
                f"Let ListObjects list them, match the whole bucket, or name a single object."
            )
        if info is None and (above := pattern_root(fs, inner)) is not None:
            root, pattern = above, inner.removeprefix(above)
            found = _glob(fs, inner, root)
        elif info is not None and (info["type"] == "directory" or path.endswith("/")):
            found = _find(fs, inner, None if self.recursive else 1)
        else:
            found = {} if info is None else {inner: info}
        files = {name: file for name, entry in sorted(found.items()) if (file := _as_file(fs, name, entry)) is not None}
        if not files and not self.missing_ok and (info is None or info["type"] != "directory"):
            directories = [name for name, entry in found.items() if entry["type"] == "directory"]
            only = f"; what it matches is no file, such as {min(found)!r}" if found else ""
            if directories:
                only = f"; it matches directories, such as {min(directories)!r}: end it with '/*'"
            where = on_host(fs, "MatchFiles")
            raise SourceError(f"MatchFiles: {path!r} names no file{where}{only}. Pass missing_ok=True if that may be.")
        wanted = [name for name in files if self._wanted(name, root, pattern)]
        return [as_file_info(_outer(fs, path, name), files[name]) for name in wanted]

    def _wanted(self, name: str, root: str, pattern: str) -> bool:
        """Return whether a file passes ``hidden`` (its path below ``root`` compared with the pattern) and ``regex``."""
        below = name.removeprefix(root).strip("/").split("/")
        if not self.hidden and any(
            part.startswith(("_", ".")) and not sign.startswith(part[0])  # a pattern may name what is hidden
            for part, sign in zip_longest(below, _signs(pattern, len(below)), fillvalue="")
        ):
            return False
        return self.regex is None or self.regex.fullmatch(name.rpartition("/")[2]) is not None


def pattern_root(fs: Any, name: str) -> str | None:
    """Return the directory that holds all files that a pattern may match; None if ``name`` is no pattern."""
    signs = [name.find(sign) for sign in "*?[" if sign in name]
    return fs._parent(name[: min(signs)] + "x") if signs else None


def _signs(pattern: str, depth: int) -> list[str]:
    """Return the part of a pattern for each of ``depth`` parts of a path; ``**`` takes all parts left over, or none."""
    parts = pattern.strip("/").split("/")
    if "**" not in parts:
        return parts
    first, after = parts.index("**"), len(parts) - parts[::-1].index("**")
    return parts[:first] + ["**"] * (depth - len(parts) + after - first) + parts[after:]


def _look(fs: Any, name: str) -> Any:
    """Return the file system's info of a name; None if the name does not exist."""
    try:
        with reaching(name, "MatchFiles"):
            return fs.info(name)
    except FileNotFoundError:
        return None
    except SourceError as error:
        if getattr(error.__cause__, "errno", None) in _NO_FILE:
            return None
        raise


def _as_file(fs: Any, name: str, entry: Mapping[str, Any]) -> Any:
    """Return the info of a listed file, looked up again if the listing has too little; None if it is no file.

    Nor is what stands in an object store for a directory: an object, mostly empty, whose name ends in ``/``.
    """
    if name.endswith("/"):
        return None
    if entry.get("islink") or (entry["type"] == "file" and entry.get("size") is None):
        entry = _look(fs, name)  # the listing describes the link, not the file, or lacks the size
    return entry if entry is not None and entry["type"] == "file" else None


def _glob(fs: Any, pattern: str, root: str) -> dict[str, Any]:
    """Return the entries below ``root`` that match a pattern, by name."""
    try:
        matches = re.compile(need("fsspec.utils", "MatchFiles").glob_translate(pattern)).match
    except ValueError as error:
        raise InvalidValueError(f"MatchFiles cannot make anything of the pattern {pattern!r}: {error}.") from error
    if not (_walks(fs) or _is_store(fs)):
        with reaching(pattern, "MatchFiles"):
            found: dict[str, Any] = fs.glob(pattern, detail=True)
        return found
    depth = None if "**" in pattern else pattern.count("/") - root.rstrip("/").count("/")
    return {name: entry for name, entry in _find(fs, root, depth).items() if matches(name)}


def _find(fs: Any, root: str, depth: int | None) -> dict[str, Any]:
    """Return the entries of a directory and, up to a depth, of the directories below it.

    Of an object and a directory of the same name, in an object store, it is the object.
    """
    found: dict[str, Any]
    if not _walks(fs) and not (depth and _is_store(fs)):
        with reaching(root, "MatchFiles"):
            found = fs.find(root, maxdepth=depth, detail=True)
        return found
    found, todo = {}, [(root, 1)]
    while todo:
        directory, level = todo.pop()
        try:
            with reaching(directory, "MatchFiles"):
                entries = fs.ls(directory, detail=True)
        except FileNotFoundError:  # it was removed after it was listed
            continue
        except SourceError as error:
            if not isinstance(error.__cause__, NotADirectoryError):
                raise
            continue
        for entry in entries:
            before = found.get(entry["name"], {"type": ""})["type"]
            if entry["type"] != "directory":
                found[entry["name"]] = entry
            elif before != "directory":
                if depth is None or level < depth:
                    todo.append((entry["name"], level + 1))
                found.setdefault(entry["name"], entry)
    return found


def _walks(fs: Any) -> bool:
    """Return whether a file system uses fsspec's default `find`, which skips directories that it cannot list."""
    own = need("fsspec", "MatchFiles").AbstractFileSystem.find
    return getattr(fs.find, "__func__", None) is own


def _is_store(fs: Any) -> bool:
    """Return whether a file system is an object store: `find` and `glob` hide an object below a directory's name."""
    return not _STORES.isdisjoint((fs.protocol,) if isinstance(fs.protocol, str) else fs.protocol)


def _outer(fs: Any, path: str, name: str) -> str:
    """Return a name inside a file system as a full path, with the protocols of the element's path."""
    if "://" not in path:
        return name
    head, chain, rest = path.partition("::") if is_chain(path) else (path, "", "")
    if "://" in head:
        return f"{_with_host(head, name) or fs.unstrip_protocol(name)}{chain}{rest}"
    return f"{head}{chain}{_outer(fs, rest, name)}"  # such as simplecache::s3://...


def _with_host(url: str, name: str) -> str | None:
    """Return a name as a URL on the host of another one, which the name lacks; None if that URL names no host.

    What stands before the path of that URL inside the file system, such as a container, stands before each name.
    """
    scheme, _, after = url.partition("://")
    kind = need("fsspec", "MatchFiles").get_filesystem_class(scheme)  # there may be a cache in front
    if not kind._get_kwargs_from_urls(url):  # of the URL, only the path matters
        return None
    host, _, path = after.partition("/")
    inside = kind._strip_protocol(url).rstrip("/")
    before = inside.removesuffix(path.rstrip("/")).rstrip("/") + "/"
    below = name.removeprefix(before) if before != "/" or name.startswith("/") else name
    return f"{scheme}://{host}/{below}"

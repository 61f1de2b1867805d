"""What this Python can import. It is sent to the workers as text, since they may have no sdf.

So it uses the standard library alone. The client calls the same functions, and compares what they say there and here.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import pathlib
import platform
import socket
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from typing import Any

__all__ = ["clock", "files_of", "fingerprint", "look", "visit"]


def look(wanted: Mapping[str, str], load: bool) -> dict[str, Any]:
    """Say what this Python has.

    Args:
        wanted: by the name that is imported the name of its distribution.
        load: whether to import it. Only what was just sent is imported: a worker keeps what it has imported, also
            after another version has been sent.

    Returns:
        ``python``, its version; and ``found``, which has of each name that can be imported its ``origin``, ``version``,
        ``fingerprint`` and ``error``, all of them strings.
    """
    importlib.invalidate_caches()
    found = {}
    for name, distribution in wanted.items():
        spec = importlib.util.find_spec(name)
        if spec is None:
            continue
        error = ""
        if load:
            try:
                importlib.import_module(name)
            except Exception as failure:  # of any kind: the client says what it was
                error = f"{type(failure).__name__}: {failure}"
        try:
            version = importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            version = ""
        here = fingerprint(spec)
        found[name] = {"origin": spec.origin or "", "version": version, "fingerprint": here, "error": error}
    return {"python": platform.python_version(), "found": found}


def visit(wanted: Mapping[str, str], module: str, same: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Say what this Python has, where and when that is, and what a module of sdf answers here.

    Args:
        wanted: as for `look`.
        module: the module, whose function ``answers`` is called if the sdf here is that of the client. Another sdf is
            not imported: a worker would keep it, and `ship` could no longer give it the client's.
        same: the fingerprint of the client's sdf.
        given: what that function is given.

    Returns:
        What `look` returns; ``host``; ``executable``, the path of this Python; ``spark``, the version of pyspark; what
        the function returns; and ``unasked``, why it was not called.
    """
    told = look(wanted, False)
    told |= {"host": socket.gethostname(), "executable": sys.executable, "unasked": ""}
    told["spark"] = getattr(sys.modules.get("pyspark"), "__version__", "")
    if told["found"].get("sdf", {}).get("fingerprint") != same:
        told["unasked"] = "the sdf of this client is not there"
    else:
        try:
            told |= importlib.import_module(module).answers(**given)
        except ImportError as error:
            told["unasked"] = f"sdf cannot be imported there: {error}"
    return told


def clock() -> dict[str, Any]:
    """Say what the time is here, in seconds since the epoch, and the name of this host."""
    return {"host": socket.gethostname(), "clock": time.time()}


def fingerprint(spec: ModuleSpec) -> str:
    """Return a hash of the source of a module or a package, the same whether it lies in a folder or in an archive."""
    digest = hashlib.sha256()
    for name, file in sorted(files_of(spec)):
        if name.endswith(".py"):
            source = file.read_bytes()
            digest.update(f"{name} {len(source)} ".encode() + source)
    return digest.hexdigest()


def files_of(spec: ModuleSpec) -> Iterator[tuple[str, Any]]:
    """Yield the files of a module or a package: the path that an archive has them under, and a `Path` or its like.

    A package without an ``__init__`` has none.
    """
    if spec.origin is None or not spec.has_location:
        return
    archive = getattr(spec.loader, "archive", None)
    folder, file = os.path.split(spec.origin)
    if spec.submodule_search_locations is not None:
        folder, name = os.path.split(folder)
        file = f"{name}/"
    inside = "" if archive is None else os.path.relpath(folder, archive).replace(os.sep, "/") + "/"
    at = pathlib.Path(folder, file) if archive is None else zipfile.Path(archive, inside.removeprefix("./") + file)
    yield from _below(at, file.rstrip("/"))


def _below(path: Any, name: str) -> Iterator[tuple[str, Any]]:
    if not path.is_dir():
        yield name, path
        return
    for each in path.iterdir():
        if each.name != "__pycache__":
            yield from _below(each, f"{name}/{each.name}")

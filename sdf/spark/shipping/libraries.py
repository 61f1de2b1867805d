"""What this machine has of the libraries that workers need, and the archive of those that are sent."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import re
import sys
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from sdf.errors import REQUIREMENTS
from sdf.spark.shipping.workers import files_of, fingerprint

__all__ = ["CORE", "Library", "is_allowed", "is_archive", "libraries", "packed", "requirement_of"]

CORE = ("sdf", "attrs", "cloudpickle")  # what no worker can do without
# Workers must have exactly these: what is pickled here names what lies inside them.
_SAME = {"sdf", "cloudpickle"}
_NEEDED = {**REQUIREMENTS, "attrs": "attrs>=22.2", "cloudpickle": "cloudpickle>=2.2"}
_PARTS = {"attrs": ("attr",)}  # what else is imported of a library, for one that does not say of what files it is
_BESIDE = {"sqlalchemy": ("typing_extensions",)}  # what comes along, where the workers lack it
_AS_WELL_WITHOUT = {"sqlalchemy"}  # their compiled parts only make them faster
_NEED_COMPILED = {"adlfs", "apache_beam", "gcsfs", "pyiceberg", "s3fs"}  # pure, but what they need is not
_COMPILED = (".so", ".pyd", ".dylib")
_KEPT_OF_INFO = {"METADATA", "entry_points.txt"}  # the rest of a dist-info says how it was installed
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
_NAME = re.compile(r"(?:^|/)sdf-[0-9a-f]{32}\.zip(?:/|$)")


@attrs.frozen
class Library:
    """A module or a package that workers need.

    Attributes:
        name: the name that is imported.
        distribution: the name that pip knows; that of the import, if this machine does not know it.
        version: what is installed here; "" if that is not known.
        fingerprint: that of its source here, if the workers must have just that; "" if any version will do that
            `requirement_of` allows.
        files: what an archive would hold of it: by path, a `Path` or its like. Nothing if it is not here.
        hindrance: why it cannot be sent; "" if it can.
    """

    name: str
    distribution: str
    version: str = ""
    fingerprint: str = ""
    files: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    hindrance: str = "it is not installed here either"

    def is_met_by(self, found: Mapping[str, str] | None) -> bool:
        """Tell whether what `workers.look` found on a worker will do."""
        if found is None:
            return False
        if self.fingerprint:
            return found["fingerprint"] == self.fingerprint
        return is_allowed(self.name, found["version"])


def is_allowed(name: str, version: str) -> bool:
    """Tell whether `requirement_of` a library allows a version; "" if that is not known, which it does."""
    bound = re.search(r">=([\d.]+)", requirement_of(name))
    return bound is None or not version or _numbers(version) >= _numbers(bound[1])


def requirement_of(name: str) -> str:
    """Return what pip is told to install a library of this import name."""
    return _NEEDED.get(name, name)


def libraries(names: Iterable[str]) -> dict[str, Library]:
    """Return libraries by name, as this machine has them, and those that come along with them."""
    owners = _owners(tuple((folder, _changed(folder)) for folder in sys.path))
    wanted = dict.fromkeys(one for name in names for one in (name, *_BESIDE.get(name, ())))
    return {name: _library(name, owners.get(name, ())) for name in wanted}


@functools.lru_cache(maxsize=1)
def _owners(_path: tuple[tuple[str, int], ...]) -> Mapping[str, list[str]]:
    """Return which distributions own each module.

    The search takes half a second. Its answer is kept until a folder of the path changes.
    """
    return importlib.metadata.packages_distributions()


def _changed(folder: str) -> int:
    """Return when a folder's list of files last changed, in nanoseconds; 0 if there is no such folder."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _library(name: str, owners: Sequence[str]) -> Library:
    known_as = re.split("[<>=]", requirement_of(name))[0]
    spec = importlib.util.find_spec(name)
    if spec is None:
        return Library(name, known_as)
    for owner in owners:
        distribution = importlib.metadata.distribution(owner)
        if distribution.read_text("RECORD") is None:
            continue  # what the checkout of a library lists is as old as its last build
        files = {str(file): Path(str(file.locate())) for file in distribution.files or () if _is_sent(file.parts)}
        entry = files.get(f"{name}/__init__.py") or files.get(f"{name}.py")
        if entry is not None and entry.resolve() == Path(spec.origin or "").resolve():
            same = fingerprint(spec) if name in _SAME else ""
            return _checked(Library(name, owner, distribution.version, same, files, ""))
    # A module of one's own, or a library that is installed in editable mode, or by a system that lists no files.
    parts = [spec, *(part for other in _PARTS.get(name, ()) if (part := importlib.util.find_spec(other)) is not None)]
    files = {path: file for part in parts for path, file in files_of(part)}
    version = importlib.metadata.version(owners[0]) if owners else ""
    same = fingerprint(spec) if name in _SAME or name not in _NEEDED else ""
    return _checked(Library(name, owners[0] if owners else known_as, version, same, files, ""))


def _is_sent(path: Sequence[str]) -> bool:
    if path[0] == ".." or "__pycache__" in path or path[-1].endswith(".pth"):
        return False
    return not path[0].endswith((".dist-info", ".egg-info")) or path[-1] in _KEPT_OF_INFO


def _checked(library: Library) -> Library:
    """Return a library without the compiled parts that it can do without, or with what hinders that it is sent."""
    compiled = [path for path in library.files if path.endswith(_COMPILED)]
    if library.name in _AS_WELL_WITHOUT:
        return attrs.evolve(library, files={path: library.files[path] for path in library.files.keys() - compiled})
    hindrance = ""
    if compiled:
        hindrance = f"it has compiled parts ({min(compiled)}), which Python does not import from an archive"
    elif library.name in _NEED_COMPILED:
        hindrance = "it needs libraries with compiled parts, which Python does not import from an archive"
    elif not library.files:
        hindrance = "it has no source files here, or no __init__.py"
    return attrs.evolve(library, hindrance=hindrance)


def packed(sent: Iterable[Library]) -> tuple[str, bytes]:
    """Return the archive of libraries and its name, which names its bytes: equal files give equal bytes."""
    files = {path: file for library in sent for path, file in library.files.items()}
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as zipped:
        for path in sorted(files):
            entry = zipfile.ZipInfo(path, _FIRST_DAY)
            entry.create_system = 3  # on Windows too
            entry.external_attr = 0o644 << 16
            zipped.writestr(entry, files[path].read_bytes(), zipfile.ZIP_DEFLATED)
    content = archive.getvalue()
    return f"sdf-{hashlib.sha256(content).hexdigest()[:32]}.zip", content


def is_archive(origin: str) -> bool:
    """Tell whether a module lies in an archive that was sent."""
    return _NAME.search(origin) is not None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, re.findall(r"\d+", version.split("+")[0])))

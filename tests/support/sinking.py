"""A run of a sink without Spark: what the driver and the workers call, in order; and ways to die in it."""

import os
import shutil

from sdf.sinks import Place, SinkRun, Token

TOKEN = Token("run", 0)


def place(name="segment", *, tag="main", token=TOKEN, reject=None):
    return Place(token, tag, name, reject)


def prepare(sink, *, tag="main", token=TOKEN, resumed=False, committing=False):
    sink.prepare(SinkRun(token, tag, resumed, committing))


def save(sink, *segments, token=TOKEN, reject=None):
    """Write some segments, each given by its records, and commit them; return the messages."""
    prepare(sink, token=token)
    messages = [
        sink.write(iter(records), place(f"segment-{number}", token=token, reject=reject))
        for number, records in enumerate(segments)
    ]
    sink.commit(messages, token)
    sink.clean(token)
    return messages


class DiedError(BaseException):
    """Stands for the end of the process."""


class Points:
    """Counts what is done to the storage; dies at one of the points."""

    def __init__(self, at=None):
        self.at = at
        self.seen = []

    def pass_(self, name):
        self.seen.append(name)
        if len(self.seen) == self.at:
            raise DiedError(name)

    def around(self, name, function):
        def wrapped(*args, **options):
            if self.at is not None and len(self.seen) >= self.at:
                raise DiedError("a dead process does nothing more")
            self.pass_(f"before {name}")
            result = function(*args, **options)
            self.pass_(f"after {name}")
            return result

        return wrapped


class DyingModule:
    """Stands in for ``os`` or ``shutil``: what changes the disk passes points."""

    def __init__(self, module, points):
        self._module = module
        for name in ("fsync", "link", "replace", "rename", "unlink", "mkdir", "rmdir", "rmtree"):
            if hasattr(module, name):
                setattr(self, name, points.around(name, getattr(module, name)))

    def __getattr__(self, name):
        return getattr(self._module, name)


class DyingFile:
    """A file whose writes pass points; the end of the process closes it."""

    def __init__(self, file, points):
        self._file = file
        self.write = points.around("write", file.write)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


def make_mortal(monkeypatch, points, *modules):
    """Let what some modules do to the disk pass points."""
    for module in modules:
        monkeypatch.setattr(module, "os", DyingModule(os, points))
        if hasattr(module, "shutil"):
            monkeypatch.setattr(module, "shutil", DyingModule(shutil, points))
        opened = points.around("open", open)
        monkeypatch.setattr(
            module, "open", lambda *args, opened=opened: DyingFile(opened(*args), points), raising=False
        )


def tree(path):
    """Return the content of all files below a directory, by their relative paths."""
    return {
        os.path.relpath(os.path.join(directory, name), path): open(os.path.join(directory, name), "rb").read()
        for directory, _, names in os.walk(path)
        for name in names
    }

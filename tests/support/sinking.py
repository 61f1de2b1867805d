"""A run of a sink without Spark: what the driver and the workers call, in order; and ways to die in it."""

import errno
import os
import shutil

from sdf.sinks import Place, SinkRun, Token

TOKEN = Token("run", 0)


def place(name="segment", *, tag="main", token=TOKEN, reject=None):
    return Place(token, tag, name, reject)


def prepare(sink, *, tag="main", token=TOKEN, resumed=False):
    sink.prepare(SinkRun(token, tag, resumed))


def run(sink, segments, written):
    """Do all that a run does to the store; remember what each segment returned."""
    prepare(sink, resumed=True)
    for name, records in segments.items():
        if name not in written:
            written[name] = sink.write(iter(records), place(f"{name}-{len(written)}"))
    sink.commit(list(written.values()), TOKEN)
    sink.clean(TOKEN)


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
    """Counts what is done to the storage; dies at one of the points.

    Args:
        at: the point to die at; None: it lives.
        log: the messages that the driver has logged so far.

    Attributes:
        seen: the points that were passed.
        logged: how many messages were in the log at each of them.
    """

    def __init__(self, at=None, log=()):
        self.at = at
        self.log = log
        self.seen = []
        self.logged = []

    def pass_(self, name):
        self.seen.append(name)
        self.logged.append(len(self.log))
        if len(self.seen) == self.at:
            raise DiedError(name)

    def states(self):
        """Return the points that leave different states, at which a test must die.

        Right before a change is as right after the change before it, unless a message was logged meanwhile.
        """
        passed = list(zip(self.seen, self.logged, strict=True))
        return [
            at
            for at, ((before, _), (name, logged)) in enumerate(zip([("", 0), *passed], passed, strict=False), 1)
            if not (before.startswith("after") and name.startswith("before") and passed[at - 2][1] == logged)
        ]

    def kinds(self):
        """Return a few of these points: the last one after each kind of change."""
        return sorted({name: at for at, name in enumerate(self.seen, 1) if name.startswith("after")}.values())

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
    """Stands in for ``os`` or ``shutil``: what changes the disk passes points, and nothing is synced."""

    def __init__(self, module, points):
        self._module = module
        for name in ("fsync", "link", "replace", "rename", "unlink", "mkdir", "rmdir", "rmtree"):
            if hasattr(module, name):
                function = getattr(module, name)
                setattr(self, name, points.around(name, nothing if function is os.fsync else function))

    def __getattr__(self, name):
        return getattr(self._module, name)


def nothing(handle):
    pass


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


def refuse_links(source, target):
    """Stand in for ``os.link`` on a volume (`support.power_loss`)."""
    raise OSError(errno.EPERM, "there are no links here")


def make_mortal(monkeypatch, points, *modules, is_volume=False):
    """Let what some modules do to the disk pass points."""
    for module in modules:
        monkeypatch.setattr(module, "os", DyingModule(os, points))
        if is_volume:
            monkeypatch.setattr(module.os, "link", refuse_links)
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

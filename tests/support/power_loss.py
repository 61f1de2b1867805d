"""A disk that loses its power: what is done to it is noted, and what may be there afterwards is made again elsewhere.

What was synced survives: the content of a file, and the names in a directory. Of the changes of names since any may
have happened, in any combination, but the rename from one directory to another happens in both or in neither, as in
the journal of a file system. Of content that was not synced any beginning may be there.

A volume, such as a mount of an object store, has no links and syncs no directories. It has each name for good once it
has acknowledged it.
"""

import errno
import itertools
import os

from sdf.storage import ballots, disk


class Node:
    """A file, or a directory if it has names."""

    def __init__(self, is_directory):
        self.written, self.synced = b"", b""
        self.names = {} if is_directory else None


class Disk:
    """The state of a disk after some of its trace.

    Attributes:
        durable: the names that are on disk, by directory.
        pending: changes of names that may be: each a list of (directory, name, node or None).
    """

    def __init__(self, root):
        self.root = root
        self.top = Node(True)
        self.durable = {self.top: {}}
        self.pending = []

    def find(self, path):
        node = self.top
        for name in os.path.relpath(path, self.root).split(os.sep):
            node = node if name == "." else node.names[name]
        return node

    def change(self, *changes):
        found = []
        for path, node in changes:
            directory, name = self.find(os.path.dirname(path)), os.path.basename(path)
            found.append((directory, name, node))
            directory.names[name] = node
            if node is None:
                del directory.names[name]
        self.pending.append(found)

    def apply(self, what, path, *more):
        if what in ("make", "mkdir"):
            node = Node(what == "mkdir")
            self.durable[node] = {}
            self.change((path, node))
        elif what == "write":
            self.find(path).written += more[0]
        elif what == "link":
            self.change((more[0], self.find(path)))
        elif what == "rename":
            self.change((path, None), (more[0], self.find(path)))
        elif what == "unlink":
            self.change((path, None))
        else:
            node = self.find(path)
            if node.names is None:
                node.synced = node.written
            else:
                for changes in self.pending:
                    if any(directory is node for directory, _, _ in changes):
                        self.settle(changes, self.durable)
                self.pending = [one for one in self.pending if all(directory is not node for directory, _, _ in one)]

    @staticmethod
    def settle(changes, durable):
        for directory, name, node in changes:
            durable[directory][name] = node

    def survivors(self, most):
        """Yield what may be there after a loss of power: {path: content, None for a directory}."""
        choices = itertools.product((True, False), repeat=len(self.pending))
        for chosen in itertools.islice(choices, most):
            durable = {directory: dict(names) for directory, names in self.durable.items()}
            for changes in itertools.compress(self.pending, chosen):
                self.settle(changes, durable)
            for share in (0.0, 0.5, 1.0):
                yield dict(self.listed(self.top, "", durable, share))

    def listed(self, directory, path, durable, share):
        for name, node in durable[directory].items():
            if node is None:
                continue
            if node.names is None:
                lost = node.written[len(node.synced) :]
                yield f"{path}{name}", node.synced + lost[: int(len(lost) * share)]
            else:
                yield f"{path}{name}", None
                yield from self.listed(node, f"{path}{name}/", durable, share)


class Recorder:
    """Stands in for ``os``: does what is asked for, and notes it.

    Args:
        is_volume: see the module.
    """

    def __init__(self, *, is_volume=False):
        self.trace = []
        self.handles = {}
        self.is_volume = is_volume

    def patch(self, monkeypatch, *modules):
        """Stand in for ``os`` and ``open`` in the modules of the storage, and in these."""
        for module in (disk, ballots, *modules):
            monkeypatch.setattr(module, "os", self)
            monkeypatch.setattr(module, "open", self.make, raising=False)

    def named(self, *change):
        """Note a change of names, the last of which is the new one."""
        self.trace.append(tuple(map(str, change)))
        if self.is_volume:
            self.trace += [("sync", os.path.dirname(path)) for path in dict.fromkeys(map(str, change[1:]))]

    def __getattr__(self, name):
        return getattr(os, name)

    def open(self, path, flags):
        handle = os.open(path, flags)
        self.handles[handle] = str(path)
        return handle

    def fsync(self, handle):
        if self.is_volume and os.path.isdir(self.handles[handle]):
            raise OSError(errno.EINVAL, "no directory is synced here")
        os.fsync(handle)
        self.trace.append(("sync", self.handles[handle]))

    def link(self, source, target):
        if self.is_volume:
            raise OSError(errno.EPERM, "there are no links here")
        os.link(source, target)
        self.named("link", source, target)

    def replace(self, source, target):
        os.replace(source, target)
        self.named("rename", source, target)

    rename = replace

    def unlink(self, path):
        os.unlink(path)
        self.named("unlink", path)

    def mkdir(self, path):
        os.mkdir(path)
        self.named("mkdir", path)

    def make(self, name, mode):
        """Stand in for ``open``."""
        file = open(name, mode)  # noqa: SIM115, closed by NotedFile
        if mode == "rb":
            return file
        self.handles[file.fileno()] = str(name)
        self.named("make", name)
        return NotedFile(file, lambda data: self.trace.append(("write", str(name), data)))


class NotedFile:
    """A file whose writes are noted; built-in file objects allow no new attributes."""

    def __init__(self, file, note):
        self.file, self.note = file, note

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.file.close()

    def write(self, data):
        self.note(bytes(data))
        return self.file.write(data)

    def __getattr__(self, name):
        return getattr(self.file, name)


def restore(state, path):
    """Make a directory with what survived."""
    for name, content in state.items():
        target = os.path.join(path, name)
        os.makedirs(target if content is None else os.path.dirname(target), exist_ok=True)
        if content is not None:
            with open(target, "wb") as file:
                file.write(content)

"""A volume: a directory mounted as the clouds mount their object stores, with less than a disk has.

It has no hard links, writes a file from its begin to its end only, does not append, and does not sync directories. With
further options it is also slow, shows what was written only when the file is closed, and lists a new name late.

    python volume.py DIRECTORY MOUNTPOINT [--pause-seconds S] [--at-close] [--late-seconds S]
"""

import argparse
import contextlib
import errno
import importlib.util
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

TIMES = ("st_atime", "st_mtime", "st_ctime")
STAT = ("st_mode", "st_nlink", "st_uid", "st_gid", "st_size")
SPACE = [name for name in dir(os.statvfs_result) if name.startswith("f_") and name != "f_fsid"]


def missing():
    """Return what keeps a volume from being mounted here, None for nothing."""
    if not os.access("/dev/fuse", os.R_OK | os.W_OK):
        return "this user cannot open /dev/fuse"
    if importlib.util.find_spec("mfusepy") is None:
        return "mfusepy is not installed (pip install mfusepy)"
    try:
        importlib.import_module("mfusepy")
    except OSError as error:  # no libfuse
        return f"libfuse is not installed (apt-get install fuse3 libfuse2): {error}"
    return None


@contextlib.contextmanager
def mounted(directory, *options):
    """Mount a volume below a directory; its files lie in ``stored`` beside it."""
    reason = missing()
    if reason is not None:
        pytest.skip(f"no volume can be mounted: {reason}")
    stored, volume = Path(directory, "stored"), Path(directory, "volume")
    stored.mkdir()
    volume.mkdir()
    process = subprocess.Popen([sys.executable, __file__, stored, volume, *options])
    try:
        while not volume.is_mount():
            assert process.poll() is None, "the volume was not mounted"
            time.sleep(0.02)
        yield volume
    finally:
        subprocess.run(["umount", "--lazy", volume], check=False)
        process.wait(20)


def main():
    import mfusepy

    def refused(number):
        return mfusepy.FuseOSError(number)

    class Volume(mfusepy.Operations):
        use_ns = True

        def __init__(self, given):
            self.root, self.given = given.directory, given
            self.files = {}  # by handle: how much is written, and what is not shown yet

        def at(self, path):
            return self.root + path

        def pause(self):
            if self.given.pause_seconds:
                time.sleep(random.uniform(0, 2 * self.given.pause_seconds))

        def access(self, path, mode):
            return 0

        def getattr(self, path, fh=None):
            found = os.lstat(self.at(path))
            return {name: getattr(found, name) for name in STAT} | {one: getattr(found, f"{one}_ns") for one in TIMES}

        def readdir(self, path, fh):
            names = os.listdir(self.at(path))
            if self.given.late_seconds:
                young = time.time() - self.given.late_seconds
                names = [name for name in names if os.lstat(f"{self.at(path)}/{name}").st_ctime < young]
            return [".", "..", *names]

        def mkdir(self, path, mode):
            return os.mkdir(self.at(path), mode)

        def rmdir(self, path):
            return os.rmdir(self.at(path))

        def unlink(self, path):
            return os.unlink(self.at(path))

        def rename(self, old, new, *flags):
            self.pause()
            return os.rename(self.at(old), self.at(new))

        def link(self, target, source):
            raise refused(errno.ENOSYS)

        symlink = link

        def statfs(self, path):
            found = os.statvfs(self.at(path))
            return {name: getattr(found, name) for name in SPACE}

        def create(self, path, mode, fi=None):
            self.pause()
            handle = os.open(self.at(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            self.files[handle] = [0, []]
            return handle

        def open(self, path, flags):
            if flags & os.O_APPEND:
                raise refused(errno.ENOTSUP)
            handle = os.open(self.at(path), flags)
            self.files[handle] = [0, []]
            return handle

        def read(self, path, size, offset, fh):
            return os.pread(fh, size, offset)

        def write(self, path, data, offset, fh):
            self.pause()
            file = self.files[fh]
            if offset != file[0]:
                raise refused(errno.ENOTSUP)
            if self.given.at_close:
                file[1].append((offset, data))
            else:
                os.pwrite(fh, data, offset)
            file[0] += len(data)
            return len(data)

        def truncate(self, path, length, fh=None):
            return os.truncate(self.at(path), length)

        def flush(self, path, fh):
            for offset, data in self.files[fh][1]:
                os.pwrite(fh, data, offset)
            self.files[fh][1].clear()
            return 0

        def release(self, path, fh):
            self.flush(path, fh)
            del self.files[fh]
            return os.close(fh)

        def fsync(self, path, datasync, fh):
            return self.flush(path, fh)

        def fsyncdir(self, path, datasync, fh):
            raise refused(errno.EINVAL)

        def chmod(self, path, mode):
            return 0

        def chown(self, path, uid, gid):
            return 0

        def utimens(self, path, times=None):
            return 0

    options = argparse.ArgumentParser()
    options.add_argument("directory")
    options.add_argument("mountpoint")
    options.add_argument("--pause-seconds", type=float, default=0)
    options.add_argument("--at-close", action="store_true")
    options.add_argument("--late-seconds", type=float, default=0)
    given = options.parse_args()
    mfusepy.FUSE(Volume(given), given.mountpoint, foreground=True, nothreads=False)


if __name__ == "__main__":
    main()

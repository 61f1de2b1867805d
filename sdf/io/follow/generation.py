"""generation: tells a file from a later one that got its inode number, where the file system can."""

from __future__ import annotations

import struct
from typing import Any

__all__ = ["generation"]

_GET_VERSION = 0x80087601  # FS_IOC_GETVERSION of Linux: ext4, XFS and Btrfs have it


def generation(opened: Any) -> int:
    """Return the generation of an open local file's inode number; 0 if it is not known."""
    answer = bytearray(8)
    try:
        import fcntl

        fcntl.ioctl(opened.fileno(), _GET_VERSION, answer)
    except (ImportError, AttributeError, OSError):  # another platform, no file descriptor, or another file system
        return 0
    return int(struct.unpack_from("i", answer)[0])

"""A disk that is soon full."""

import os
import subprocess

import pytest


@pytest.fixture
def small_disk(tmp_path):
    """Mount a disk of a few pages."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"no disk can be mounted here: {mounted.stderr}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)  # a process of Spark may still have a file open


def fill(disk, leave):
    """Leave so many bytes free."""
    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
    (disk / "fill").write_bytes(b"x" * max(0, free - leave))

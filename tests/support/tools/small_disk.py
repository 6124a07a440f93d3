"""A small disk for a test: a tmpfs with a fixed size."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _can_mount() -> bool:
    if os.geteuid() != 0:
        return False
    done = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True)
    return done.returncode == 0


CAN_MOUNT = _can_mount()
needs_root = pytest.mark.skipif(not CAN_MOUNT, reason="needs the right to mount a small disk")


@contextmanager
def mount_small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    options = f"size={size},mode=0700"
    subprocess.run(["mount", "-t", "tmpfs", "-o", options, "sandbur-test", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path, leave: int) -> Path:
    """Fill the disk with one file, except for `leave` bytes; return the file."""
    free = os.statvfs(folder)
    filler = folder / "filler"
    with filler.open("wb") as file:
        file.write(bytes(max(0, free.f_bavail * free.f_frsize - leave)))
    return filler

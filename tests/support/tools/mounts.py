"""Small file systems for tests, for example of a full disk."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def _may_mount() -> bool:
    unshare = shutil.which("unshare")
    return (
        os.geteuid() == 0
        and unshare is not None
        and not subprocess.run([unshare, "-m", "true"], capture_output=True, check=False).returncode
    )


needs_mounts = pytest.mark.skipif(not _may_mount(), reason="only root may mount")


@contextmanager
def mount_folder(folder: Path, *options: str) -> Iterator[Path]:
    """Mount a file system on `folder` during the context; without options, a tmpfs of 64 KB."""
    options = options or ("-t", "tmpfs", "-o", "size=64k", "none")
    subprocess.run(["mount", *options, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", folder], check=True)

"""Checks files that were listed by name. No link is followed, in case that a folder has become a link."""

import os
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import groupby
from pathlib import Path

from ....workspace.safe_open import open_folder, open_in

_SAMPLE_BYTES = 65_536
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


def select_regular_files(root: Path, paths: Iterable[str]) -> list[str]:
    """Return the paths below the real path `root` that are still regular files."""
    return _select(root, paths, _is_regular)


def select_text_files(root: Path, paths: Iterable[str]) -> list[str]:
    """Return the paths below the real path `root` that are text, with the same test as the worker: there is
    no NUL near the beginning.
    """
    return _select(root, paths, _is_text)


def _select(root: Path, paths: Iterable[str], fits: Callable[[int, str], bool]) -> list[str]:
    """Return the paths that fit. `fits` is called with the open folder and the name of each file."""
    kept: list[str] = []
    for folder, group in groupby(paths, key=_find_folder):
        with suppress(OSError), open_folder(root / folder) as there:
            kept += [path for path in group if fits(there, path.rpartition("/")[2])]
    return kept


def _find_folder(path: str) -> str:
    return path.rpartition("/")[0]


def _is_regular(folder: int, name: str) -> bool:
    try:
        return stat.S_ISREG(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_text(folder: int, name: str) -> bool:
    # The type is checked first, because opening some devices already has an effect.
    if not _is_regular(folder, name):
        return False
    try:
        descriptor = open_in(folder, name, _READ)
    except OSError:
        return False
    try:
        sample = os.read(descriptor, _SAMPLE_BYTES) if stat.S_ISREG(os.fstat(descriptor).st_mode) else b"\0"
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return b"\0" not in sample or sample.startswith((b"\xff\xfe", b"\xfe\xff"))

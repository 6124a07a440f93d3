"""Notes where this process makes temporary files, before it makes them, so that the next process can remove
what a killed one left.

Each process has a file of notes in the data folder, named after the process. Its temporary files contain the
last part of that name, so they are known from those of every other process.
"""

import atexit
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from .identity import is_process_gone, make_runner_name

_FOLDER = "temporary"
_MARK = re.compile(r"[0-9a-f]{8}")


class Notes:
    """The notes of this process. A forked process has notes of its own."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._begin()

    def keep_in(self, home: Path) -> None:
        """Write the notes to this data folder from now on."""
        if home / _FOLDER != self._folder:
            self._folder, self._is_written = home / _FOLDER, False

    def add(self, folder: str) -> bool:
        """Note a folder in which temporary files are made; return whether it is new here."""
        if self._pid != os.getpid():
            self._begin()
        is_new = folder not in self._noted
        if is_new or not self._is_written:
            self._noted[folder] = None
            self._write([folder] if self._is_written else list(self._noted))
        return is_new

    def name(self, before: str, after: str) -> str:
        """Return a name for a temporary file of this process that no other one has."""
        if self._pid != os.getpid():
            self._begin()
        return f"{before}{self._mark}{next(self._numbers) % 65_536:04x}{after}"

    def remove(self) -> None:
        """Remove the notes at the end of the process, which has removed its temporary files."""
        if self._folder is not None and self._pid == os.getpid():
            with suppress(OSError):
                self._folder.joinpath(self._runner).unlink(missing_ok=True)

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._runner = make_runner_name()
        self._mark = self._runner.rpartition(":")[2]
        self._numbers = count()
        self._noted: dict[str, None] = {}
        self._is_written = False
        """Whether the folder has the notes about all noted folders."""

    def _write(self, folders: list[str]) -> None:
        if self._folder is None or not _is_own(self._folder.parent):
            return
        # Without notes the work goes on: another write into the same folder removes what is left, too.
        with suppress(OSError):
            self._folder.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(self._folder / self._runner, flags, 0o600), "a") as file:
                file.writelines(f"{json.dumps(folder)}\n" for folder in folders)
            self._is_written = True


NOTES = Notes()
atexit.register(NOTES.remove)


class _KilledProcess(NamedTuple):
    """A process that was killed, or that ended without removing its notes."""

    notes: Path
    mark: str
    """The text in the names of its temporary files."""
    folders: tuple[str, ...]


def make_prefix(purpose: str, folder: Path | None = None) -> str:
    """Return how the name of a temporary file or folder for `purpose` begins, and note where it is made.

    `folder`: where it is made; None: in the folder of the system for temporary files.
    """
    NOTES.add(os.fspath(folder or tempfile.gettempdir()))
    return NOTES.name(f"sandbur-{purpose}-", "-")


def remove_of_killed(home: Path) -> None:
    """Remove what killed processes left that used this data folder, and their notes."""
    if not _is_own(home / _FOLDER):
        return
    for killed in _list_killed(home):
        if _MARK.fullmatch(killed.mark):
            for folder in killed.folders:
                _remove_in(folder, killed)
        with suppress(OSError):
            killed.notes.unlink()


def _is_own(folder: Path) -> bool:
    """Return whether a folder exists and belongs to the user of this process."""
    with suppress(OSError):
        return folder.stat().st_uid == os.geteuid()
    return False


def _list_killed(home: Path) -> Iterator[_KilledProcess]:
    """Yield the processes of this machine that have ended and left notes in a data folder."""
    for notes in (home / _FOLDER).glob("*"):
        if not is_process_gone(notes.name):
            continue
        with suppress(OSError):
            lines = notes.read_bytes().splitlines()
            yield _KilledProcess(notes, notes.name.rpartition(":")[2], tuple(_parse(lines)))


def _parse(lines: list[bytes]) -> Iterator[str]:
    for line in lines:
        # A kill in the middle of a write leaves a part of a line.
        with suppress(ValueError):
            folder = json.loads(line)
            if isinstance(folder, str):
                yield folder


def _remove_in(folder: str, killed: _KilledProcess) -> None:
    name = re.compile(
        rf"\.sandbur-{killed.mark}[0-9a-f]{{4}}\.tmp|sandbur-[a-z]+-{killed.mark}[0-9a-f]{{4}}-.*"
    )
    # What is gone, or cannot be removed now, does no harm.
    with suppress(OSError), _open_folder(folder) as there:
        for entry in filter(name.fullmatch, os.listdir(there)):  # noqa: PTH208 -- a descriptor
            with suppress(OSError):
                if stat.S_ISDIR(os.stat(entry, dir_fd=there, follow_symlinks=False).st_mode):
                    shutil.rmtree(entry, dir_fd=there, ignore_errors=True)
                else:
                    os.unlink(entry, dir_fd=there)


@contextmanager
def _open_folder(path: str) -> Generator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)

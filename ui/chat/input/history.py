"""The input history: a file for each project, with secrets masked."""

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from .pastes import Pastes


class WholeTexts(History):
    """A history that stores the texts of pastes instead of their marks, which only this process knows."""

    def __init__(self, kept: History, pastes: Pastes) -> None:
        super().__init__()
        self._kept = kept
        self._pastes = pastes

    def load_history_strings(self) -> Iterable[str]:
        return map(self._pastes.fold_recalled, self._kept.load_history_strings())

    def store_string(self, string: str) -> None:
        self._kept.store_string(self._pastes.unfold(string))


_MAX_ENTRY_CHARS = 200_000
_MAX_FILE_BYTES = 4_000_000
"""A larger file loses its older half when it is read next, because it is read at every start."""


class PrivateHistory(FileHistory):
    """A history file with mode 0600 and masked secrets; errors when it is written are ignored."""

    def __init__(self, path: Path, masked: Callable[[str], str]) -> None:
        super().__init__(str(path))
        self._path = path
        self._masked = masked

    def load_history_strings(self) -> Iterable[str]:
        with suppress(OSError):
            self._halve()
        try:
            return list(super().load_history_strings())
        except (OSError, UnicodeError):
            return []

    def store_string(self, string: str) -> None:
        if len(string) > _MAX_ENTRY_CHARS:
            return
        with suppress(OSError, UnicodeError):
            os.close(os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            super().store_string(self._masked(string))

    def _halve(self) -> None:
        if self._path.stat().st_size <= _MAX_FILE_BYTES:
            return
        _, _, newer = self._path.read_bytes()[-_MAX_FILE_BYTES // 2 :].partition(b"\n\n")
        shorter = self._path.with_name(f"{self._path.name}.{os.getpid()}")
        shorter.touch(0o600)
        shorter.write_bytes(b"\n" + newer)
        shorter.replace(self._path)


def input_history(home: Path, project: Path, masked: Callable[[str], str] = str) -> History:
    """Return the history of a project in the data folder; `masked` replaces the secrets of a text."""
    folder = home / "inputs"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    root = next((place for place in (project, *project.parents) if (place / ".git").exists()), project)
    return PrivateHistory(folder / hashlib.sha256(os.fsencode(root)).hexdigest()[:24], masked)

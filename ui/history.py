"""The inputs of earlier chats, in a file that only its owner can read."""

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

_MAX_ENTRY_CHARS = 20_000


class PrivateHistory(FileHistory):
    """A history file with mode 0600; one that cannot be written is no reason to fail."""

    def load_history_strings(self) -> Iterable[str]:
        try:
            return list(super().load_history_strings())
        except (OSError, UnicodeError):
            return []

    def store_string(self, string: str) -> None:
        if len(string) > _MAX_ENTRY_CHARS:
            return
        with suppress(OSError, UnicodeError):
            os.close(os.open(self.filename, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
            super().store_string(string)


def input_history(folder: Path) -> History:
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return PrivateHistory(str(folder / "input_history"))

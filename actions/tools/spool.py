"""The folder of one shell command, from which it can be started once and where its output is."""

import os
from pathlib import Path
from typing import Self

from actions.tools.boot import this_boot
from actions.tools.call_folder import OUTPUT, READY

_NEW_FILE = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class Spool:
    """Read by the agent while the supervisor writes."""

    def __init__(self, folder: Path, marker: str) -> None:
        """Make the folder ready for the command whose processes carry the marker. Raises `OSError`."""
        # The supervisor works elsewhere.
        self.folder = folder.absolute()
        self.marker = marker
        _make_private(self.folder)
        self.output = os.open(self.folder / OUTPUT, os.O_RDONLY | _NEW_FILE, 0o600)
        try:
            self._write_ready()
        except OSError:
            os.close(self.output)
            raise
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.output)

    def news(self, most_bytes: int) -> tuple[bytes, int]:
        """Return the end of what was written since the last time, and how many bytes came before that."""
        size = os.fstat(self.output).st_size
        came, self._seen = size - self._seen, size
        taken = min(came, most_bytes)
        return os.pread(self.output, taken, size - taken), came - taken

    def _write_ready(self) -> None:
        with os.fdopen(
            os.open(self.folder / f"{READY}{self.marker}", os.O_WRONLY | _NEW_FILE, 0o600), "w"
        ) as file:
            file.write(f"{self.marker}\n{this_boot()}")


def _make_private(folder: Path) -> None:
    if not folder.parent.exists():
        _make_private(folder.parent)
    folder.mkdir(mode=0o700, exist_ok=True)

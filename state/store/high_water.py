"""How many records each session has, noted beside the database: tells a dropped tail of its journal."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path


class HighWater:
    """One small file a session, written after each commit.

    SQLite drops every transaction behind a damaged page of its write-ahead log without a word; these files
    are no part of that log. They need no sync: one that lags behind only tells less.
    """

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + "-marks")
        self._open: dict[str, int] = {}

    def note(self, session_id: str, records: int) -> None:
        """Note a number; a folder that cannot be written costs the check, not the run."""
        with suppress(OSError):
            if session_id not in self._open:
                self.folder.mkdir(mode=0o700, exist_ok=True)
                flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
                self._open[session_id] = os.open(self._path(session_id), flags, 0o600)
            os.pwrite(self._open[session_id], b"%020d" % records, 0)

    def noted(self, session_id: str) -> int:
        """Return the number last noted, or -1."""
        try:
            return int(self._path(session_id).read_bytes())
        except (OSError, ValueError):
            return -1

    def knows_any(self) -> bool:
        return self.folder.is_dir() and any(self.folder.iterdir())

    def forget(self, session_id: str) -> None:
        if session_id in self._open:
            os.close(self._open.pop(session_id))
        self._path(session_id).unlink(missing_ok=True)

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def _path(self, session_id: str) -> Path:
        # An id may come from a caller of the library, so it is no file name.
        return self.folder / hashlib.sha256(session_id.encode()).hexdigest()[:32]

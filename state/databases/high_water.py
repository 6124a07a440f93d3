"""Small files beside a store or a key: what each session had reached, for when a database tells less."""

import hashlib
import os
from contextlib import suppress
from pathlib import Path


class HighWater:
    """One small file a session, written after each commit.

    SQLite drops every transaction after a damaged page of its write-ahead log without a word; these files
    are no part of that log. They need no sync: one that lags behind only tells less.
    """

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + "-marks")

    def note(self, session_id: str, records: int) -> None:
        """Note a number; a folder that cannot be written costs the check, not the run."""
        self.keep(session_id, b"%020d" % records if records >= 0 else None)

    def noted(self, session_id: str) -> int:
        """Return the number last noted, or -1."""
        try:
            return int(self.kept(session_id))
        except ValueError:
            return -1

    def keep(self, name: str, content: bytes | None) -> None:
        """Write what is kept under a name; it is always as long. None: nothing is kept."""
        path = self._path(name)
        with suppress(OSError):
            if content is None:
                path.unlink(missing_ok=True)
                return
            # Opened each time, which costs less than a write: a thousand sessions keep nothing open.
            file = self._opened(path)
            try:
                # In place: a file that is cut short on the way would tell nothing.
                os.pwrite(file, content, 0)
            finally:
                os.close(file)

    def kept(self, name: str) -> bytes:
        """Return what was kept last; empty if nothing is."""
        try:
            return self._path(name).read_bytes()
        except OSError:
            return b""

    def knows_any(self) -> bool:
        return self.folder.is_dir() and any(self.folder.iterdir())

    def _opened(self, path: Path) -> int:
        """Open the file; make its folder when it turns out to be missing: every commit comes here."""
        how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, how, 0o600)
        except FileNotFoundError:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            return os.open(path, how, 0o600)

    def _path(self, name: str) -> Path:
        # It holds an id, which may come from a caller of the library, so it is no file name.
        return self.folder / hashlib.sha256(name.encode()).hexdigest()[:32]

"""Small files beside a store or a key that record the number of records of each session (a high-water
mark).
"""

import hashlib
import os
from contextlib import suppress
from pathlib import Path


class HighWater:
    """One small file per session, which is written after each commit.

    SQLite silently drops every transaction after a damaged page of its write-ahead log. These files are not
    part of that log. They are not synced: if a number is too low, fewer losses are detected.
    """

    def __init__(self, store: Path) -> None:
        self.folder = store.with_name(store.name + "-marks")

    def write_number(self, session_id: str, records: int) -> None:
        """Write a number. If the folder is not writable, only the check is lost."""
        self.write(session_id, b"%020d" % records if records >= 0 else None)

    def read_number(self, session_id: str) -> int:
        """Return the last written number, or -1 if there is none."""
        try:
            return int(self.read(session_id))
        except ValueError:
            return -1

    def write(self, name: str, content: bytes | None) -> None:
        """Overwrite the small file `name`. All its contents have the same length. If `content` is None,
        delete the file.
        """
        path = self._path(name)
        with suppress(OSError):
            if content is None:
                Path(path).unlink(missing_ok=True)
                return
            # Opening a file costs less than writing it, so no file stays open for each of a thousand
            # sessions.
            file = self._open(path)
            try:
                # The file is overwritten in place, because a truncated file would be empty after a crash.
                os.pwrite(file, content, 0)
            finally:
                os.close(file)

    def read(self, name: str) -> bytes:
        """Return the content that was written last; empty if there is none."""
        try:
            return Path(self._path(name)).read_bytes()
        except OSError:
            return b""

    def has_any(self) -> bool:
        return self.folder.is_dir() and any(self.folder.iterdir())

    def _open(self, path: str) -> int:
        """Open the file. Create its folder only if it is missing, because this runs with every commit."""
        how = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
        try:
            return os.open(path, how, 0o600)
        except FileNotFoundError:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            return os.open(path, how, 0o600)

    def _path(self, name: str) -> str:
        # The name is hashed, because a caller of the library may use any text as id.
        return f"{self.folder}{os.sep}{hashlib.sha256(name.encode()).hexdigest()[:32]}"

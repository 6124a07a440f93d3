"""Takes what a command writes into its file, up to a limit, and tells the agent that there is news."""

import fcntl
import os
import time

from .own_process import Ignoring

TELL_EVERY_S = 0.04
_CHUNK_BYTES = 1 << 18


class Pump:
    """Takes output until `most_bytes`; memory stays small, and nobody who reads the file holds it up."""

    def __init__(self, source: int, path: str, most_bytes: int) -> None:
        self.source = source
        self.is_over = False
        """The source has ended, or no more is taken from it."""
        self.is_full = False
        self.error = 0
        """Why nothing could be kept any more."""
        self._file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        self._room = most_bytes
        self._is_untold, self._next_news = False, 0.0
        os.set_blocking(source, False)
        os.set_blocking(1, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with Ignoring(OSError):
                fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, _CHUNK_BYTES)

    def carry(self) -> bool:
        """Take what is there; return whether that was anything."""
        if self.is_over:
            return False
        try:
            chunk = os.read(self.source, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if chunk:
            self._keep(chunk)
        else:
            self.is_over = True
        return bool(chunk)

    def tell(self) -> None:
        """Say that there is news, unless that was said a moment ago."""
        if self._is_untold and time.monotonic() >= self._next_news:
            # A reader that is behind by a whole pipe, or gone, needs no more of them.
            with Ignoring(OSError):
                os.write(1, b"\n")
            self._is_untold, self._next_news = False, time.monotonic() + TELL_EVERY_S

    def patience_s(self) -> float | None:
        """Return how long to wait until something has to be told; None: nothing has."""
        return max(self._next_news - time.monotonic(), 0) if self._is_untold else None

    def _keep(self, chunk: bytes) -> None:
        rest = memoryview(chunk)[: self._room]
        self.is_full = len(rest) < len(chunk)
        self._room -= len(rest)
        self._is_untold = True
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self.error = error.errno or 0
        self.is_over = self.is_full or bool(self.error)

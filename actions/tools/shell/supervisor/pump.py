"""Copies the output of a command to its file, up to a limit, and notifies the agent."""

import fcntl
import os
import time

from .own_process import Ignoring

TELL_EVERY_S = 0.04
_CHUNK_BYTES = 1 << 18


class Pump:
    """Copies output up to `most_bytes` with little memory. Slow readers of the file do not delay it."""

    def __init__(self, source: int, path: str, most_bytes: int) -> None:
        self.source = source
        self.is_over = False
        """Whether the source has ended, or its output is not copied any more."""
        self.is_full = False
        self.error = 0
        """The number of the error because of which output cannot be stored any more; 0 if there is none."""
        self._file = os.open(path, os.O_WRONLY | os.O_NOFOLLOW)
        self._room = most_bytes
        self._is_unannounced, self._next_notice_at = False, 0.0
        os.set_blocking(source, False)
        os.set_blocking(1, False)
        if hasattr(fcntl, "F_SETPIPE_SZ"):
            with Ignoring(OSError):
                fcntl.fcntl(source, fcntl.F_SETPIPE_SZ, _CHUNK_BYTES)

    def carry(self) -> bool:
        """Copy the available output. Return whether there was any."""
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
        """Notify the reader of new output, unless it was notified a moment ago."""
        if self._is_unannounced and time.monotonic() >= self._next_notice_at:
            # If the pipe is full or the reader is gone, the reader needs no further notification.
            with Ignoring(OSError):
                os.write(1, b"\n")
            self._is_unannounced, self._next_notice_at = False, time.monotonic() + TELL_EVERY_S

    def patience_s(self) -> float | None:
        """Return the seconds until the next notification, or None if no notification is pending."""
        return max(self._next_notice_at - time.monotonic(), 0) if self._is_unannounced else None

    def _keep(self, chunk: bytes) -> None:
        rest = memoryview(chunk)[: self._room]
        self.is_full = len(rest) < len(chunk)
        self._room -= len(rest)
        self._is_unannounced = True
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self.error = error.errno or 0
        self.is_over = self.is_full or bool(self.error)

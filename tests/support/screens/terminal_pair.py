"""A pseudo-terminal with a process, which a test can close to simulate a lost terminal."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import termios
import time
from typing import Any, Self

from support.commands.warm_process import WarmProcess


class Terminal:
    """A terminal. Its process leads a new process session and has this as its controlling terminal."""

    def __init__(self, rows: int = 40, columns: int = 100) -> None:
        self._near, self._far = pty.openpty()
        fcntl.ioctl(self._far, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.output = b""

    @property
    def streams(self) -> dict[str, Any]:
        """Return the options for `Popen`."""
        far = self._far

        def take_terminal() -> None:
            fcntl.ioctl(far, termios.TIOCSCTTY, 0)

        return {"stdin": far, "stdout": far, "stderr": far, "preexec_fn": take_terminal}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the terminal, as if its window were closed."""
        for end in (self._far, self._near):
            if end >= 0:
                os.close(end)
        self._far = self._near = -1

    @property
    def modes(self) -> list[Any]:
        """The current modes of the terminal, as `termios.tcgetattr` returns them."""
        return termios.tcgetattr(self._far)

    def type(self, text: str) -> None:
        os.write(self._near, text.encode())

    def stop_output(self) -> None:
        """Stop the output of the terminal, as Ctrl-S does, whatever modes a program sets."""
        termios.tcflow(self._far, termios.TCOOFF)

    def see(self, text: str, seconds: float = 120) -> None:
        end = time.monotonic() + seconds
        while text.encode() not in self.output:
            assert time.monotonic() < end, f"{text!r} is not shown: {self.output[-2000:]!r}"
            self._read()

    def rest(self, seconds: float) -> None:
        """Read the output for some seconds."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._read(left)

    def drain(self, process: "subprocess.Popen[bytes] | WarmProcess", seconds: float = 120) -> None:
        """Read the output until the process has ended."""
        end = time.monotonic() + seconds
        while process.poll() is None:
            assert time.monotonic() < end, f"the process does not end; it showed: {self.output[-2000:]!r}"
            if self._near < 0:
                time.sleep(0.02)
            else:
                self._read()
        while self._near >= 0 and self._read(0):  # what it wrote last
            pass

    def _read(self, seconds: float = 0.1) -> bool:
        """Read what is there; return whether there was something."""
        if not select.select([self._near], [], [], seconds)[0]:
            return False
        try:
            read = os.read(self._near, 65536)
        except OSError:  # nobody holds the far end any more
            time.sleep(0.02)
            return False
        self.output += read
        # A prompt waits for the position of the cursor.
        if self.output.endswith(b"\x1b[6n"):
            self.type("\x1b[1;1R")
        return bool(read)

"""Starts commands from a warm server, which saves the second that their imports take."""

import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from threading import Thread

from support.places import ROOT

COLD = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "TMPDIR", "MALLOC")
"""Prefixes of variables that Python reads at its start; a command with other values is started cold."""
FULL = bool(os.environ.get("SANDBUR_FULL"))
"""True if every command is started from the command line instead of the warm server."""
_TIMEOUT_S = 120


class WarmStart:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._env = dict(env)
        self._folder = Path(tempfile.mkdtemp(prefix="warm"))
        self._address = str(self._folder / "socket")
        line = [sys.executable, str(Path(__file__).with_name("warm_server.py")), self._address]
        # The streams of the commands are pipes, so these are, too.
        pipe = subprocess.PIPE
        self._server = subprocess.Popen(line, stdin=pipe, stdout=pipe, stderr=pipe, env=self._env)
        atexit.register(self._close)

    def fits(self, env: Mapping[str, str]) -> bool:
        """Return whether the server was started with the same values of the variables in `COLD`."""
        return _cold(env) == _cold(self._env)

    def run(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str | None
    ) -> tuple[int, bytes, bytes]:
        """Return exit code, stdout and stderr, as `subprocess.run` has them."""
        return self.start(words, cwd, env, stdin).wait_for_end(_TIMEOUT_S)

    def start(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        stdin: str | None = None,
        *,
        leads_session: bool = False,
        program: Path | None = None,
    ) -> "Running":
        """Start a command; with `leads_session` in a new process session, as `subprocess.Popen` does.

        If `program` is given, this Python program runs instead of `sandbur`, with the words as its arguments.
        """
        out, err, source = _Pipe(), _Pipe(), _Source(stdin)
        fds = [source.fd, out.write_end, err.write_end]
        launched = self.launch(words, cwd, env, fds, leads_session=leads_session, program=program)
        for fd in fds:
            os.close(fd)
        return Running(launched, out, err)

    def launch(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        fds: Sequence[int],
        *,
        leads_session: bool = False,
        program: Path | None = None,
    ) -> "Launched":
        """Start a command with these three descriptors as its streams; this process keeps them open, too."""
        request = {
            "words": words,
            "cwd": str(cwd),
            "env": dict(env),
            "leads_session": leads_session,
            "program": "" if program is None else str(program),
        }
        message = json.dumps(request).encode()
        connection = self._connect()
        socket.send_fds(connection, [len(message).to_bytes(8, "big")], fds)
        connection.sendall(message)
        return Launched(connection)

    def _connect(self) -> socket.socket:
        end = time.monotonic() + 60
        while True:
            connection = socket.socket(socket.AF_UNIX)
            try:
                connection.connect(self._address)
                return connection
            except (FileNotFoundError, ConnectionRefusedError):
                connection.close()
                assert self._server.poll() is None, self._server.communicate()
                assert time.monotonic() < end, "the warm server does not answer"
                time.sleep(0.05)

    def _close(self) -> None:
        self._server.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)


@cache
def warm_start() -> WarmStart:
    """Return the warm start of this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDBUR_")}
    return WarmStart({**kept, "PYTHONPATH": str(ROOT)})


def can_be_warm(env: Mapping[str, str]) -> bool:
    """Tell whether a command with this environment may come from the warm server."""
    return not FULL and hasattr(os, "pidfd_open") and warm_start().fits(env)


class Launched:
    """A command that the server has started; the connection carries its process id, then its exit code."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._received = b""
        while not self._received.endswith(b"\n"):
            part = connection.recv(1)
            assert part, "the warm server has started nothing"
            self._received += part
        self.pid = int(self._received)
        self._received = b""

    def exit_code(self, timeout_s: float | None) -> int | None:
        """Wait up to `timeout_s` seconds (None: without limit); return None if the command still runs."""
        end = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            self._connection.settimeout(None if end is None else max(end - time.monotonic(), 0))
            try:
                part = self._connection.recv(64)
            except (TimeoutError, BlockingIOError):
                return None
            if not part:
                self._connection.close()
                return int(self._received)
            self._received += part


class Running:
    """A command whose output is collected."""

    def __init__(self, launched: Launched, out: "_Pipe", err: "_Pipe") -> None:
        self._launched = launched
        self._out, self._err = out, err
        self.pid = launched.pid

    def kill(self) -> None:
        """Kill the command, unless it has ended already."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait_for_end(self, timeout_s: float) -> tuple[int, bytes, bytes]:
        """Wait for the end; return exit code, stdout and stderr.

        After `timeout_s` seconds, kill the command and raise `subprocess.TimeoutExpired`.
        """
        code = self._launched.exit_code(timeout_s)
        if code is None:
            self.kill()
            raise subprocess.TimeoutExpired("sandbur", timeout_s)
        return code, self._out.content(), self._err.content()


class _Pipe:
    def __init__(self) -> None:
        self._read_end, self.write_end = os.pipe()
        self._parts: list[bytes] = []
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def content(self) -> bytes:
        self._reader.join()
        return b"".join(self._parts)

    def _read(self) -> None:
        with os.fdopen(self._read_end, "rb") as stream:
            self._parts.append(stream.read())


class _Source:
    """The stdin of a command: a pipe with a text, or an empty input."""

    def __init__(self, text: str | None) -> None:
        if text is None:
            self.fd = os.open(os.devnull, os.O_RDONLY)
            return
        self.fd, self._write_end = os.pipe()
        Thread(target=self._write, args=(text.encode(),), daemon=True).start()

    def _write(self, data: bytes) -> None:
        try:
            with os.fdopen(self._write_end, "wb") as stream:
                stream.write(data)
        except BrokenPipeError:
            pass


def _cold(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(COLD)}

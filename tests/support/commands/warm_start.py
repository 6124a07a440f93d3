"""Starts commands from a warm server: the same processes, without the second that their imports take."""

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
"""Beginnings of variables that count when a process starts or imports: another value needs another start."""
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
        """Tell whether a command with this environment would start no other way."""
        return _cold(env) == _cold(self._env)

    def run(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: str | None
    ) -> tuple[int, bytes, bytes]:
        """Return exit code, stdout and stderr, as `subprocess.run` has them."""
        return self.start(words, cwd, env, stdin).ended(_TIMEOUT_S)

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
        """Start a command; with `leads_session` in a session of its own, as `subprocess.Popen` does it.

        A `program` in Python is run in place of `sandbur`, with the words as its arguments.
        """
        request = {
            "words": words,
            "cwd": str(cwd),
            "env": dict(env),
            "leads_session": leads_session,
            "program": "" if program is None else str(program),
        }
        message = json.dumps(request).encode()
        connection = self._connected()
        out, err, source = _Pipe(), _Pipe(), _Source(stdin)
        fds = [source.fd, out.write_end, err.write_end]
        socket.send_fds(connection, [len(message).to_bytes(8, "big")], fds)
        for fd in fds:
            os.close(fd)
        connection.sendall(message)
        return Running(connection, out, err)

    def _connected(self) -> socket.socket:
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
    """Return the one of this process."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SANDBUR_")}
    return WarmStart({**kept, "PYTHONPATH": str(ROOT)})


class Running:
    """A command that has been started."""

    def __init__(self, connection: socket.socket, out: "_Pipe", err: "_Pipe") -> None:
        self._connection = connection
        self._answer = connection.makefile("r")
        self._out, self._err = out, err
        self.pid = int(self._answer.readline())

    def kill(self) -> None:
        """Kill the command, unless it has ended already."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def ended(self, timeout_s: float) -> tuple[int, bytes, bytes]:
        """Wait; return exit code, stdout and stderr. Raises `subprocess.TimeoutExpired` after killing it."""
        self._connection.settimeout(timeout_s)
        with self._connection, self._answer:
            try:
                code = int(self._answer.read())
            except TimeoutError:
                self.kill()
                raise subprocess.TimeoutExpired("sandbur", timeout_s) from None
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
    """What a command reads: a pipe with this text, or nothing."""

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

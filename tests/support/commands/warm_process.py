"""A command from the warm server with the interface of `subprocess.Popen`."""

import asyncio
import os
import signal
import subprocess
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import IO, Any, Self

from support.commands.warm_start import warm_start

OPTIONS = frozenset({"stdin", "stdout", "stderr", "start_new_session", "text"})
"""The options of `subprocess.Popen` that a warm start supports."""
_ENDS_S = 60


class WarmProcess:
    def __init__(
        self,
        words: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        *,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        start_new_session: bool = False,
        text: bool = False,
        program: Path | None = None,
    ) -> None:
        """Start a command, or a Python program instead; with `text` its streams are those of texts."""
        streams = [_Stream(number, given, text) for number, given in enumerate((stdin, stdout, stderr))]
        self.stdin, self.stdout, self.stderr = (stream.ours for stream in streams)
        fds = [stream.fd for stream in streams]
        self._launched = warm_start().launch(
            words, cwd, env, fds, leads_session=start_new_session, program=program
        )
        for stream in streams:
            stream.give_away()
        self.pid = self._launched.pid
        self.returncode: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for stream in (self.stdin, self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self.wait()

    def poll(self) -> int | None:
        """Return the exit code, or None while the command runs."""
        if self.returncode is None:
            self.returncode = self._launched.exit_code(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            self.returncode = self._launched.exit_code(timeout)
        if self.returncode is None:
            raise subprocess.TimeoutExpired("sandbur", timeout or 0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the command has ended."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, timeout: float | None = None) -> tuple[Any, Any]:
        """Close stdin, wait for the end, and return what is left of stdout and stderr."""
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                self.stdin.close()
        contents: list[Any] = [b"", b""]

        def read(number: int, stream: IO[Any]) -> None:
            with stream:
                # A test may have read without waiting; here the end is waited for.
                os.set_blocking(stream.fileno(), True)
                contents[number] = stream.read()

        open_streams = [
            (number, stream)
            for number, stream in enumerate((self.stdout, self.stderr))
            if stream is not None and not stream.closed
        ]
        readers = [Thread(target=read, args=each, daemon=True) for each in open_streams]
        for reader in readers:
            reader.start()
        self.wait(timeout)
        for reader in readers:
            reader.join()
        return contents[0], contents[1]


class _Stream:
    """One of the three descriptors, as `subprocess.Popen` takes it."""

    def __init__(self, number: int, given: Any, is_text: bool) -> None:
        self.ours: IO[Any] | None = None
        self._is_lent = given in (subprocess.PIPE, subprocess.DEVNULL)
        if given == subprocess.PIPE:
            ends = os.pipe()
            self.fd, own = ends if number == 0 else ends[::-1]
            mode = "w" if number == 0 else "r"
            self.ours = os.fdopen(own, mode) if is_text else os.fdopen(own, f"{mode}b")
        elif given == subprocess.DEVNULL:
            self.fd = os.open(os.devnull, os.O_RDWR)
        elif given is None:
            self.fd = number
        else:
            self.fd = given if isinstance(given, int) else given.fileno()

    def give_away(self) -> None:
        """Close this process's copy of the descriptor if this object opened it."""
        if self._is_lent:
            os.close(self.fd)


@asynccontextmanager
async def streams_of(
    process: WarmProcess,
) -> AsyncGenerator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Yield a reader of stdout and a writer to stdin; then close stdin, and wait until the command ends."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    source, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), process.stdout)
    sink, protocol = await loop.connect_write_pipe(
        lambda: asyncio.StreamReaderProtocol(asyncio.StreamReader()), process.stdin
    )
    writer = asyncio.StreamWriter(sink, protocol, None, loop)
    try:
        yield reader, writer
    finally:
        writer.close()
        try:
            await asyncio.to_thread(process.wait, _ENDS_S)
        finally:
            process.kill()
            source.close()
